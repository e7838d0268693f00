"""Exploration by random network distillation.

Burda et al., "Exploration by Random Network Distillation" (2018): a state is as
new as a trained network fails to predict what a fixed random one makes of it. A
TD3 agent (Fujimoto et al., 2018) is rewarded with that error and so goes where the
record is thin. The sizes and rates are those of Yarats et al. (2022) where a CPU
affords them: their networks have 1,024 units.
"""

import numpy as np
import torch

from fb import simulation
from fb.episodes import Episodes
from fb.td3 import BATCH, RATE, Agent, mlp

FEATURES = 128
GAMMA = 0.99


class Novelty:
    """The bonus of observations, and its training."""

    def __init__(self, obs) -> None:
        self.target, self.predictor = mlp(obs, FEATURES), mlp(obs, FEATURES)
        self.target.requires_grad_(False)
        self.optimizer = torch.optim.Adam(self.predictor.parameters(), lr=RATE)
        self.scale = torch.tensor(1.0)

    def learn(self, obs):
        """One update of the predictor; returns the bonus [n], with a running scale of 1."""
        error = (self.predictor(obs) - self.target(obs)).square().mean(-1)
        self.optimizer.zero_grad()
        error.mean().backward()
        self.optimizer.step()
        bonus = error.detach()
        self.scale = self.scale.lerp(bonus.mean(), 0.01)
        return bonus / self.scale


def explore(
        domain: simulation.Domain, first: dict[str, np.ndarray], transitions: int, seed: int, copies: int = 32,
        updates: int = 2) -> dict[str, np.ndarray]:
    """Transitions of a curious agent that begins with the record first; updates follow every step of all copies."""
    torch.manual_seed(seed)
    sim = simulation.Simulation(domain, copies, seed)
    mean, std = first["obs"].mean(0), first["obs"].std(0) + 1e-3
    steps = -(-transitions // copies)
    begun = len(first["obs"])
    record = {k: np.concatenate([first[k], np.zeros((steps * copies, *first[k].shape[1:]), first[k].dtype)])
              for k in ("obs", "action", "next_obs", "measure", "episode")}
    novelty, agent = Novelty(len(mean)), Agent(len(mean), domain.model.nu, GAMMA)
    episodes = Episodes(sim, first["episode"].max() + 1, simulation.EPISODE_STEPS)
    size = begun

    def standard(obs):
        return torch.as_tensor((obs - mean) / std, dtype=torch.float32).clamp(-10, 10)

    for _ in range(steps):
        episodes.begin()
        with torch.no_grad():
            action = agent.act(standard(sim.obs)).numpy()
        rows, _ = episodes.step(action)
        end = size + len(rows["obs"])
        for name, column in rows.items():
            record[name][size:end] = column
        size = end
        for _ in range(updates):
            at = sim.rng.integers(0, size, BATCH)
            after = standard(record["next_obs"][at])
            agent.learn(standard(record["obs"][at]), torch.as_tensor(record["action"][at]), novelty.learn(after), after)
    return {k: v[begun : min(size, begun + transitions)] for k, v in record.items()}
