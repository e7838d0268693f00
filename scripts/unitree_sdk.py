"""Is a Unitree robot on the loopback interface with Unitree's SDK for Python: a test of hal/unitree against other code.

    python3 unitree_sdk.py g1 --domain 7

Until its input ends it sends rt/lowstate with the checksum of the SDK, at most 500 times a second, reads rt/lowcmd, and
computes the SDK's checksum of each command. It prints the counts as a line of JSON, several times a second and at the
end. hal/unitree/TESTING.md has the installation of the SDK.
"""

from __future__ import annotations

import argparse
import json
import sys
import threading
import time
from typing import Any

from unitree_vectors import load_sdk

CONFIG = """<CycloneDDS><Domain Id="any"><General><Interfaces><NetworkInterface name="lo"/></Interfaces>
<AllowMulticast>false</AllowMulticast></General><Discovery><ParticipantIndex>auto</ParticipantIndex>
<MaxAutoParticipantIndex>32</MaxAutoParticipantIndex><Peers><Peer address="localhost"/></Peers></Discovery>
</Domain></CycloneDDS>"""


class Robot:
    """A robot that holds a pose. family: "go" (Go2) or "hg" (G1)."""

    def __init__(self, family: str, domain: int) -> None:
        self._messages, checksum = load_sdk()
        from unitree_sdk2py.core import channel, channel_config

        checksum.platform.system = lambda: "any"
        self._crc = checksum.CRC()
        channel_config.ChannelConfigHasInterface = channel.ChannelConfigHasInterface = CONFIG
        channel.ChannelFactoryInitialize(domain, "lo")
        self.counts = {"commands": 0, "sound": 0, "damping": 0, "states": 0}
        self._lock = threading.Lock()
        self.state = self._make(family, "LowState")
        command = type(self._make(family, "LowCmd"))
        self._publisher = channel.ChannelPublisher("rt/lowstate", type(self.state))
        self._publisher.Init()
        self._subscriber = channel.ChannelSubscriber("rt/lowcmd", command)
        self._subscriber.Init(self._take, 10)
        for i, motor in enumerate(self.state.motor_state):
            motor.q = -1.5 if family == "go" and i % 3 == 2 else 0.1
            motor.temperature = 30 if family == "go" else [30, 35]
        self.state.imu_state.quaternion = [1.0, 0.0, 0.0, 0.0]
        self.state.wireless_remote = [0x55, 0x51, *[0] * 38]
        if family == "hg":
            self.state.mode_machine = 5
        else:
            self.state.bms_state.soc = 80

    def _make(self, family: str, name: str) -> Any:
        return getattr(self._messages, f"unitree_{family}_msg_dds__{name}_")()

    def _take(self, command: Any) -> None:
        sound = self._crc.Crc(command) == command.crc
        with self._lock:
            self.counts["commands"] += 1
            self.counts["sound"] += sound
            self.counts["damping"] += command.motor_cmd[0].kp == 0 and command.motor_cmd[0].kd > 0

    def run(self, ended: threading.Event) -> None:
        shown = 0.0
        while not ended.is_set():
            self.state.tick += 2
            self.state.crc = self._crc.Crc(self.state)
            self._publisher.Write(self.state)
            with self._lock:
                self.counts["states"] += 1
            if time.monotonic() - shown > 0.2:
                shown = time.monotonic()
                self.show()
            time.sleep(0.002)
        self.show()

    def show(self) -> None:
        with self._lock:
            print(json.dumps(self.counts), flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description="Is a Unitree robot on the loopback interface with Unitree's SDK.")
    parser.add_argument("model", choices=("go2", "g1"))
    parser.add_argument("--domain", type=int, default=0)
    args = parser.parse_args()
    robot = Robot("go" if args.model == "go2" else "hg", args.domain)
    ended = threading.Event()
    threading.Thread(target=lambda: (sys.stdin.read(), ended.set()), daemon=True).start()
    robot.run(ended)


if __name__ == "__main__":
    main()
