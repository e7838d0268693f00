"""A report about a trained model from its recording alone: no simulator, no robot.

It asks for simple rewards, such as "x high" or "x low, y high": how well do the features explain them, and what do
the policies earn? The policies act in a model of the robot's dynamics, fitted to the recording.
"""

import itertools
import random
from dataclasses import dataclass

import torch
from torch import nn

from fb import zeroshot
from fb.networks import Model, on_sphere

GOOD_R2, GOOD_SHARE = 0.6, 0.3
REWARDS, FOLLOWED = 30, 6
SPAN = 8  # transitions
SIGN = {"high": 1, "low": -1}
COPIES, HORIZONS = 64, 3  # of a rollout, in units of 1 / (1 - gamma)


class Dynamics(nn.Module):
    """The change of the observation in a period, fitted to recorded stretches."""

    def __init__(self, obs: torch.Tensor, action: torch.Tensor, next_obs: torch.Tensor, updates: int = 2000) -> None:
        super().__init__()
        width, change = obs.shape[1], next_obs - obs
        self.mean, self.std, self.scale = obs.mean(0), obs.std(0) + 1e-6, change.std(0) + 1e-6
        self.low, self.high = obs.amin(0), obs.amax(0)
        self.net = nn.Sequential(
            nn.Linear(width + action.shape[1], 128), nn.SiLU(), nn.Linear(128, 128), nn.SiLU(),
            nn.Linear(128, width)).to(obs)
        starts, self.span = stretches(obs, next_obs)
        used = starts[: max(1, len(starts) * 19 // 20)]  # the end is held out
        optimizer = torch.optim.Adam(self.net.parameters(), lr=4e-3)
        schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, updates)
        for _ in range(updates):
            rows = used[torch.randint(len(used), (128,), device=obs.device)]
            now, loss = obs[rows], 0
            for k in range(self.span):
                now = self.step(now, action[rows + k])
                loss = loss + ((now - next_obs[rows + k]) / self.scale).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            schedule.step()
        self.explained = self.share(obs, action, next_obs, starts[len(used):] if len(starts) > len(used) else used)

    @torch.no_grad()
    def share(self, obs: torch.Tensor, action: torch.Tensor, next_obs: torch.Tensor, rows: torch.Tensor) -> float:
        """Returns the explained share of the variance of the movement in the span transitions from rows."""
        now, last = obs[rows], next_obs[rows + self.span - 1]
        for k in range(self.span):
            now = self.step(now, action[rows + k])
        moved = (last - obs[rows]).square().mean(0) + 1e-12
        return 1 - float(((now - last).square().mean(0) / moved).mean())

    def step(self, obs: torch.Tensor, action: torch.Tensor) -> torch.Tensor:
        """Returns the next observations [n, O], within the recorded range."""
        change = self.net(torch.cat([(obs - self.mean) / self.std, action], -1))
        return (obs + self.scale * change).clamp(self.low, self.high)


def stretches(obs: torch.Tensor, next_obs: torch.Tensor) -> tuple[torch.Tensor, int]:
    """Returns the rows at which SPAN transitions that follow each other start, and SPAN; or all rows and 1."""
    follows = (next_obs[:-1] == obs[1:]).all(1)
    whole = torch.ones(max(len(obs) - SPAN + 1, 0), dtype=torch.bool, device=obs.device)
    for k in range(SPAN - 1):
        whole &= follows[k : len(whole) + k]
    rows = whole.nonzero().flatten()
    return (rows, SPAN) if len(rows) else (torch.arange(len(obs), device=obs.device), 1)


@dataclass
class Reward:
    """A product of functions of channels, each in [0, 1]."""

    name: str
    factors: list[tuple[int, str, float, float]]  # channel, kind, centre, width

    def __call__(self, obs: torch.Tensor) -> torch.Tensor:
        """Returns the reward [n] of obs [n, O]."""
        total = torch.ones_like(obs[:, 0])
        for channel, kind, centre, width in self.factors:
            x = (obs[:, channel] - centre) / width
            total = total * (torch.exp(-x.square()) if kind == "middle" else torch.sigmoid(4 * SIGN[kind] * x))
        return total


def simple_rewards(obs: torch.Tensor, names: dict[int, str], seed: int = 0) -> list[Reward]:
    """Returns rewards of one named channel and of two, shuffled: at most REWARDS."""
    factors = {}
    for channel, name in names.items():
        column = obs[:, channel]
        low, middle, high = torch.quantile(column[:100_000], torch.tensor([0.25, 0.5, 0.75]).to(column)).tolist()
        width = float(column.std())
        if width > 1e-6:
            factors[channel] = [Reward(f"{name} {kind}", [(channel, kind, centre, width)])
                                for kind, centre in (("high", high), ("low", low), ("middle", middle))]
    single = [reward for rewards in factors.values() for reward in rewards]
    double = [Reward(f"{a.name}, {b.name}", a.factors + b.factors)
              for one, two in itertools.combinations(factors.values(), 2) for a in one for b in two]
    draw = random.Random(seed)
    draw.shuffle(single)
    draw.shuffle(double)
    return [r for pair in itertools.zip_longest(single, double) for r in pair if r][:REWARDS]


@dataclass
class Report:
    """What measure found. The lists are by reward; those of the returns have FOLLOWED elements."""

    names: list[str]
    r2: list[float]
    oracle: list[float]
    chance: list[float]
    best: list[float]
    dynamics: float  # Dynamics.explained
    span: int  # Dynamics.span

    @property
    def median_r2(self) -> float:
        return float(torch.tensor(self.r2).median())

    @property
    def share(self) -> float:
        """The median share of the attainable gain over random z that the oracle attains."""
        gains = [(o - c) / max(b - c, 1e-6) for o, c, b in zip(self.oracle, self.chance, self.best)]
        return float(torch.tensor(gains).median())

    def score(self) -> tuple[bool, float]:
        """Returns what orders reports: features that explain enough first, then the share of the oracle."""
        return self.median_r2 >= GOOD_R2, self.share

    def verdict(self) -> str:
        found = (f"median R² {self.median_r2:.2f} (good: {GOOD_R2} or more), "
                 f"share of the oracle {self.share:.2f} (good: {GOOD_SHARE} or more)")
        if self.median_r2 < GOOD_R2:
            return f"Not good: the features explain too little; {found}. Record more states, or raise --latent."
        if self.share < GOOD_SHARE:
            return f"Not good: the policies earn too little; {found}. Record more transitions, or raise --steps."
        return f"Good: {found}."

    def __str__(self) -> str:
        lines = [
            f"{len(self.r2)} simple rewards: R² {min(self.r2):.2f} to {max(self.r2):.2f}, median {self.median_r2:.2f}",
            f"mean rewards in fitted dynamics ({100 * self.dynamics:.1f} % of the movement in {self.span} periods):",
            f"  {'reward':32}  R²    oracle  random z  best states"]
        for name, r2, oracle, chance, best in zip(self.names, self.r2, self.oracle, self.chance, self.best):
            lines.append(f"  {name:32}  {r2:4.2f}  {oracle:6.2f}  {chance:8.2f}  {best:11.2f}")
        return "\n".join([*lines, self.verdict()])

    def provenance(self) -> dict[str, str]:
        """Returns strings by name for the bundle."""
        def listed(values):
            return "; ".join(f"{name}: {value:.2f}" for name, value in zip(self.names, values))

        return {"returns_oracle": listed(self.oracle), "returns_random": listed(self.chance),
                "returns_of": "mean rewards in dynamics fitted to the recording", "report": self.verdict()}


@torch.no_grad()
def follow(
        model: Model, dynamics: Dynamics, obs: torch.Tensor, z: torch.Tensor, rewards: list[Reward],
        steps: int) -> list[float]:
    """Returns the mean reward of each task for following z [task * copy, d] from obs [task * copy, O]."""
    total = torch.zeros(len(rewards))
    for _ in range(steps):
        obs = dynamics.step(obs, model.actor(model.normalize(obs), z))
        total += torch.stack([r(rows).mean() for r, rows in zip(rewards, obs.chunk(len(rewards)))]).cpu()
    return (total / steps).tolist()


def measure(model: Model, dynamics: Dynamics, obs: torch.Tensor, next_obs: torch.Tensor, names: list[str],
            gamma: float) -> Report:
    """Measures a model on recorded transitions, obs [n, O], next_obs [n, O], and the dynamics fitted to them."""
    read = {i: names[i] for i in model.backward_map.columns.tolist()}  # B expresses no reward of other channels
    rewards = simple_rewards(next_obs, read)
    labelled = next_obs[torch.randint(len(next_obs), (zeroshot.LABELLED,), device=obs.device)]
    values = torch.stack([r(labelled) for r in rewards], 1).double()
    z, r2 = zeroshot.oracle(model, labelled, values)
    followed = rewards[:FOLLOWED]
    n, steps = len(followed) * COPIES, round(HORIZONS / (1 - gamma))
    start = labelled[:COPIES].repeat(len(followed), 1)
    chance = on_sphere(torch.randn(n, z.shape[1]).to(z))
    return Report(
        names=[r.name for r in rewards], r2=r2.tolist(), dynamics=dynamics.explained, span=dynamics.span,
        oracle=follow(model, dynamics, start, z[: len(followed)].repeat_interleave(COPIES, 0), followed, steps),
        chance=follow(model, dynamics, start, chance, followed, steps),
        best=torch.quantile(values[:, : len(followed)], 0.95, dim=0).tolist())
