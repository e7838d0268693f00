"""TD3 (Fujimoto et al., 2018) for the agents that collect data: two critics, clipped target noise, a slower actor.

Differences: no target actor, the critics' targets follow at every update, and the actor
maximises the lesser of both values. The actor and the critics
have a LayerNorm before their first tanh, as the maps of a forward-backward model,
and the actor pays for actions that stick to their limits (losses.saturation_loss).
"""

import copy

import torch
from torch import nn

from fb import flat, losses
from fb.networks import LAYERNORM_EPS, ParallelLayerNorm, Tanh, linear

HIDDEN = 256
BATCH = 256
RATE = 3e-4
TAU = 0.01
NOISE, CLIP = 0.2, 0.3
ACTOR_EVERY = 2
SATURATION = 1e-3


def mlp(inputs: int, outputs: int, members: int = 0) -> nn.Sequential:
    norm = ParallelLayerNorm(members, HIDDEN) if members else nn.LayerNorm(HIDDEN, eps=LAYERNORM_EPS)
    return nn.Sequential(linear(members, inputs, HIDDEN), norm, Tanh(), linear(members, HIDDEN, HIDDEN), nn.ReLU(),
                         linear(members, HIDDEN, outputs))


class Agent:
    """Of what it sees [n, inputs] the actor makes actions [n, A] in [-1, 1], and the critics values."""

    def __init__(self, inputs: int, action: int, gamma: float) -> None:
        self.actor, self.critics, self.gamma, self.updates = (
            mlp(inputs, action),
            mlp(inputs + action, 1, members=2),
            gamma,
            0,
        )
        self.target = copy.deepcopy(self.critics).requires_grad_(False)
        self.actor_flat, self.critics_flat, self.target_flat = (
            flat.Flat(m) for m in (self.actor, self.critics, self.target)
        )
        self.actor_optimizer, self.critics_optimizer = (
            torch.optim.Adam([f.vector], lr=RATE, fused=True) for f in (self.actor_flat, self.critics_flat))

    def act(self, seen: torch.Tensor) -> torch.Tensor:
        mean = torch.tanh(self.actor(seen))
        noise = (NOISE * torch.randn_like(mean)).clamp(-CLIP, CLIP)
        return (mean + noise).clamp(-1, 1)

    @staticmethod
    def values(critics: nn.Module, seen: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
        """[2, n]"""
        return critics(torch.cat([seen, action], -1).expand(2, -1, -1)).squeeze(-1)

    def learn(self, seen: torch.Tensor, action: torch.Tensor, reward: torch.Tensor, next_seen: torch.Tensor) -> None:
        """One update of a batch of transitions with rewards [n]."""
        with torch.no_grad():
            goal = reward + self.gamma * self.values(self.target, next_seen, self.act(next_seen)).amin(0)
        loss = (self.values(self.critics, seen, action) - goal).square().mean(-1).sum()
        flat.backward(loss, self.critics_flat)
        self.critics_optimizer.step()
        with torch.no_grad():
            self.target_flat.vector.lerp_(self.critics_flat.vector, TAU)
        self.updates += 1
        if self.updates % ACTOR_EVERY == 0:
            self.learn_to_act(seen)

    def learn_to_act(self, seen: torch.Tensor) -> None:
        before_tanh = self.actor(seen)
        value = self.values(self.critics, seen, torch.tanh(before_tanh)).amin(0)
        loss = SATURATION * losses.saturation_loss(before_tanh, value) - value.mean()
        flat.backward(loss, self.actor_flat)
        self.actor_optimizer.step()
