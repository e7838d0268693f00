"""Runs a robot that the person of teacher.py teaches, then measures what it learnt: python -m lab.person OUT.csv

A run is `optibfm run --config walker-human`, or of another robot, in real time, with the person in a separate
process. The measurement follows the learnt z without labels, and the oracle's z, in the same episodes of the
simulator.
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

from .assistant import Assistant
from .teacher import TASKS

EPISODES = 5
FIELDS = ["robot", "task", "seed", "presses", "labels", "asked", "expired", "seconds", "return", "oracle", "share"]


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.person", description=__doc__)
    parser.add_argument("out", type=Path, help="CSV file of the results; rows are added")
    parser.add_argument("--optibfm", default="./optibfm", help="the program")
    parser.add_argument("--lab", default="./optibfm-lab",
                        help="the program of the laboratory, for go2-stand and go2-walk_forward")
    parser.add_argument("--task", choices=TASKS, nargs="+", default=list(TASKS))
    parser.add_argument("--runs", type=int, default=4, help="runs of each task")
    parser.add_argument("--seed", type=int, default=1, help="of the first run")
    parser.add_argument("--film", type=Path, help="folder for pictures of the page, for film.py")
    parser.add_argument("--set", action="append", default=[], type="--set={}".format,
                        help="KEY=VALUE of the configuration")
    parser.add_argument("--presses", type=int, default=90, help="of a run, at most")
    parser.add_argument("--seconds", type=int, default=420, help="of a run, at most")
    parser.add_argument("--browser", default="/usr/bin/chromium", help="program of the browser")
    o = parser.parse_args()
    for seed in range(o.seed, o.seed + o.runs):
        for task in o.task:
            with tempfile.TemporaryDirectory(prefix="optibfm-person-") as folder:
                Trial(o, task, seed, Path(folder)).run()


class Trial:
    """A robot that a person teaches one task."""

    def __init__(self, options: argparse.Namespace, task: str, seed: int, folder: Path) -> None:
        self.options, self.seed, self.folder = options, seed, folder
        self.person_task, (self.robot, _, self.task) = task, task.rpartition("-")
        self.connected = self.robot == "go2"  # over DDS, the robot's own protocol
        bundle = re.search(r"bundle: (\S+)", Path("configs", f"{self.robot}.yaml").read_text())[1]
        self.model = Path(bundle)
        self.human = "--config=go2" if self.connected else f"--config={self.robot}-human"
        self.simulator = "--config=go2-sim" if self.connected else f"--config={self.robot}"
        self.same = [f"--set=model.bundle={self.model.resolve()}", f"--set=run.task_dir={folder}/tasks"]
        self.film = options.film and options.film / f"{task}-{seed}"

    def run(self) -> None:
        """Adds a row to the results. With a film, shows the page again while the robot does what it learnt."""
        o, state = self.options, f"--set=run.state_dir={self.folder}/state"
        limits = [f"--presses={o.presses}", f"--seconds={o.seconds}"]
        presses, summary = self.teach([state, *o.set], limits, self.film)
        subprocess.run([o.optibfm, "task", "save", "learnt", self.human, state, *self.same],
                       check=True, stdout=subprocess.DEVNULL)
        z = json.loads((self.model / "oracle.json").read_text())["z"][self.task]
        learnt, oracle = self.follow("--start=learnt"), self.follow(f"--set=controller.fixed_z={z}")
        row = {"robot": self.robot, "task": self.task, "seed": self.seed, "presses": len(presses),
               "labels": summary["labels"], "asked": summary["asked"], "expired": summary["expired"],
               "seconds": round(presses[-1]["at"] - presses[0]["at"]),
               "return": round(learnt), "oracle": round(oracle), "share": round(learnt / oracle, 3)}
        add(o.out, row)
        print(*(f"{k} {v}" for k, v in row.items()), flush=True)
        if self.film:
            still = ["--start=learnt", "--set=controller.draw.scale=0", "--set=controller.gate.off=true"]
            self.teach([*still, *o.set], ["--presses=0", "--stay=20"], self.film / "learnt")

    def teach(self, robot: list[str], person: list[str], film: Path | None) -> tuple[list, dict]:
        """Runs robot and person until the person leaves. Returns the presses and the robot's summary."""
        if not self.connected:
            return self.press(robot, person, film)
        with Assistant(self.options.optibfm, self.options.lab, self.folder) as assistant:
            result = self.press([*assistant.settings, *robot], person, film)
        print("falls", assistant.falls, flush=True)
        return result

    def press(self, robot: list[str], person: list[str], film: Path | None) -> tuple[list, dict]:
        command = [self.options.optibfm, "run", self.human, "--jsonl", f"--seed={self.seed}",
                   f"--set=log.dir={self.folder}", *self.same, *robot]
        person = [*person, f"--task={self.person_task}", f"--browser={self.options.browser}"]
        person += [f"--film={film}"] if film else []
        out, err = self.folder / "out", self.folder / "err"
        with (out.open("w") as to, err.open("w") as errors,
              subprocess.Popen(command, stdout=to, stderr=errors) as running):
            try:
                seen = subprocess.run([sys.executable, "-m", "lab.person.teacher", address(running, err), *person],
                                      check=False, stdout=subprocess.PIPE, text=True)
            finally:
                running.send_signal(signal.SIGINT)
        if running.returncode or seen.returncode:
            sys.exit(f"person: the run of {self.person_task} with seed {self.seed} failed:\n{err.read_text()}")
        return [json.loads(line) for line in seen.stdout.splitlines()], json.loads(out.read_text().splitlines()[-1])

    def follow(self, z: str) -> float:
        """Returns the mean return of episodes in which the robot follows one z, without labels."""
        done = subprocess.run([self.options.optibfm, "run", self.simulator, "--json", f"--task={self.task}",
                               f"--seed={self.seed}", "--strategy=fixed", "--operator=none",
                               "--set=controller.preset=person", f"--set=run.episodes={EPISODES}",
                               f"--set=log.dir={self.folder}", *self.same, z],
                              check=True, stdout=subprocess.PIPE, text=True)
        returns = json.loads(done.stdout)["returns"]
        return sum(returns) / len(returns)


def address(robot: subprocess.Popen, err: Path) -> str:
    """Waits for the address of the console in the file of the program's messages."""
    while robot.poll() is None:
        if found := re.search(r"http\S+#\S+", err.read_text()):
            return found[0]
        time.sleep(0.2)
    return ""


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
