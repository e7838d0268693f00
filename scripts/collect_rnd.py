#!/usr/bin/env python3
"""Record transitions of a dm_control domain by random network distillation alone.

    scripts/collect_rnd.py walker --transitions 3000000 --out runs/walker-rnd

The agent starts each episode as the domain does, and only the novelty of a state rewards it
(fb/curiosity.py). There are no exploring starts, commands or gaits. The first --warm-up steps are
uniformly random, as in ExORL (Yarats et al., 2022).

The folder has one file for each round, in which all copies make one episode:

    obs     [T + 1, n, O]  float32, of n copies, the last one after the last action
    action  [T, n, A]      int8, in units of 1/127; the simulation received exactly these actions
    measure [T, n, M]      float32, of the state after the action (fb/simulation.py)
    valid   [T, n]         false where the physics failed and the copy began again

The same command continues after the last complete round, as if it had not been interrupted.
"""

import argparse
import os
import sys
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn

sys.path.insert(0, str(Path(__file__).resolve().parent))
from fb import curiosity, flat, rounds, simulation
from fb.episodes import Noise
from fb.networks import linear
from fb.td3 import BATCH, HIDDEN, RATE, Agent
from train_fb import at_least, keep_freed_memory

CLIPPED = 5.0  # deviations of the bonus
STANDARDISED = 8  # rounds after which the scale of the agent's inputs is final


def plain(obs: int) -> nn.Sequential:
    return nn.Sequential(linear(0, obs, HIDDEN), nn.ReLU(), linear(0, HIDDEN, HIDDEN), nn.ReLU(),
                         linear(0, HIDDEN, curiosity.FEATURES))


class Bonus(curiosity.Novelty):
    """A bonus with a running mean of 0 and deviation of 1.

    An offset changes no policy, since no state ends an episode, but the critics need long to learn it. The networks
    have no LayerNorm, which would hide how far an observation is from the mean.
    """

    def __init__(self, obs: int) -> None:
        self.target, self.predictor = plain(obs), plain(obs)
        self.target.requires_grad_(False)
        self.flat = flat.Flat(self.predictor)
        self.optimizer = torch.optim.Adam([self.flat.vector], lr=RATE, fused=True)
        self.moments = torch.tensor([0.0, 1.0])  # of the prediction error: mean and mean square

    def learn(self, obs: torch.Tensor) -> torch.Tensor:
        """Makes one update of the predictor. Returns the bonus [n] of obs [n, O]."""
        error = (self.predictor(obs) - self.target(obs)).square().mean(-1)
        flat.backward(error.mean(), self.flat)
        self.optimizer.step()
        bonus = error.detach()
        new = torch.stack([bonus.mean(), bonus.square().mean()])
        self.moments = new if self.moments[0] == 0 else self.moments.lerp(new, 0.01)
        mean, square = self.moments
        return ((bonus - mean) / (square - mean.square()).clamp_min(1e-12).sqrt()).clamp(-CLIPPED, CLIPPED)


