"""A robot in Python: an object with sense, act and halt, which scripts/optibfm_bridge.py serves.

    go run ./cmd/optibfm run --config examples/pyrobot/robot.yaml

optibfm starts this file as its child process and connects to it. The robot is a simulated vehicle with two
wheels and the channels of the embedded rover model; replace the three methods with your bus. To start a robot of
your own, copy this file, robot.yaml and optibfm_bridge.py. The bridge needs Python's standard library only.
"""

import math
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "scripts"))
import optibfm_bridge as bridge

TOP_SPEED = 1.5  # m/s, of a wheel at command 1
TRACK = 0.5  # m, between the wheels
HALF = 2.0  # m, half the side of the arena
OBSERVATION = ["x", "y", "heading_cos", "heading_sin", "speed", "yaw_rate"]


class Vehicle:
    """Two wheels in a square arena. It moves in real time, between the calls."""

    def __init__(self) -> None:
        self.spec = bridge.Spec(
            name="vehicle", period=0.05,
            obs=[bridge.Channel(name) for name in OBSERVATION],
            action=[bridge.Channel(name, min=-1, max=1) for name in ("left_wheel", "right_wheel")])
        self.x = self.y = self.heading = 0.0  # m, m, rad
        self.left = self.right = 0.0  # m/s
        self.at = time.monotonic()

    def sense(self) -> tuple[list[float], float]:
        """Returns the observation, [6], and the time of the sample in seconds of time.monotonic()."""
        self._move()
        return [self.x / HALF, self.y / HALF, math.cos(self.heading), math.sin(self.heading),
                (self.left + self.right) / 2 / TOP_SPEED, self.turn()], self.at

    def act(self, action: tuple[float, ...]) -> None:
        """Commands the wheels; action: [2], in [-1, 1]. The bridge has checked the limits."""
        self._move()
        self.left, self.right = (TOP_SPEED * command for command in action)

    def halt(self) -> None:
        """Stops the wheels. The bridge calls it at the start, at every end and when optibfm falls silent."""
        self._move()
        self.left = self.right = 0.0

    def reward(self) -> float:
        """Returns the task of the simulated operator, turn left. A robot with a person has no reward."""
        return self.turn()

    def turn(self) -> float:
        """Returns the yaw rate as a share of the maximum, in [-1, 1]."""
        return (self.right - self.left) / 2 / TOP_SPEED

    def _move(self) -> None:
        now = time.monotonic()
        passed, self.at = now - self.at, now
        self.heading += (self.right - self.left) / TRACK * passed
        way = (self.left + self.right) / 2 * passed
        self.x = min(max(self.x + way * math.cos(self.heading), -HALF), HALF)
        self.y = min(max(self.y + way * math.sin(self.heading), -HALF), HALF)


if __name__ == "__main__":
    bridge.main(Vehicle())
