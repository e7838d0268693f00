"""Serves ogbench's ant in its medium maze over optibfm's bridge.

    python3 maze_bridge.py antmaze task1 --listen unix:/tmp/antmaze.sock

It is antmaze-medium of OGBench (Park et al., 2025) with its five tasks: each has a
cell to start in and a goal cell. The reward is 1 while the ant's torso is over
the goal cell, 4 m x 4 m, and 0 elsewhere: the task is to get there and to stay.
ogbench itself gives 1 within 0.5 m of a point and ends the episode there, which
asks for arriving only. Episodes have 1,000 steps of 0.1 s, which the client counts.

The observation is ogbench's: MuJoCo's positions and velocities, 29 numbers.
Actions are the motors' torques in [-1, 1]. A seed gives the same episode every time.
"""

import argparse
import os

os.environ.setdefault("MUJOCO_GL", "disable")  # mujoco_view renders in another process

import install_hint
import optibfm_bridge as bridge

try:
    import gymnasium_bridge
    import mujoco_view
    import numpy as np
    from ogbench.locomaze.maze import make_maze_env
except ImportError as e:
    if __name__ != "__main__":
        raise
    install_hint.exit_without(e)

PERIOD = 0.1
CELL = 4.0  # m
DOMAINS = ("antmaze",)
CAMERA = {"lookat": [10, 10, 0], "distance": 40, "azimuth": 90, "elevation": -90}  # the maze from above

_JOINTS = [f"{part}_{leg}" for leg in (1, 2, 3, 4) for part in ("hip", "ankle")]
OBSERVATION = (["x", "y", "height"] + [f"orientation.{i}" for i in "wxyz"] + [f"angle.{j}" for j in _JOINTS]
               + [f"velocity.{i}" for i in "xyz"] + [f"spin.{i}" for i in "xyz"] + [f"rate.{j}" for j in _JOINTS])
ACTION = [f"{part}_{leg}" for leg in (4, 1, 2, 3) for part in ("hip", "ankle")]


def environment():
    """Returns ogbench's maze, with goals in the middle of their cells."""
    return make_maze_env("ant", "maze", maze_type="medium", add_noise_to_goal=False, terminate_at_goal=False)


def tasks(env) -> list[str]:
    """Returns ogbench's names of the tasks."""
    return [info["task_name"] for info in env.task_infos]


def in_cell(xy: np.ndarray, centre: np.ndarray) -> np.ndarray:
    """Returns 1 where xy [..., 2], m, is in the cell around centre [2], m, else 0."""
    return (np.abs(np.asarray(xy) - centre).max(-1) <= CELL / 2).astype(float)


class Simulator(gymnasium_bridge.Simulator):
    """The ant with one of its tasks, as a robot of the bridge."""

    def __init__(self, domain: str, task: str) -> None:
        if domain not in DOMAINS:
            raise ValueError(f"no maze {domain!r}: choose one of {', '.join(DOMAINS)}")
        env = environment()
        self.tasks = tasks(env)
        self.task = self.tasks[0]
        self._view = mujoco_view.View(env.unwrapped.model, CAMERA)
        super().__init__(env, f"ogbench {domain}", PERIOD)
        self.select(task)

    def observation_channels(self) -> list[bridge.Channel]:
        return [bridge.Channel(n) for n in OBSERVATION]

    def action_channels(self) -> list[bridge.Channel]:
        return [bridge.Channel(n, min=-1, max=1) for n in ACTION]

    def select(self, task: str) -> None:
        super().select(task)
        self._goal = np.array(self.env.task_infos[self.tasks.index(task)]["goal_xy"])
        self.reset(0)

    def reset_options(self) -> dict:
        return {"task_id": self.tasks.index(self.task) + 1}

    def reset(self, seed: int) -> None:
        # ogbench draws where the ant starts from NumPy's global generator.
        np.random.seed([seed & 0xFFFFFFFF, seed >> 32])
        self.env.action_space.seed(0)
        super().reset(seed)
        self._troubles = self._warnings()

    def advance(self) -> None:
        super().advance()
        if self._warnings() > self._troubles:  # MuJoCo has reset the state
            self._troubles = self._warnings()
            raise RuntimeError("the simulation went wrong (MuJoCo warns of it): reset it")

    def _warnings(self):
        return self.env.unwrapped.data.warning.number.sum()

    def reward(self) -> float:
        return float(in_cell(self._obs[:2], self._goal))

    def frame(self) -> bytes:
        return self._view.picture(self.env.unwrapped.data.qpos.copy())


def main() -> None:
    parser = argparse.ArgumentParser(description="Serves ogbench's ant in a maze over optibfm's bridge.")
    parser.add_argument("domain", choices=DOMAINS)
    parser.add_argument("task", nargs="?", default="task1", help="task1 to task5; may be left to the client")
    bridge.add_arguments(parser)
    args = parser.parse_args()
    try:
        robot = Simulator(args.domain, args.task)
    except ValueError as e:
        parser.error(str(e))
    bridge.run(robot, args)


if __name__ == "__main__":
    main()