class Collector:
    """An agent, its novelty bonus and the rounds that it recorded."""

    def __init__(self, args: argparse.Namespace, domain: simulation.Domain) -> None:
        self.args, self.domain = args, domain
        torch.manual_seed(args.seed)
        self.sim = simulation.Simulation(domain, args.copies, args.seed)
        self.inputs, self.steps = self.sim.obs.shape[1], args.episode_steps
        count = -(-args.transitions // (self.steps * args.copies))
        self.obs = np.zeros((count, self.steps + 1, args.copies, self.inputs), np.float32)
        self.action = np.zeros((count, self.steps, args.copies, domain.model.nu), np.int8)
        self.round = 0
        self.novelty = Bonus(self.inputs)
        self.noise = Noise(self.sim.rng, args.copies, domain.model.nu)
        self.agent = Agent(self.inputs, domain.model.nu, curiosity.GAMMA)
        self.standardise()

    def standardise(self) -> None:
        """Sets the scale of the agent's inputs to that of the first rounds."""
        known = self.obs[: min(self.round, STANDARDISED)] if self.round else self.sim.obs
        known = known.reshape(-1, self.inputs).astype(np.float64)
        self.mean, self.std = known.mean(0).astype(np.float32), known.std(0).astype(np.float32) + 1e-3

    def standard(self, obs: np.ndarray) -> torch.Tensor:
        return torch.as_tensor((obs - self.mean) / self.std, dtype=torch.float32).clamp(-10, 10)

    def record(self) -> dict[str, np.ndarray]:
        """Records one round."""
        sim, args, k = self.sim, self.args, self.round
        measure, valid = [], np.ones((self.steps, args.copies), bool)
        for i in range(args.copies):
            sim.reset(i)
        self.noise.redraw(np.arange(args.copies))
        self.noise.wander[:] = 0
        self.obs[k, 0] = sim.obs
        for t in range(self.steps):
            self.action[k, t] = np.round(127 * self.act(k * self.steps + t))
            sim.step(self.action[k, t] / np.float32(127))
            measure.append(sim.measure().astype(np.float32))
            valid[t] = np.isfinite(sim.obs).all(1) & np.isfinite(measure[t]).all(1)
            for i in np.flatnonzero(~valid[t]):
                sim.reset(i)
            self.obs[k, t + 1] = sim.obs
            if k * self.steps + t + 1 >= args.warm_up:
                self.learn(k * self.steps + t + 1)
        return {
            "obs": self.obs[k], "action": self.action[k], "measure": np.nan_to_num(np.stack(measure)), "valid": valid
        }

    def act(self, step: int) -> np.ndarray:
        if step < self.args.warm_up:
            return self.sim.rng.uniform(-1, 1, self.action.shape[2:])
        with torch.no_grad():
            mean = torch.tanh(self.agent.actor(self.standard(self.sim.obs))).numpy()
        return np.clip(mean + self.noise.step(), -1, 1)

    def learn(self, steps: int) -> None:
        """Updates the bonus and the agent with transitions of all steps so far."""
        rng, copies, batch = self.sim.rng, self.args.copies, self.args.batch
        for _ in range(self.args.updates):
            step, copy = rng.integers(steps, size=batch), rng.integers(copies, size=batch)
            k, t = np.divmod(step, self.steps)
            after = self.standard(self.obs[k, t + 1, copy])
            action = torch.from_numpy(self.action[k, t, copy] / np.float32(127))
            self.agent.learn(self.standard(self.obs[k, t, copy]), action, self.novelty.learn(after), after)

    def run(self) -> None:
        args = self.args
        self.resume()
        began, first = time.monotonic(), self.round
        while self.round < len(self.obs):
            rounds.write(args.out, self.round, self.record())
            self.round += 1
            if self.round <= STANDARDISED:
                self.standardise()
            self.write_checkpoint()
            each = self.steps * args.copies
            rate = (self.round - first) * each / (time.monotonic() - began)
            print(f"{self.round * each} transitions, {rate:.0f}/s, error {float(self.novelty.moments[0]):.3g}, "
                  f"mean speed {np.abs(self.obs[self.round - 1, ..., -self.domain.model.nv:]).mean():.3g}", flush=True)

    def modules(self) -> dict:
        agent, novelty = self.agent, self.novelty
        return {
            "actor": agent.actor, "critics": agent.critics, "target": agent.target,
            "actor_optimizer": agent.actor_optimizer, "critics_optimizer": agent.critics_optimizer,
            "known": novelty.target, "predictor": novelty.predictor, "predictor_optimizer": novelty.optimizer
        }

    def write_checkpoint(self) -> None:
        content = {name: module.state_dict() for name, module in self.modules().items()}
        content |= {"round": self.round, "updates": self.agent.updates, "moments": self.novelty.moments,
                    "torch_rng": torch.get_rng_state(), "rng": self.sim.rng.bit_generator.state}
        partial = self.args.out / "collector.partial"
        torch.save(content, partial)
        os.replace(partial, self.args.out / "collector.pt")

    def resume(self) -> None:
        path = self.args.out / "collector.pt"
        if not path.exists():
            return
        content = torch.load(path, weights_only=True)
        if content["round"] > len(self.obs):
            raise SystemExit(
                f"{path}: has {content['round']} rounds already, more than --transitions {self.args.transitions}")
        self.round = content["round"]
        for k in range(self.round):
            recorded = rounds.read(self.args.out, k)
            if recorded["obs"].shape != self.obs.shape[1:]:
                raise SystemExit(
                    f"{self.args.out}: has rounds of {recorded['obs'].shape}; give the same --copies and "
                    "--episode-steps"
                )
            self.obs[k], self.action[k] = recorded["obs"], recorded["action"]
        for name, module in self.modules().items():
            module.load_state_dict(content[name])
        self.agent.updates, self.novelty.moments = content["updates"], content["moments"]
        torch.set_rng_state(content["torch_rng"])
        self.sim.rng.bit_generator.state = content["rng"]
        self.standardise()


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("domain", choices=[name for name in simulation.DOMAINS if name != "antmaze"])
    p.add_argument("--transitions", type=at_least(1), default=3_000_000,
                   help="rounded up to whole rounds (%(default)s)")
    p.add_argument("--out", type=Path, required=True, help="folder of the rounds")
    p.add_argument("--copies", type=at_least(1), default=64, help="(%(default)s)")
    p.add_argument("--episode-steps", type=at_least(1), default=simulation.EPISODE_STEPS, help="(%(default)s)")
    p.add_argument("--updates", type=at_least(0), default=4,
                   help="of the agent for each step of all copies (%(default)s)")
    p.add_argument("--batch", type=at_least(1), default=BATCH, help="of such an update (%(default)s)")
    p.add_argument("--warm-up", type=at_least(0), default=100, help="steps of random actions (%(default)s)")
    p.add_argument("--seed", type=at_least(0), default=0)
    return p.parse_args(argv)


def main(argv: list[str] | None = None) -> None:
    args = parse_arguments(argv)
    args.out.mkdir(parents=True, exist_ok=True)
    keep_freed_memory()
    torch.set_num_threads(1)
    torch.set_float32_matmul_precision("medium")  # bfloat16 where the CPU has it: a third of the time
    domain = simulation.DOMAINS[args.domain]()
    rounds.write_robot(args.out, args.domain, *domain.channel_names())
    Collector(args, domain).run()


if __name__ == "__main__":
    main()
