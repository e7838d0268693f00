#!/usr/bin/env python3
"""Steps a second of `optibfm-lab eval` and of the same loop written in Python with PyTorch.

    lab/bench/bench_eval.py models/cheetah --domain cheetah --task walk --lab ./optibfm-lab

Both make the same steps of the same environment with the same bundle: the
environment's step, phi and the label's update, ucb's search or thompson's sample,
the action. The loop in Python has the environment in its own process and is
written plainly, as the published implementations are (see bench_peers.py); ours
has it behind the bridge. One step follows the other, so both use one core.

A rate is that of the additional steps of a longer run, so that starting up does not
count. Reported are the rates by processor time of all processes, which does not
depend on what else the machine does, and by the clock, which is good on an idle
machine. Runs alternate; the medians over the rounds are given.
"""

import argparse
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

os.environ["OMP_NUM_THREADS"] = "1"

import bench_peers
import torch

sys.path.append(str(Path(__file__).parents[2] / "scripts"))

import dmc_bridge

PROTOCOL = """
version: 1
experiment: bench
run: {{trials: 1, episodes: 1, episode_steps: {steps}}}
environments: [{{name: {domain}, tasks: [{task}], models: [{{bundle: {bundle}}}]}}]
methods: [{{name: {method}, {setting}: [{value}]}}]
"""


class Agent(bench_peers.Torch):
    """The steps of bench_peers' PyTorch, with the rewards of an environment."""

    def learn(self, obs, v, b):
        phi = bench_peers.phi_of(self, self.bundle, obs)[0] / self.sigma
        v, b = v + torch.outer(phi, phi), b + self.reward / self.sigma * phi
        factor = torch.linalg.cholesky(v)
        return v, b, factor, torch.cholesky_solve(b[:, None], factor)[:, 0]


def run_python(o, method, steps):
    """The seconds of processor time and of the clock that the steps take."""
    agent, d = o.agent, o.agent.bundle.d
    agent.v, agent.b, agent.sigma = torch.eye(d), torch.zeros(d), o.sigma if method == "thompson" else 1.0
    env = dmc_bridge.Simulator(o.domain, o.task)
    env.reset(1)
    began = time.process_time(), time.perf_counter()
    for _ in range(steps):
        obs, _ = env.sense()
        agent.reward = env.reward()
        action = getattr(agent, method)(torch.tensor([obs], dtype=torch.float32).numpy())
        env.act(action[0])
        env.advance()
    return time.process_time() - began[0], time.perf_counter() - began[1]


def run_optibfm(o, method, steps):
    setting, value = ("beta", o.beta) if method == "ucb" else ("sigma", o.sigma)
    with tempfile.TemporaryDirectory() as folder:
        protocol = Path(folder) / "bench.yaml"
        protocol.write_text(PROTOCOL.format(steps=steps, domain=o.domain, task=o.task, bundle=Path(o.bundle).resolve(),
                                            method=method, setting=setting, value=value))
        before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        bridge = Path(dmc_bridge.__file__)
        command = [*o.lab.split(), "eval", protocol, "--jobs", "1", "--out", Path(folder) / "bench.csv",
                   "--python", sys.executable, "--bridge", bridge]
        try:
            subprocess.run(command, check=True, capture_output=True, text=True)
        except (OSError, subprocess.CalledProcessError) as err:
            raise SystemExit(
                f"bench_eval: {o.lab}: {err}: see what it says, or give another --lab\n{getattr(err, 'stderr', '')}"
            ) from err
        wall, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, wall


def rates(run, o, method):
    """Steps a second by processor time and by the clock."""
    steps = o.steps if method == "ucb" else 10 * o.steps  # enough against the time of starting up
    short, long = run(o, method, steps // 8), run(o, method, steps)
    return [(steps - steps // 8) / (b - a) for a, b in zip(short, long)]


def main() -> None:
    p = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    p.add_argument("bundle")
    p.add_argument("--domain", default="cheetah", choices=dmc_bridge.DOMAINS)
    p.add_argument("--task", default="walk")
    p.add_argument("--lab", default="go run ./cmd/optibfm-lab",
                   help="the laboratory's program, as a command line (%(default)s)")
    p.add_argument("--steps", type=int, default=3000, help="of ucb; thompson makes ten times as many (%(default)s)")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--candidates", type=int, default=128)
    p.add_argument("--beta", type=float, default=0.1)
    p.add_argument("--sigma", type=float, default=0.1)
    o = p.parse_args()
    if o.task not in dmc_bridge.DOMAINS[o.domain][1]:
        p.error(
            f"--task {o.task}: {o.domain} has none of that name: choose one of "
            f"{', '.join(dmc_bridge.DOMAINS[o.domain][1])}"
        )
    if o.steps < 80 or o.rounds < 1:
        p.error(f"--steps {o.steps} --rounds {o.rounds}: too few to tell a rate: give 80 steps and one round at least")
    bench_peers.BETA = o.beta
    o.agent = Agent(bench_peers.Bundle(o.bundle), 1, o.candidates)
    print(f"{o.domain} {o.task}, {o.candidates} candidates, {o.rounds} rounds; PyTorch {torch.__version__}, one thread")
    print(f"{'':10}{'steps/s of processor time':>38}{'steps/s by the clock':>34}")
    print(f"{'':10}{'optibfm':>12}{'PyTorch':>12}{'ratio':>14}{'optibfm':>12}{'PyTorch':>12}{'ratio':>10}")
    run_optibfm(o, "ucb", 10)  # `go run` builds the program, and builds it once
    for method in ("ucb", "thompson"):
        ours, theirs = [], []
        for _ in range(o.rounds):
            ours.append(rates(run_optibfm, o, method))
            theirs.append(rates(run_python, o, method))
        line = f"{method:10}"
        for kind in (0, 1):
            a, b = (statistics.median(r[kind] for r in side) for side in (ours, theirs))
            ratio = statistics.median(x[kind] / y[kind] for x, y in zip(ours, theirs))
            line += f"{a:12.0f}{b:12.0f}{ratio:{14 if kind == 0 else 10}.2f}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
