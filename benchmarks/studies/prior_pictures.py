"""The pictures of docs/priors.md: the signal, what is found without a prior, and with it, from the same y.

python -m benchmarks.studies.prior_pictures docs/figures
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import fastquad as fq
from benchmarks.studies import priors

#: The cell of each picture: how it is made, with what, the seed, what the user writes, and whether x is mostly zeros.
PICTURES = {
    "nonnegative": (priors.nonnegative, (40, 75), 1, "Sparse(nonnegative=True)", True),
    "groups": (priors.groups, (8, 75), 1, "Sparse(groups=labels)", True),
    "known": (priors.known, (20, 10, 50), 4, "Sparse(support=S, partial=True)", True),
    "piecewise": (priors.piecewise, (10, 64), 1, "PiecewiseConstant()", False),
    "discrete": (priors.signs, (85,), 1, "Discrete([-1, 1])", False),
    "basis": (priors.dct, (20, 75), 1, 'Sparse(basis="dct")', False),
}


def picture(name: str, folder: Path) -> None:
    """Draw the picture of a prior."""
    make, arguments, seed, written, zeros = PICTURES[name]
    rng = np.random.default_rng(seed)
    case = make(*arguments, rng)
    n = case.x.size
    A = rng.standard_normal((case.m, n, n))
    y = fq.measure(A, case.x)
    alone, told = fq.solve(A, y), fq.solve(A, y, prior=case.prior)
    rows = (("the signal", case.x), (f"without a prior{_said(alone, case.x)}", alone.x),
            (f"{written}{_said(told, case.x)}", told.x))  # fmt: skip
    figure, axes = plt.subplots(3, 1, figsize=(7, 4.6), sharex=True, sharey=True, layout="constrained")
    for axis, (title, x) in zip(axes, rows, strict=True):
        sign = -1 if np.linalg.norm(x + case.x) < np.linalg.norm(x - case.x) else 1
        _draw(axis, sign * x, "0.2" if x is case.x else "C0", zeros)
        if x is not case.x:
            _draw(axis, case.x, "0.75", zeros, behind=True)
        _mark(axis, case.prior)
        axis.axhline(0, color="0.8", linewidth=0.5, zorder=0)
        axis.set_title(title, fontsize=9, loc="left")
    axes[1].set_ylabel("x (grey: the signal)" if not zeros else "x (grey dots: the signal)", fontsize=9)
    axes[-1].set_xlabel("coordinate", fontsize=9)
    if axes[0].get_legend_handles_labels()[1]:
        axes[0].legend(fontsize=7, loc="upper right", frameon=False)
    figure.savefig(folder / f"prior_{name}.svg", metadata={"Date": None})
    plt.close(figure)
    print(name, _said(alone, case.x), _said(told, case.x), flush=True)


def _draw(axis: plt.Axes, x: np.ndarray, color: str, zeros: bool, behind: bool = False) -> None:
    """A line for each nonzero of a signal that is mostly zeros, or a dot if it is behind another; else all values."""
    where = np.flatnonzero(x)
    if zeros and behind:
        axis.plot(where, x[where], ".", color=color, markersize=4, zorder=0)
    elif zeros:
        axis.vlines(where, 0, x[where], color=color, linewidth=1.5)
    else:
        few = np.unique(x.round(6)).size < x.size / 2
        axis.plot(x, drawstyle="steps-mid" if few else "default", color=color, linewidth=3 if behind else 1,
                  zorder=0 if behind else 2)  # fmt: skip


def _mark(axis: plt.Axes, prior: fq.Prior) -> None:
    """Shade every other group; mark the coordinates that are known to be nonzero."""
    labels, known = getattr(prior, "groups", None), getattr(prior, "support", None)
    if labels is not None:
        for label in np.unique(labels)[::2]:
            members = np.flatnonzero(labels == label)
            axis.axvspan(members[0] - 0.5, members[-1] + 0.5, color="0.95", zorder=-1)
    if known is not None:
        axis.plot(known, np.full(len(known), -2.6), "^", color="C1", markersize=4, label="known to be nonzero")


def _said(solution: fq.Solution, x: np.ndarray) -> str:
    return f": {solution.status.name.lower()}, distance {fq.distance(solution.x, x):.1g}"


if __name__ == "__main__":
    plt.switch_backend("agg")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    for name in PICTURES:
        picture(name, parser.parse_args().folder)
