"""Writes results.md and the pages and figures below results from the CSV files of experiments:
python -m lab.analysis lab/experiments docs"""

import argparse
import csv
import gc
import sys
from itertools import chain
from pathlib import Path

import yaml

from . import claims, figures, learnt, page, sections, stuck
from .rows import ResultsError, open_text, parse_numbers, read
from .samples import Results


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m lab.analysis", description=__doc__)
    parser.add_argument("experiments", type=Path, help="folder of protocols and their results")
    parser.add_argument("out", type=Path, help="folder of results.md, results/*.md and results/*.svg")
    parser.add_argument("csv", type=Path, nargs="*", help="results to read in place of those below the first folder")
    o = parser.parse_args()
    try:
        write(o.experiments, o.out, o.csv)
    except (ResultsError, OSError, yaml.YAMLError) as err:
        print(f"analysis: {err}", file=sys.stderr)
        return 1
    return 0


def write(experiments: Path, out: Path, paths: list[Path]) -> None:
    """Reads everything, then writes the pages and their figures."""
    theory = [] if paths else sorted(experiments.glob("*/theory*.csv*"))  # claims, then curves
    found = {*experiments.glob("*/*.csv"), *experiments.glob("*/*.csv.xz")} - {*theory}
    results = Results(read(paths or sorted(found)))
    if not results.trials:
        raise ResultsError(f"{experiments}: no results; run optibfm-lab eval first")
    gc.freeze()  # statsmodels collects garbage in every call of multipletests
    shown = sections.load(experiments / "results.yaml", sections.SECTION_KEYS, "tables", sections.VIEW_KEYS)
    known = {name for section in shown for name in section.get("experiments", [section["id"]])}
    results.notes |= {f"{name}: no section in results.yaml." for name in {t.experiment for t in results.trials} - known}
    judgements = claims.judge_all(results, claims.read(experiments / "claims.yaml"), protocols(experiments))
    pictures, other = {}, {}
    for section in shown:
        if section["id"] == "theory" and theory:
            other["theory"] = page.theory(read_theory(theory[0], ["measured", "low", "high"]))
            curves = read_theory(theory[1], ["x", "value", "low", "high"])
            pictures["theory"] = figures.draw_theory(curves, section["figure"])
        elif "x" in section.get("figure", {}) and (svg := figures.draw(results, section)):
            pictures[section["id"]] = svg
    of = {section["id"]: [[t for t in results.trials if t.experiment == name]
                          for name in section.get("experiments", [section["id"]])] for section in shown}
    announced, changed = of["learnt"], list(chain(*of["relearn"]))
    if rows := list(chain(*(learnt.announcements(trials) for trials in announced))):
        other["learnt"] = page.grid(rows, learnt.HEAD_LEARNT) + "\n" + page.grid(
            list(chain(*(learnt.announcements_of_tasks(trials) for trials in announced))), learnt.HEAD_TASKS)
        if svg := learnt.draw(announced[0]):
            pictures["learnt"] = svg
    if changed:
        protocol = yaml.safe_load((experiments / "relearn.yaml").read_text())
        becomes = {e["name"]: e["becomes"] for e in protocol["environments"]}
        other["relearn"] = page.grid(learnt.changes(changed, announced[0], becomes), learnt.HEAD_CHANGES)
    if diagnosed := [t for t in results.trials if t.experiment == "stuck"]:
        other["stuck"] = page.grid(stuck.causes(results, diagnosed), stuck.HEAD)
    if unchanged := list(chain(*of["unchanged"])):
        other["unchanged"] = page.grid(learnt.calls(unchanged), learnt.HEAD_CALLS)
    if taught := list(chain(*of["minutes"])):
        other["minutes"] = page.grid(learnt.minutes(taught), learnt.HEAD_MINUTES)
    pages = page.markdown(results, shown, judgements, page.read_notes(experiments / "notes.md"), set(pictures), other)
    (out / "results").mkdir(parents=True, exist_ok=True)
    for name, svg in pictures.items():
        (out / "results" / f"{name}.svg").write_bytes(svg)
    for name, text in pages.items():
        (out / name).write_text(text, encoding="utf-8")


def protocols(folder: Path) -> dict[str, dict[str, list[str]]]:
    """Returns the tasks of each robot of each experiment. A protocol of the folder replaces one below it."""
    found: dict[str, dict[str, list[str]]] = {}
    for path in [*sorted(folder.glob("*/*.yaml")), *sorted(folder.glob("*.yaml"))]:
        content = yaml.safe_load(path.read_text(encoding="utf-8"))
        if isinstance(content, dict) and "environments" in content:
            found.setdefault(content["experiment"], {}).update({e["name"]: e["tasks"] for e in content["environments"]})
    return found


def read_theory(path: Path, numbers: list[str]) -> list[dict]:
    """Reads a file of `optibfm-lab theory`."""
    with open_text(path) as file:
        kinds = dict.fromkeys(numbers, float)
        return [parse_numbers(row, kinds, f"{path}:{line}") for line, row in enumerate(csv.DictReader(file), 2)]


if __name__ == "__main__":
    sys.exit(main())
