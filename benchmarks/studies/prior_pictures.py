"""The pictures of docs/priors.md: truth, what sparse alone gives, and what the prior gives, from the same y.

python -m benchmarks.studies.prior_pictures docs/figures
"""

from __future__ import annotations

import argparse
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import fastquad as fq
from benchmarks.studies import priors

#: The cell of each picture: how it is made, with what, the seed, and the file.
PICTURES = {
    "nonnegative": (priors.nonnegative, (40, 75), 1),
    "groups": (priors.groups, (8, 75), 1),
    "known": (priors.known, (20, 10, 50), 4),
    "piecewise": (priors.piecewise, (10, 64), 1),
    "discrete": (priors.signs, (85,), 1),
    "basis": (priors.dct, (20, 75), 1),
}


def picture(name: str, folder: Path) -> None:
    """Draw the picture of a prior."""
    make, arguments, seed = PICTURES[name]
    rng = np.random.default_rng(seed)
    case = make(*arguments, rng)
    n = case.x.size
    A = rng.standard_normal((case.m, n, n))
    y = fq.measure(A, case.x)
    alone, told = fq.solve(A, y), fq.solve(A, y, prior=case.prior)
    rows = (("truth", case.x, ""), ("sparse alone", alone.x, _said(alone, case.x)),
            ("with the prior", told.x, _said(told, case.x)))  # fmt: skip
    figure, axes = plt.subplots(3, 1, figsize=(7, 4.2), sharex=True, sharey=True, layout="constrained")
    for axis, (title, x, said) in zip(axes, rows, strict=True):
        sign = -1 if np.linalg.norm(x + case.x) < np.linalg.norm(x - case.x) else 1
        axis.plot(sign * x, drawstyle="steps-mid", color="0.2" if title == "truth" else "C0", linewidth=1)
        axis.axhline(0, color="0.8", linewidth=0.5, zorder=0)
        axis.set_title(f"{title}{said}", fontsize=9, loc="left")
    figure.savefig(folder / f"prior_{name}.svg", metadata={"Date": None})
    plt.close(figure)
    print(name, _said(alone, case.x), _said(told, case.x), flush=True)


def _said(solution: fq.Solution, x: np.ndarray) -> str:
    return f": {solution.status.name.lower()}, distance {fq.distance(solution.x, x):.1g}"


if __name__ == "__main__":
    plt.switch_backend("agg")
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    for name in PICTURES:
        picture(name, parser.parse_args().folder)
