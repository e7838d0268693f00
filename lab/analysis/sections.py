"""The tables' rows and columns and the figures' lines, as lab/experiments/results.yaml has them."""

from collections import defaultdict
from dataclasses import dataclass
from pathlib import Path

import yaml

from .estimates import Estimate
from .rows import ResultsError, Trial, Value
from .samples import NotRun, Results

METHODS = ["ucb", "thompson", "ucb_ep", "thompson_ep", "ucb_gradient", "ucb_sphere", "collected", "lola", "random",
           "oracle"]
WORDS = {"beta": "β = {}", "kappa": "κ = {}", "rho": "ρ = {}", "sigma": "σ = {}", "inaccuracy": "α = {}",
         "nonlinearity": "α = {}", "plan_age": "age of z {}", "labels_per_minute": "{} labels/min",
         "labels": "{} labels", "delay_s": "{} s late", "warm_start": "{} labels in advance",
         "gradient_steps": "gradient steps = {}", "replan_every": "{} steps per z",
         "bundle": "{}", "silence": "away {}", "mistakes": "mistaken {}", "levels": "{} buttons",
         "labels_bad": "bad = {}", "action_std": "actions ± {}", "by": "by {}"}
SECTION_KEYS = {"id", "title", "question", "experiments", "methods", "apart", "tables", "figure", "always"}
VIEW_KEYS = {"head", "rows", "columns", "across", "measure", "episodes", "steps", "methods"}


def load(path: Path, known: set[str], inner: str, known_inner: set[str]) -> list[dict]:
    """Reads a YAML list of mappings, whose key inner has mappings too. An unknown key is an error."""
    entries = yaml.safe_load(path.read_text(encoding="utf-8"))
    for entry in entries:
        if unknown := set(entry) - known | {key for each in entry.get(inner, []) for key in set(each) - known_inner}:
            raise ResultsError(f"{path}: {entry.get('id')}: unknown key {', '.join(sorted(unknown))}")
    return entries


def describe(params: dict[str, Value]) -> str:
    """Writes parameters for people: "β = 0.1, 1 s late"."""
    texts = {k: f"{v:g}" if isinstance(v, float) else v for k, v in params.items()}
    return ", ".join(WORDS.get(key, key + " = {}").format(text) for key, text in texts.items())


def value_of(trial: Trial, key: str) -> Value | None:
    """Returns what trials are grouped by: a column of the results, or a parameter."""
    if key == "network":
        return "seed " + trial.model.split()[0]
    return getattr(trial, key) if key in ("env", "task", "method", "bundle") else trial.params.get(key)


def order(value: Value | None) -> tuple:
    """Sorts absent values first, numbers by size, methods as METHODS."""
    if value is None or isinstance(value, float):
        return value is not None, value or 0.0
    return 2, METHODS.index(value) if value in METHODS else len(METHODS), value


def values_of(trials: list[Trial], key: str) -> list[Value]:
    return sorted({v for t in trials if (v := value_of(t, key)) is not None}, key=order)


@dataclass
class Row:
    """Trials of one line of a table or figure. keys: what tells it from others."""

    env: str
    method: str
    keys: dict[str, Value]
    trials: list[Trial]

    @property
    def label(self) -> str:
        return ", ".join(filter(None, [self.method, describe(self.keys)])).replace(", by", " by")

    def where(self, key: str, value: Value) -> "Row":
        """Returns the trials with a value."""
        trials = [t for t in self.trials if value_of(t, key) == value]
        return Row(self.env, self.method, {**self.keys, key: value}, trials)

    def estimate(self, results: Results, view: dict) -> tuple[Estimate, Estimate, int] | None:
        """Returns mean, interquartile mean, and the number of runs, None if nothing was run."""
        try:
            sample = results.sample(self.trials, view["measure"], view)
        except NotRun:
            return None
        part = [view.get(k) for k in ("measure", "episodes", "steps")]
        (mean,), (iqm,) = sample.mean_and_iqm(f"{self.trials[0].experiment} {self.env} {self.label} {part}")
        return mean, iqm, sample.matrices[0].seeds.size


def rows_of(results: Results, section: dict, view: dict) -> list[Row]:
    """Returns the rows of a table or the lines of a figure."""
    keys = [k for k in view.get("rows", []) if k != "method"]
    methods = view.get("methods", section.get("methods"))
    trials = [t for t in results.trials if t.experiment in section.get("experiments", [section["id"]])
              and (methods is None or t.method in methods)]
    grouped: dict[tuple, list[Trial]] = defaultdict(list)
    varied = {*keys, view.get("across"), view.get("x"), view.get("along")}
    for t in results.best(trials, varied, section.get("apart", ())):
        grouped[t.env, t.method, *(value_of(t, k) for k in keys)].append(t)
    rows = [Row(env, method, {k: v for k, v in zip(keys, values) if v is not None}, trials)
            for (env, method, *values), trials in grouped.items()]
    return sorted(rows, key=lambda r: (r.env, order(r.method), len(r.keys), [order(r.keys.get(k)) for k in keys]))
