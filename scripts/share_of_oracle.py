"""Measures what a simulated operator teaches a simulator: the share of the oracle's return.

    python scripts/share_of_oracle.py pendulum --episode-s 10 --teach-s 120
    python scripts/share_of_oracle.py pendulum --episode-s 10 --saved upright  # taught in the browser

FOLDER is that of `optibfm new-robot NAME --gymnasium ENV_ID`, recorded and trained. The oracle's z is that of 50,000
states with their rewards: those of the practice (model/states.npz), else the recorded ones (states.npz). The operator
answers the robot's questions only; then the robot follows its estimate. The share is 0 for a new random z in every step
and 1 for the oracle's z.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np

LABELS = 50_000


def call(args: argparse.Namespace, *command: str) -> str:
    """Runs optibfm and returns what it prints."""
    done = subprocess.run([args.optibfm, *command], capture_output=True, text=True, check=False)
    if done.returncode:
        sys.exit(f"share_of_oracle.py: {args.optibfm} {command[0]}: {done.stderr.strip()}")
    return done.stdout


class Robot:
    """A simulator in lockstep, with its own folders."""

    def __init__(self, args: argparse.Namespace, folder: str) -> None:
        self.args = args
        self.where = ["--config", f"{args.folder}/robot.yaml", "--set", f"run.task_dir={folder}/tasks"]
        sets = ["robot.bridge.mode=lockstep", "robot.bridge.timeout_ms=60000", f"log.dir={folder}",
                f"run.episode_s={args.episode_s}", *args.set]
        self.settings = [a for s in sets for a in ("--set", s)]

    def run(self, *more: str) -> dict:
        """Returns the summary of a run."""
        command = ["run", *self.where, *self.settings, "--operator", "scripted", "--fast", "--json", *more]
        return json.loads(call(self.args, *command))

    def returns(self, *strategy: str) -> np.ndarray:
        """Returns those of episodes [n] that begin alike for every strategy."""
        return np.array(self.run("--seed", "1000", "--episodes", str(self.args.episodes), *strategy)["returns"])

    def teach(self, seed: int) -> int:
        """Teaches the task `taught` and returns the number of labels."""
        run = self.run("--seed", str(seed), "--set", f"run.duration_s={self.args.teach_s}", "--set",
                       "operator.scripted.mode=when_asked", "--set", "controller.gate.stop_when_learnt=false")
        call(self.args, "task", "save", "taught", "--from", run["log"], "--replace", *self.where)
        return run["labels"]

    def take(self, name: str, folder: str) -> None:
        """Takes over a task that was saved for this robot, as `taught`."""
        call(self.args, "task", "export", name, f"{folder}/task", *self.where[:2])
        call(self.args, "task", "import", f"{folder}/task", "--save", "taught", *self.where)


def oracle(args: argparse.Namespace, folder: str) -> str:
    """Returns the z of the labelled states, as YAML."""
    practised, recorded = args.folder / "model/states.npz", args.folder / "states.npz"
    if not practised.exists() and not recorded.exists():
        raise SystemExit(f"{recorded} is missing; run {args.folder}/record.sh")
    with np.load(practised if practised.exists() else recorded) as states:
        picked = np.random.default_rng(0).permutation(len(states["obs"]))[:LABELS]
        obs, reward = states["obs"][picked], states["reward_reward"][picked].astype(float)
    np.savez(f"{folder}/labels.npz", obs=obs, reward=reward - reward.mean())
    return json.dumps(json.loads(call(args, "infer", f"{folder}/labels.npz", "--model", f"{args.folder}/model"))["z"])


def main() -> None:
    parser = argparse.ArgumentParser(description="Measures what a simulated operator teaches a simulator.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--episode-s", type=float, required=True, help="simulated seconds of an episode")
    how = parser.add_mutually_exclusive_group(required=True)
    how.add_argument("--teach-s", type=float, help="simulated seconds of teaching")
    how.add_argument("--saved", metavar="NAME",
                     help="measure a task that somebody taught and `optibfm task save` saved")
    parser.add_argument("--episodes", type=int, default=10)
    parser.add_argument("--seeds", type=int, default=3, help="times that it teaches")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", help="a key of the configuration")
    parser.add_argument("--optibfm", default="./optibfm", help="the program")
    args = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with tempfile.TemporaryDirectory() as folder:
        robot = Robot(args, folder)
        best = robot.returns("--strategy", "fixed", "--set", f"controller.fixed_z={oracle(args, folder)}")
        chance = robot.returns("--strategy", "random")
        print(f"return and standard error: oracle {text(best)}, random z {text(chance)}")
        if best.mean() <= chance.mean():
            sys.exit("share_of_oracle.py: the oracle is not better than random z: the model cannot do this task; "
                     "record other states, or train a larger model")

        def show(what: str) -> None:
            taught = robot.returns("--start", "taught", "--strategy", "fixed")
            share = (taught.mean() - chance.mean()) / (best.mean() - chance.mean())
            print(f"{what}, {text(taught)}, share {share:.2f}", flush=True)

        if args.saved:
            robot.take(args.saved, folder)
            show(args.saved)
            return
        for seed in range(1, args.seeds + 1):
            show(f"seed {seed}: {robot.teach(seed)} labels")


def text(returns: np.ndarray) -> str:
    return f"{returns.mean():.4g} ± {returns.std(ddof=1) / len(returns) ** 0.5:.2g}"


if __name__ == "__main__":
    main()
