"""Draws the figures of docs/results as SVG that follows the reader's light or dark colour scheme."""

import io
import re
import textwrap

import matplotlib.pyplot as plt
import numpy as np

from .estimates import Estimate
from .samples import MEASURES, Results, part
from .sections import Row, describe, order, rows_of, value_of, values_of

INK, FAINT, PAPER = "#1b1f24", "#d5dae0", "#fefefe"
DARK = {INK: "#e6edf3", FAINT: "#3d444d", PAPER: "#0d1117"}
LOOKS = {  # colour after Okabe and Ito (2008), for colour-blind readers, on light and on dark; marker
    "ucb": ("#0072b2", "o"), "thompson": ("#d55e00", "s"), "ucb_ep": ("#56b4e9", "^"), "thompson_ep": ("#e69f00", "v"),
    "rnd": ("#009e73", "D"), "lola": ("#cc79a7", "X"), "random": ("#7d7d7d", "."), "oracle": (INK, "*")}
OTHER = ("#8a6d1f", "P")
DASHES = ["-", (0, (4, 2)), (0, (1, 1.5)), (0, (5, 1.5, 1, 1.5))]
GUIDE = {"color": INK, "linewidth": 1, "linestyle": (0, (3, 3))}
WIDTH = 8.0  # inches; shown 800 pixels wide
STYLE = {"svg.hashsalt": "optibfm", "font.size": 9, "axes.titlesize": 9.5,
         "axes.spines.top": False, "axes.spines.right": False, "axes.edgecolor": INK,
         "axes.labelcolor": INK, "text.color": INK, "xtick.color": INK, "ytick.color": INK,
         "axes.grid": True, "grid.color": FAINT, "grid.linewidth": 0.6, "axes.axisbelow": True, "legend.frameon": False,
         "figure.facecolor": PAPER, "axes.facecolor": PAPER, "savefig.facecolor": PAPER, "lines.linewidth": 1.6,
         "lines.markersize": 4.5, "figure.constrained_layout.use": True}


def draw(results: Results, section: dict) -> bytes | None:
    """Draws the figure of a section, None if nothing was run."""
    view = section["figure"]
    rows = rows_of(results, section, view)
    if not rows:
        return None
    with plt.rc_context(STYLE):
        return (_dots if view["x"] == "share" else _panels)(results, rows, view)


def svg(figure) -> bytes:
    """Returns the same bytes for the same figure: no date, and a style sheet for dark pages."""
    out = io.StringIO()
    figure.savefig(out, format="svg", metadata={"Date": None, "Creator": None})
    plt.close(figure)
    rules = "".join(f"[style*='{kind}: {light}'] {{ {kind}: {dark} !important; }} " for light, dark in DARK.items()
                    for kind in ("fill", "stroke"))
    style = f"<style>@media (prefers-color-scheme: dark) {{ {rules}}}</style>\n <defs>"
    return re.sub(r"[ \t]+$", "", out.getvalue().replace("<defs>", style, 1), flags=re.MULTILINE).encode()


def _band(ax, x: list[float], low: list[float], high: list[float], colour: str) -> None:
    ax.fill_between(x, low, high, color=colour, alpha=0.16, linewidth=0)


