"""Rounds of collect_rnd.py: one file for each, in which all copies make one episode; and robot.json, the channels."""

import json
import os
from pathlib import Path

import numpy as np


def path(folder: Path, k: int) -> Path:
    return folder / f"round-{k:04d}.npz"


def write(folder: Path, k: int, columns: dict[str, np.ndarray]) -> None:
    partial = folder / "round.partial"
    with partial.open("wb") as file:
        np.savez(file, **columns)
    os.replace(partial, path(folder, k))


def write_robot(folder: Path, name: str, observation: list[str], action: list[str]) -> None:
    """Writes the names of the robot and of its channels."""
    (folder / "robot.json").write_text(json.dumps({"name": name, "observation": observation, "action": action}) + "\n")


def robot(folder: Path) -> dict:
    """Returns the robot of a folder; {} if it is not recorded."""
    path = folder / "robot.json"
    return json.loads(path.read_text()) if path.exists() else {}


def read(folder: Path, k: int) -> dict[str, np.ndarray]:
    with np.load(path(folder, k)) as archive:
        return dict(archive)


def paths(folder: Path) -> list[Path]:
    """Returns the files of all complete rounds in order."""
    return sorted(folder.glob("round-*.npz"))


def transitions(files: list[Path]) -> dict[str, np.ndarray]:
    """Returns the valid transitions of rounds in columns, one row each, episode after episode.

    obs, action, next_obs and measure are float32 [n, width]; measure is missing if a round has none. episode [n]
    numbers the episodes.
    """
    parts = []
    for k, file in enumerate(files):
        with np.load(file) as archive:
            recorded = dict(archive)
        steps, copies = recorded["valid"].shape
        columns = {
            "obs": recorded["obs"][:-1],
            "action": recorded["action"] / np.float32(127),
            "next_obs": recorded["obs"][1:],
            "episode": np.broadcast_to(k * copies + np.arange(copies, dtype=np.int32), (steps, copies)),
        }
        if "measure" in recorded:
            columns["measure"] = recorded["measure"]
        valid = recorded["valid"].T
        parts.append({name: column.swapaxes(0, 1)[valid] for name, column in columns.items()})
    names = set.intersection(*(set(part) for part in parts))
    return {
        name: np.concatenate([part[name] for part in parts]).astype(np.int32 if name == "episode" else np.float32)
        for name in names
    }


def measured(folder: Path) -> dict[str, np.ndarray]:
    """Returns the transitions of a folder's rounds, with measures."""
    columns = transitions(paths(folder)) if paths(folder) else {}
    if "measure" not in columns:
        raise SystemExit(f"{folder}: has no rounds with measures; give a folder of collect_rnd.py")
    return columns
