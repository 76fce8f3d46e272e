"""How often each prior finds x, n = 100 (128 for piecewise constant), beside the figures that were to be reached.

    python -m benchmarks.studies.priors [--prior NAME ...] [--instances 20] [--seed 1000] [--max-time 20]

Success is a relative distance below 1e-3, with the sign where the prior tells it. A wrong success is an answer that
calls itself one and is further away.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

import fastquad as fq


@dataclass
class Case:
    """A signal, its prior, and how many measurements there are."""

    x: np.ndarray
    m: int
    prior: Any


def sparse(n: int, k: int, rng: np.random.Generator) -> np.ndarray:
    x = np.zeros(n)
    x[rng.permutation(n)[:k]] = rng.standard_normal(k)
    return x


def nonnegative(k: int, m: int, rng: np.random.Generator) -> Case:
    return Case(np.abs(sparse(100, k, rng)), m, fq.Sparse(nonnegative=True))


def groups(active: int, m: int, rng: np.random.Generator) -> Case:
    labels = np.repeat(np.arange(20), 5)
    x = np.where(np.isin(labels, rng.permutation(20)[:active]), rng.standard_normal(100), 0.0)
    return Case(x, m, fq.Sparse(groups=labels))


def known(k: int, part: int, m: int, rng: np.random.Generator) -> Case:
    x = sparse(100, k, rng)
    some = rng.permutation(np.flatnonzero(x))[:part]
    return Case(x, m, fq.Sparse(support=some, partial=True))


def piecewise(segments: int, m: int, rng: np.random.Generator) -> Case:
    cuts = np.sort(rng.permutation(127)[: segments - 1] + 1)
    return Case(rng.standard_normal(segments)[np.searchsorted(cuts, np.arange(128), side="right")], m,
                fq.PiecewiseConstant())  # fmt: skip


def signs(m: int, rng: np.random.Generator) -> Case:
    return Case(rng.choice([-1.0, 1.0], 100), m, fq.Discrete([-1, 1]))


def bits(k: int, m: int, rng: np.random.Generator) -> Case:
    x = np.zeros(100)
    x[rng.permutation(100)[:k]] = 1.0
    return Case(x, m, fq.Discrete([0, 1]))


def dct(k: int, m: int, rng: np.random.Generator) -> Case:
    from scipy.fft import idct

    return Case(idct(sparse(100, k, rng), norm="ortho"), m, fq.Sparse(basis="dct"))


def standard(k: int, m: int, rng: np.random.Generator) -> Case:
    return Case(sparse(100, k, rng), m, None)


#: Each prior's cells: the arguments of its maker, the successes and the passes that were to be reached.
CELLS: dict[str, tuple[Callable[..., Case], list[tuple[tuple[int, ...], int, float | None]]]] = {
    "nonnegative": (nonnegative, [
        ((10, 30), 11, 39), ((20, 40), 9, 61), ((20, 50), 17, 13), ((40, 60), 10, 33), ((40, 75), 20, 12),
        ((60, 80), 15, 24), ((80, 90), 15, 48), ((100, 100), 18, 6)]),
    "groups": (groups, [((4, 40), 12, 19), ((4, 50), 17, 19), ((8, 60), 9, 19), ((8, 75), 18, 19), ((12, 85), 15, 19)]),
    "known": (known, [((20, 10, 40), 6, None), ((20, 10, 50), 13, None), ((40, 20, 60), 2, None),
                      ((40, 30, 60), 9, None)]),
    "piecewise": (piecewise, [
        ((5, 25), 18, 11), ((5, 40), 20, 8), ((10, 40), 20, 14), ((10, 64), 20, 8), ((20, 64), 20, 19),
        ((20, 100), 20, 12), ((40, 100), 20, 23)]),
    "signs": (signs, [((50,), 0, None), ((60,), 5, None), ((70,), 14, None), ((85,), 16, None), ((100,), 20, None)]),
    "bits": (bits, [((20, 40), 2, None), ((50, 50), 2, None), ((50, 60), 9, None), ((80, 50), 20, None),
                    ((10, 20), 0, None), ((20, 30), 0, None)]),
    "dct": (dct, [((10, 75), 20, None), ((20, 75), 20, None), ((50, 125), 20, None)]),
    "standard": (standard, [((10, 75), 20, None), ((20, 75), 20, None), ((50, 125), 20, None)]),
}  # fmt: skip


def trial(make: Callable[..., Case], arguments: tuple[int, ...], seed: int, max_time: float) -> tuple[bool, Any]:
    """Whether x was found, and the solution."""
    rng = np.random.default_rng([seed, *arguments])
    case = make(*arguments, rng)
    A = rng.standard_normal((case.m, case.x.size, case.x.size))
    solution = fq.solve(A, fq.measure(A, case.x), prior=case.prior, max_time=max_time)
    signed = case.prior is not None and not case.prior.signed
    return bool(fq.distance(solution.x, case.x, signed=signed) < 1e-3), solution


def study(name: str, instances: int, seed: int, max_time: float) -> None:
    """Print a line for each cell of a prior."""
    make, cells = CELLS[name]
    total = wanted = wrong = 0
    for arguments, figure, passes in cells:
        start, found, taken, exact = time.perf_counter(), 0, [], 0
        for i in range(instances):
            right, solution = trial(make, arguments, seed + i, max_time)
            found += right
            exact += right and solution.success
            wrong += solution.success and not right
            if right:
                taken.append(solution.n_passes)
        total, wanted = total + found, wanted + figure * instances / 20
        median = f"{np.median(taken):6.1f}" if taken else "     -"
        print(
            f"{name:12} {arguments!s:14} found {found:2} of {instances} (figure {figure * instances / 20:4.1f}), "
            f"called a success {exact:2}, passes {median} ({passes or '-'}), {time.perf_counter() - start:5.1f} s",
            flush=True,
        )
    print(f"{name:12} in all {total} (figure {wanted:.1f}), wrong successes {wrong}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--prior", nargs="*", choices=list(CELLS), default=list(CELLS))
    parser.add_argument("--instances", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--max-time", type=float, default=20.0)
    options = parser.parse_args()
    for name in options.prior:
        study(name, options.instances, options.seed, options.max_time)


if __name__ == "__main__":
    main()
