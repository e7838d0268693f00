#!/usr/bin/env python3
"""Label states of a dm_control domain with the rewards of all of its tasks, for `optibfm-lab eval`.

    scripts/label_states.py cheetah cheetah.npz --only curious --out models/cheetah/states.npz
    scripts/label_states.py cheetah models/cheetah/states.npz --part 10000 --out models/cheetah/states.npz

The input is what collect_dmc.py recorded, the folder of collect_rnd.py, or the checkpoint.pt of
pretrain_dmc.py with what the model's practice recorded: all have the observations and the measures of
their states that rewards are made of. Whole episodes are drawn at random, the last
is cut, and each keeps its order. If the record does not tell them, rows are of
one episode where one ends as another, later one begins.

The output has obs [n, O] float32, reward_TASK [n] float32 for each task and
episode_length [k] int32, whose sum is n. obs is rounded to 12 significant bits, so
that it compresses. The output is a function of the input and the seed.

--part keeps the first states of an output, as float16, for a repository: first run `optibfm-lab eval
keep`, which saves what experiments need of all of them. The part has whole_states [1], the number of all
states, and whole_sha256 [32], of their file.
"""

import argparse
import hashlib
import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).resolve().parent))
from fb import recording, rounds, simulation

OBS_BITS = 12


def read(path: str, domain: simulation.Domain) -> dict[str, np.ndarray]:
    """Returns the columns of a record of the domain."""
    if path.endswith(".pt"):
        columns = recording.of_checkpoint(path)
    elif Path(path).is_dir():
        columns = rounds.measured(Path(path))
    else:
        columns = recording.read(path, ("obs", "next_obs", "measure"), ("action", "episode", *recording.SOURCES))
    recording.check_domain(path, columns, simulation.Simulation(domain, 1, seed=0))
    return columns


def rows_of(transitions: dict[str, np.ndarray], only: str | None) -> np.ndarray:
    """Returns the indices of the rows of one source."""
    told = [name for name in recording.SOURCES if name in transitions]
    if not told or only != "exploring" and only not in told:
        raise SystemExit(
            f"label_states: the record does not tell which rows are {only} (it tells of {', '.join(told) or 'none'}): "
            "record it again, or leave out --only")
    if only == "exploring":
        return np.flatnonzero(~np.any([transitions[name] for name in told], axis=0))
    return np.flatnonzero(transitions[only])


def find_episodes(obs: np.ndarray, next_obs: np.ndarray) -> np.ndarray:
    """Returns the number of each row's episode [n]. Rows of an episode are in order, perhaps between others."""
    begins = {row.tobytes(): i for i, row in enumerate(obs)}
    episode = np.arange(len(obs))
    for i, row in enumerate(next_obs):
        after = begins.get(row.tobytes(), -1)
        if after > i:
            episode[after] = episode[i]
    return episode


def draw_episodes(episode: np.ndarray, states: int, random: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
    """Returns indices [states] of whole episodes in random order, the last one cut, and the episodes' lengths.

    episode: number of each row's episode, [n].
    """
    _, numbers, lengths = np.unique(episode, return_inverse=True, return_counts=True)
    rows = np.split(np.argsort(numbers, kind="stable"), np.cumsum(lengths)[:-1])
    order = random.permutation(len(rows))
    ends = np.cumsum(lengths[order])
    used = order[: np.searchsorted(ends, states) + 1]
    kept = lengths[used]
    kept[-1] -= ends[len(used) - 1] - states
    return np.concatenate([rows[i] for i in used])[:states], kept


def rounded(x: np.ndarray, bits: int) -> np.ndarray:
    """Rounds x to so many significant bits."""
    mantissa, exponent = np.frexp(x)
    return np.ldexp(np.round(mantissa * 2**bits) / 2**bits, exponent)


def label(
        domain: simulation.Domain, transitions: dict[str, np.ndarray], states: int, seed: int,
        only: str | None = None) -> dict[str, np.ndarray]:
    """Returns episodes of the transitions' next states with their rewards."""
    n = len(transitions["measure"])
    rows = rows_of(transitions, only) if only else np.arange(n)
    if states > len(rows):
        raise SystemExit(
            f"label_states: there are {len(rows)} transitions, {states} states are wanted: record more, or "
            "give --states"
        )
    episode = (
        transitions["episode"]
        if "episode" in transitions
        else find_episodes(transitions["obs"], transitions["next_obs"])
    )
    episode = episode[rows]
    drawn, lengths = draw_episodes(episode, states, np.random.default_rng(seed))
    rows = rows[drawn]
    rewards = domain.reward(transitions["measure"][rows].astype(np.float64))
    columns = {
        "obs": rounded(transitions["next_obs"][rows], OBS_BITS).astype(np.float32),
        "episode_length": lengths.astype(np.int32),
    }
    columns.update((f"reward_{task}", rewards[:, i].astype(np.float32)) for i, task in enumerate(domain.tasks))
    return columns


def part(path: str, states: int) -> dict[str, np.ndarray]:
    """Returns the first labelled states of a file as float16. Its episodes are in random order already."""
    with np.load(path) as file:
        columns = dict(file)
    whole = len(columns.get("obs", ()))
    if states > whole or "whole_states" in columns or "episode_length" not in columns:
        raise SystemExit(
            f"label_states: {path}: not a file of {states} labelled states or more, or a part of one: label "
            "the states again"
        )
    ends = np.cumsum(columns.pop("episode_length"))
    lengths = np.diff(np.minimum(ends, states), prepend=0)
    with np.errstate(over="ignore"):
        columns = {name: column[:states].astype(np.float16) for name, column in columns.items()}
    if not all(np.isfinite(column).all() for column in columns.values()):
        raise SystemExit(
            f"label_states: {path}: a value is beyond the range of float16, 65,504: keep all states instead")
    digest = hashlib.sha256(Path(path).read_bytes()).digest()
    return columns | {"episode_length": lengths[lengths > 0].astype(np.int32), "whole_states": np.array([whole]),
                      "whole_sha256": np.frombuffer(digest, np.uint8)}


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("domain", choices=simulation.DOMAINS)
    p.add_argument("transitions",
                   help=".npz of collect_dmc.py, folder of collect_rnd.py or checkpoint.pt of pretrain_dmc.py")
    p.add_argument("--states", type=int, default=50_000, help="(%(default)s)")
    p.add_argument("--only", choices=("exploring", *recording.SOURCES),
                   help="only of one of collect_dmc.py's sources")
    p.add_argument("--part", type=int, metavar="N", help="keep the first N states of a labelled file")
    p.add_argument("--seed", type=int, default=0)
    p.add_argument("--out", required=True, help="the .npz to write")
    args = p.parse_args()
    if args.states < 1:
        p.error(f"--states {args.states}: too few: give 1 or more")
    if args.part is None:
        domain = simulation.DOMAINS[args.domain]()
        columns = label(domain, read(args.transitions, domain), args.states, args.seed, args.only)
    elif args.part < 1:
        p.error(f"--part {args.part}: too few: give 1 or more")
    else:
        columns = part(args.transitions, args.part)
    np.savez_compressed(args.out, **columns)
    lengths = columns["episode_length"]
    print(f"{len(lengths)} episodes of {lengths.min()} to {lengths.max()} states")
    for task in (name for name in columns if name.startswith("reward_")):
        print(f"{task}: mean {columns[task].mean():.3f}, above 0.5 {np.mean(columns[task] > 0.5):.3f}")


if __name__ == "__main__":
    main()
