"""Checks a robot before optibfm drives it: python3 examples/pyrobot/check.py

It holds the robot to what the bridge expects: a valid specification, finite observations of the right length with a
time that does not go back, and wheels that stop after halt.
"""

import math
import time

from robot import Vehicle


def main() -> None:
    robot = Vehicle()
    robot.spec.validate()
    before = -math.inf
    for step in range(20):
        robot.act((-0.5, 0.5) if step < 10 else (1.0, 1.0))
        time.sleep(robot.spec.period / 10)
        observation, at = robot.sense()
        assert len(observation) == len(robot.spec.obs), "one number for each channel"
        assert all(map(math.isfinite, observation)), f"not finite: {observation}"
        assert before <= at <= time.monotonic(), "the time of a sample is that of time.monotonic()"
        before = at
    print(", ".join(f"{c.name} {v:+.2f}" for c, v in zip(robot.spec.obs, observation)))
    robot.halt()
    stopped = robot.sense()[0]
    time.sleep(robot.spec.period)
    assert robot.sense()[0][:4] == stopped[:4], "the robot moves after halt"
    print("check: ok")


if __name__ == "__main__":
    main()
