"""Point estimates with 95 % intervals: the stratified bootstrap of rliable, widened for few runs.

One call of the statistic computes BATCH draws; rliable's calls compute one.

Percentiles of a bootstrap over 3 to 5 runs cover the truth in 70 to 90 % of cases, not in 95 %. So an interval is
widened about its estimate by sqrt(n / (n - 1)) (Rao and Wu, 1988) and by the ratio of Student's t to the normal
quantile, with Satterthwaite's degrees of freedom. The variance of each task comes from the jackknife.
"""

import zlib
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from scipy import stats
from statsmodels.stats.multitest import multipletests

REPS = 2000
BATCH = 100  # draws at a time, which bounds the memory
GROUPS = 30  # of runs, at most, that the jackknife leaves out: its time grows with their square
CONFIDENCE = 0.95
TAIL = (1 - CONFIDENCE) / 2


@dataclass
class Runs:
    """Scores of runs. values: [runs, columns, points]; seeds: [runs, columns]; a column is a task with a model."""

    values: np.ndarray
    seeds: np.ndarray


@dataclass
class Estimate:
    """A number with its interval, NaN where unknown. freedom: of the interval; runs: of each task."""

    value: float
    low: float
    high: float
    freedom: float
    runs: int

    @property
    def known(self) -> bool:
        return bool(np.isfinite(self.high - self.low))

    def p_values(self, bound: float) -> tuple[float, float]:
        """Returns one-sided p-values of "above the bound" and "below the bound", consistent with the interval."""
        distance = self.value - bound
        side = self.value - self.low if distance > 0 else self.high - self.value
        if not self.known or side == distance == 0:
            return 1.0, 1.0
        scale = side / stats.t.ppf(1 - TAIL, self.freedom)
        above = float(stats.t.sf(distance / scale, self.freedom)) if scale > 0 else float(distance < 0)
        return above, 1 - above

    def required_runs(self, bound: float, most: int = 1000) -> int | None:
        """Returns how many runs of a task would decide if they were like these, None beyond most."""
        distance = abs(self.value - bound)
        side = self.value - self.low if self.value > bound else self.high - self.value
        needed = self.runs * (side / distance) ** 2 if distance > 0 else np.inf
        return int(np.ceil(needed)) if needed <= most else None


def holm(p: list[float]) -> list[float]:
    return list(multipletests(p, method="holm")[1])


def means(values: np.ndarray) -> np.ndarray:
    """Returns the mean over runs and columns, [..., points]. values: [..., runs, columns, points]."""
    return values.mean(axis=(-3, -2))


def interquartile_means(values: np.ndarray) -> np.ndarray:
    """Returns rliable's interquartile mean, over runs and columns together, as [means] does."""
    *draws, runs, columns, points = values.shape
    ordered = np.sort(values.reshape(*draws, runs * columns, points), axis=-2)
    cut = runs * columns // 4
    return ordered[..., cut:runs * columns - cut, :].mean(axis=-2)


def estimate(name: str, runs: list[Runs], tasks: list[int], statistic: Callable) -> list[Estimate]:
    """Estimates each component of statistic(*values), which returns [..., components] for values
    [..., runs, columns, points].

    tasks numbers the task of each column. Runs with equal seeds met the same initial states: they are drawn together.
    The name decides the random numbers.
    """
    blocks: list[np.ndarray] = []
    for each in runs:
        if not any(np.array_equal(each.seeds, seeds) for seeds in blocks):
            blocks.append(each.seeds)
    block_of = [next(i for i, s in enumerate(blocks) if np.array_equal(each.seeds, s)) for each in runs]
    columns = np.arange(len(tasks))

    def drawn(*chosen: np.ndarray) -> np.ndarray:
        return statistic(*(each.values[chosen[b][..., tasks], columns] for each, b in zip(runs, block_of)))

    width = max(tasks) + 1
    whole = [np.repeat(np.arange(len(seeds))[:, None], width, axis=1) for seeds in blocks]
    value = drawn(*whole)
    fewest, own = min(len(seeds) for seeds in blocks), len(runs[0].seeds)
    if fewest < 2:
        return [Estimate(float(v), np.nan, np.nan, np.nan, own) for v in value]
    rng = np.random.default_rng(zlib.crc32(name.encode()))
    with np.errstate(all="ignore"):
        draws = [drawn(*(rng.integers(len(runs), size=(BATCH, *runs.shape)) for runs in whole))
                 for _ in range(0, REPS, BATCH)]
        freedom = _freedom(whole, drawn)
    low, high = np.quantile(np.concatenate(draws), [TAIL, 1 - TAIL], axis=0)
    wider = np.sqrt(fewest / (fewest - 1)) * stats.t.ppf(1 - TAIL, freedom) / stats.norm.ppf(1 - TAIL)
    ends = zip(value, value - wider * (value - low), value + wider * (high - value), freedom)
    return [Estimate(*map(float, end), own) for end in ends]


def _freedom(whole: list[np.ndarray], drawn: Callable) -> np.ndarray:
    """Returns Satterthwaite's degrees of freedom of each component."""
    variances, own = [], []
    for b, all_runs in enumerate(whole):
        n = min(len(all_runs), GROUPS)
        kept = np.arange(len(all_runs) // n * n).reshape(n, -1)
        for task in range(all_runs.shape[1]):
            chosen = [np.tile(runs, (n, 1, 1)) for runs in whole]
            chosen[b] = np.tile(all_runs[:kept.size], (n, n - 1, 1))  # a group left out: [n, runs (n - 1), width]
            chosen[b][:, :, task] = [np.tile(np.delete(kept, group, axis=0).ravel(), n) for group in range(n)]
            variances.append(np.var(drawn(*chosen), axis=0) * (n - 1))
            own.append(n - 1)
    v, own = np.array(variances), np.array(own)[:, None]
    weighted = (v**2 / own).sum(axis=0)
    return np.where(weighted > 0, v.sum(axis=0) ** 2 / np.where(weighted > 0, weighted, 1), own.min())
