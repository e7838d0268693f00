#!/usr/bin/env python3
"""Returns per episode of tasks x strategies x seeds, in lockstep, as a table.

Runs `optibfm run --fast --json` for every combination and prints, for each task
and strategy, the mean return of each episode over the seeds with a 95 %
interval (Student's t). Needs nothing but Python's standard library.

    scripts/returns.py --tasks corner,spin --strategies ucb,thompson,random,oracle --seeds 5 --episodes 10
    scripts/returns.py --config cheetah --set model.bundle=models/cheetah \\
        --tasks walk,run --strategies ucb,thompson,random,fixed --fixed oracle.json --seeds 3 --episodes 5

The strategy `oracle` is the rover's z inferred from 50,000 labelled
observations; `fixed` takes its z from the JSON file --fixed, a map from task to z.
Finished combinations are kept in --out and not run again.
"""

import argparse
import json
import math
import pathlib
import subprocess
import sys

# Two-sided 95 % quantiles of Student's t by degrees of freedom.
STUDENT_T = [math.nan, 12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228]


def parse_arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--program", default="go run ./cmd/optibfm", help="the program, as a command line")
    p.add_argument("--config", default="rover")
    p.add_argument("--tasks", required=True, help="comma-separated")
    p.add_argument("--strategies", default="ucb,thompson,random,oracle", help="comma-separated")
    p.add_argument("--seeds", type=int, default=5)
    p.add_argument("--episodes", type=int, default=10)
    p.add_argument("--set", action="append", default=[], help="configuration override, for all runs")
    p.add_argument("--fixed", help="JSON file with a z for each task")
    p.add_argument("--out", default="returns.json", help="results; also what an interrupted call resumes from")
    p.add_argument("--reference", help="JSON file with returns of another implementation, printed beside ours")
    return p.parse_args()


def command(args, task, strategy, seed, fixed):
    line = args.program.split() + ["run", "--fast", "--json", "--config", args.config, "--task", task,
                                   "--seed", str(seed), "--episodes", str(args.episodes),
                                   "--set", "run.duration_s=0", "--set", "log.enabled=false"]
    for override in args.set:
        line += ["--set", override]
    if strategy == "oracle":
        return line + ["--oracle"]
    if strategy == "fixed":
        return line + ["--strategy", "fixed", "--set", "controller.fixed_z=" + json.dumps(fixed[task])]
    return line + ["--strategy", strategy]


def run(line):
    done = subprocess.run(line, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(line)}\nfailed:\n{done.stderr}")
    return json.loads(done.stdout)["returns"]


def mean_and_interval(values):
    mean = sum(values) / len(values)
    if len(values) < 2:
        return mean, math.nan
    spread = math.sqrt(sum((v - mean) ** 2 for v in values) / (len(values) - 1))
    freedom = len(values) - 1
    t = STUDENT_T[freedom] if freedom < len(STUDENT_T) else 1.96
    return mean, t * spread / math.sqrt(len(values))


def row(name, by_seed):
    """One line: each episode's mean over seeds, then the mean of all with the interval over seeds."""
    episodes = range(min(len(r) for r in by_seed))
    cells = [f"{sum(r[e] for r in by_seed) / len(by_seed):7.1f}" for e in episodes]
    mean, interval = mean_and_interval([sum(r) / len(r) for r in by_seed])
    return f"  {name:<20}" + "".join(cells) + f"   all {mean:7.1f} ± {interval:.1f}"


def main():
    args = parse_arguments()
    out = pathlib.Path(args.out)
    results = json.loads(out.read_text()) if out.exists() else {}
    reference = json.loads(pathlib.Path(args.reference).read_text())["returns"] if args.reference else {}
    fixed = json.loads(pathlib.Path(args.fixed).read_text()) if args.fixed else {}
    fixed = fixed.get("z", fixed)
    names_there = {"fixed": "oracle", "thompson": "ts"}
    for task in args.tasks.split(","):
        print(f"{task}: episodes 1 to {args.episodes}, mean over {args.seeds} seeds", flush=True)
        for strategy in args.strategies.split(","):
            by_seed = []
            for seed in range(1, args.seeds + 1):
                key = f"{task}/{strategy}/{seed}/{args.episodes}"
                if key not in results:
                    results[key] = run(command(args, task, strategy, seed, fixed))
                    out.write_text(json.dumps(results, indent=0))
                by_seed.append(results[key])
            print(row(strategy, by_seed), flush=True)
            theirs = reference.get(task, {}).get(names_there.get(strategy, strategy))
            if theirs:
                print(row("  reference", list(theirs.values())), flush=True)


if __name__ == "__main__":
    main()
