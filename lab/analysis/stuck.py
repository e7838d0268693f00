"""Tells apart why plans of ucb fall short of the oracle, from rows of diagnose_every."""

import numpy as np

from .rows import Trial
from .samples import Results, number

SHORT = 0.8  # share of the oracle's return below which an episode falls short
HEAD = ["robot", "task", "α", "β", "share of the oracle", f"episodes below {SHORT}", "distance (mean)", "outside",
        "inside, lower score", "inside, higher score"]


def causes(results: Results, trials: list[Trial]) -> list[list[str]]:
    """Returns a row of texts for each task, reward and β: see HEAD. The last four columns are about the plans
    of episodes that fall short: the distance of z_r from ẑ in V, in β, and the shares of these plans with z_r
    outside the confidence set, inside with a score of at most that of the chosen z, and inside with a higher
    one."""
    groups: dict[tuple, list[Trial]] = {}
    for t in trials:
        if "task_distance" in t.curves:
            groups.setdefault((t.env, t.task, t.params["nonlinearity"], t.params["beta"]), []).append(t)
    rows = []
    for (env, task, alpha, beta), of in sorted(groups.items()):
        shares, plans = [], []
        for t in of:
            found = shares_of(results, t)
            shares += list(found)
            plans += [plan for plan in plans_of(t) if found[min(plan[0], len(found) - 1)] < SHORT]
        short = sum(share < SHORT for share in shares)
        rows.append([env, task, f"{alpha:g}", f"{beta:g}", f"{np.mean(shares):.2f}", f"{short} of {len(shares)}",
                     *_described(np.array([plan[1:] for plan in plans]))])
    return rows


def shares_of(results: Results, trial: Trial) -> np.ndarray:
    """Returns the return of each episode as a share of the oracle's mean."""
    oracle = np.mean([number(o, "return", {}) for o in results.oracle(trial)])
    return np.array([value for _, value in trial.curves["return"]]) / oracle


def plans_of(trial: Trial) -> list[tuple[int, float, float, float]]:
    """Returns episode (from 0), distance, score of z_r and of the chosen z of each plan."""
    steps = trial.curves["labels"][-1][0] / len(trial.curves["return"])
    of = [dict(trial.curves[measure]) for measure in ("task_distance", "task_score", "plan_score")]
    return [(int(x // steps), *(curve[x] for curve in of)) for x in sorted(set.intersection(*map(set, of)))]


def _described(plans: np.ndarray) -> list[str]:
    if not len(plans):
        return ["–"] * 4
    distance, task, chosen = plans.T
    inside, higher = distance <= 1, task > chosen
    return [f"{distance.mean():.1f}", *(f"{part.mean():.2f}" for part in (~inside, inside & ~higher, inside & higher))]
