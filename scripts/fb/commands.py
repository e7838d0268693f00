"""Exploration by command: an agent follows random commands to move and turn the robot's base.

On a small budget random network distillation and random actions found no gait. Robots that are to walk have
data of people or animals that do; this stands in for it. One TD3 agent follows commands for the base, such as a
speed, and its transitions, from the first failures on, are the record. Each domain says in fb/simulation.py
what it may be commanded and how well a state obeys.

The commands are rewards of the same kind as the domain's tasks, for a velocity or a
height, and some are tasks of it: to run at 10 m/s is one of the cheetah's commands.
A model trained with this data has seen what it is asked to do, so its provenance has
to say so.
"""

import time

import numpy as np
import torch

from fb import simulation
from fb.episodes import Episodes, Noise
from fb.td3 import BATCH, Agent

GAMMA = 0.98
EXPLORING = 0.3  # share of the episodes with a random start
EPISODE_STEPS = 300
REPORT_EVERY = 10_000  # updates


class Explorers:
    """Copies that follow commands with noise. The command of a copy changes after some time."""

    def __init__(self, domain: simulation.Domain, copies: int, seed: int, number: int) -> None:
        self.sim = simulation.Simulation(domain, copies, seed)
        self.command = domain.commands(self.sim.rng, copies)
        self.command_left = np.zeros(copies, int)
        self.episodes = Episodes(self.sim, number, EPISODE_STEPS, exploring=EXPLORING)
        self.noise = Noise(self.sim.rng, copies, domain.model.nu)
        self.obedience = 0.0  # a running mean

    def begin(self) -> None:
        """Draws new episodes and new commands for the copies whose episodes have ended."""
        self.command_left[self.episodes.begin()] = 0
        new, rng = np.flatnonzero(self.command_left <= 0), self.sim.rng
        self.command[new] = self.sim.domain.commands(rng, len(new))
        self.noise.redraw(new)
        self.command_left[new] = rng.integers(EPISODE_STEPS // 3, EPISODE_STEPS, len(new))

    def step(self, mean):
        """Simulates one control period with the agent's actions and noise. Returns its rows."""
        rows, good = self.episodes.step(mean + self.noise.step())
        self.command_left -= 1
        obeyed = self.sim.domain.obeyed(rows["measure"], self.command[good])
        self.obedience += 0.002 * (obeyed - self.obedience).sum() / len(good)
        return rows


def explore(
        domain: simulation.Domain, first: dict[str, np.ndarray], transitions: int, seed: int, copies: int = 32,
        updates: int = 2) -> dict[str, np.ndarray]:
    """Returns transitions of an agent that learns to follow commands, beginning with the record first; updates
    follow every step of all copies.

    An interrupt from the keyboard ends it early, with what there is.
    """
    torch.manual_seed(seed)
    explorers = Explorers(domain, copies, seed, first["episode"].max() + 1)
    rng = explorers.sim.rng
    begun = size = len(first["obs"])
    record = {k: np.concatenate([first[k], np.zeros((transitions + copies, *first[k].shape[1:]), first[k].dtype)])
              for k in ("obs", "action", "next_obs", "measure", "episode")}
    mean, std = first["obs"].mean(0), first["obs"].std(0) + 1e-3
    agent = Agent(len(mean) + explorers.command.shape[1], domain.model.nu, GAMMA)

    def seen(obs, command):
        standard = ((obs - mean) / std).clip(-10, 10)
        return torch.as_tensor(np.concatenate([standard, command], 1), dtype=torch.float32)

    def learn():
        at = rng.integers(0, size, BATCH)
        # Any command is valid: the record determines the reward that it would have given.
        command = domain.commands(rng, BATCH)
        reward = torch.as_tensor(domain.obeyed(record["measure"][at], command), dtype=torch.float32)
        agent.learn(seen(record["obs"][at], command), torch.as_tensor(record["action"][at]), reward,
                    seen(record["next_obs"][at], command))

    began = time.monotonic()
    try:
        while size < begun + transitions:
            explorers.begin()
            with torch.no_grad():
                action = torch.tanh(agent.actor(seen(explorers.sim.obs, explorers.command))).numpy()
            rows = explorers.step(action)
            end = size + len(rows["obs"])
            for name, column in rows.items():
                record[name][size:end] = column
            size = end
            for _ in range(updates):
                learn()
            if agent.updates % REPORT_EVERY < updates:
                print(f"{size - begun} transitions, {agent.updates} updates, {time.monotonic() - began:.0f} s: "
                      f"obeyed {explorers.obedience:.3f} of 1", flush=True)
    except KeyboardInterrupt:
        print(f"stopped at {size - begun} of {transitions} transitions", flush=True)
    return {name: column[begun:min(size, begun + transitions)] for name, column in record.items()}
