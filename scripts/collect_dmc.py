#!/usr/bin/env python3
"""Record transitions of a dm_control domain, without rewards, for train_fb.py and pretrain_dmc.py.

    scripts/collect_dmc.py cheetah --transitions 100000 --out cheetah.npz
    scripts/collect_dmc.py cheetah --transitions 100000 --curious 400000 --out cheetah.npz
    scripts/collect_dmc.py walker --transitions 200000 --commanded 1500000 --out walker.npz

Exploring starts come first: it begins again and again from random poses and
velocities, and moves the joints by random oscillations and noise that is
correlated in time. --curious adds transitions of an agent that seeks what is new
by random network distillation (fb/curiosity.py), in whole episodes; --oscillating
those of gaits and of robots that right themselves (fb/oscillations.py), and --commanded those of an agent that learns
to follow commands for the base and has all of these to learn from (fb/commands.py).

The file has obs, action and next_obs, as train_fb.py takes them, and measure: the
quantities of next_obs' state that the rewards of the domain's tasks are made of
(fb/simulation.py), so that any task's reward can be told afterwards. Rows with the
same number in episode are one episode's, in the order of time, between those of
others; curious, oscillating and commanded tell which are of these sources.
"""

import argparse
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
from fb import commands, curiosity, oscillations, recording, simulation
from train_fb import at_least

EXPLORERS = dict(zip(recording.SOURCES, (curiosity.explore, oscillations.explore, commands.explore), strict=True))


class Babble:
    """Actions [n, A] of n copies: an oscillation and correlated noise for each actuator, redrawn by begin."""

    def __init__(self, n: int, actions: int, period: float, rng: np.random.Generator) -> None:
        self.rng, self.shape, self.period = rng, (n, actions), period
        self.level, self.swing, self.frequency, self.phase, self.noise, self.keep, self.wander = (
            np.zeros(self.shape) for _ in range(7))
        for i in range(n):
            self.begin(i)

    def begin(self, i: int) -> None:
        rng, actions = self.rng, self.shape[1]
        self.level[i] = rng.normal(0, 0.4, actions)
        # All actuators of a copy share a frequency: gaits do.
        self.frequency[i] = 2 * np.pi * rng.uniform(0.3, 5) * self.period
        self.swing[i] = rng.uniform(0, 1.5, actions) * (rng.random() < 0.6)
        self.phase[i] = rng.uniform(0, 2 * np.pi, actions)
        self.keep[i] = rng.choice([0, 0.7, 0.9, 0.97])
        self.noise[i] = rng.uniform(0.1, 1)
        self.wander[i] = 0

    def act(self) -> np.ndarray:
        self.phase += self.frequency
        self.wander = self.keep * self.wander + np.sqrt(1 - self.keep ** 2) * self.noise * self.rng.normal(
            size=self.shape)
        return np.clip(self.level + self.swing * np.sin(self.phase) + self.wander, -1, 1).astype(np.float32)


def explore(
        domain: simulation.Domain, transitions: int, seed: int, copies: int = 64,
        longest: int = 200) -> dict[str, np.ndarray]:
    """Returns transitions from exploring starts, one row each."""
    sim = simulation.Simulation(domain, copies, seed)
    babble = Babble(copies, domain.model.nu, domain.period, sim.rng)
    left = np.zeros(copies, int)
    episode, episodes = np.zeros(copies, np.int32), 0
    rows = []
    while len(rows) * copies < transitions:
        for i in np.flatnonzero(left == 0):
            sim.reset(i, exploring=True)
            babble.begin(i)
            left[i] = sim.rng.integers(20, longest)
            episode[i], episodes = episodes, episodes + 1
        obs, action = sim.obs, babble.act()
        rows.append((obs, action, sim.step(action), sim.measure(), episode.copy()))
        left -= 1
        left[~np.isfinite(sim.obs).all(1)] = 0
    *columns, numbers = [np.concatenate(column)[:transitions] for column in zip(*rows)]
    columns = [column.astype(np.float32) for column in columns]
    good = np.all([np.isfinite(c).all(1) for c in columns], axis=0)
    recorded = dict(zip(("obs", "action", "next_obs", "measure"), (c[good] for c in columns)))
    return recorded | {"episode": numbers[good]}


def with_added(rows: dict[str, np.ndarray], added: dict[str, np.ndarray], source: str) -> dict[str, np.ndarray]:
    """Appends the rows of a source, marked as such."""
    n = len(added["obs"])
    added = added | {name: np.full(n, name == source) for name in recording.SOURCES}
    return {name: np.concatenate([column, added[name]]) for name, column in rows.items()}


def parse_arguments(argv: list[str] | None = None) -> argparse.Namespace:
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("domain", choices=simulation.DOMAINS)
    p.add_argument("--transitions", type=at_least(1), default=100_000, help="from exploring starts (%(default)s)")
    p.add_argument("--curious", type=at_least(0), default=0,
                   help="transitions of random network distillation (%(default)s)")
    p.add_argument("--oscillating", type=at_least(0), default=0,
                   help="transitions of gaits and rightings that a search finds, of the quadruped (%(default)s)")
    p.add_argument("--commanded", type=at_least(0), default=0,
                   help="transitions of an agent that learns to follow commands (%(default)s)")
    p.add_argument("--seed", type=at_least(0), default=0)
    p.add_argument("--out", type=Path, required=True, help="the .npz to write")
    args = p.parse_args(argv)
    domain = simulation.DOMAINS[args.domain]
    if args.oscillating and domain.forwards is None:
        p.error(f"--oscillating: there is nothing to search gaits of the {args.domain} for: leave it out")
    if args.commanded and not domain.takes_commands:
        p.error(f"--commanded: the {args.domain} takes no commands: leave it out")
    if not args.out.parent.is_dir():
        p.error(f"--out {args.out}: {args.out.parent} is not a folder: make it first")
    return args


def main(argv: list[str] | None = None) -> None:
    args = parse_arguments(argv)
    domain = simulation.DOMAINS[args.domain]()
    rows = explore(domain, args.transitions, args.seed)
    rows = {**rows, **dict.fromkeys(EXPLORERS, np.zeros(len(rows["obs"]), bool))}
    for i, (name, explorer) in enumerate(EXPLORERS.items(), 1):
        transitions = getattr(args, name)
        if transitions:
            own_seed = int(np.random.SeedSequence([args.seed, i]).generate_state(1)[0])
            rows = with_added(rows, explorer(domain, rows, transitions, own_seed), name)
    np.savez(args.out, **rows)


if __name__ == "__main__":
    main()
