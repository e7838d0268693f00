"""Serves a simulated Unitree Go2 over optibfm's bridge: MuJoCo, with the errors and surprises of a real robot.

    pip install --no-deps -r requirements-go2.txt
    python3 go2_bridge.py stand --listen unix:/tmp/go2.sock

Readings, at 50 Hz, of what the robot's sensors measure (go2_physics.py):

- position_J, velocity_J of each joint J: rad, rad/s;
- gravity_x, _y, _z: the direction of gravity in the base, by the IMU; gyro_x, _y, _z: rad/s;
- accelerometer_x, _y, _z: m/s^2; foot_force_L of each leg L: N.

and of what only a simulator knows:

- base_velocity_x, _y, _z: m/s, in the base (x forwards, y to the left, z upwards); base_height: m above the floor.

An action is the goal of a joint in rad. The motors go there with kp and kd of go2_physics.py. When the robot is
halted, they only damp and it sinks to the floor.

Each episode is another robot on another floor: mass, friction, gains, latency, zero errors, noise and pushes come from
its seed (--exact: the model's own robot, never pushed). Episodes have 1,000 steps, which the client counts; a robot
that falls remains there. With --upright-after it is set on its feet after that many seconds, if it is not halted.
"""

import argparse
import dataclasses

import install_hint
import optibfm_bridge as bridge

try:
    import go2_physics
    import numpy as np
except ImportError as e:
    if __name__ != "__main__":
        raise
    install_hint.exit_without(e, fix="install it: " + install_hint.pip_command() + " && " + install_hint.pip_command(
        requirements="requirements-go2.txt").replace("-r", "--no-deps -r"))

from go2_physics import JOINTS, KD, KP, LEGS, STAND

PERIOD = 0.02
STEPS = round(PERIOD / go2_physics.PERIOD)  # of the physics
SCALE = np.tile([0.5, 1.0, 1.2], 4)  # rad [12]: an action of 1 is so far from STAND
DAMPING = 5.0  # kd of a halted robot, N m s/rad
HEIGHT = 0.28  # of the base while it stands and walks, m

MEASURED = [
    *((f"position_{j}", "rad") for j in JOINTS),
    *((f"velocity_{j}", "rad/s") for j in JOINTS),
    *((f"gravity_{a}", "") for a in "xyz"),
    *((f"gyro_{a}", "rad/s") for a in "xyz"),
    *((f"accelerometer_{a}", "m/s^2") for a in "xyz"),
    *((f"foot_force_{leg}", "N") for leg in LEGS),
]
TRUTH = [*((f"base_velocity_{a}", "m/s") for a in "xyz"), ("base_height", "m")]


@dataclasses.dataclass(frozen=True)
class Task:
    """A motion of the base. Its reward is 1 there and upright, and falls like a Gaussian with these widths."""

    forward: float = 0.0  # m/s
    left: float = 0.0  # m/s
    turn: float = 0.0  # rad/s about the base's z axis, positive to the left
    height: float = HEIGHT  # m

    WIDTHS = (0.3, 0.3, 0.6, 0.06)

    def reward(self, base: np.ndarray) -> np.ndarray:
        """Returns the reward [...] of base states [..., 10]: velocity, angular velocity, gravity, height
        (base_state)."""
        moves = base[..., [0, 1, 5, 9]]
        error = (moves - np.array([self.forward, self.left, self.turn, self.height])) / self.WIDTHS
        return (1 - base[..., 8]) / 2 * np.exp(-0.5 * np.square(error).sum(-1))


TASKS = {
    "stand": Task(),
    "walk_forward": Task(forward=0.5),
    "walk_backward": Task(forward=-0.4),
    "walk_left": Task(left=0.3),
    "walk_right": Task(left=-0.3),
    "turn_left": Task(turn=0.8),
    "turn_right": Task(turn=-0.8),
    "crouch": Task(height=0.20),
    "trot": Task(forward=0.8),
}


def base_state(robot: go2_physics.Go2) -> np.ndarray:
    """Returns what tasks are about, exactly [10]: velocity, angular velocity and gravity in the base, height."""
    return np.concatenate([robot.base_velocity(), robot.base_spin(), robot.base_gravity(), [robot.height()]])


def observe(robot: go2_physics.Go2) -> np.ndarray:
    """Returns the channels MEASURED and TRUTH."""
    m = robot.measure()
    return np.concatenate([m.q, m.dq, m.gravity, m.gyro, m.accelerometer, m.foot_force,
                           robot.base_velocity(), [robot.height()]])


class Simulator:
    """The Go2 as a robot of the bridge. upright_after: s, or None."""

    episode_steps = 1000

    def __init__(self, task: str, *, randomised: bool = True, upright_after: float | None = None) -> None:
        self.tasks = list(TASKS)
        self._robot = go2_physics.Go2(randomised=randomised)
        self._upright_after, self._lying = upright_after, 0.0
        self._view = go2_physics.view()
        limits = zip(JOINTS, STAND - SCALE, STAND + SCALE)
        self.spec = bridge.Spec(
            name="unitree go2", period=PERIOD, obs=[bridge.Channel(n, unit) for n, unit in MEASURED + TRUTH],
            action=[bridge.Channel(j, "rad", min=low, max=high, failsafe=(low + high) / 2, measured=f"position_{j}")
                    for j, low, high in limits])
        self.select(task)

    def select(self, task: str) -> None:
        if task not in TASKS:
            raise ValueError(f"the Go2 has no task {task!r}: choose one of {', '.join(TASKS)}")
        self.task = task
        self.reset(0)

    def reset(self, seed: int) -> None:
        self._robot.reset(seed)
        self.halt()

    def act(self, action: tuple[float, ...]) -> None:
        self._goal = np.array(action)

    def halt(self) -> None:
        self._goal, self._lying = None, 0.0

    def advance(self) -> None:
        if self._goal is None:
            self._robot.step(0.0, kd=DAMPING, steps=STEPS)
            return
        self._robot.step(self._goal, kp=KP, kd=KD, steps=STEPS)
        self._lying = self._lying + PERIOD if self._robot.fallen() else 0.0
        if self._upright_after is not None and self._lying > self._upright_after:
            self._robot.place(STAND)
            self._lying = 0.0

    def sense(self) -> tuple[list[float], float]:
        return observe(self._robot).tolist(), self._robot.now * go2_physics.PERIOD

    def reward(self) -> float:
        return float(TASKS[self.task].reward(base_state(self._robot)))

    def frame(self) -> bytes:
        return self._view.picture(self._robot.data.qpos.copy())


def main() -> None:
    parser = argparse.ArgumentParser(description="Serves a simulated Unitree Go2 over optibfm's bridge.")
    parser.add_argument("task", nargs="?", default="stand", help=f"may be left to the client: {' '.join(TASKS)}")
    parser.add_argument("--exact", action="store_true", help="the model's own robot with exact sensors, never pushed")
    parser.add_argument("--upright-after", type=float, metavar="SECONDS", help="set a fallen robot on its feet")
    bridge.add_arguments(parser)
    args = parser.parse_args()
    try:
        robot = Simulator(args.task, randomised=not args.exact, upright_after=args.upright_after)
    except ValueError as e:
        parser.error(str(e))
    bridge.run(robot, args)


if __name__ == "__main__":
    main()
