"""Writes docs/results.md: claims, then for each experiment its question, figure, tables and notes, then provenance."""

import re
from collections import Counter
from pathlib import Path

from .claims import Judgement
from .estimates import Estimate
from .samples import Results
from .sections import Row, describe, rows_of, values_of


def markdown(results: Results, sections: list[dict], judgements: list[Judgement], notes: dict[str, str],
             figures: set[str], other: dict[str, str]) -> str:
    """Returns the page. notes: texts by section; figures: sections that have one; other: tables that results.yaml does
    not describe, by section."""
    text = [notes["head"], "## Claims\n", *_claims(judgements, notes)]
    for section in sections:
        name = section["id"]
        body = [_table(results, section, view) for view in section.get("tables", [])]
        body.append(other.get(name, ""))
        picture = f"![{section['figure']['title']}](results/{name}.svg)\n" if name in figures else ""
        if any(body) or section.get("always"):
            text += [f"## {section['title']}\n", section["question"] + "\n", picture, notes.get(name, ""), *body]
    text += ["## Provenance\n", *_provenance(results), *(f"- {note}\n" for note in sorted(results.notes))]
    return "\n".join(filter(None, text))


def read_notes(path: Path) -> dict[str, str]:
    """Reads a Markdown file of "## id" sections."""
    parts = re.split(r"^## (\S+)\n", path.read_text(encoding="utf-8"), flags=re.MULTILINE) if path.exists() else [""]
    return {name: body.strip() + "\n" for name, body in zip(parts[1::2], parts[2::2])}


def grid(rows: list[list], head: list[str]) -> str:
    """Returns a table, without empty columns; empty without rows."""
    if not rows:
        return ""
    filled = [at for at in range(len(head)) if any(str(row[at]) for row in rows)]
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(str(line[at]) for at in filled) + " |\n" for line in lines)


def _written(e: Estimate, digits: int) -> str:
    interval = f" [{e.low:,.{digits}f}, {e.high:,.{digits}f}]" if e.known else ""
    return f"{e.value:,.{digits}f}{interval}"


def _table(results: Results, section: dict, view: dict) -> str:
    """Returns a table, empty if nothing was run. With across: task each robot has a separate table."""
    rows = rows_of(results, section, view)
    groups = [[row for row in rows if row.env == env] for env in sorted({row.env for row in rows})]
    tables = [_lines(results, group, view) for group in (groups if view.get("across") == "task" else [rows])]
    title = f"{view['head']}:\n\n" if "head" in view and any(tables) else ""
    return title + "\n".join(filter(None, tables))


def _lines(results: Results, rows: list[Row], view: dict) -> str:
    key, columns = view.get("across"), view.get("columns", [])
    for value in values_of([t for row in rows for t in row.trials], key) if key else []:
        columns = [*columns, {**view, "head": f"{value:g}" if isinstance(value, float) else value, "value": value}]
    lines = []
    for row in rows:
        cells = [(row.where(key, column["value"]) if key else row).estimate(results, column) for column in columns]
        if any(cells):
            written = [_cell(cell, column["measure"], key is None) for cell, column in zip(cells, columns)]
            lines.append([row.env, row.label, _settings(row, view), *written, max(cell[2] for cell in cells if cell)])
    return grid(lines, ["robot", "method", "settings", *(column["head"] for column in columns), "runs"])


def _cell(cell: tuple[Estimate, Estimate, int] | None, measure: str, whole: bool) -> str:
    """Writes the interquartile mean and the mean, if there is room with both intervals."""
    if cell is None:
        return "–"
    mean, iqm, _ = cell
    if measure in ("hz", "labels"):
        return _written(mean, 0)
    digits = 0 if measure == "return" else 2
    return f"{_written(iqm, digits)} · {_written(mean, digits) if whole else f'{mean.value:,.{digits}f}'}"


def _settings(row: Row, view: dict) -> str:
    """Describes the hyper-parameters that were chosen."""
    shown = {*view.get("rows", []), view.get("across"), "labels"}
    return describe({k: v for k, v in row.trials[0].params.items() if k not in shown})


def theory(rows: list[dict]) -> str:
    """Returns the table of theory.csv."""
    lines = [[row["group"], row["claim"], "{measured:.3f} [{low:.3f}, {high:.3f}]".format(**row), row["wanted"],
              row["holds"], row["note"]] for row in rows]
    return grid(lines, ["", "claim", "measured", "wanted", "holds", ""])


def _claims(judgements: list[Judgement], notes: dict[str, str]) -> list[str]:
    """Writes verdicts by claim and robot, then what decides each."""
    envs = sorted({j.env for j in judgements})
    by_claim: dict[str, dict[str, Judgement]] = {}
    for j in judgements:
        by_claim.setdefault(j.claim["id"], {})[j.env] = j
    overview = []
    for name, of in by_claim.items():
        claim = next(iter(of.values())).claim
        verdicts = [_verdict(of[env]) if env in of else "–" for env in envs]
        overview.append([f"`{name}`", claim["source"], claim["claim"], *verdicts])
    counts = Counter(j.verdict for j in judgements)
    total = ", ".join(f"{counts[verdict]} {verdict}" for verdict in ("holds", "does not hold", "undecided"))
    return [notes["claims"], f"Verdicts: {total}.\n", grid(overview, ["claim", "of", "statement", *envs]),
            notes["checks"],
            grid([_detail(j) for j in judgements if j.finding],
                  ["claim", "robot", "verdict", "check", "mean", "bound", "p", "trials", "needed", "notes"])]


def _verdict(j: Judgement) -> str:
    return j.verdict + (" \\*" if j.stands else "")


def _detail(j: Judgement) -> list:
    finding, e, spec = j.finding, j.finding.estimate, j.finding.spec
    digits = 0 if abs(e.value) >= 100 else 2 if abs(e.value) >= 0.1 else 3
    bound = f"{'≤' if 'at_most' in spec else '≥'} {finding.bound:g} ({spec['bound_from']})"
    p = min(j.holds, j.fails)
    needed = e.required_runs(finding.bound) if j.verdict == "undecided" and e.known else 0
    needed = "> 1,000" if needed is None else needed if needed > e.runs else ""
    return [f"`{j.claim['id']}`", j.env, _verdict(j), finding.text, _written(e, digits), bound,
            "< 0.001" if p < 0.001 else f"{p:.3f}", e.runs, needed, "; ".join(j.notes)]


def _short(hashes: set[str]) -> str:
    return " ".join(sorted(f"`{name[:12]}`" for name in hashes))


def _provenance(results: Results) -> list[str]:
    experiments: dict[tuple[str, str], list] = {}
    models = {}
    for t in results.trials:
        experiments.setdefault((t.experiment, t.env), []).append(t)
        seed, digest = t.model.split()
        models[t.env, t.bundle] = [t.env, f"`{t.bundle}`", seed, f"`{digest[:12]}`"]
    runs = [[*key, len({t.task for t in ts}), len({t.model for t in ts}), len(ts),
             _short({t.protocol for t in ts}), _short({t.version for t in ts})]
            for key, ts in sorted(experiments.items())]
    return [grid(runs, ["experiment", "robot", "tasks", "networks", "trials", "protocol hash", "commit"]),
            grid([models[key] for key in sorted(models)], ["robot", "network", "training seed", "weights (sha256)"])]
