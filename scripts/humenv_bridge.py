"""Serves the humanoid of HumEnv, which Meta Motivo controls, over optibfm's bridge.

    python3 humenv_bridge.py move-ego-0-2 --listen unix:/tmp/humenv.sock

HumEnv makes the model, the observation (358 numbers) and the tasks. requirements-humenv.txt has its pinned source,
because the package "humenv" of PyPI is an unrelated project. Any name of a task in HumEnv works. The humanoid starts
in a T-pose. Actions are targets of the joints in [-1, 1], at 30 Hz; halt() sets them to 0. Episodes have 300 steps,
which the client counts.
"""

import argparse
import os

os.environ.setdefault("MUJOCO_GL", "disable")  # mujoco_view renders in another process

import install_hint
import optibfm_bridge as bridge

try:
    import humenv
    import humenv.env
    import mujoco_view
    import numpy as np
except ImportError as e:
    if __name__ != "__main__":
        raise
    install_hint.exit_without(e, "install it: " + install_hint.pip_command(requirements="requirements-humenv.txt"))

_BODIES = 24
CAMERA = {"trackbodyid": 1, "distance": 4, "azimuth": 45, "elevation": -15}


def observation(names: list[str]) -> list[bridge.Channel]:
    """Returns the 358 channels of HumEnv's observation. names: the 24 bodies, the root first.

    The height of the root is above the floor. All other values are in the root's heading frame (its yaw, z upwards);
    positions are relative to the root. axes: the x and z axes of a body.
    """
    parts = [("position", "m", "xyz", names[1:]), ("axes", "", ("xx", "xy", "xz", "zx", "zy", "zz"), names),
             ("velocity", "m/s", "xyz", names), ("spin", "rad/s", "xyz", names)]  # fmt: skip
    channels = [
        (f"{part}_{body}_{axis}", unit) for part, unit, axes, bodies in parts for body in bodies for axis in axes
    ]
    return [bridge.Channel(name, unit) for name, unit in [("height", "m"), *channels]]


class Simulator:
    """HumEnv with one of its tasks, as a robot of the bridge."""

    episode_steps = humenv.DEFAULT_MAX_EPISODE_STEPS

    def __init__(self, task: str) -> None:
        self._env = humenv.env.HumEnv(render_mode=None)
        model = self._env.model
        if model.nbody != _BODIES + 1:
            raise ValueError(
                f"HumEnv's humanoid has {model.nbody - 1} bodies, not {_BODIES}; see requirements-humenv.txt"
            )
        self.tasks = list(humenv.ALL_TASKS)
        self._view = mujoco_view.View(model, CAMERA)
        self.select(task)
        period = self._env.action_repeat * model.opt.timestep
        names = [model.body(i + 1).name for i in range(_BODIES)]
        action = [bridge.Channel(model.actuator(i).name, min=-1, max=1) for i in range(model.nu)]
        self.spec = bridge.Spec(name="humenv", period=period, obs=observation(names), action=action)

    def select(self, task: str) -> None:
        try:
            self._env.set_task(task)
        except ValueError as e:
            raise ValueError(f"HumEnv has no task {task!r}: choose one of {', '.join(self.tasks[:12])}, ...") from e
        self.task = task
        self.reset(0)

    def reset(self, seed: int) -> None:
        self._obs = self._env.reset(seed=seed)[0]["proprio"]
        self.halt()

    def act(self, action: tuple[float, ...]) -> None:
        self._command = np.asarray(action, dtype=np.float64)

    def halt(self) -> None:
        self._command = np.zeros(self._env.model.nu)

    def advance(self) -> None:
        try:
            self._obs = self._env.step(self._command)[0]["proprio"]
        except ValueError as e:
            self._obs = self._env.get_obs()["proprio"]  # MuJoCo has reset the state
            raise RuntimeError(f"{str(e).strip()}; reset it") from e

    def sense(self) -> tuple[np.ndarray, float]:
        return self._obs.tolist(), self._env.data.time

    def reward(self) -> float:
        return float(self._env.task.compute(self._env.model, self._env.data))

    def frame(self) -> bytes:
        return self._view.picture(self._env.data.qpos.copy())


def main() -> None:
    parser = argparse.ArgumentParser(description="Serves HumEnv's humanoid over optibfm's bridge.")
    parser.add_argument("task", nargs="?", default="move-ego-0-0", help="a name of HumEnv; may be left to the client")
    bridge.add_arguments(parser)
    args = parser.parse_args()
    try:
        robot = Simulator(args.task)
    except ValueError as e:
        parser.error(str(e))
    bridge.run(robot, args)


if __name__ == "__main__":
    main()
