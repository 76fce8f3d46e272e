"""What `fastquad demo` shows: sparse signals and handwritten digits, recovered from few quadratic measurements."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import numpy as np

from fastquad import datasets, decoders, problems
from fastquad.api import measure, solve
from fastquad.batch import SolutionBatch
from fastquad.priors import Generative
from fastquad.solution import distance
from fastquad.typing import Float

#: (unknowns, nonzeros, measurements)
SPARSE_PROBLEMS = [(100, 20, 150), (100, 100, 150), (500, 5, 50)]
N_MEASUREMENTS_OF_DIGITS = 120


def sparse_signals(say: Callable[[str], None]) -> bool:
    """Recover three sparse signals; whether all were."""
    say(f"{'unknowns':>9} {'nonzeros':>9} {'measurements':>13} {'distance':>10} {'passes over A':>14}  status")
    recovered = True
    for n, k, m in SPARSE_PROBLEMS:
        problem = problems.gaussian(m=m, n=n, k=k, rng=0)
        solution = solve(problem.A, problem.y)
        d = distance(solution.x, problem.x)
        say(f"{n:9} {k:9} {m:13} {d:10.1e} {solution.n_passes:14.2f}  {solution.status.name.lower()}")
        recovered = recovered and solution.success and d < 1e-8
    return recovered


def digits(say: Callable[[str], None]) -> tuple[SolutionBatch, Float]:
    """Recover one image of every digit, all in one batch; the solution, and the true images (10, 784)."""
    images, labels = datasets.mnist_samples()
    first = [np.flatnonzero(labels == digit)[0] for digit in range(10)]
    x = images[first].reshape(10, -1) / 255.0
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    m, n = N_MEASUREMENTS_OF_DIGITS, x.shape[1]
    A = np.random.default_rng(0).standard_normal((m, n, n), dtype=np.float32)
    solution = cast(SolutionBatch, solve(A, measure(A, x), prior=Generative(decoders.mnist())))
    d = distance(solution.x, x)
    say(
        f"ten digits of {n} pixels from {m} measurements each: relative distance {d.min():.2f} to {d.max():.2f}, "
        f"{solution.elapsed.max():.1f} s; {int(solution.success.sum())} are called a success, the others too uncertain"
    )
    return solution, x


def told_rightly(solution: SolutionBatch, x: Float) -> bool:
    """Whether most digits were recovered, and none is called a success that is far from its image."""
    d = distance(solution.x, x)
    return bool(solution.success.mean() > 0.5 and np.all(d[solution.success] < 0.5))
