"""How often each prior finds x, n = 100 (128 for piecewise constant), beside the figures that were to be reached.

    python -m benchmarks.studies.priors [--prior NAME ...] [--instances 20] [--seed 1000] [--max-time SECONDS]
    python -m benchmarks.studies.priors --noise              errors with a prior and without, from the same noisy y
    python -m benchmarks.studies.priors --campaign 1000      wrong successes; half of the priors are wrong

Success is a relative distance below 1e-3, with the sign where the prior tells it. A wrong success is an answer that
calls itself one and is further away. In the campaign, as in `benchmarks.studies.campaign`: further than 1e-3 and
twice the error that it states; under noise, further than 5 times the error of least squares on the true support (at
least .05, at most .25) and 3 times the stated error (at most .5).
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from fastquad._kernels.gibbs import Chain
from fastquad._kernels.growth import MULTIPLE

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


#: What is compared under noise: the maker, its arguments, and the standard deviation of the noise relative to |x|².
NOISY: list[tuple[Callable[..., Case], tuple[int, ...], float]] = [
    (piecewise, (10, 64), 0.1), (nonnegative, (20, 75), 0.1), (nonnegative, (20, 60), 0.1),
    (nonnegative, (20, 50), 0.03), (nonnegative, (30, 75), 0.1), (nonnegative, (30, 75), 0.03),
    (nonnegative, (40, 75), 0.03), (nonnegative, (40, 100), 0.1),
]  # fmt: skip
# The sweeps of the sampler from x itself: the first ones are not counted.
SWEEPS, UNCOUNTED = 1000, 200


def trial(make: Callable[..., Case], arguments: tuple[int, ...], seed: int, max_time: float | None) -> tuple[bool, Any]:
    """Whether x was found, and the solution."""
    rng = np.random.default_rng([seed, *arguments])
    case = make(*arguments, rng)
    A = rng.standard_normal((case.m, case.x.size, case.x.size))
    solution = fq.solve(A, fq.measure(A, case.x), prior=case.prior, max_time=max_time)
    signed = case.prior is not None and not case.prior.signed
    return bool(fq.distance(solution.x, case.x, signed=signed) < 1e-3), solution


def study(name: str, instances: int, seed: int, max_time: float | None) -> None:
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


def noise(instances: int, seed: int) -> None:
    """Print the median errors under noise, with each prior and without, and of those who are told more."""
    print("medians: with the prior | without | least squares told where x is nonzero, or jumps | mean, from x")
    for make, arguments, sigma in NOISY:
        errors: list[list[float]] = []
        for i in range(instances):
            rng = np.random.default_rng([seed + i, *arguments])
            case = make(*arguments, rng)
            A = rng.standard_normal((case.m, case.x.size, case.x.size))
            level = sigma * float(case.x @ case.x)
            y = fq.measure(A, case.x) + level * rng.standard_normal(case.m)
            told, alone = fq.solve(A, y, prior=case.prior).x, fq.solve(A, y).x
            best = posterior_mean(A, y, case.x, level, rng) if make is nonnegative else np.zeros(case.x.size)
            errors.append([fq.distance(x, case.x) for x in (told, alone, least_squares(A, y, case), best)])
        medians = " | ".join(f"{error:.3f}" for error in np.median(errors, axis=0))
        found = [int(np.count_nonzero(column < 0.25)) for column in np.transpose(errors)[:2]]
        print(f"{make.__name__:12} {arguments!s:10} noise {sigma:4}: {medians}; error below .25: {found}", flush=True)


def posterior_mean(A: np.ndarray, y: np.ndarray, x: np.ndarray, level: float, rng: np.random.Generator) -> np.ndarray:
    """The mean of x >= 0 given y, by a chain that starts at x and is told the noise and the size of x."""
    m, n = A.shape[:2]
    rows, columns = np.tril_indices(n)
    length = -(-m // MULTIPLE) * MULTIPLE
    pairs, padded = np.zeros((rows.size, length), dtype=np.float32), np.zeros(length, dtype=np.float32)
    pairs[:, :m] = ((A[:, rows, columns] + A[:, columns, rows]) / 2).T
    padded[:m] = y
    z, work = x.copy(), np.empty((n + 1, length), dtype=np.float32)
    share = np.count_nonzero(x) / n
    chain = Chain(pairs, padded, z, work, rho=share, norm2=float(x @ x), positive=True)
    total = np.zeros(n)
    for sweep in range(SWEEPS):
        order = rng.permutation(n)[None]
        chain.anneal(np.array([0.5 / level**2]), order, rng.random((1, n)), rng.standard_normal((1, n)))
        total += z * (sweep >= UNCOUNTED)
    return total / (SWEEPS - UNCOUNTED)


def least_squares(A: np.ndarray, y: np.ndarray, case: Case) -> np.ndarray:
    """The least-squares fit from x itself in the coordinates of its nonzeros, or of its intervals."""
    piece = np.cumsum(np.diff(case.x, prepend=case.x[0]) != 0)
    U = np.eye(case.x.size)[:, case.x != 0] if (case.x == 0).any() else np.equal.outer(piece, np.unique(piece)) * 1.0
    z, block = np.linalg.lstsq(U, case.x, rcond=None)[0], U.T @ A @ U
    block = (block + block.transpose(0, 2, 1)) / 2
    for _ in range(10):
        W = block @ z
        z = z - 0.5 * np.linalg.lstsq(W, W @ z - y, rcond=None)[0]
    return U @ z


def some_case(rng: np.random.Generator) -> tuple[str, Case]:
    """A signal of a length of 40 to 80, and a prior that fits it."""
    n = int(rng.integers(40, 81))
    m = int(n * rng.uniform(0.3, 1.4))
    k = int(rng.integers(2, n + 1))
    name = str(rng.choice(["nonnegative", "groups", "known", "piecewise", "signs", "bits", "basis", "together"]))
    labels = np.arange(n) // 4
    x = sparse(n, k, rng)
    if name == "nonnegative":
        return name, Case(np.abs(x), m, fq.Sparse(nonnegative=True))
    if name == "known":
        some = rng.permutation(np.flatnonzero(x))[: max(1, k // 2)]
        return name, Case(x, m, fq.Sparse(support=some, partial=True))
    if name == "piecewise":
        cuts = np.sort(rng.permutation(n - 1)[: k // 2] + 1)
        return name, Case(rng.standard_normal(n)[np.searchsorted(cuts, np.arange(n), side="right")], m,
                          fq.PiecewiseConstant())  # fmt: skip
    if name in ("signs", "bits"):
        values = (-1.0, 1.0) if name == "signs" else (0.0, 1.0)
        x = rng.choice(values, n)
        x[0] = 1.0
        return name, Case(x, m, fq.Discrete(values))
    if name == "basis":
        from scipy.fft import idct

        return name, Case(idct(x, norm="ortho"), m, fq.Sparse(basis="dct"))
    x = np.where(np.isin(labels, rng.permutation(labels[-1] + 1)[: max(1, k // 4)]), rng.standard_normal(n), 0.0)
    if name == "groups":
        return name, Case(x, m, fq.Sparse(groups=labels))
    return name, Case(np.abs(x), m, fq.Sparse(groups=labels, nonnegative=True))


def spoilt(case: Case, rng: np.random.Generator) -> Case:
    """The same with a signal that is not, or not quite, what the prior says: of another kind, or in a few places."""
    n = case.x.size
    if rng.random() < 0.5:
        while (other := some_case(rng)[1]).x.size < n:
            pass
        x = other.x[:n] if other.x[:n].any() else np.ones(n)
        return Case(x, case.m, case.prior)
    x = case.x.copy()
    where = rng.permutation(n)[: int(rng.integers(1, 4))]
    x[where] -= rng.choice([0.01, 0.1, 1.0]) * np.abs(x).max() * (1 + rng.random(where.size))
    return Case(x, case.m, case.prior)


def unavoidable(A: np.ndarray, x: np.ndarray, sigma: float) -> float:
    """Five times the relative error of least squares on the true support, at least .05 and at most .25."""
    W = ((A @ x) + np.einsum("ijk,j->ik", A, x))[:, x != 0]
    if W.shape[1] >= W.shape[0]:
        return 0.25
    error = sigma * float(np.sqrt(np.sum(np.linalg.svd(W, compute_uv=False) ** -2.0))) / float(np.linalg.norm(x))
    return float(np.clip(5 * error, 0.05, 0.25))


def campaign(count: int, seed: int) -> None:
    """Print how many of so many problems ended with a wrong success."""
    table: dict[tuple[str, str, str], list[int]] = {}
    for i in range(count):
        rng = np.random.default_rng([seed, i])
        name, case = some_case(rng)
        right, noisy = i % 2 == 0, i % 4 >= 2
        case = case if right else spoilt(case, rng)
        n = case.x.size
        A = rng.standard_normal((case.m, n, n)) if i % 5 else rng.choice([-1.0, 1.0], (case.m, n, n))
        y = fq.measure(A, case.x)
        sigma = float(rng.choice([0.003, 0.03, 0.1, 0.3])) * float(case.x @ case.x) if noisy else 0.0
        y = y + sigma * rng.standard_normal(case.m) if noisy else y
        solution = fq.solve(A, y, prior=case.prior, rng=i)
        error = solution.error or 0.0
        limit = max(unavoidable(A, case.x, sigma), min(3 * error, 0.5)) if noisy else max(1e-3, min(2 * error, 0.25))
        signed = right and not case.prior.signed
        wrong = solution.success and not fq.distance(solution.x, case.x, signed=signed) <= limit
        row = table.setdefault((name, "right" if right else "wrong", "noise" if noisy else "exact"), [0, 0, 0])
        row[0], row[1], row[2] = row[0] + 1, row[1] + int(solution.success), row[2] + int(wrong)
        if wrong:
            said = f"{solution.status.name}, error {solution.error}, distance {fq.distance(solution.x, case.x):.2g}"
            print(f"problem {i}: {name}, m = {case.m}, n = {n}, right prior {right}, noise {noisy}: {said}", flush=True)
    for (name, prior, data), (number, claimed, failed) in sorted(table.items()):
        print(f"{name:12} {prior} prior, {data}: {number:4} problems, {claimed:4} successes, {failed} wrong")
    totals = np.sum(list(table.values()), axis=0)
    print(f"in all {totals[0]} problems, {totals[1]} successes, {totals[2]} wrong", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--prior", nargs="*", choices=list(CELLS), default=list(CELLS))
    parser.add_argument("--instances", type=int, default=20)
    parser.add_argument("--seed", type=int, default=1000)
    parser.add_argument("--max-time", type=float)
    parser.add_argument("--noise", action="store_true")
    parser.add_argument("--campaign", type=int, metavar="PROBLEMS")
    options = parser.parse_args()
    if options.campaign:
        campaign(options.campaign, options.seed)
    elif options.noise:
        noise(options.instances, options.seed)
    else:
        for name in options.prior:
            study(name, options.instances, options.seed, options.max_time)


if __name__ == "__main__":
    main()
