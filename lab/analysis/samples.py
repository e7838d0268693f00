"""Chooses trials and makes matrices of their scores: hyper-parameters, the oracle's share, parts of a trial.

A view is a mapping of claims.yaml or results.yaml. Its episodes (first and last, from 1) and steps (first and last)
say which part of a trial counts.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Collection
from dataclasses import dataclass

import numpy as np

from .estimates import Estimate, Runs, estimate, interquartile_means, means
from .rows import Trial

MEASURES = {  # name: measure of the rows, label of an axis
    "share": ("return", "return / oracle's"), "return": ("return", "return of an episode"),
    "success": ("success", "share of episodes with a return above 0"),
    "reward": ("reward", "mean reward per step"), "labels": ("labels", "labels used"),
    "hz": ("hz", "decisions per second")}


class NotRun(Exception):
    """The results have no trials of a part."""


def part(trial: Trial, measure: str, view: dict) -> list[tuple[float, float]]:
    """Returns the part of a trial's curve that a view shows. used: up to the step at which so many labels were used."""
    if measure in ("return", "success"):
        first, last = view.get("episodes", (1, math.inf))
        curve = [(x, y) for x, y in trial.curves.get("return", []) if first - 1 <= x <= last - 1]
        return curve if measure == "return" else [(x, float(y > 0)) for x, y in curve]
    last = view.get("steps", (0, math.inf))[1]
    if "used" in view:
        last = min([x for x, used in trial.curves.get("labels", []) if used >= view["used"]], default=last)
    return [(x, y) for x, y in trial.curves.get(measure, []) if x <= last]


def number(trial: Trial, measure: str, view: dict) -> float | None:
    """Returns one number of a trial, None if it has none or ended before the first of the steps."""
    curve = part(trial, measure, view)
    if not curve or (measure not in ("return", "success") and curve[-1][0] < view.get("steps", (0, math.inf))[0]):
        return None
    if measure == "labels":
        return curve[-1][1]
    if measure == "reward":
        return _gain(curve, view["change_at"]) if "change_at" in view else _mean_reward(curve)
    return sum(y for _, y in curve) / len(curve)


def _mean_reward(curve: list[tuple[float, float]], since: float = 0) -> float:
    """Returns the mean over the steps from one on, of rows that each hold the mean since the row before."""
    return sum(y * (x - before)
               for (x, y), before in zip(curve, [since] + [x for x, _ in curve])) / (curve[-1][0] - since)


def _gain(curve: list[tuple[float, float]], step: float) -> float | None:
    """Returns the mean reward after a step less that before, None without a row at the step or without later ones."""
    before, after = [row for row in curve if row[0] <= step], [row for row in curve if row[0] > step]
    if not before or before[-1][0] != step or not after:
        return None
    return _mean_reward(after, step) - _mean_reward(before)


class Results:
    """All trials, with the oracle's beside them. notes collects the omissions."""

    def __init__(self, trials: list[Trial]) -> None:
        self.trials = trials
        self.notes: set[str] = set()
        self._oracles: dict[tuple, list[Trial]] = defaultdict(list)
        self._chosen: dict[tuple, list[Trial]] = {}
        for trial in trials:
            if trial.method == "oracle" and "return" in trial.curves:
                self._oracles[_reward_of(trial)].append(trial)

    def oracle(self, trial: Trial) -> list[Trial]:
        """Returns the oracle's trials with the same model, task and reward: those with the most labels, then those of
        the same experiment, of the main comparison, of any. None if their mean return is not positive."""
        key = trial.experiment, _reward_of(trial)
        if key not in self._chosen:
            self._chosen[key] = self._choose(trial)
        return self._chosen[key]

    def _choose(self, trial: Trial) -> list[Trial]:
        def rank(t: Trial) -> tuple:
            return (-float(t.params.get("labels", 50_000)), t.experiment != trial.experiment, t.experiment != "main",
                    t.experiment)

        candidates = self._oracles[_reward_of(trial)]
        best = min(map(rank, candidates), default=None)
        found = [t for t in candidates if rank(t) == best]
        return found if sum(number(t, "return", {}) for t in found) > 0 else []

    def best(self, trials: list[Trial], varied: Collection[str], apart: Collection[str] = ()) -> list[Trial]:
        """Keeps, of each method in each environment, the hyper-parameters with the highest mean over all that was
        varied on purpose, of those that were tried most widely. Each value of apart has its own hyper-parameters."""
        groups: dict[tuple, dict[str, list[Trial]]] = defaultdict(lambda: defaultdict(list))
        for t in trials:
            setting = str([(k, v) for k, v in t.params.items() if k not in varied and k not in apart])
            group = (t.experiment, t.env, t.method, *(t.params.get(k) for k in ("by", *apart)))
            groups[group][setting].append(t)
        kept = []
        for settings in groups.values():
            candidates = [settings[setting] for setting in sorted(settings)]
            kept += max(candidates, key=lambda c: self._merit(c, varied)) if len(candidates) > 1 else candidates[0]
        return kept

    def _merit(self, trials: list[Trial], varied: Collection[str]) -> tuple[int, float]:
        """Returns in how many conditions trials were run, and their mean."""
        conditions = {(t.column(), *(t.params.get(k) for k in varied)) for t in trials}
        for measure in ("share", "return", "reward"):
            try:
                return len(conditions), float(means(self.sample(trials, measure, {}).values)[0])
            except NotRun:
                continue
        return len(conditions), -math.inf

    def sample(self, trials: list[Trial], measure: str, view: dict, points: Callable | None = None) -> "Sample":
        """Makes the matrix of a measure. points(trial) returns several numbers in place of the view's one."""
        of_rows = MEASURES[measure][0]
        found: dict[tuple, list] = defaultdict(list)
        oracles: dict[tuple, list[Trial]] = {}
        for t in trials:
            numbers = points(t) if points else [value] if (value := number(t, of_rows, view)) is not None else None
            oracle = self.oracle(t) if measure == "share" else []
            if numbers is not None and (oracle or measure != "share"):
                found[t.column()].append((t.seed, numbers))
                oracles[t.column()] = oracle
        if not found:
            raise NotRun(f"no {MEASURES[measure][1]}")
        columns, where = sorted(found), f"{trials[0].experiment}, {trials[0].env}, {trials[0].method}"
        matrices = [self._matrix([found[c] for c in columns], where)]
        if measure == "share":
            of_oracle = [[(o.seed, [number(o, of_rows, {})]) for o in oracles[c]] for c in columns]
            matrices.append(self._matrix(of_oracle, where))
        return Sample(columns, matrices)

    def _matrix(self, columns: list[list[tuple[int, list[float]]]], where: str) -> Runs:
        """Makes a matrix of columns, cut to the shortest."""
        fewest, most = min(map(len, columns)), max(map(len, columns))
        if fewest < most:
            self.notes.add(f"{where}: {fewest} to {most} runs of a task; the first {fewest} count.")
        cut = [sorted(column)[:fewest] for column in columns]
        return Runs(np.array([[numbers for _, numbers in column] for column in cut], dtype=float).swapaxes(0, 1),
                    np.array([[seed for seed, _ in column] for column in cut]).T)


