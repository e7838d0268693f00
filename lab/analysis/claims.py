"""Judges the claims of lab/experiments/claims.yaml, robot by robot."""

import math
from dataclasses import dataclass, field
from pathlib import Path

from .estimates import CONFIDENCE, TAIL, Estimate, holm
from .rows import ResultsError, Trial, Value
from .samples import MEASURES, NotRun, Results, Sample
from .sections import describe, load

CLAIM_KEYS = {"id", "source", "claim", "why", "experiment", "robots", "hardware", "where", "sweep", "apart", "checks",
              "bound_from"}
CHECK_KEYS = {"of", "minus", "over", "measure", "each", "area", "episodes", "steps", "used", "change_at", "at_least",
              "at_most", "bound_from"}
Quantity = tuple[str, dict[str, Value]]  # method and parameters


@dataclass
class Finding:
    """One check on one robot. holds and fails: one-sided p-values."""

    text: str
    estimate: Estimate
    spec: dict
    holds: float = field(init=False)
    fails: float = field(init=False)

    def __post_init__(self) -> None:
        above, below = self.estimate.p_values(self.bound)
        self.holds, self.fails = (below, above) if "at_most" in self.spec else (above, below)

    @property
    def bound(self) -> float:
        return self.spec.get("at_least", self.spec.get("at_most"))


@dataclass
class Judgement:
    """A claim on one robot. finding: the check that decides; stands: also where all claims are judged together."""

    claim: dict
    env: str
    holds: float = 1.0
    fails: float = 1.0
    finding: Finding | None = None
    notes: list[str] = field(default_factory=list)
    stands: bool = False

    @property
    def verdict(self) -> str:
        if self.finding is None:
            return "no rows"
        if "hardware" in self.claim:  # no row is of other hardware than a CPU
            return "undecided"
        return "holds" if self.holds <= TAIL else "does not hold" if self.fails <= TAIL else "undecided"


def read(path: Path) -> list[dict]:
    """Reads and checks claims."""
    claims = load(path, CLAIM_KEYS, "checks", CHECK_KEYS)
    for claim in claims:
        for spec in claim["checks"]:
            spec.setdefault("bound_from", claim.get("bound_from"))
            if spec.get("each", "task") not in ("task", "network") or ("area" in spec) > (
                "minus" in spec or "over" in spec
            ):
                raise ResultsError(f"{path}: {claim['id']}: want each: task or network, and area with minus or over "
                                   f"(found {spec})")
            if ("at_least" in spec) == ("at_most" in spec) or spec["bound_from"] not in ("paper", "ours"):
                raise ResultsError(f"{path}: {claim['id']}: want at_least or at_most, and bound_from: paper or ours "
                                   f"(found {spec})")
    return claims


def judge_all(results: Results, claims: list[dict], protocols: dict[str, dict[str, list[str]]]) -> list[Judgement]:
    """Judges every claim on every robot of its protocol or of its trials. protocols: tasks by experiment and robot."""
    judgements = []
    for claim in claims:
        planned = protocols.get(claim["experiment"], {})
        run = {t.env for t in results.trials if t.experiment == claim["experiment"]}
        envs = sorted((run | set(planned)) & set(claim.get("robots", run | set(planned))))
        judgements += [judge(results, claim, env, planned.get(env, [])) for env in envs]
    judged = [j for j in judgements if j.finding and "hardware" not in j.claim]
    together = holm([min(1.0, 2 * min(j.holds, j.fails)) for j in judged])
    for judgement, p in zip(judged, together):
        judgement.stands = judgement.verdict != "undecided" and p <= 1 - CONFIDENCE
    return judgements


def judge(results: Results, claim: dict, env: str, tasks: list[str]) -> Judgement:
    """Judges a claim: all checks must hold, for every value of its sweep or for one of them (any)."""
    judgement, sweep = Judgement(claim, env), claim.get("sweep", {})
    trials = [t for t in results.trials if (t.experiment, t.env) == (claim["experiment"], env)]
    checks = _expand(claim, {t.method for t in trials}, judgement.notes)
    trials = _common(trials, checks, judgement.notes)
    if missing := sorted(set(tasks) - {t.task for t in trials}):
        judgement.notes.append("not run: " + ", ".join(missing))
    where = _numbers(claim.get("where", {}))
    varied = {sweep.get("key"), *where, *(spec.get("area") for *_, spec in checks)}.union(
        *(params for check in checks for _, params in check[:2])
    )
    best = results.best(trials, varied, claim.get("apart", ()))
    found = {}
    for value in _swept(sweep, where, checks, trials) if sweep else [None]:
        swept = {} if value is None else {sweep["key"]: value}
        try:
            found[value] = [finding for check in checks
                            for finding in _find_each(results, claim, env, best, where, swept, *check)]
        except NotRun as err:
            judgement.notes.append(f"not run: {err}")
    if not any(found.values()):
        return judgement
    if "hardware" in claim:
        judgement.notes.append(f"about a {claim['hardware']}; measured on a CPU")
    if sweep.get("any"):
        holds = {value: max(f.holds for f in findings) for value, findings in found.items()}
        judgement.holds = min(holm(list(holds.values())))
        judgement.fails = max(min(holm([f.fails for f in findings])) for findings in found.values())
        findings = found[min(holds, key=holds.get)]
    else:
        findings = [f for each in found.values() for f in each]
        judgement.holds = max(f.holds for f in findings)
        judgement.fails = min(holm([f.fails for f in findings]))
        missing = [v for v in sweep.get("require", []) if v not in found]
        judgement.notes += ["not run: " + describe({sweep["key"]: float(v)}) for v in missing]
    judgement.finding = max(findings, key=lambda f: f.holds)
    if judgement.verdict == "does not hold":
        judgement.finding = min(findings, key=lambda f: f.fails)
    return judgement


