"""Makes transitions for train_fb.py from bags of ROS 2 (sqlite3 or MCAP). Needs no ROS.

    pip install rosbags pyyaml numpy
    python3 collect_rosbag.py mapping.yaml drive-1 drive-2 --out transitions.npz

The mapping says which field of which topic is which channel:

    name: rover
    period_s: 0.05            # of a transition: loop.period_ms of the robot
    stale_s: 0.2              # a topic without a message for longer ends an episode (default: three periods)
    obs:
      - {name: x, topic: /odom, field: pose.pose.position.x, unit: m}
      - {name: knee, topic: /joint_states, field: "position[left_knee]", unit: rad}   # by the array name
      - {name: range, topic: /scan, field: "ranges[90]", scale: 0.1, offset: -1}      # scale * field + offset
    action:
      - {name: forward, topic: /cmd_vel, field: linear.x, min: -0.75, max: 0.75}      # becomes [-1, 1]

An observation is the newest message before the beginning of a period, by the times of the bag. An action is the mean
of the command over the period. Each bag, and each part after a gap, is an episode. Actions beyond min and max are
clipped; the program reports how many.
"""

from __future__ import annotations

import argparse
import json
import math
import re
import sys
from pathlib import Path

try:
    import numpy as np
    import yaml
    from rosbags.highlevel import AnyReader, AnyReaderError
    from rosbags.typesys import Stores, get_typestore
except ImportError as e:
    if __name__ != "__main__":
        raise
    sys.exit(f"collect_rosbag.py: {e}; pip install rosbags pyyaml numpy")

_FILE = {"name", "period_s", "stale_s", "obs", "action"}
_CHANNEL = {"name", "topic", "field", "unit", "scale", "offset"}
_STEP = re.compile(r"(\w+)(?:\[([^\[\]]+)\])?")  # of a field: a name, and an index or the name of an element


class Channel:
    """A channel of the robot, as a field of a topic."""

    def __init__(self, given: object, *, action: bool) -> None:
        keys = _CHANNEL | ({"min", "max"} if action else set())
        needed = ("name", "topic", "field", "min", "max") if action else ("name", "topic", "field")
        _check_keys(given, keys, needed, "a channel")
        self.name, self.topic, self.unit = str(given["name"]), str(given["topic"]), str(given.get("unit", ""))
        self.scale, self.offset = _number(given, "scale", 1.0), _number(given, "offset", 0.0)
        self.steps = [_STEP.fullmatch(step) for step in str(given["field"]).split(".")]
        if not all(self.steps):
            raise ValueError(
                f"{self.name}: field {given['field']!r} is not like pose.position.x or position[left_knee]")
        if action:
            low, high = _number(given, "min"), _number(given, "max")
            if not low < high:
                raise ValueError(f"{self.name}: min {low:g} is not below max {high:g}")
            self.scale, self.offset = 2 * self.scale / (high - low), (2 * self.offset - high - low) / (high - low)

    def read(self, message: object) -> float:
        """Returns the number in a message. Raises ValueError if it has none."""
        value = message
        for step in self.steps:
            name, index = step.groups()
            owner, value = value, getattr(value, name, None)
            if value is not None and index is not None:
                value = self._element(owner, value, index)
        if isinstance(value, bool) or not isinstance(value, (int, float, np.number, np.bool_)):
            raise ValueError(  # noqa: TRY004
                f"{self.name}: {self.topic} has no number at this field (found {type(value).__name__})")
        if not math.isfinite(number := self.scale * float(value) + self.offset):
            raise ValueError(f"{self.name}: {self.topic} has a number that is not finite ({value})")
        return number

    def _element(self, owner: object, values: object, index: str) -> object:
        if not index.isdigit():
            names = list(getattr(owner, "name", []))
            if index not in names:
                raise ValueError(
                    f"{self.name}: {self.topic} has no {index!r} (its names: {', '.join(map(str, names)) or 'none'})")
            index = names.index(index)
        if int(index) >= len(values):
            raise ValueError(f"{self.name}: {self.topic} has {len(values)} numbers, no number {index}")
        return values[int(index)]


class Mapping:
    """The channels of a robot and the period of its transitions, seconds."""

    def __init__(self, given: object) -> None:
        _check_keys(given, _FILE, ("name", "period_s", "obs", "action"), "the mapping")
        self.name, self.period = str(given["name"]), _number(given, "period_s")
        self.stale = _number(given, "stale_s", 3 * self.period)
        if not 0 < self.period <= 60 or self.stale < self.period:
            raise ValueError("period_s is 0 to 60, stale_s at least period_s")
        self.obs = [Channel(c, action=False) for c in given["obs"] or []]
        self.action = [Channel(c, action=True) for c in given["action"] or []]
        for kind, channels in (("obs", self.obs), ("action", self.action)):
            names = [c.name for c in channels]
            if not names or len(set(names)) < len(names):
                raise ValueError(f"{kind}: no channel, or two of one name ({', '.join(names)})")

    def robot(self) -> np.ndarray:
        """Returns the robot as train_fb.py reads it: the bytes of a JSON text."""
        text = {"name": self.name}
        for kind, channels in (("observation", self.obs), ("action", self.action)):
            text[kind] = [{"name": c.name, "unit": c.unit} for c in channels]
        return np.frombuffer(json.dumps(text).encode(), np.uint8).astype(np.int64)


