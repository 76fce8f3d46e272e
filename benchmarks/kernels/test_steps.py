"""What a step of a solver costs beside the pass over A, where the tensor fits in cache."""

from statistics import median
from time import perf_counter

import pytest
from race import add_row

import fastquad as fq


class Stopwatch:
    """Notes how long each full pass of a tensor takes."""

    def __init__(self, A):
        self.times, self._inner = [], A._products
        A._products = self

    def __call__(self, x, W, n_threads):
        start = perf_counter()
        self._inner(x, W, n_threads)
        self.times.append(perf_counter() - start)


@pytest.mark.parametrize("n_threads", [1, 2])
@pytest.mark.parametrize("layout", ["raw float64", "packed float64", "packed float32"])
def test_twf_step(benchmark, layout, n_threads, smoke):
    kind, dtype = layout.split()
    problem = fq.problems.gaussian(m=100, n=100, k=10, dtype=dtype, rng=0)
    A = fq.pack(problem.A) if kind == "packed" else fq.as_measurements(problem.A)
    watch = Stopwatch(A)
    shares = []

    def steps():
        watch.times.clear()
        # From a dense start and without a stop: every step is a full pass.
        solution = fq.solve(
            A,
            problem.y,
            method="twf",
            x0=problem.x + 0.03,
            tol=0.0,
            max_iter=20 if smoke else 1000,
            n_threads=n_threads,
        )
        # The verdict may read A once more.
        passes = watch.times[: solution.n_iter]
        elapsed = solution.history["elapsed"]
        shares.extend(1 - k / t for k, t in zip(passes[1:], elapsed[1:] - elapsed[:-1], strict=True))
        return solution

    solution = benchmark.pedantic(steps, rounds=1 if smoke else 5, warmup_rounds=1)
    share = median(shares)
    benchmark.extra_info |= {
        "n_passes": solution.n_passes,
        "status": solution.status.name,
    }
    what = f"a step of TWF at n = m = 100, share outside the pass, {layout}, threads: {n_threads}"
    add_row(benchmark, what, share, at_most=0.3)
