"""Runs a walker that the person of teacher.py teaches, then measures what it learnt: python -m lab.person OUT.csv

A run is `optibfm run --config walker-human` in real time, with the person in a browser of its own process. The
measurement follows the learnt z without labels, and the oracle's z, in the same episodes of the simulator.
"""

import argparse
import contextlib
import csv
import json
import re
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from .teacher import TASKS

MODEL = Path("models/walker")
EPISODES = 5
FIELDS = ["task", "seed", "presses", "labels", "asked", "expired", "seconds", "return", "oracle", "share"]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.person", description=__doc__)
    parser.add_argument("out", type=Path, help="CSV file of the results; rows are added")
    parser.add_argument("--optibfm", default="./optibfm", help="the program")
    parser.add_argument("--task", choices=TASKS, nargs="+", default=list(TASKS))
    parser.add_argument("--runs", type=int, default=4, help="runs of each task")
    parser.add_argument("--seed", type=int, default=1, help="of the first run")
    parser.add_argument("--film", type=Path, help="folder for pictures of the page, for film.py")
    parser.add_argument("--set", action="append", default=[], type="--set={}".format, help="KEY=VALUE of the configuration")
    parser.add_argument("--presses", type=int, default=60, help="of a run, at most")
    parser.add_argument("--seconds", type=int, default=420, help="of a run, at most")
    parser.add_argument("--stay", type=int, default=0, help="seconds that the film goes on after the last press")
    parser.add_argument("--browser", default="/usr/bin/chromium", help="program of the browser")
    o = parser.parse_args()
    for seed in range(o.seed, o.seed + o.runs):
        for task in o.task:
            person = [f"--{name}={getattr(o, name)}" for name in ("presses", "seconds", "stay", "browser")]
            person += [f"--film={o.film / task}-{seed}"] if o.film else []
            with tempfile.TemporaryDirectory(prefix="optibfm-person-") as folder:
                row = {"task": task, "seed": seed, **run(o.optibfm, task, seed, Path(folder), person, o.set)}
            add(o.out, row)
            print(*(f"{k} {v}" for k, v in row.items()), flush=True)


def run(optibfm: str, task: str, seed: int, folder: Path, arguments: list[str], options: list[str]) -> dict:
    """Lets the person teach a walker, and returns the fields of FIELDS that it measured."""
    same = [f"--set=model.bundle={MODEL.resolve()}", f"--set=run.task_dir={folder}/tasks"]
    command = [optibfm, "run", "--config", "walker-human", "--jsonl", f"--seed={seed}", *same, *options,
               f"--set=run.state_dir={folder}/state", f"--set=log.dir={folder}"]
    out, err = folder / "out", folder / "err"
    with out.open("w") as to, err.open("w") as errors, subprocess.Popen(command, stdout=to, stderr=errors) as robot:
        try:
            url = address(robot, err)
            person = subprocess.run([sys.executable, "-m", "lab.person.teacher", url, "--task", task, *arguments],
                                    check=False, stdout=subprocess.PIPE, text=True)
        finally:
            robot.send_signal(signal.SIGINT)
    if robot.returncode or person.returncode:
        sys.exit(f"person: the run of {task} with seed {seed} failed:\n{err.read_text()}")
    summary = json.loads(out.read_text().splitlines()[-1])
    subprocess.run([optibfm, "task", "save", "learnt", "--config", "walker-human", *same,
                    f"--set=run.state_dir={folder}/state"], check=True, stdout=subprocess.DEVNULL)
    z = json.loads((MODEL / "oracle.json").read_text())["z"][task]
    learnt = follow(optibfm, task, seed, folder, [*same, "--start=learnt"])
    oracle = follow(optibfm, task, seed, folder, [*same, f"--set=controller.fixed_z={z}"])
    presses = [json.loads(line) for line in person.stdout.splitlines()]
    return {"presses": len(presses), "labels": summary["labels"], "asked": summary["asked"],
            "expired": summary["expired"], "seconds": round(presses[-1]["at"] - presses[0]["at"]),
            "return": round(learnt), "oracle": round(oracle), "share": round(learnt / oracle, 3)}


def address(robot: subprocess.Popen, err: Path) -> str:
    """Waits for the address of the console in the file of the program's messages."""
    while robot.poll() is None:
        if found := re.search(r"http\S+#\S+", err.read_text()):
            return found[0]
        time.sleep(0.2)
    return ""


def follow(optibfm: str, task: str, seed: int, folder: Path, arguments: list[str]) -> float:
    """Returns the mean return of episodes in which the walker follows one z, without labels."""
    done = subprocess.run([optibfm, "run", "--config", "walker", "--json", f"--task={task}", f"--seed={seed}",
                           "--strategy=fixed", "--operator=none", "--set=controller.preset=person",
                           f"--set=run.episodes={EPISODES}", f"--set=log.dir={folder}", *arguments],
                          check=True, stdout=subprocess.PIPE, text=True)
    returns = json.loads(done.stdout)["returns"]
    return sum(returns) / len(returns)


def add(path: Path, row: dict) -> None:
    """Adds a row to a CSV file."""
    new = not path.exists()
    with path.open("a", newline="") as f:
        table = csv.DictWriter(f, FIELDS)
        if new:
            table.writeheader()
        table.writerow(row)


if __name__ == "__main__":
    with contextlib.suppress(KeyboardInterrupt):
        main()
