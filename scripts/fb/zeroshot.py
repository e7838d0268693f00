"""Returns of a model on tasks without training on them."""

from typing import TYPE_CHECKING

import numpy as np
import torch

from fb.networks import Model, on_sphere

if TYPE_CHECKING:
    from fb import simulation

LABELLED = 50_000


@torch.no_grad()
def oracle(model: Model, obs: torch.Tensor, reward: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Returns z [task, d] by least squares from labelled observations [n, O] with rewards [n, task], and R² [task].

    With phi = (E[B B^T])^-1 B least squares are E[B r]. z is on the sphere.
    """
    b = model.backward_map(model.normalize(obs)).double()
    z = reward.T @ b / len(b)
    fit = b @ torch.linalg.solve(b.T @ b / len(b), z.T)
    return on_sphere(z.float()), 1 - (reward - fit).var(0) / reward.var(0)


@torch.no_grad()
def visited(model: Model, domain: "simulation.Domain", z: torch.Tensor, seed: int, steps: int) -> torch.Tensor:
    """Returns every tenth and the last state of following each z [n, d], [ceil(steps / 10), n, O]; NaN if its
    physics failed."""
    from fb import simulation  # needs MuJoCo; oracle does not

    sim = simulation.Simulation(domain, len(z), seed)
    states = []
    for step in range(steps):
        obs = torch.as_tensor(sim.obs).to(z)
        sim.step(model.actor(model.normalize(obs), z).cpu().numpy())
        if step % 10 == 9 or step == steps - 1:
            states.append(torch.as_tensor(sim.obs).to(z))
    return torch.stack(states)


@torch.no_grad()
def returns(
        model: Model, domain: "simulation.Domain", z: torch.Tensor, episodes: int, seed: int,
        steps: int) -> np.ndarray:
    """Returns [task, episode] of following z [task * episode, d]."""
    from fb import simulation  # needs MuJoCo; oracle does not

    tasks = len(z) // episodes
    rows, column = np.arange(len(z)), np.repeat(np.arange(tasks), episodes)
    sim = simulation.Simulation(domain, len(z), seed, column)
    total = np.zeros(len(z))
    for _ in range(steps):
        obs = model.normalize(torch.as_tensor(sim.obs).to(z))
        sim.step(model.actor(obs, z).cpu().numpy())
        going_on = np.isfinite(sim.obs).all(1)  # physics that failed earns nothing more
        total += np.where(going_on, domain.reward(sim.measure())[rows, column], 0)
    return total.reshape(tasks, episodes)
