"""gym-quadruped's robots as an environment of Gymnasium.

    pip install gym-quadruped
    PYTHONPATH=examples/gymnasium optibfm new-robot quadruped --gymnasium quadruped:Quadruped

gym_quadruped.QuadrupedEnv itself returns no info at a reset, has no limits of its actions and no reward. Here an action
of [-1, 1] moves the target of a joint by up to 0.4 rad from the stance, and PD controllers follow it. The reward is
high while the robot crouches with a level trunk. The episode ends when the trunk touches the ground.
"""

from __future__ import annotations

import gymnasium
import mujoco
import numpy as np
from gym_quadruped.quadruped_env import QuadrupedEnv
from gymnasium.envs.mujoco.mujoco_rendering import MujocoRenderer

_STIFFNESS, _DAMPING = 40.0, 1.0  # N m / rad, N m s / rad: of a leg of about 4 kg
_TRAVEL = 0.4  # rad
_STEPS = 5  # of the simulation in a step of the environment
_SIZE = 320  # pixels of a side of a picture
_CAMERA = {"trackbodyid": 1, "distance": 1.5, "elevation": -3, "azimuth": 120}  # follows the trunk
_READ = ("base_pos", "gravity_vector:base", "base_lin_vel:base", "base_ang_vel:base", "qpos_js", "qvel_js")


class Quadruped(gymnasium.Env):
    """A robot of gym-quadruped on flat ground, with 33 observations and 12 actions.

    robot: go1, go2, aliengo, mini_cheetah... render_mode: None or rgb_array.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 50}  # noqa: RUF012

    def __init__(self, robot: str = "go2", render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self._robot = QuadrupedEnv(robot, state_obs_names=_READ, sim_dt=1 / self.metadata["render_fps"] / _STEPS)
        self._stance = self._robot.mjModel.key_qpos[0][7:].copy()
        self._height = self._robot.robot_cfg.hip_height
        self.mujoco_renderer = MujocoRenderer(self._robot.mjModel, self._robot.mjData, _CAMERA, _SIZE, _SIZE)
        spaces = dict(self._robot.observation_space.spaces)
        spaces["base_pos"] = gymnasium.spaces.Box(-np.inf, np.inf, (1,))  # only its height: no task is about a place
        self.observation_space = gymnasium.spaces.Dict(spaces)
        self.action_space = gymnasium.spaces.Box(-1, 1, (self._robot.mjModel.nu,))

    def reset(self, *, seed: int | None = None, options: dict | None = None) -> tuple[dict, dict]:
        super().reset(seed=seed)
        obs = self._robot.reset(seed=int(self.np_random.integers(2**31)))
        return self._read(obs), {}

    def step(self, action: np.ndarray) -> tuple[dict, float, bool, bool, dict]:
        target = self._stance + _TRAVEL * np.asarray(action)
        for _ in range(_STEPS - 1):
            self._robot.mjData.ctrl = self._torques(target)
            mujoco.mj_step(self._robot.mjModel, self._robot.mjData)
        obs, _, fallen, _, _ = self._robot.step(self._torques(target))
        obs = self._read(obs)
        return obs, self._reward(obs), bool(fallen), False, {}

    def _torques(self, target: np.ndarray) -> np.ndarray:
        data = self._robot.mjData
        return _STIFFNESS * (target - data.qpos[7:]) - _DAMPING * data.qvel[6:]

    def _read(self, obs: dict) -> dict:
        return {**obs, "base_pos": obs["base_pos"][2:]}

    def _reward(self, obs: dict) -> float:
        """Returns 0 (the trunk at 0.9 of the hip's nominal height, or tilted) to 1 (at 0.65, and level)."""
        height = float(obs["base_pos"][0]) / self._height
        return float(np.clip(4 * (0.9 - height), 0, 1)) * float(np.clip(-obs["gravity_vector:base"][2], 0, 1))

    def render(self) -> np.ndarray:
        return self.mujoco_renderer.render(self.render_mode)
