"""Counts: how near is the default call to maximum likelihood, and what does it gain over the model of Gaussian noise?

    python -m benchmarks.studies.counts [--repeats 20] [--counts 1,3,10,100,1000] [--csv FILE]

Four kinds of positive semidefinite measurements, with 1 to 1,000 counts on the average: real and complex vectors,
Gaussian matrices of full rank G^T G/n, and projectors (1 + P)/2 on strings P of Pauli matrices. `ml` is Fisher scoring
of the Poisson likelihood from the true signal; `solve` is told `Poisson()`, or nothing.

over         the distance to x over that of `ml`; the table has the ratio of the root mean squares
claim        the distance over `error`; the median
gain         the root mean square of the distances without Poisson over that with it
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

import fastquad as fq
from benchmarks.studies import trials
from benchmarks.studies.trials import Array, Model, column

KINDS = ("real vectors", "complex vectors", "full rank", "Pauli projectors")
COUNTS = (1.0, 3.0, 10.0, 100.0, 1000.0)
# n and m: at one count for each measurement the error of maximum likelihood is then 0.14 to 0.3. Full rank measures
# ‖x‖² above all, and so do projectors, of which each of 63 is measured 16 times.
_SHAPES = {
    "real vectors": (16, 192), "complex vectors": (16, 320), "full rank": (8, 320), "Pauli projectors": (8, 1008),
}  # fmt: skip
_MAX_SECONDS = 30.0


def posed(kind: str, count: float, rng: np.random.Generator) -> tuple[Any, Array, Array, Model]:
    """What `solve` is given, x, the counts, and the model in real coordinates."""
    n, m = _SHAPES[kind]
    x = rng.standard_normal(n)
    if kind in ("complex vectors", "Pauli projectors"):
        x = x + 1j * rng.standard_normal(n)
    given: Any
    if kind.endswith("vectors"):
        a = rng.standard_normal((m, n)) + (1j * rng.standard_normal((m, n)) if np.iscomplexobj(x) else 0)
        given, A = fq.RankOneTensor(a), a[:, :, None] * a[:, None].conj()
    elif kind == "full rank":
        G = rng.standard_normal((m, n, n))
        given = A = G.transpose(0, 2, 1) @ G / n
    else:
        A = (np.eye(n) + _strings(m, n)) / 2
        given = A
    z = np.einsum("ijk,j,k->i", A, x.conj(), x, optimize=True).real
    x = x * np.sqrt(count / np.mean(z))
    y = rng.poisson(z * count / np.mean(z)).astype(float)
    return given, x, y, trials.model_of_arrays(A, np.arange(n))


def _strings(m: int, n: int) -> Array:
    """All strings of Pauli matrices but the identity, in turn."""
    q = int(np.log2(n))
    single = np.array([[[1, 0], [0, 1]], [[0, 1], [1, 0]], [[0, -1j], [1j, 0]], [[1, 0], [0, -1]]])
    labels = np.arange(m) % (4**q - 1) + 1
    P = np.ones((m, 1, 1), dtype=complex)
    for digit in range(q):
        P = np.einsum("iab,icd->iacbd", P, single[labels // 4**digit % 4]).reshape(m, 2 ** (digit + 1), -1)
    return P


def maximum_likelihood(model: Model, start: Array, y: Array, turning: bool) -> Array:
    """Fisher scoring of Poisson counts, damped by halves where the likelihood falls."""

    def likelihood(v: Array) -> float:
        rate = np.maximum(model(v)[0], 1e-12)
        return float(np.sum(y * np.log(rate) - rate))

    v, value = start, likelihood(start)
    for _ in range(200):
        z, J = model(v)
        rate = np.maximum(z, 1e-12)
        step = np.linalg.lstsq(J / np.sqrt(rate)[:, None], (y - rate) / np.sqrt(rate), rcond=1e-10)[0]
        size = 1.0
        while likelihood(v + size * step) < value and size > 1e-6:
            size /= 2
        new = likelihood(v + size * step)
        v, gained, value = v + size * step, new - value, new
        if gained < 1e-10:
            break
    return v


def run(kind: str, count: float, number: int, seed: int) -> Iterator[dict[str, Any]]:
    """The same counts with and without the model."""
    rng = np.random.default_rng([seed, KINDS.index(kind), int(count), number])
    given, x, y, model = posed(kind, count, rng)
    turning = np.iscomplexobj(x)
    best = maximum_likelihood(model, trials.real_coordinates(x), y, turning)
    optimum = float(fq.distance(best[: x.size] + 1j * best[x.size :] if turning else best, x))
    for told in ("poisson", "nothing"):
        options: dict[str, Any] = {"noise": fq.noise.Poisson()} if told == "poisson" else {}
        answer = trials.solved(
            lambda options=options: fq.solve(given, y, rng=number, max_time=_MAX_SECONDS, **options),
            lambda found: float(fq.distance(found, x)),
        )
        yield {
            "seed": seed, "kind": kind, "count": count, "number": number, "told": told, "status": answer.status,
            "success": answer.success, "dist": answer.dist, "optimum": optimum, "error": answer.error,
            "claim": answer.dist / answer.error if answer.error > 0 else np.nan, "seconds": answer.seconds,
        }  # fmt: skip


def table(rows: Sequence[Mapping[str, str]]) -> str:
    """A line for each kind and count."""
    lines = [
        f"{'':18}{'counts':>8}{'ml':>9}{'solve':>9}{'over':>7}{'claim':>7}{'success':>9}{'Gaussian':>10}{'success':>9}"
        f"{'gain':>7}{'ms':>7}"
    ]
    for kind in KINDS:
        for count in COUNTS:
            group = [row for row in rows if row["kind"] == kind and float(row["count"]) == count]
            told, plain = ([row for row in group if row["told"] == word] for word in ("poisson", "nothing"))
            if not told:
                continue
            best, dist, other = (
                float(np.sqrt(np.mean(column(part, name) ** 2)))
                for part, name in ((told, "optimum"), (told, "dist"), (plain, "dist"))
            )
            lines.append(
                f"{kind:18}{count:8g}{best:9.4f}{dist:9.4f}{dist / best:7.2f}{np.nanmedian(column(told, 'claim')):7.2f}"
                f"{int(column(told, 'success').sum()):6}/{len(told):<2}{other:10.4f}"
                f"{int(column(plain, 'success').sum()):6}/{len(plain):<2}{other / dist:7.2f}"
                f"{1e3 * np.median(column(told, 'seconds')):7.0f}"
            )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the study."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--counts", default=",".join(f"{each:g}" for each in COUNTS))
    parser.add_argument("--kinds", default=",".join(KINDS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--csv", type=Path, help="where to keep the trials")
    given = parser.parse_args(sys.argv[1:] if arguments is None else arguments)
    each = (
        row
        for number in range(given.repeats)
        for kind in given.kinds.split(",")
        for count in map(float, given.counts.split(","))
        for row in run(kind, count, number, given.seed)
    )
    print(table(list(trials.written(given.csv, each))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
