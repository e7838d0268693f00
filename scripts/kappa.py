#!/usr/bin/env python3
"""Labels used against average reward, for several thresholds κ of the label gate.

The rover, in lockstep, and a scripted operator who answers only when asked: at
once and exactly, half a second late, and late with every tenth answer mistaken. No limit on requests but κ and one open request at a time. Needs
nothing but Python's standard library.

    scripts/kappa.py --tasks corner,spin,south_wall --seeds 5 --episodes 5
"""

import argparse
import concurrent.futures
import json
import subprocess
import sys

OPERATORS = {
    "exact, at once": [],
    "exact, 0.5 s late": ["operator.scripted.delay_s=0.5"],
    "0.5 s late, 10 % mistakes": ["operator.scripted.delay_s=0.5", "operator.scripted.mistake_probability=0.1"],
}


def run(args, kappa, task, seed, operator):
    line = args.program.split() + ["run", "--fast", "--json", "--config", args.config, "--task", task,
                                   "--seed", str(seed), "--episodes", str(args.episodes)]
    overrides = ["run.duration_s=0", "log.enabled=false", "operator.scripted.mode=when_asked",
                 "operator.scripted.delay_s=0", "operator.scripted.mistake_probability=0",
                 f"controller.gate.kappa={kappa}", "controller.gate.requests_per_minute=0", "controller.gate.off=false"]
    for override in overrides + OPERATORS[operator] + args.set:
        line += ["--set", override]
    done = subprocess.run(line, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(line)}\nfailed:\n{done.stderr}")
    return json.loads(done.stdout)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--program", default="go run ./cmd/optibfm", help="the program, as a command line")
    p.add_argument("--config", default="rover-fast")
    p.add_argument("--tasks", required=True, help="comma-separated")
    p.add_argument("--kappas", default="0,0.01,0.1,1", help="comma-separated")
    p.add_argument("--seeds", type=int, default=5)
    p.add_argument("--episodes", type=int, default=5)
    p.add_argument("--set", action="append", default=[], help="configuration override, for all runs")
    p.add_argument("--jobs", type=int, default=1, help="runs at a time")
    args = p.parse_args()
    with concurrent.futures.ThreadPoolExecutor(args.jobs) as pool:
        for operator in OPERATORS:
            print(f"{operator}\n  {'kappa':>8}{'asked':>9}{'labels':>9}{'average reward':>16}", flush=True)
            for kappa in args.kappas.split(","):
                runs = list(pool.map(lambda job: run(args, kappa, *job, operator),
                                     [(task, seed) for task in args.tasks.split(",") for seed in range(1, args.seeds + 1)]))
                mean = lambda key: sum(r[key] for r in runs) / len(runs)
                print(f"  {kappa:>8}{mean('asked'):9.1f}{mean('labels'):9.1f}{mean('average_reward'):16.3f}", flush=True)


if __name__ == "__main__":
    main()
