"""A user's script with five mistakes, each marked: a type checker must find these and nothing else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import fastquad as fq


def watch(state: fq.methods.State) -> bool:
    return state.residual < 1e-12 and state.n_iter > 3


def best(solutions: list[fq.Solution]) -> fq.Solution:
    return min(solutions, key=lambda solution: solution.residual)


def recover(m: int, n: int, k: int, seed: int) -> NDArray[np.floating]:
    problem = fq.problems.gaussian(m=m, n=n, k=k, rng=seed)
    solution = fq.solve(problem.A, problem.y, callback=watch, max_passes=50.0, noise=None)
    if not solution.success:
        raise RuntimeError(solution.message)
    return solution.x


def compare(problem: fq.problems.Instance) -> dict[str, float]:
    found: dict[str, float] = {}
    for method in (fq.TWF(beta=0.5), fq.LM(max_steps=30), fq.AMP()):
        solution = fq.solve(problem.A, problem.y, method=method, prior=fq.Sparse(), x0=problem.x)
        found[method.name] = solution.n_passes
    return found


def store(A: NDArray[np.float64], folder: Path) -> fq.Measurements:
    packed = fq.pack(A, folder / "A.fq", dtype="float32")
    return packed if packed.nbytes < 10**9 else fq.open(folder / "A.fq", memory="1 GB")


def mistakes(A: NDArray[np.float64], y: NDArray[np.float64]) -> None:
    solution = fq.solve(A, y)
    fq.solve(A, y, metod="auto")  # planted: an option that is misspelt
    fq.solve(A, y, method="pursuitt")  # planted: a method that is misspelt
    print(solution.residuals)  # planted: an attribute that is misspelt
    fq.TWF(betta=0.5)  # planted: an option of a method that is misspelt
    name: int = solution.method  # planted: a method's name is no number
    print(name)


def main() -> None:
    x = recover(60, 30, 3, 0)
    problem = fq.problems.gaussian(m=60, n=30, k=3, rng=0)
    batch = fq.solve(problem.A, problem.y)
    print(float(np.linalg.norm(x)), compare(problem), best([batch]), batch.status.sentence, fq.distance(x, problem.x))


if __name__ == "__main__":
    main()
