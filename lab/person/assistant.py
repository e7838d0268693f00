"""A simulated Unitree Go2 on the loopback interface, and the person beside it, who arms it again after each fall."""

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Self

POLL_S, GETS_UP_S = 1.0, 5.0  # s; between two looks, and after a fall until the robot is reset


class Assistant:
    """Serves the robot and watches it from start to stop. falls is their number."""

    def __init__(self, optibfm: str, lab: str, folder: Path) -> None:
        """optibfm, lab: the programs."""
        self.optibfm, self.socket, self.falls = optibfm, folder / "control.sock", 0
        view = folder / "view"
        self.settings = [
            "--set=operator.source=web", f"--set=operator.view.url=unix:{view}", f"--set=safety.socket={self.socket}",
            "--set=controller.gate.timeout_s=10", "--set=controller.gate.requests_per_minute=20",
            "--set=controller.gate.labels_per_minute=20", "--set=controller.gate.stop_when_learnt=true"
        ]
        physics = f"{sys.executable} scripts/go2_motors.py --exact --lie --upright-after 2 --view {view}"
        self.robot = subprocess.Popen([lab, "unitree-robot", "--physics", physics], stdin=subprocess.PIPE,
                                      stdout=subprocess.DEVNULL, text=True)
        self.ended = threading.Event()
        self.watching = threading.Thread(target=self.watch)

    def __enter__(self) -> Self:
        self.watching.start()
        return self

    def __exit__(self, *_) -> None:
        self.ended.set()
        self.watching.join()
        self.robot.terminate()
        self.robot.wait()

    def watch(self) -> None:
        while not self.ended.wait(POLL_S):
            state = self.state()
            if state == "stopped":
                self.falls += 1
                self.ended.wait(GETS_UP_S)
                self.operate("reset")
            elif state == "disarmed":
                self.robot.stdin.write("L1+start 1.5\n")  # the remote control
                self.robot.stdin.flush()
                self.ended.wait(3)

    def state(self) -> str:
        """Returns the state of optibfm, "" before it runs."""
        answer = self.operate("status", "--json")
        return json.loads(answer)["state"] if answer else ""

    def operate(self, *command: str) -> str:
        done = subprocess.run([self.optibfm, *command, f"--socket={self.socket}"], check=False, capture_output=True,
                              text=True)
        return done.stdout if done.returncode == 0 else ""
