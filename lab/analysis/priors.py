"""Draws the task priors of bundles as SVG: python -m lab.analysis.priors models/walker hal/rover/model --out
docs/prior.svg"""

import argparse
import json
import struct
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

from .figures import DASHES, GUIDE, INK, LOOKS, STYLE, WIDTH, svg


def read(bundle: Path) -> tuple[str, dict, np.ndarray]:
    """Returns name, description of the prior and second moment of z [d, d] of a bundle."""
    manifest = json.loads((bundle / "bfm.json").read_text())
    raw = (bundle / "prior.safetensors").read_bytes()
    (size,) = struct.unpack("<Q", raw[:8])
    tensors = json.loads(raw[8 : 8 + size])
    moment, (d,) = tensors["task_moment"], tensors["phi_mean"]["shape"]
    begin, end = moment["data_offsets"]
    values = np.frombuffer(raw[8 + size + begin : 8 + size + end], "<f8").reshape(moment["shape"])
    return manifest["name"], manifest["prior"], values[-d:, -d:]  # the residuals come first


def share_of_directions(moment: np.ndarray) -> np.ndarray:
    """Returns the share of the trace in the first 0, 1, ..., d eigenvectors, [d + 1]."""
    values = np.sort(np.linalg.eigvalsh(moment))[::-1]
    return np.concatenate([[0], np.cumsum(values) / values.sum()])


def draw(priors: list[tuple[str, dict, np.ndarray]]) -> bytes:
    """Draws the directions of each prior, and how far rewards that it has not seen are from it."""
    with plt.rc_context(STYLE):
        figure, (left, right) = plt.subplots(1, 2, figsize=(WIDTH, 3.0))
        colours = [colour for colour, _ in LOOKS.values()]
        for at, (name, described, moment) in enumerate(priors):
            share = share_of_directions(moment)
            left.plot(np.linspace(0, 1, len(share)), share, linestyle=DASHES[at % len(DASHES)], color=colours[at],
                      label=name)
            right.plot([described["p50"], described["p90"]], [at, at], color=colours[at], marker="|", markersize=9)
        left.plot([0, 1], [0, 1], **GUIDE, label="no prior")
        left.set(xlabel="share of the d directions", ylabel="share of the variance of tasks", ylim=(0, 1.02))
        left.legend(loc="lower right")
        right.axvline(1, **GUIDE)
        right.text(1, -0.6, "expected", ha="center", va="bottom", color=INK)
        right.set(xlabel="u²/d of left-out rewards: median to 90th percentile", xlim=(0, 2.3),
                  ylim=(len(priors) - 0.5, -0.7))
        right.set_yticks(range(len(priors)), [name for name, *_ in priors])
        return svg(figure)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.analysis.priors", description=__doc__)
    parser.add_argument("bundles", type=Path, nargs="+", help="folders of bundles with a prior")
    parser.add_argument("--out", type=Path, required=True, help="the SVG to write")
    o = parser.parse_args()
    o.out.write_bytes(draw([read(bundle) for bundle in o.bundles]))


if __name__ == "__main__":
    main()
