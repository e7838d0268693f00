"""Practice in a Gymnasium environment: policies of the model in training extend its recording.

A round is one episode of all copies of the environment. Each copy follows pi_z, with noise, for a
random task z that changes now and then. fb/rounds.py defines the files of the rounds. Their array
measure is the environment's reward, which the training does not use.
"""

import os
from pathlib import Path
from typing import TYPE_CHECKING

os.environ.setdefault("MUJOCO_GL", "disable")  # nothing is rendered

import gymnasium_bridge
import numpy as np
import torch

from fb import rounds
from fb.episodes import Noise

if TYPE_CHECKING:
    from train_fb import Trainer

COPIES, STEPS = 8, 200  # of a round
KEPT = 0.99  # chance that a copy keeps its task for another step


class Practice:
    """The copies of the environment, and the folder with their rounds."""

    def __init__(self, folder: Path, config: Path, seed: int) -> None:
        """config: the robot.yaml of a robot that gymnasium_bridge.py serves."""
        self.folder, self.seed = folder, seed
        self.robots = [gymnasium_bridge.of_config(config) for _ in range(COPIES)]

    def check(self, observations: int, actions: int) -> None:
        """Raises ValueError if the recording has other numbers of channels than the environment."""
        spec = self.robots[0].spec
        if (len(spec.obs), len(spec.action)) != (observations, actions):
            raise ValueError(f"{spec.name} has {len(spec.obs)} observations and {len(spec.action)} actions, "
                             f"the recording {observations} and {actions}")

    def recorded(self) -> list[Path]:
        return rounds.paths(self.folder)

    def record(self, trainer: "Trainer") -> Path:
        """Records the next round. Returns its file."""
        k = len(self.recorded())
        columns = Round(self.robots, np.random.default_rng([self.seed, k])).record(trainer)
        self.folder.mkdir(parents=True, exist_ok=True)
        rounds.write(self.folder, k, columns)
        mean = columns["measure"].mean((0, 2))
        print(f"practice {k + 1}: mean reward of a step {mean.mean():.3g}, of the best copy {mean.max():.3g}",
              flush=True)
        return rounds.path(self.folder, k)

    def write_states(self, path: Path) -> None:
        """Writes the states of all rounds with their rewards, in the form of `optibfm-lab collect --states`."""
        columns = rounds.measured(self.folder)
        np.savez(path, obs=columns["next_obs"], reward_reward=columns["measure"][:, 0])


class Round:
    """One episode of all robots."""

    def __init__(self, robots: list, rng: np.random.Generator) -> None:
        self.robots, self.rng = robots, rng
        n, actions = len(robots), len(robots[0].spec.action)
        self.obs = np.zeros((STEPS + 1, n, len(robots[0].spec.obs)), np.float32)
        self.action = np.zeros((STEPS, n, actions), np.int8)
        self.reward, self.valid = np.zeros((STEPS, n, 1), np.float32), np.ones((STEPS, n), bool)
        self.noise = Noise(rng, n, actions)

    @torch.no_grad()
    def record(self, trainer: "Trainer") -> dict[str, np.ndarray]:
        n = len(self.robots)
        z, change = torch.zeros(n, trainer.args.latent, device=trainer.device), np.ones(n, bool)
        for i in range(n):
            self.reset(0, i)
        for t in range(STEPS):
            z[change] = tasks(trainer, int(change.sum()))
            self.noise.redraw(np.flatnonzero(change))
            obs = trainer.model.normalize(torch.from_numpy(self.obs[t]).to(z))
            action = np.clip(trainer.model.actor(obs, z).cpu().numpy() + self.noise.step(), -1, 1)
            self.action[t] = np.round(127 * action)
            for i in range(n):
                self.step(t, i)
            change = self.rng.random(n) > KEPT
        return {"obs": self.obs, "action": self.action, "measure": self.reward, "valid": self.valid}

    def step(self, t: int, i: int) -> None:
        robot = self.robots[i]
        robot.act(self.action[t, i] / np.float32(127))
        robot.advance()
        self.obs[t + 1, i], self.reward[t, i] = robot.sense()[0], robot.reward()
        self.valid[t, i] = np.isfinite(self.obs[t + 1, i]).all() and not robot.ended_long_ago()
        if not self.valid[t, i]:
            self.reset(t + 1, i)

    def reset(self, t: int, i: int) -> None:
        self.robots[i].reset(int(self.rng.integers(2**31)))
        self.obs[t, i] = self.robots[i].sense()[0]


def tasks(trainer: "Trainer", n: int) -> torch.Tensor:
    """Draws n tasks [n, d] as the training does; n is at most its batch."""
    *_, next_obs = trainer.draw(trainer.args.batch)
    z = trainer.sample_z(next_obs)
    return z[torch.randperm(len(z))[:n]]
