"""The tables and the figure about announcements of a learnt task and about changed tasks."""

import math
from collections import defaultdict
from collections.abc import Iterator

import matplotlib.pyplot as plt
import numpy as np
from scipy import stats

from .figures import DASHES, GUIDE, LOOKS, STYLE, WIDTH, svg
from .rows import ResultsError, Trial
from .sections import describe

LEARNT = 0.8  # share of the oracle's return
SETTINGS = ("sigma", "stop_when_learnt", "preset")  # that all trials share


class Shares:
    """The returns of trials in units of the oracle's mean return for a task of a robot."""

    def __init__(self, trials: list[Trial]):
        returns = defaultdict(list)
        self.same: dict[tuple, list[float]] = {}  # returns of the oracle from the same starts
        for t in trials:
            if t.method == "oracle":
                returns[t.env, t.model, t.task] += _values(t, "return")
                self.same[t.env, t.model, t.task, t.seed] = _values(t, "return")
        self.oracle = {key: np.mean(values) for key, values in returns.items()}

    def of(self, t: Trial, task: str = "") -> np.ndarray:
        """Returns the share of each episode, [episodes]."""
        key = t.env, t.model, task or t.task
        if key not in self.oracle:
            raise ResultsError(f"{t.experiment}: {t.env}: {key[2]}: no trial of the oracle; add the method oracle")
        return np.array(_values(t, "return")) / self.oracle[key]

    def after(self, t: Trial, step: float) -> float | None:
        """Returns the share of the episodes that begin after a step, None without one: of the oracle's return in the
        same episodes or, without these, of its mean."""
        own, first = _values(t, "return"), math.ceil(step / _steps(t))
        same = self.same.get((t.env, t.model, t.task, t.seed), [])[first:len(own)]
        if not own[first:]:
            return None
        if len(same) == len(own) - first and sum(same) > 0:
            return sum(own[first:]) / sum(same)
        return self.of(t)[first:].mean()


def announcements(trials: list[Trial]) -> list[list[str]]:
    """Returns a row of texts for each robot and combination of settings: see HEAD_LEARNT."""
    shares, rows = Shares(trials), []
    for robot, settings, of in _by_robot(trials):
        first = {id(t): _labels(t, x) for t, x in reversed(_announced(of))}
        rows.append([robot, len(of[0].curves["return"]), settings, *_right_and_wrong(shares, of),
                     f"{np.median(list(first.values())):.0f}" if first else "–"])
    return rows


COUNTS = ["runs", f"runs that reach {LEARNT}", "of these announced", "announcements", "of these wrong"]
HEAD_LEARNT = ["robot", "episodes", "labels", *COUNTS, "labels at the first (median)"]


def announcements_of_tasks(trials: list[Trial]) -> list[list[str]]:
    """Returns a row of texts for each task of a robot, of all its networks and settings: see HEAD_TASKS."""
    shares, groups = Shares(trials), defaultdict(list)
    for t in trials:
        groups[t.env, t.task].append(t)
    rows = []
    for (robot, task), of in sorted(groups.items()):
        reward = np.mean([np.mean(_values(t, "return")) / _steps(t) for t in of if t.method == "oracle"])
        rows.append([robot, task, f"{reward:.2f}", *_right_and_wrong(shares, [t for t in of if t.method != "oracle"])])
    return rows


HEAD_TASKS = ["robot", "task", "oracle's mean reward", *COUNTS]


def _announced(trials: list[Trial]) -> list[tuple[Trial, float]]:
    """Returns trial and step of each announcement."""
    return [(t, x) for t in trials for x, value in t.curves.get("learnt", []) if value == 1]