def _reward_of(trial: Trial) -> tuple:
    return trial.env, *trial.column(), trial.params.get("nonlinearity")


@dataclass
class Sample:
    """Scores of trials. columns: task and model; matrices: of the method and, if it is shared, of the oracle."""

    columns: list[tuple[str, str]]
    matrices: list[Runs]
    weights: np.ndarray | None = None  # of the points, [points]

    @classmethod
    def area(cls, samples: list["Sample"], x: list[float]) -> "Sample":
        """Joins samples of the same columns, each of one point at x: their mean is the area over log x, divided by the
        width. Runs that some sample lacks are left out."""
        first = samples[0]
        fewest = min(len(s.matrices[0].seeds) for s in samples)
        seeds = first.matrices[0].seeds[:fewest]
        if any(s.columns != first.columns or not np.array_equal(s.matrices[0].seeds[:fewest], seeds) for s in samples):
            raise NotRun("the same runs at each point")
        steps = np.diff(np.log(x))
        weights = (np.append(steps, 0) + np.insert(steps, 0, 0)) / (2 * steps.sum())
        values = np.concatenate([s.matrices[0].values[:fewest] for s in samples], axis=-1)
        return cls(first.columns, [Runs(values, seeds), *first.matrices[1:]], weights)

    @property
    def values(self) -> np.ndarray:
        return _normalised(*(m.values for m in self.matrices))

    @property
    def tasks(self) -> list[int]:
        names = sorted({task for task, _ in self.columns})
        return [names.index(task) for task, _ in self.columns]

    def mean_and_iqm(self, name: str) -> tuple[list[Estimate], list[Estimate]]:
        """Estimates the mean and the interquartile mean at each point."""
        def both(*drawn: np.ndarray) -> np.ndarray:
            scores = _normalised(*drawn)
            return np.concatenate([means(scores), interquartile_means(scores)], axis=-1)

        estimates = estimate(name, self.matrices, self.tasks, both)
        return estimates[:len(estimates) // 2], estimates[len(estimates) // 2:]

    def compare(self, other: "Sample", ratio: bool, name: str) -> Estimate:
        """Estimates the mean less, or over, another's of the same columns."""
        own = len(self.matrices)

        def compared(*drawn: np.ndarray) -> np.ndarray:
            mine, theirs = self._mean(drawn[:own]), other._mean(drawn[own:])
            return mine / theirs if ratio else mine - theirs

        return estimate(name, self.matrices + other.matrices, self.tasks, compared)[0]

    def _mean(self, drawn: tuple[np.ndarray, ...]) -> np.ndarray:
        by_point = means(_normalised(*drawn))
        return by_point if self.weights is None else (by_point * self.weights).sum(axis=-1, keepdims=True)


def _normalised(values: np.ndarray, oracle: np.ndarray | None = None) -> np.ndarray:
    return values if oracle is None else values / oracle.mean(axis=-3, keepdims=True)
