#!/usr/bin/env python3
"""Record an ant that walks about a maze, without rewards, for pretrain_dmc.py.

    scripts/collect_maze.py antmaze --transitions 300000 --commanded 600000 --out antmaze.npz

It walks to a random cell, by the shortest way, marches there for a while and goes on to
another, with noise on its direction and its actions: what OGBench's "navigate" data
are, made here with a gait (fb/gait.py) in place of a trained policy. Episodes begin
in any cell, half of them in random poses. They are kept whole, one after another.
--commanded adds the ways of an agent that learns to walk from all of these, and that
sees how its legs stand, as the gait does not (fb/commands.py).

The file has the columns of collect_dmc.py and is a function of its seed; oscillating
rows are the gait's. --search-gait looks for a better gait instead.
"""

import argparse
from pathlib import Path
import sys

import mujoco
import numpy as np
from ogbench.locomaze.ant import AntEnv

sys.path.insert(0, str(Path(__file__).resolve().parent))
from fb import commands, gait, recording, simulation  # noqa: E402

MAZES = ("antmaze",)


def next_cells(free):
    """[from, to]: the cell to go to next on a shortest way between cells, numbered in the order of np.argwhere(free)."""
    cells = [tuple(c) for c in np.argwhere(free)]
    number = {cell: i for i, cell in enumerate(cells)}
    following = np.full((len(cells), len(cells)), -1)
    for goal, cell in enumerate(cells):
        following[goal, goal] = goal
        reached = [cell]
        for i, j in reached:
            for neighbour in ((i - 1, j), (i, j - 1), (i + 1, j), (i, j + 1)):
                if neighbour in number and following[number[neighbour], goal] < 0:
                    following[number[neighbour], goal] = number[(i, j)]
                    reached.append(neighbour)
    return following


class Ways:
    """Where n ants of a maze are going: each to a cell by the shortest way, and after a rest to another."""

    def __init__(self, domain, n, rng):
        self.rng, self.cells = rng, domain.free
        self.following = next_cells(domain.env.maze_map == 0)
        self.goal, self.rest = np.zeros(n, int), np.zeros(n, int)
        self.drift, self.aside = np.zeros(n), np.zeros((n, 2))

    def choose(self, i):
        """Another cell for ant i to go to, after which it rests for up to 6 s, or not."""
        self.goal[i] = self.rng.integers(len(self.cells))
        self.rest[i] = self.rng.integers(-30, 60)
        self.aside[i] = self.rng.uniform(-1, 1, 2)

    def next(self, obs):
        """Directions [n], rad, and shares of the full speed [n], for ants at obs [n, 29]."""
        here = np.abs(obs[:, None, :2] - self.cells).max(-1).argmin(1)
        arrived = here == self.goal
        self.rest -= arrived
        for i in np.flatnonzero(arrived & (self.rest <= 0)):
            self.choose(i)
        way = self.cells[self.following[here, self.goal]] + self.aside * 0.8 - obs[:, :2]
        self.drift = 0.95 * self.drift + 0.1 * self.rng.normal(size=len(here))
        speed = np.where(here == self.goal, np.clip(np.hypot(*way.T) - 0.5, 0, 1), 1.0)
        return np.arctan2(way[:, 1], way[:, 0]) + self.drift, speed


class Walkers:
    """Ants that walk their ways by a gait, with noise."""

    def __init__(self, domain, n, rng):
        self.rng, self.period, self.ways = rng, domain.period, Ways(domain, n, rng)
        self.phase, self.noise = np.zeros(n), np.zeros((n, 1))
        for i in range(n):
            self.begin(i)

    def begin(self, i):
        self.phase[i] = 0  # for the same reason for which the gait never stands
        self.noise[i] = self.rng.choice([0.1, 0.2, 0.4])
        self.ways.choose(i)

    def act(self, obs):
        direction, speed = self.ways.next(obs)
        self.phase += gait.stride(gait.TROT, self.period)
        action = gait.torques(gait.TROT, obs, self.phase, direction, speed)
        return np.clip(action + self.noise * self.rng.normal(size=action.shape), -1, 1).astype(np.float32)


class Learners(commands.Explorers):
    """Ants that learn to walk their ways: their commands are where to go next, at the pace of the episode."""

    def __init__(self, domain, copies, seed, number):
        super().__init__(domain, copies, seed, number)
        self.ways, self.pace = Ways(domain, copies, self.sim.rng), np.zeros(copies)
        self.start(np.arange(copies))

    def start(self, ended):
        for i in ended:
            self.ways.choose(i)
        self.pace[ended] = self.sim.rng.uniform(0.3, 1, len(ended))
        self.noise.redraw(ended)

    def give_commands(self, ended):
        self.start(ended)
        direction, speed = self.ways.next(self.sim.obs)
        self.command = (self.pace * speed)[:, None] * np.stack([np.cos(direction), np.sin(direction)], -1)


def lies(obs):
    """Whether ants lie on their backs: the torso's upward axis points down."""
    _, x, y, _ = (obs[:, 3:7] / np.linalg.norm(obs[:, 3:7], axis=1, keepdims=True)).T
    return 1 - 2 * (x * x + y * y) < 0


def walk(domain, transitions, seed, copies=50, longest=300):
    """Transitions of walks through the maze: a dict of arrays with one row each, episode after episode."""
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


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("maze", choices=MAZES)
    p.add_argument("--transitions", type=int, default=300_000, help="(%(default)s)")
    p.add_argument("--commanded", type=int, default=0, help="transitions of an agent that learns to walk from those (%(default)s)")
    p.add_argument("--updates", type=int, default=4, help="of that agent after every step of its 32 copies (%(default)s)")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--out", type=Path, help="the .npz to write")
    p.add_argument("--search-gait", type=int, metavar="ROUNDS", help="print the gait that a search of so many rounds finds, and stop")
    args = p.parse_args()
    if args.transitions < 2:
        p.error(f"--transitions {args.transitions}: too few: give 2 or more")
    domain = simulation.DOMAINS[args.maze]()
    if args.search_gait:
        print(*gait.search(open_ground(), args.search_gait, args.seed))
        return
    if not args.out:
        p.error("--out is missing: name the .npz to write")
    rows = recording.with_added({}, walk(domain, args.transitions, args.seed), "oscillating")
    if args.commanded:
        own_seed = int(np.random.SeedSequence([args.seed, 1]).generate_state(1)[0])
        learnt = commands.explore(domain, rows, args.commanded, own_seed, updates=args.updates, make=Learners)
        rows = recording.with_added(rows, learnt, "commanded")
    np.savez(args.out, **rows)


if __name__ == "__main__":
    main()
