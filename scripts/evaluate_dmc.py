#!/usr/bin/env python3
"""Measure what a pre-trained model of pretrain_dmc.py or train_fb.py can do, and write it into a copy of its bundle.

    scripts/evaluate_dmc.py cheetah runs/cheetah --out models/cheetah --data "how the transitions came about"
    scripts/evaluate_dmc.py walker runs/walker --transitions walker-rnd --choose --out models/walker-rnd

RUN/best is the bundle, and the labelled states are drawn from --transitions or from those in
RUN/checkpoint.pt. With --choose, RUN/best becomes the bundle of train_fb.py --keep, RUN/UPDATES,
with the highest mean over random rewards, which exclude the tasks. For every task it prints the mean return of
following the oracle's z, inferred from 50,000 labelled states, and of following random z. --out receives the
bundle with these figures in its provenance, and oracle.json: task to z. """

import argparse
import importlib.metadata
import json
import shutil
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parent))
import pretrain_dmc
from fb import bundle, recording, rounds, simulation, zeroshot
from fb.networks import on_sphere
from train_fb import at_least


def recorded(path: Path) -> dict:
    """Returns the columns of a checkpoint, of a recording or of the folder of collect_rnd.py."""
    if path.suffix == ".pt":
        return recording.of_checkpoint(path)
    if path.is_dir():
        return rounds.measured(path)
    return recording.read(path, recording.FLOATS)


def choose(run: Path, domain: simulation.Domain, labelled: torch.Tensor, steps: int) -> None:
    """Copies the bundle RUN/UPDATES with the highest score of random rewards to RUN/best. labelled: states [n, O]."""
    shares = pretrain_dmc.channel_shares(domain.channel_names()[0])
    mean, deviation = labelled.mean(0), labelled.std(0) + 1e-6
    scores = {}

    def standardise(obs):
        return (obs - mean) / deviation

    for path in sorted(run.glob("[0-9]*/bfm.json")):
        scores[path.parent] = pretrain_dmc.score_random_rewards(
            bundle.read(path.parent), domain, labelled, labelled, standardise, shares, steps)
        print(f"{path.parent}: random rewards {scores[path.parent]:.3f}", flush=True)
    if not scores:
        raise SystemExit(f"{run}: holds no bundles of train_fb.py --keep: leave --choose out, or give another folder")
    (run / "best").mkdir(exist_ok=True)
    for path in max(scores, key=scores.get).iterdir():
        shutil.copyfile(path, run / "best" / path.name)


def labelled_states(path: Path, domain: simulation.Domain):
    """Returns next_obs and the rewards of all tasks for zeroshot.LABELLED of the recorded transitions."""
    columns = recorded(path)
    recording.check_domain(path, columns, simulation.Simulation(domain, 1, seed=0))
    rows = torch.randint(len(columns["obs"]), (zeroshot.LABELLED,)).numpy()
    return torch.from_numpy(columns["next_obs"][rows]), torch.as_tensor(
        domain.reward(columns["measure"][rows].astype("float64")))


def measure(model, domain: simulation.Domain, z, args: argparse.Namespace):
    """Returns [task, episode] of the oracle's z and of a random z in every episode."""
    followed = {
        "oracle": z.repeat_interleave(args.episodes, 0),
        "random": on_sphere(torch.randn(len(z) * args.episodes, z.shape[1])),
    }
    return {
        name: zeroshot.returns(model, domain, rows, args.episodes, args.seed, args.episode_steps)
        for name, rows in followed.items()
    }


def provenance(domain: simulation.Domain, returns, explained, args: argparse.Namespace) -> dict:
    mean = {name: values.mean(1) for name, values in returns.items()}
    tasks = domain.tasks
    packages = ["mujoco", "dm_control", "torch", "numpy"] + ["ogbench"] * (args.domain == "antmaze")
    versions = {name: importlib.metadata.version(name) for name in packages}
    return {
        **({"data": args.data} if args.data else {}),  # else what the training's --note says
        "returns_oracle": ", ".join(f"{t} {m:.0f}" for t, m in zip(tasks, mean["oracle"])),
        "returns_random": ", ".join(f"{t} {m:.0f}" for t, m in zip(tasks, mean["random"])),
        "returns_of": f"means over {args.episodes} episodes of {args.episode_steps} steps; oracle: z of "
                      f"{zeroshot.LABELLED} labelled states, "
        "random: a z of the sphere for each episode",
        "reward_variance_linear_in_phi": ", ".join(f"{t} {e:.2f}" for t, e in zip(tasks, explained)),
        "versions": " ".join(f"{name}={version}" for name, version in versions.items()),
    }


def export(source, out, added, z) -> None:
    """Writes a copy of the bundle with more provenance and the oracle's z."""
    out.mkdir(parents=True, exist_ok=True)
    description = json.loads((source / "bfm.json").read_text())
    description["provenance"] = {k: v for k, v in (description["provenance"] | added).items() if v}
    files = ["model.safetensors"] + ["prior.safetensors"] * ("prior" in description)
    for name in files:
        shutil.copyfile(source / name, out / name)
    bundle.replace(out / "bfm.json", (json.dumps(description, indent=2) + "\n").encode())
    bundle.replace(out / "oracle.json", (json.dumps({"z": z}) + "\n").encode())


def main(argv: list[str] | None = None) -> None:
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("domain", choices=simulation.DOMAINS)
    p.add_argument("run", type=Path, help="--out of pretrain_dmc.py or train_fb.py")
    p.add_argument("--transitions", type=Path,
                   help=".npz with measures, or folder of collect_rnd.py (default: RUN/checkpoint.pt)")
    p.add_argument("--choose", action="store_true",
                   help="choose RUN/best among the bundles RUN/UPDATES by random rewards")
    p.add_argument("--out", type=Path, help="folder of the bundle to write")
    p.add_argument("--data", default="", help="for the provenance: how the transitions came about")
    p.add_argument("--episodes", type=at_least(1), default=10, help="of each task (%(default)s)")
    p.add_argument("--episode-steps", type=at_least(1), default=simulation.EPISODE_STEPS, help="(%(default)s)")
    p.add_argument("--seed", type=int, default=1)
    args = p.parse_args(argv)
    torch.manual_seed(args.seed)
    torch.set_num_threads(1)
    domain = simulation.DOMAINS[args.domain]()
    path = args.transitions or args.run / "checkpoint.pt"
    if args.choose:
        states = labelled_states(path, domain)
        choose(args.run, domain, states[0], args.episode_steps)
    model = bundle.read(args.run / "best")
    z, explained = zeroshot.oracle(model, *(states if args.choose else labelled_states(path, domain)))
    returns = measure(model, domain, z, args)
    for name, values in returns.items():
        print(f"{name:8}" +"".join(f"  {t} {v.mean():.0f} ({v.min():.0f} to {v.max():.0f})"
                                   for t, v in zip(domain.tasks, values)))
    if args.out:
        export(args.run / "best", args.out, provenance(domain, returns, explained, args),
               dict(zip(domain.tasks, z.tolist())))


if __name__ == "__main__":
    main()