def _check_keys(given: object, known: set[str], needed: tuple[str, ...], what: str) -> None:
    if not isinstance(given, dict):
        raise ValueError(f"{what}: not a mapping ({given!r})")  # noqa: TRY004  # the file is wrong, not the call
    if unknown := [str(key) for key in given if key not in known]:
        raise ValueError(f"{what}: unknown key {unknown[0]!r} (known: {', '.join(sorted(known))})")
    if missing := [key for key in needed if given.get(key) is None]:
        raise ValueError(f"{what}: no {missing[0]} ({given})")


def _number(given: dict, key: str, default: float | None = None) -> float:
    value = given.get(key, default)
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"{key}: not a number ({value!r})")
    return float(value)


class Series:
    """The numbers of the channels of one topic over time, ns."""

    def __init__(self, channels: list[Channel]) -> None:
        self.channels, self.times, self.rows = channels, [], []

    def add(self, at: int, message: object) -> None:
        self.times.append(at)
        self.rows.append([c.read(message) for c in self.channels])

    def finish(self, topic: str) -> None:
        if not self.times:
            raise ValueError(f"no message on {topic}")
        self.times, self.rows = np.array(self.times), np.array(self.rows)
        order = np.argsort(self.times, kind="stable")
        self.times, self.rows = self.times[order], self.rows[order]

    def newest(self, at: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the newest rows [n, channels] at times [n], and their ages [n], ns."""
        i = np.searchsorted(self.times, at, "right") - 1
        return self.rows[i], at - self.times[i]

    def mean(self, at: np.ndarray) -> np.ndarray:
        """Returns the means [n-1, channels] between times [n] of a command that holds until the next one."""
        lasts = np.diff(self.times, append=self.times[-1])[:, None]
        before = np.concatenate([np.zeros((1, self.rows.shape[1])), np.cumsum(self.rows * lasts, axis=0)])
        i = np.searchsorted(self.times, at, "right") - 1
        integral = before[i] + self.rows[i] * (at - self.times[i])[:, None]
        return np.diff(integral, axis=0) / np.diff(at)[:, None]


def transitions(mapping: Mapping, bag: Path) -> list[dict[str, np.ndarray]]:
    """Reads the episodes of a bag: obs [n, O], action [n, A] and next_obs [n, O] of each."""
    series: dict[str, Series] = {}
    for channel in (*mapping.obs, *mapping.action):
        series.setdefault(channel.topic, Series([])).channels.append(channel)
    with AnyReader([bag], default_typestore=get_typestore(Stores.ROS2_HUMBLE)) as reader:
        for connection, at, raw in reader.messages([c for c in reader.connections if c.topic in series]):
            series[connection.topic].add(at, reader.deserialize(raw, connection.msgtype))
    for topic, s in series.items():
        s.finish(topic)
    period = round(mapping.period * 1e9)
    times = np.arange(max(s.times[0] for s in series.values()), max(s.times[-1] for s in series.values()), period)
    obs, action = np.empty((len(times), len(mapping.obs))), np.empty((max(0, len(times) - 1), len(mapping.action)))
    fresh = np.ones(len(times), bool)
    for s in series.values():
        rows, ages = s.newest(times)
        fresh &= ages <= mapping.stale * 1e9
        means = s.mean(times)
        for i, channel in enumerate(s.channels):
            if channel in mapping.obs:
                obs[:, mapping.obs.index(channel)] = rows[:, i]
            else:
                action[:, mapping.action.index(channel)] = means[:, i]
    edges = np.flatnonzero(np.diff(np.concatenate([[0], fresh, [0]])))  # a run of fresh times is from one to the next
    return [{"obs": obs[a:b - 1], "action": action[a:b - 1], "next_obs": obs[a + 1:b]}
            for a, b in zip(edges[::2], edges[1::2]) if b - a > 1]


def collect(mapping: Mapping, bags: list[Path]) -> tuple[dict[str, np.ndarray], int]:
    """Returns the columns of all bags for train_fb.py, and the number of clipped actions."""
    episodes = []
    for bag in bags:
        try:
            episodes += transitions(mapping, bag)
        except (AnyReaderError, ValueError, OSError) as e:
            raise ValueError(f"{bag}: {e}") from e
    if not episodes:
        raise ValueError("no transition: topics come later than stale_s; raise it, or period_s")
    columns = {
        key: np.concatenate([e[key] for e in episodes]).astype(np.float32) for key in ("obs", "action", "next_obs")
    }
    columns["episode"] = np.repeat(np.arange(len(episodes)), [len(e["obs"]) for e in episodes])
    clipped = int((np.abs(columns["action"]) > 1 + 1e-6).any(axis=1).sum())
    columns["action"] = columns["action"].clip(-1, 1)
    columns["robot"] = mapping.robot()
    return columns, clipped


def main() -> None:
    parser = argparse.ArgumentParser(description="Makes transitions for train_fb.py from bags of ROS 2.")
    parser.add_argument("mapping", type=Path, help="YAML: which fields of which topics are the channels")
    parser.add_argument("bags", type=Path, nargs="+", metavar="BAG", help="folder of a bag")
    parser.add_argument("--out", type=Path, required=True, help="the .npz")
    args = parser.parse_args()
    if args.out.exists():
        sys.exit(f"collect_rosbag.py: {args.out} exists; give another file")
    try:
        columns, clipped = collect(Mapping(yaml.safe_load(args.mapping.read_text())), args.bags)
    except (ValueError, OSError, yaml.YAMLError) as e:
        sys.exit(f"collect_rosbag.py: {e}")
    np.savez(args.out, **columns)
    n = len(columns["episode"])
    print(f"{n} transitions in {columns['episode'][-1] + 1} episodes, {clipped} with a clipped action: {args.out}")


if __name__ == "__main__":
    main()
