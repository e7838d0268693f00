#!/usr/bin/env python3
"""Label states of a dm_control domain with the rewards of all of its tasks, for `optibfm eval`.

    scripts/label_states.py cheetah cheetah.npz --out models/cheetah/states.npz

The input is what collect_dmc.py recorded: it has the observations and the measures
of their states that rewards are made of. The output has obs [n, O] float32 and
reward_TASK [n] float32 for each task. It is compressed, and a function of its input and seed.
"""

import argparse
from pathlib import Path
import sys

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
from fb import simulation  # noqa: E402


def label(domain, transitions, states, seed):
    """Rows of the transitions' next states with their rewards: a dict of arrays."""
    n = len(transitions["measure"])
    if states > n:
        raise SystemExit(f"label_states: there are {n} transitions, {states} states are wanted: record more, or give --states")
    rows = np.sort(np.random.default_rng(seed).choice(n, states, replace=False))
    rewards = domain.reward(transitions["measure"][rows].astype(np.float64))
    columns = {"obs": transitions["next_obs"][rows].astype(np.float32)}
    columns.update((f"reward_{task}", rewards[:, i].astype(np.float32)) for i, task in enumerate(domain.tasks))
    return columns


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("domain", choices=simulation.DOMAINS)
    p.add_argument("transitions", help=".npz of collect_dmc.py")
    p.add_argument("--states", type=int, default=50_000, help="(%(default)s)")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--out", required=True, help="the .npz to write")
    args = p.parse_args()
    columns = label(simulation.DOMAINS[args.domain](), np.load(args.transitions), args.states, args.seed)
    np.savez_compressed(args.out, **columns)
    for name, column in columns.items():
        if name != "obs":
            print(f"{name}: mean {column.mean():.3f}, above 0.5 {np.mean(column > 0.5):.3f}")


if __name__ == "__main__":
    main()
