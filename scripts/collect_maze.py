#!/usr/bin/env python3
"""Record an ant that walks about a maze, without rewards, for pretrain_dmc.py.

    scripts/collect_maze.py antmaze --transitions 300000 --out antmaze.npz

It walks to a random cell, by the shortest way, marches there for a while and continues to
another, with noise on its direction and its actions: what OGBench's "navigate" data
are, made here with a gait (fb/gait.py) in place of a trained policy. Episodes begin
in any cell, half of them in random poses. They are kept whole, one after another.

The file has the columns of collect_dmc.py and `episode`, the number of the row's
episode. It is a function of its seed. --search-gait looks for a better gait instead.
"""

import argparse
import sys
from pathlib import Path

import mujoco
import numpy as np
from ogbench.locomaze.ant import AntEnv

sys.path.insert(0, str(Path(__file__).resolve().parent))
from fb import gait, simulation

MAZES = ("antmaze",)


class Walkers:
    """Goals of n ants that walk through a maze."""

    def __init__(self, domain: simulation.Domain, n: int, rng: np.random.Generator) -> None:
        self.rng, self.ways = rng, domain.ways()
        self.goal, self.rest = np.zeros(n, int), np.zeros(n, int)
        self.drift, self.noise, self.aside = np.zeros(n), np.zeros((n, 1)), np.zeros((n, 2))
        for i in range(n):
            self.begin(i)

    def begin(self, i: int) -> None:
        self.noise[i] = self.rng.choice([0.1, 0.2, 0.4])
        self.choose(i)

    def choose(self, i: int) -> None:
        """Chooses the next cell and a rest of up to 6 s there."""
        self.goal[i] = self.rng.integers(len(self.ways.cells))
        self.rest[i] = self.rng.integers(-30, 60)
        self.aside[i] = self.rng.uniform(-0.8, 0.8, 2)

    def act(self, obs: np.ndarray) -> np.ndarray:
        rng, xy = self.rng, obs[:, :2]
        arrived = self.ways.here(xy) == self.goal
        self.rest -= arrived
        for i in np.flatnonzero(arrived & (self.rest <= 0)):
            self.choose(i)
        direction, speed = self.ways.towards(xy, self.goal, self.aside)
        self.drift = 0.95 * self.drift + 0.1 * rng.normal(size=len(obs))
        action = gait.torques(gait.TROT, obs, direction + self.drift, speed)
        return np.clip(action + self.noise * rng.normal(size=action.shape), -1, 1).astype(np.float32)


def lies(obs: np.ndarray) -> np.ndarray:
    """Reports which ants [n] lie on their backs: the torso's upward axis points down."""
    _, x, y, _ = (obs[:, 3:7] / np.linalg.norm(obs[:, 3:7], axis=1, keepdims=True)).T
    return 1 - 2 * (x * x + y * y) < 0


def walk(
        domain: simulation.Domain, transitions: int, seed: int, copies: int = 50,
        longest: int = 300) -> dict[str, np.ndarray]:
    """Returns transitions of walks through the maze, one row each, sorted by episode."""
    sim = simulation.Simulation(domain, copies, seed)
    walkers = Walkers(domain, copies, sim.rng)
    number, begun = np.full(copies, -1), 0
    left, rows = np.zeros(copies, int), []
    while len(rows) * copies < transitions:
        for i in np.flatnonzero(left == 0):
            sim.reset(i, exploring=sim.rng.random() < 0.5)
            walkers.begin(i)
            left[i] = sim.rng.integers(longest // 2, longest)
            number[i], begun = begun, begun + 1
        obs, action = sim.obs, walkers.act(sim.obs)
        rows.append((obs, action, sim.step(action), sim.measure(), number.copy()))
        left -= 1
        left[~np.isfinite(sim.obs).all(1) | lies(sim.obs)] = 0
    obs, action, next_obs, measure, episode = (np.concatenate(column) for column in zip(*rows))
    good = np.isfinite(next_obs).all(1)
    order = np.flatnonzero(good)[np.argsort(episode[good], kind="stable")][:transitions]
    columns = {"obs": obs, "action": action, "next_obs": next_obs, "measure": measure}
    return {name: column[order].astype(np.float32) for name, column in columns.items()} | {"episode": episode[order]}


def open_ground():
    """The ant without a maze."""
    return mujoco.MjModel.from_xml_path(AntEnv.xml_file)


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("maze", choices=MAZES)
    p.add_argument("--transitions", type=int, default=300_000, help="(%(default)s)")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--out", type=Path, help="the .npz to write")
    p.add_argument("--search-gait", type=int, metavar="ROUNDS",
                   help="print the gait that a search of so many rounds finds, and stop")
    args = p.parse_args()
    if args.transitions < 2:
        p.error(f"--transitions {args.transitions}: too few: give 2 or more")
    domain = simulation.DOMAINS[args.maze]()
    if args.search_gait:
        print(*gait.search(open_ground(), args.search_gait, args.seed))
        return
    if not args.out:
        p.error("--out is missing: name the .npz to write")
    np.savez(args.out, **walk(domain, args.transitions, args.seed))


if __name__ == "__main__":
    main()