def _right_and_wrong(shares: Shares, of: list[Trial]) -> list[int]:
    """Returns COUNTS."""
    reached = {id(t): shares.of(t)[-(len(t.curves["return"]) // 4 or 1):].mean() >= LEARNT for t in of}
    announced = _announced(of)
    later = [share for t, x in announced if (share := shares.after(t, x)) is not None]
    return [len(of), sum(reached.values()), sum(reached[key] for key in {id(t) for t, _ in announced}), len(later),
            sum(share < LEARNT for share in later)]


def changes(trials: list[Trial], oracles: list[Trial], becomes: dict[str, str]) -> list[list[str]]:
    """Returns a row of texts for each task and combination of settings: see HEAD_CHANGES. The task becomes another
    after half of the episodes."""
    shares, rows = Shares(oracles), []
    for settings, of_settings in _by_settings(trials):
        for task in sorted({t.task for t in of_settings}):
            of = [t for t in of_settings if t.task == task]
            first = [_until_learnt(t, shares.of(t), 0) for t in of]
            second = [_until_learnt(t, shares.of(t, becomes[t.env]), len(t.curves["return"]) // 2) for t in of]
            last = np.mean([shares.of(t, becomes[t.env])[-1] for t in of])
            tasks = f"{task}, {becomes[of[0].env]}"
            rows.append([settings, tasks, len(of), *_summary(first), *_summary(second), f"{last:.2f}"])
    return rows


HEAD_CHANGES = ["labels", "tasks", "runs", f"first task: reach {LEARNT}", "labels (mean)",
                f"second task: reach {LEARNT}", "labels (mean)", "share in the last episode"]


def calls(trials: list[Trial]) -> list[list[str]]:
    """Returns a row of texts for each robot and combination of settings, and one for all: see HEAD_CALLS. The task
    never changes."""
    rows = [[robot, settings, len(of), sum("changed" in t.curves for t in of)]
            for robot, settings, of in _by_robot(trials)]
    runs, called = (sum(column) for column in list(zip(*rows))[2:])
    limit = stats.beta.ppf(0.975, called + 1, runs - called) if called < runs else 1  # Clopper & Pearson (1934)
    return [*rows, ["all", "", runs, f"{called} ({called / runs:.1%}, at most {limit:.1%})"]]


HEAD_CALLS = ["robot", "labels", "runs", "runs that call a change"]
WELL = 0.4  # skill, less its standard error, from which the page says "predicts you well"


def minutes(trials: list[Trial], of: int = 10) -> list[list[str]]:
    """Returns a row of texts for each robot, combination of settings and minute of trials that last so many: what the
    page says at its end, and the share of its last episode. See HEAD_MINUTES."""
    shares, rows = Shares(trials), []
    for robot, settings, runs in _by_robot(trials):
        for minute in range(1, of + 1):
            said = [_said(t, shares.of(t), minute / of) for t in runs]
            learnt = [share for *_, share, announced in said if announced]
            bounds = [(low, high) for skill, low, high, *_ in said if skill > 0 and high > 0]
            rows.append([
                robot, settings, minute, sum(s[0] <= 0 for s in said), sum(0 < s[0] < WELL for s in said),
                sum(s[0] >= WELL for s in said),
                "{:.2f} to {:.2f}".format(*np.mean(bounds, axis=0)) if bounds else "–",
                f"{np.mean([s[3] for s in said]):.2f}", len(learnt), sum(share < LEARNT for share in learnt)])
    return rows


HEAD_MINUTES = ["robot", "labels", "minute", "no better than guessing", "better than guessing", "predicts you well",
                "reaches (mean bounds)", "true share", "learnt", "of these wrong"]


def _said(t: Trial, share: np.ndarray, part: float) -> tuple[float, float, float, float, bool]:
    """Returns skill and bounds that the page shows after a part of a trial, the share of that episode, and whether the
    page says that the task is learnt."""
    episode = round(part * len(share)) - 1

    def newest(measure: str, until: float) -> float:
        return max(((x, value) for x, value in t.curves.get(measure, []) if x <= until), default=(0, 0))[1]

    announced = newest("learnt", (episode + 1) * _steps(t)) == 1
    return *(newest(m, episode) for m in ("skill", "known", "known_high")), share[episode], announced


def draw(trials: list[Trial]) -> bytes | None:
    """Draws the share of each episode against the appraisal at the end of the previous one. Returns None without
    appraisals."""
    shares = Shares(trials)
    with plt.rc_context(STYLE):
        figure, ax = plt.subplots(figsize=(WIDTH * 0.75, 3.6))
        for at, (settings, of) in enumerate(_by_settings(trials)):
            bins = [(np.mean(x), y) for low in np.arange(0, 1, 0.1) if (pairs := _pairs(shares, of, low))
                    for x, y in [zip(*pairs)] if len(x) >= 3]
            if not bins:
                continue
            side = [stats.sem(y) * stats.t.ppf(0.975, len(y) - 1) for _, y in bins]
            colour, marker = list(LOOKS.values())[at]
            ax.errorbar([x for x, _ in bins], [np.mean(y) for _, y in bins], side, color=colour, marker=marker,
                        linestyle=DASHES[at], label=settings or "exact")
        if not ax.containers:
            return plt.close(figure)
        ax.plot([0, 1], [0, 1], **GUIDE, label="equal")
        ax.set(xlabel="appraisal: lower bound of the share", ylabel="share in the next episode (mean)", ylim=(0, 1.3))
        figure.legend(loc="outside upper center")
        return svg(figure)


def _pairs(shares: Shares, trials: list[Trial], low: float) -> list[tuple[float, float]]:
    """Returns, of each trial with appraisals in a tenth from low, their mean and that of the next episodes' shares."""
    pairs = []
    for t in trials:
        share = shares.of(t)
        found = [(known, share[int(e) + 1]) for e, known in t.curves.get("known", [])
                 if int(e) + 1 < len(share) and low <= known < low + 0.1 + (low > 0.85)]
        if found:
            pairs.append(tuple(np.mean(found, axis=0)))
    return pairs


def _by_settings(trials: list[Trial]) -> Iterator[tuple[str, list[Trial]]]:
    groups = defaultdict(list)
    for t in trials:
        if t.method != "oracle":
            groups[describe({k: v for k, v in t.params.items() if k not in SETTINGS})].append(t)
    yield from sorted(groups.items(), key=lambda item: len(item[0]))


def _by_robot(trials: list[Trial]) -> list[tuple[str, str, list[Trial]]]:
    """Returns robot, settings and trials of each combination, by robot."""
    groups = [(t[0].env, settings, t) for settings, of in _by_settings(trials)
              for robot in sorted({t.env for t in of}) if (t := [t for t in of if t.env == robot])]
    return sorted(groups, key=lambda group: group[0])


def _values(t: Trial, measure: str) -> list[float]:
    return [value for _, value in t.curves[measure]]


def _steps(t: Trial) -> float:
    """Returns the steps of an episode."""
    return t.curves["labels"][-1][0] / len(t.curves["return"])


def _labels(t: Trial, step: float) -> float:
    """Returns the labels used up to a step."""
    return max((value for x, value in t.curves["labels"] if x <= step), default=0)


def _until_learnt(t: Trial, share: np.ndarray, since: int) -> tuple[bool, float]:
    """Returns whether an episode since one reaches LEARNT, among half of the trial's, and the labels used until
    then."""
    until = since + len(share) // 2
    reached = np.flatnonzero(share[since:until] >= LEARNT)
    end = since + reached[0] + 1 if reached.size else until
    return bool(reached.size), _labels(t, end * _steps(t)) - _labels(t, since * _steps(t))


def _summary(found: list[tuple[bool, float]]) -> tuple[int, str]:
    return sum(reached for reached, _ in found), f"{np.mean([labels for _, labels in found]):.0f}"