def _numbers(setting: dict) -> dict[str, Value]:
    return {key: float(v) if isinstance(v, int | float) else v for key, v in setting.items() if key != "method"}


def _expand(claim: dict, run: set[str], notes: list[str]) -> list[tuple[Quantity, Quantity | tuple, dict]]:
    """Returns a check for each of its methods that was run: of what, compared with what, and its specification."""
    checks = []
    for spec in claim["checks"]:
        reference, methods = spec.get("minus", spec.get("over")), spec["of"]["method"]
        for method in methods if isinstance(methods, list) else [methods]:
            against = (method if reference is None else reference.get("method", method), _numbers(reference or {}))
            if lacking := sorted({method, against[0]} - run):
                notes += [note for name in lacking if (note := f"not run: {name}") not in notes]
            else:
                checks.append(((method, _numbers(spec["of"])), against, spec))
    return checks


def _common(trials: list[Trial], checks: list[tuple], notes: list[str]) -> list[Trial]:
    """Keeps the tasks and models that all methods of the checks were run on."""
    methods = {method for check in checks for method, _ in check[:2]}
    run = [{t.column() for t in trials if t.method == method} for method in methods]
    common = set.intersection(*run) if run else set()
    kept, every = ({model for _, model in columns} for columns in (common, set().union(*run)))
    if len(kept) < len(every):
        notes.append(f"{len(kept)} of {len(every)} networks")
    return [t for t in trials if t.column() in common]


def _swept(sweep: dict, where: dict, checks: list[tuple], trials: list[Trial]) -> list[float]:
    """Returns the swept parameter's values within the range, without the one that they are compared with."""
    key, (low, high) = sweep["key"], sweep["within"]
    values = set()
    for (method, params), (_, reference), _ in checks:
        wanted = {k: v for k, v in {**where, **params}.items() if k != key}
        values |= {v for t in trials if t.method == method and t.has(wanted)
                   and (v := t.params.get(key)) is not None and low <= v <= high and v != reference.get(key)}
    return sorted(values)


def _find_each(results: Results, claim: dict, env: str, best: list[Trial], where: dict, swept: dict,
               of: Quantity, against: Quantity, spec: dict) -> list[Finding]:
    """Makes a check once, or for each task or network."""
    if "each" not in spec:
        return [_find(results, claim, env, best, where, swept, of, against, spec)]
    at = ("task", "network").index(spec["each"])
    parts = sorted({t.column()[at] for t in best if t.method == of[0]})
    return [_find(results, claim, env, [t for t in best if t.column()[at] == part], where, swept, of, against, spec,
                  part if at == 0 else "network of seed " + part.split()[0]) for part in parts]


def _find(results: Results, claim: dict, env: str, best: list[Trial], where: dict, swept: dict,
          of: Quantity, against: Quantity, spec: dict, part: str = "") -> Finding:
    """Makes one check, on all trials or on a part of them."""
    measure, area = spec.get("measure", "share"), spec.get("area")

    def sample(method: str, params: dict) -> Sample:
        trials = [t for t in best if t.method == method and t.has({**where, **params})]
        if not trials:
            raise NotRun(f"{method} ({describe(params)})")
        if not area:
            return results.sample(trials, measure, spec)
        points = [[t for t in trials if t.params[area] == x] for x in common]
        return Sample.area([results.sample(each, measure, spec) for each in points], common)

    if area:
        common = _common_values(area, [t for t in best if t.has(where)], of, against)
    mine, text = sample(of[0], {**of[1], **swept}), _named(of[0], {**of[1], **swept})
    if "minus" in spec or "over" in spec:
        same = of[0] == against[0]
        text += (" / " if "over" in spec else " − ") + _named("" if same else against[0], against[1])
        theirs = sample(against[0], {**swept, **against[1]} if same else against[1])
        if mine.columns != theirs.columns:
            raise NotRun(f"{text}, on the same tasks and networks")
        estimate = mine.compare(theirs, "over" in spec, f"{claim['id']} {env} {text}{part and f' {part}'}")
    else:
        estimate = mine.mean_and_iqm(f"{claim['id']} {env} {text}{part and f' {part}'}")[0][0]
    text += f", {part}" if part else ""
    text += f", {MEASURES[measure][1]}" if measure != "share" else ""
    text += f", mean over log({area}) from {common[0]:g} to {common[-1]:g}" if area else ""
    text += f" at {spec['used']:,} labels" if "used" in spec else ""
    text += f" after step {spec['change_at']:,} less before" if "change_at" in spec else ""
    if "episodes" in spec:
        first, last = spec["episodes"]
        span = "" if first == last else "+" if last == math.inf else f" to {last}"
        text += f", episode{'s' if span else ''} {first}{span}"
    return Finding(text, estimate, spec)


def _common_values(key: str, trials: list[Trial], *quantities: Quantity) -> list[float]:
    """Returns the values of a parameter that trials of all quantities have, at least two."""
    values = [{t.params[key] for t in trials if t.method == method and key in t.params and t.has(params)}
              for method, params in quantities]
    common = sorted(set.intersection(*values))
    if len(common) < 2:
        raise NotRun(f"two values of {key}")
    return common


def _named(method: str, params: dict[str, Value]) -> str:
    without = params and not any(params.values())
    return " ".join(filter(None, [method, f"({'without' if without else describe(params)})" if params else ""]))