def _panels(results: Results, rows: list[Row], view: dict) -> bytes:
    """Draws lines with bands, a panel for each robot or task."""
    by, keys = view.get("panels", "env"), [k for k in view.get("rows", []) if k != "by"]
    trials = [t for row in rows for t in row.trials]
    names, ordinal = values_of(trials, by), [] if "along" in view else values_of(trials, view["x"])
    levels = sorted({tuple(order(row.keys.get(k)) for k in keys) for row in rows})
    figure, axes = plt.subplots(1, len(names), figsize=(WIDTH, 3.3), sharey=True, squeeze=False)
    for ax, name in zip(axes[0], names):
        shown = [Row(row.env, row.method, row.keys, trials) for row in rows
                 if (trials := [t for t in row.trials if value_of(t, by) == name])]
        for at, row in enumerate(shown):
            x, y = _line(results, row, view)
            colour, marker = LOOKS.get(row.keys.get("by", row.method), OTHER)
            value, low, high = np.array([(e.value, e.low, e.high) for e in y]).reshape(-1, 3).T
            dash = DASHES[levels.index(tuple(order(row.keys.get(k)) for k in keys)) % len(DASHES)]
            look = {"color": colour, "marker": marker, "linestyle": dash, "label": row.label}
            if ordinal:
                x = [ordinal.index(v) + 0.07 * (at - (len(shown) - 1) / 2) for v in x]
            if view["x"] in ("episode", "step"):
                ax.plot(x, value, markevery=max(1, len(x) // 10), **look)
                _band(ax, x, low, high, colour)
            else:
                ax.errorbar(x, value, [value - low, high - value], elinewidth=1.1, **look)
        ax.set_title(name)
        if ordinal:
            ax.set_xticks(range(len(ordinal)), [f"{v:,g}" for v in ordinal])
        if view["x"] == "used":
            ax.set(xscale="log", xticks=[1000, 3000, 10_000])
            ax.xaxis.set_minor_formatter("")
        if view["measure"] == "share":
            several = any(row.method == "oracle" for row in rows)
            ax.axhline(1, label="oracle, 50,000 labels" if several else "oracle", **GUIDE)
        if not ordinal:
            ax.xaxis.set_major_formatter("{x:,.0f}")
    figure.supxlabel(view.get("label", view["x"]), fontsize=9)
    axes[0][0].set_ylabel(f"{MEASURES[view['measure']][1]} ({'mean' if view.get('statistic') == 'mean' else 'IQM'})")
    _limit(axes[0])
    entries = {label: handle for ax in axes[0] for handle, label in zip(*ax.get_legend_handles_labels())}
    entries |= {label: entries.pop(label) for label in list(entries) if label.startswith("oracle")}
    figure.legend(entries.values(), entries.keys(), loc="outside upper center", ncols=_columns(list(entries)),
                  handlelength=2.6)
    return svg(figure)


def _columns(labels: list[str]) -> int:
    """Returns how many columns of a legend fit into the figure, which is about 125 characters wide."""
    for lines in range(1, len(labels) + 1):
        widths = [10 + max(map(len, labels[at : at + lines])) for at in range(0, len(labels), lines)]
        if sum(widths) <= 125:
            return len(widths)
    return 1


def _line(results: Results, row: Row, view: dict) -> tuple[list, list[Estimate]]:
    """Returns a line's x and estimates, empty if nothing was run."""
    measure, mean = view["measure"], view.get("statistic") == "mean"
    x, y = [], []
    if view["x"] in ("episode", "step"):
        size, of_rows = view.get("bin", 1), MEASURES[measure][0]

        def binned(curve: list[tuple[float, float]]) -> np.ndarray:
            whole = len(curve) // size * size
            return np.array(curve[:whole]).reshape(-1, size, 2).mean(axis=1)

        curves = [binned(part(t, of_rows, view)) for t in row.trials]
        longest = max(map(len, curves), default=0)
        trials = [t for t, c in zip(row.trials, curves) if len(c) == longest > 0]
        if trials:
            x = list(binned(part(trials[0], of_rows, view))[:, 0] + (view["x"] == "episode"))
            sample = results.sample(trials, measure, view, points=lambda t: list(binned(part(t, of_rows, view))[:, 1]))
            y = sample.mean_and_iqm(f"{trials[0].experiment} {trials[0].task} {row.label} by {view['x']}")[not mean]
        return x, y
    key = view.get("along", view["x"])
    for value in values_of(row.trials, key):
        at = row.where(key, value)
        if found := at.estimate(results, view):
            x.append(value if key == view["x"] else results.sample(at.trials, "labels", view).values.mean())
            y.append(found[not mean])
    return x, y


def _limit(axes) -> None:
    """Cuts bands that are much wider than the lines: those of a few trials would press all else flat."""
    lines = np.concatenate([line.get_ydata() for ax in axes for line in ax.get_lines()])
    low, high = min(0.0, np.nanmin(lines)), np.nanmax(lines)
    axes[0].set_ylim(low - 0.08 * (high - low), min(axes[0].get_ylim()[1], high + 0.3 * (high - low)))


def _dots(results: Results, rows: list[Row], view: dict) -> bytes:
    """Draws a dot with its interval for each row, a panel for each robot."""
    names = sorted({row.env for row in rows})
    several = len({row.method for row in rows}) > 1
    labels = list(dict.fromkeys(_dot_label(row, view, several) for row in sorted(rows, key=lambda r: order(r.method))))
    figure, axes = plt.subplots(1, len(names), figsize=(WIDTH, 1 + 0.27 * len(labels)), sharey=True, squeeze=False)
    for ax, name in zip(axes[0], names):
        for row in (row for row in rows if row.env == name):
            colour, marker = LOOKS.get(row.method, OTHER)
            at = labels.index(_dot_label(row, view, several))
            if found := row.estimate(results, view):
                shown = found[view.get("statistic") != "mean"]
                ax.plot([shown.low, shown.high], [at, at], color=colour)
                ax.plot(shown.value, at, marker, color=colour)
        ax.axvline(1, **GUIDE)
        ax.set_title(name if several else f"{name}, {rows[0].method}")
    axes[0][0].set_yticks(range(len(labels)), labels)
    axes[0][0].invert_yaxis()
    statistic = "mean" if view.get("statistic") == "mean" else "IQM"
    figure.supxlabel(f"{MEASURES[view['measure']][1]} ({statistic})", fontsize=9)
    return svg(figure)


def _dot_label(row: Row, view: dict, several: bool) -> str:
    text = (f"{row.method}: " if several else "") + (describe(row.keys) or view["label"])
    unbroken = text.replace(" ", "\xa0").replace(",\xa0", ", ")
    return "\n".join(textwrap.wrap(unbroken, 40))


def draw_theory(curves: list[dict], view: dict) -> bytes:
    """Draws the curves of `optibfm-lab theory`, a panel for each group of them."""
    with plt.rc_context(STYLE):
        figure, axes = plt.subplots(3, 2, figsize=(WIDTH, 9.2))
        for ax, panel in zip(axes.flat, view["panels"]):
            shown = [c for c in curves if c["group"] == panel["group"] and re.search(panel["names"], c["name"])]
            for name in dict.fromkeys(c["name"] for c in shown):
                line = [c for c in shown if c["name"] == name]
                x, y, low, high = ([c[k] for c in line] for k in ("x", "value", "low", "high"))
                method = re.split("[,:]", name)[0].lower().replace("-", "_")
                colour = LOOKS.get(panel.get("as", {}).get(name, method), OTHER)[0]
                dash = DASHES[("exact" in name) + 2 * ("Σ" in name) + 3 * ("closed" in name)]
                ax.plot(x, y, color=colour, linestyle=dash, label=name)
                if panel.get("bands"):
                    _band(ax, x, low, high, colour)
            if "guide" in panel:
                ax.plot(*panel["guide"]["line"], label=panel["guide"]["label"], **GUIDE)
            ax.set(**panel["axes"])
            ax.legend(fontsize=7.5, loc=panel.get("legend", "best"))
        return svg(figure)
