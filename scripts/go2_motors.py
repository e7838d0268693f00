"""Serves the motors of a simulated Unitree Go2 over optibfm's bridge: the physics of `optibfm-lab unitree-robot`.

    pip install --no-deps -r requirements-go2.txt
    optibfm-lab unitree-robot --physics "python3 scripts/go2_motors.py"

Each joint J has the actions q_J, dq_J, tau_J, kp_J and kd_J, with which its motor makes the torque
kp (q - position) + kd (dq - velocity) + tau, and the readings position_J, velocity_J and torque_J. The body has the
orientation w, x, y, z, the gyro and the accelerometer. With --view PATH the console shows it (operator.view.url:
unix:PATH). With --upright-after a robot that lies otherwise than folded on its belly, and whose motors only damp, is
laid down like that after so many seconds, as somebody beside it would do: its joints may be outside their limits.
"""

import argparse

import install_hint
import optibfm_bridge as bridge

try:
    import go2_physics
    import numpy as np
except ImportError as e:
    if __name__ != "__main__":
        raise
    install_hint.exit_without(e)

from go2_physics import JOINTS, LEGS, LIE

COMMANDS = (("q", "rad", 100.0), ("dq", "rad/s", 100.0), ("tau", "N m", 100.0), ("kp", "", 1000.0), ("kd", "", 100.0))
KP = 3  # of COMMANDS
READINGS = [
    *((f"{kind}_{j}", unit) for kind, unit in (("position", "rad"), ("velocity", "rad/s"), ("torque", "N m"))
      for j in JOINTS),
    *((f"orientation_{a}", "") for a in "wxyz"),
    *((f"gyro_{a}", "rad/s") for a in "xyz"),
    *((f"accelerometer_{a}", "m/s^2") for a in "xyz"),
    *((f"foot_force_{leg}", "N") for leg in LEGS),
]


class Motors:
    """The Go2 as a robot of the bridge. randomised: with the errors of a real robot; upright_after: s, or None."""

    def __init__(self, *, randomised: bool, seed: int, lie: bool, upright_after: float | None = None) -> None:
        self._robot = go2_physics.Go2(seed, randomised=randomised)
        if lie:
            self._robot.place(LIE)
        self._upright_after, self._lying = upright_after, 0.0
        self._view = go2_physics.view()
        self.spec = bridge.Spec(
            name="unitree go2 motors", period=go2_physics.PERIOD,
            obs=[bridge.Channel(name, unit) for name, unit in READINGS],
            action=[bridge.Channel(f"{kind}_{j}", "", min=-most, max=most, failsafe=0)
                    for kind, _, most in COMMANDS for j in JOINTS])
        self.halt()

    def halt(self) -> None:
        self._command = np.zeros((len(COMMANDS), len(JOINTS)))

    def act(self, action: tuple[float, ...]) -> None:
        self._command = np.reshape(action, (len(COMMANDS), len(JOINTS)))

    def advance(self) -> None:
        self._robot.step(*self._command)
        helpless = not self._robot.folded() and not self._command[KP].any()
        self._lying = self._lying + go2_physics.PERIOD if helpless else 0.0
        if self._upright_after is not None and self._lying > self._upright_after:
            self._robot.place(LIE)
            self._lying = 0.0

    def reset(self, seed: int) -> None:
        self._robot.reset(seed)

    def sense(self) -> tuple[list[float], float]:
        m = self._robot.measure()
        readings = np.concatenate([m.q, m.dq, m.tau_est, m.quaternion, m.gyro, m.accelerometer, m.foot_force])
        return readings.tolist(), self._robot.now * go2_physics.PERIOD

    def frame(self) -> bytes:
        return self._view.picture(self._robot.data.qpos.copy())


def main() -> None:
    parser = argparse.ArgumentParser(description="Serves the motors of a simulated Unitree Go2.")
    parser.add_argument("--exact", action="store_true", help="the model's own robot, without noise and pushes")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--lie", action="store_true", help="begin on the floor")
    parser.add_argument("--upright-after", type=float, metavar="SECONDS", help="lay a fallen robot on its belly")
    bridge.add_arguments(parser)
    args = parser.parse_args()
    motors = Motors(randomised=not args.exact, seed=args.seed, lie=args.lie, upright_after=args.upright_after)
    bridge.run(motors, args)


if __name__ == "__main__":
    main()
