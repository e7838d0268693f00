"""Reads the CSV files of `optibfm-lab eval`, plain or compressed (xz), and groups rows into trials."""

import csv
import lzma
import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TextIO

COLUMNS = ["experiment", "env", "task", "bundle", "bfm_seed", "method", "params", "trial", "seed", "measure", "x",
           "value", "version", "model_hash", "protocol_hash"]
NUMBERS = {"bfm_seed": int, "trial": int, "seed": int, "x": float, "value": float}
Value = float | str


class ResultsError(Exception):
    """A file is damaged, or two files contradict each other."""


@dataclass
class Trial:
    """One run of a method.

    model: training seed and hash of the weights; version: the program's commit; curves: (x, y) of each
    measure, by x.
    """

    experiment: str
    env: str
    task: str
    method: str
    model: str
    params: dict[str, Value]
    number: int
    seed: int
    protocol: str
    bundle: str
    version: str
    curves: dict[str, list[tuple[float, float]]] = field(default_factory=dict)

    def has(self, wanted: dict[str, Value]) -> bool:
        """Reports whether the trial has these parameters. An absent parameter is 0."""
        return all(self.params.get(key, 0.0) == value for key, value in wanted.items())

    def column(self) -> tuple[str, str]:
        """Returns the task and the network."""
        return self.task, self.model


def read(paths: list[Path]) -> list[Trial]:
    """Reads results files. They may repeat rows, with the same value except for hz."""
    trials: dict[tuple, Trial] = {}
    seen: dict[tuple, tuple[float, str]] = {}
    for path in paths:
        for where, row in _rows(path):
            trial = _trial_of(row, trials, where)
            value, first = seen.setdefault((id(trial), row["measure"], row["x"]), (row["value"], where))
            if first == where:
                trial.curves.setdefault(row["measure"], []).append((row["x"], value))
            elif value != row["value"] and row["measure"] != "hz":
                raise ResultsError(f"{where}: {row['measure']}: {row['value']:g} here, {value:g} at {first}; "
                                   "the files are of different runs: keep one of them")
    for trial in trials.values():
        for curve in trial.curves.values():
            curve.sort()
    return [trials[key] for key in sorted(trials)]


def open_text(path: Path) -> TextIO:
    """Opens a CSV file, plain or compressed (xz)."""
    return (lzma.open if path.suffix == ".xz" else open)(path, "rt", newline="", encoding="utf-8")


def _rows(path: Path) -> Iterator[tuple[str, dict]]:
    """Yields the position (path:line) and the fields of each row."""
    with open_text(path) as file:
        reader = csv.reader(file)
        header = next(reader, [])
        if missing := [name for name in COLUMNS if name not in header]:
            raise ResultsError(f"{path}:1: missing column {', '.join(missing)} (found {','.join(header) or 'nothing'})")
        for fields in reader:
            where = f"{path}:{reader.line_num}"
            if len(fields) != len(header):
                raise ResultsError(f"{where}: want {len(header)} fields (found {len(fields)})")
            yield where, parse_numbers(dict(zip(header, fields)), NUMBERS, where)


def parse_numbers(row: dict, kinds: dict[str, type], where: str) -> dict:
    """Replaces the texts of some fields by finite numbers."""
    for name, kind in kinds.items():
        try:
            number = kind(row.get(name))
        except (TypeError, ValueError):
            number = math.nan
        if not math.isfinite(number):
            raise ResultsError(f'{where}: {name}: not a finite number (found "{row.get(name)}")')
        row[name] = number
    return row


def _trial_of(row: dict, trials: dict[tuple, Trial], where: str) -> Trial:
    names = [row[name] for name in ("experiment", "env", "task", "method")]
    if "" in [*names, row["measure"]]:
        raise ResultsError(f"{where}: empty experiment, env, task, method or measure")
    model = f"{row['bfm_seed']} {row['model_hash']}"
    key = (*names, row["params"], model, row["trial"])
    if key not in trials:
        trials[key] = Trial(*names, model, _params(row["params"], where), row["trial"], row["seed"],
                            row["protocol_hash"], row["bundle"], row["version"])
    trial = trials[key]
    if (trial.seed, trial.protocol) != (row["seed"], row["protocol_hash"]):
        raise ResultsError(f"{where}: trial {trial.number} of {trial.env} {trial.task} {trial.method} was also run "
                           "with another seed or protocol; keep one of the files")
    return trial


def _params(text: str, where: str) -> dict[str, Value]:
    """Parses "key=value;key=value"."""
    params: dict[str, Value] = {}
    for key, equals, value in (pair.partition("=") for pair in text.split(";") if text):
        if not key or not equals:
            raise ResultsError(f'{where}: params: want key=value, separated by semicolons (found "{text}")')
        try:
            params[key] = float(value)
        except ValueError:
            params[key] = value
    return dict(sorted(params.items()))
