"""The same data said otherwise must end the same: the same status, and x to 0.02 of its error, or to 1e-9 if exact.

    python -m benchmarks.studies.rewrites [--problems 192] [--csv FILE] [--compare TREE or FILE] [--only NAME,...]

Small problems of eight kinds, exact and in noise, with the level given or not. Each is solved as it is and rewritten:
in other units, in another order, with other signs, stored otherwise, as the kind of measurements that it is, or with
each measurement made twice with noise √2 σ, whose mean is the old one. A problem is `sure` if it is predictable as in
`sweep.py`. There at most one rewrite of 1,000 may end otherwise.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse

import fastquad as fq
from benchmarks.studies import trials
from benchmarks.studies.trials import Array, column

_MAX_SECONDS = 30.0
KINDS = ("gaussian", "gaussian few", "rank one", "low rank", "sparse", "integers", "hermitian", "float32")
LEVELS = (0.0, 1e-6, 1e-3, 0.03)


class Problem(NamedTuple):
    """Data, and what is told of their noise."""

    A: Any
    y: Array
    x: Array
    #: The standard deviation of each measurement, or None if nobody tells it.
    told: Array | None
    sigma: float
    #: The vectors of a factored A, (m, R, n), and their weights, (m, R); else None.
    factors: tuple[Array, Array] | None = None

    @property
    def exact(self) -> bool:
        return self.sigma == 0


class Said(NamedTuple):
    """A rewritten problem, and how its x becomes that of the original."""

    A: Any
    y: Array
    told: Array | None
    back: Callable[[Array], Array]


Rewrite = Callable[[Problem, np.random.Generator, Path], Said | None]
REWRITES: dict[str, Rewrite] = {}


def rewrite(function: Rewrite) -> Rewrite:
    """Register a rewrite; one that does not apply returns None."""
    REWRITES[function.__name__.replace("_", " ")] = function
    return function


def _same(x: Array) -> Array:
    return x


# -- problems -----------------------------------------------------------------------------------------------------


def problem(number: int, seed: int = 0, share: float = 1.0) -> Problem:
    """The problem of this number: kinds, levels and whether they are told in turn; sizes and values at random.

    `share` is the share of the usual number of measurements: at 0.4 or so, about half of the problems succeed.
    """
    rng = np.random.default_rng([seed, number])
    kind, level = KINDS[number % len(KINDS)], LEVELS[number // len(KINDS) % len(LEVELS)]
    told = number // (len(KINDS) * len(LEVELS)) % 2 == 1 and level > 0
    n = int(rng.integers(8, 31))
    k = n if rng.random() < 0.5 else int(rng.integers(2, max(3, n // 3)))
    m = int(rng.uniform(2.5, 5) * n)
    factors = None
    if kind == "gaussian few":
        k = int(rng.integers(2, max(3, n // 5)))
        m = int(np.ceil(rng.uniform(1.5, 2.2) * (k + k * np.log(n / k)))) + 2
    m = max(2, round(share * m))
    if kind in ("rank one", "low rank"):
        terms = 1 if kind == "rank one" else 3
        a = rng.standard_normal((m, terms, n))
        w = np.ones((m, terms)) if terms == 1 else rng.standard_normal((m, terms))
        A, factors = (a.transpose(0, 2, 1) * w[:, None]) @ a, (a, w)
    elif kind == "sparse":
        A = rng.standard_normal((m, n, n)) * (rng.random((m, n, n)) < 0.2)
    elif kind == "integers":
        A = rng.integers(-2, 3, (m, n, n)).astype(float)
    else:
        A = rng.standard_normal((m, n, n))
    if kind == "hermitian":
        A = A + 1j * rng.standard_normal((m, n, n))
        A, k = (A + A.conj().transpose(0, 2, 1)) / 2, min(k, n // 2)
    if kind == "float32":
        A = A.astype(np.float32).astype(np.float64)
    x = np.zeros(n, dtype=A.dtype)
    x[rng.choice(n, k, replace=False)] = rng.uniform(0.5, 1.5, k) * rng.choice([-1, 1], k)
    if kind == "hermitian":
        x = x * np.exp(2j * np.pi * rng.random(n))
    z = np.einsum("ijk,j,k->i", A, x.conj(), x, optimize=True).real
    sigma = level * float(np.sqrt(np.mean(z**2)))
    y = z + sigma * rng.standard_normal(m)
    return Problem(A, y, x, np.full(m, sigma) if told else None, sigma, factors)


def is_sure(data: Problem) -> bool:
    """Whether it must succeed: as `predictable` of the sweep, for n of any size."""
    support = np.flatnonzero(data.x)
    k, n, gauge = support.size, data.x.size, int(np.iscomplexobj(data.x))
    model = trials.model_of_arrays(data.A, support)
    stderr = trials.standard_errors(model, trials.real_coordinates(data.x[support]), data.sigma or 1e-12, gauge)
    free = k * (1 + gauge) - gauge
    if stderr is None or data.y.size < 1.5 * (free + k * np.log(n / k)):
        return False
    entry = np.hypot(stderr[:k], stderr[k:]) if gauge else stderr
    return bool(np.all(np.abs(data.x[support]) >= 8 * entry))


# -- rewrites -----------------------------------------------------------------------------------------------------


@rewrite
def scale_of_y(data: Problem, rng: np.random.Generator, folder: Path) -> Said:
    told = None if data.told is None else 0.37 * data.told
    return Said(data.A, 0.37 * data.y, told, lambda x: x / np.sqrt(0.37))


@rewrite
def large_scale_of_y(data: Problem, rng: np.random.Generator, folder: Path) -> Said:
    told = None if data.told is None else 1e7 * data.told
    return Said(data.A, 1e7 * data.y, told, lambda x: x / np.sqrt(1e7))


@rewrite
def scale_of_A(data: Problem, rng: np.random.Generator, folder: Path) -> Said:
    return Said(2.3e-5 * data.A, data.y, data.told, lambda x: x * np.sqrt(2.3e-5))


@rewrite
def sign_of_A_and_y(data: Problem, rng: np.random.Generator, folder: Path) -> Said:
    return Said(-data.A, -data.y, data.told, _same)


@rewrite
def order_of_measurements(data: Problem, rng: np.random.Generator, folder: Path) -> Said:
    order = rng.permutation(data.y.size)
    told = None if data.told is None else data.told[order]
    return Said(np.ascontiguousarray(data.A[order]), data.y[order], told, _same)


@rewrite
def order_of_coordinates(data: Problem, rng: np.random.Generator, folder: Path) -> Said:
    order = rng.permutation(data.x.size)
    A = np.ascontiguousarray(data.A[:, order[:, None], order])
    return Said(A, data.y, data.told, lambda x: x[np.argsort(order)])


@rewrite
def signs_of_coordinates(data: Problem, rng: np.random.Generator, folder: Path) -> Said:
    signs = rng.choice([-1.0, 1.0], data.x.size)
    return Said(data.A * signs * signs[:, None], data.y, data.told, lambda x: x * signs)


@rewrite
def packed(data: Problem, rng: np.random.Generator, folder: Path) -> Said:
    return Said(fq.pack(data.A), data.y, data.told, _same)


@rewrite
def symmetric_parts(data: Problem, rng: np.random.Generator, folder: Path) -> Said:
    return Said((data.A + data.A.conj().transpose(0, 2, 1)) / 2, data.y, data.told, _same)


@rewrite
def fortran_order(data: Problem, rng: np.random.Generator, folder: Path) -> Said:
    return Said(np.asfortranarray(data.A), data.y, data.told, _same)


@rewrite
def single_precision(data: Problem, rng: np.random.Generator, folder: Path) -> Said | None:
    """Entries that float32 holds exactly."""
    single = data.A.astype(np.complex64 if np.iscomplexobj(data.A) else np.float32)
    return Said(single, data.y, data.told, _same) if np.array_equal(single, data.A) else None


@rewrite
def mapped_from_disk(data: Problem, rng: np.random.Generator, folder: Path) -> Said:
    np.save(folder / "A.npy", data.A)
    return Said(str(folder / "A.npy"), data.y, data.told, _same)


@rewrite
def packed_on_disk(data: Problem, rng: np.random.Generator, folder: Path) -> Said:
    fq.pack(data.A, folder / "A.fq")
    return Said(str(folder / "A.fq"), data.y, data.told, _same)


@rewrite
def as_its_kind(data: Problem, rng: np.random.Generator, folder: Path) -> Said | None:
    """Factors and sparse matrices as themselves."""
    if data.factors is not None:
        a, w = data.factors
        return Said(fq.RankOneTensor(a[:, 0]) if a.shape[1] == 1 else fq.LowRankTensor(a, w), data.y, data.told, _same)
    if np.mean(data.A != 0) > 0.4:
        return None
    return Said(fq.SparseTensor([scipy.sparse.csr_array(each) for each in data.A]), data.y, data.told, _same)


@rewrite
def units_of_rows(data: Problem, rng: np.random.Generator, folder: Path) -> Said | None:
    """Each measurement in units of its own, over six decades, with its noise told in them."""
    if data.told is None:
        return None
    unit = 10.0 ** rng.uniform(-3, 3, data.y.size)
    return Said(data.A * unit[:, None, None], unit * data.y, unit * data.told, _same)


@rewrite
def units_of_exact_rows(data: Problem, rng: np.random.Generator, folder: Path) -> Said | None:
    """Each exact measurement in a unit that is a power of two, so that nothing is rounded."""
    if not data.exact:
        return None
    unit = 2.0 ** rng.integers(-10, 11, data.y.size)
    return Said(data.A * unit[:, None, None], unit * data.y, None, _same)


@rewrite
def equal_rows(data: Problem, rng: np.random.Generator, folder: Path) -> Said | None:
    """Each measurement twice, each time with noise √2 σ: their mean is the old one."""
    if data.told is None:
        return None
    apart = data.told * rng.standard_normal(data.y.size)
    y = np.concatenate([data.y + apart, data.y - apart])
    return Said(np.concatenate([data.A, data.A]), y, np.sqrt(2) * np.concatenate([data.told] * 2), _same)


# -- the comparison -----------------------------------------------------------------------------------------------


def _solved(A: Any, y: Array, told: Array | None) -> Any:
    if told is not None and np.all(told == told[0]):
        told = told[0]  # one level is told as one number, as a user would
    return fq.solve(A, y, rng=0, max_time=_MAX_SECONDS, **({} if told is None else {"noise": told}))


def ends(
    number: int, seed: int = 0, *, only: Sequence[str] | None = None, share: float = 1.0
) -> Iterator[dict[str, Any]]:
    """What becomes of each rewrite of a problem."""
    data = problem(number, seed, share)
    sure = is_sure(data)
    begin = time.perf_counter()
    as_it_is = _solved(data.A, data.y, data.told)
    seconds = time.perf_counter() - begin
    dist = float(fq.distance(as_it_is.x, data.x))
    for i, (name, make) in enumerate(REWRITES.items()):
        if only is not None and name not in only:
            continue
        with tempfile.TemporaryDirectory() as folder:
            said = make(data, np.random.default_rng([seed, number, i]), Path(folder))
            if said is None:
                continue
            begin = time.perf_counter()
            other = _solved(said.A, said.y, said.told)
            spent = time.perf_counter() - begin
        x = said.back(other.x)
        apart = float(fq.distance(x, as_it_is.x)) if np.any(as_it_is.x) else float(np.any(x))
        yield {
            "seed": seed, "number": number, "rewrite": name, "kind": KINDS[number % len(KINDS)], "n": data.x.size,
            "m": data.y.size, "k": int(np.count_nonzero(data.x)), "sigma": data.sigma, "told": data.told is not None,
            "sure": sure, "status": as_it_is.status.name, "other_status": other.status.name,
            "success": as_it_is.success, "other_success": other.success, "apart": apart,
            "dist": dist, "other_dist": float(fq.distance(x, data.x)), "error": as_it_is.error or 0.0,
            "other_error": other.error or 0.0, "otherwise": _otherwise(as_it_is, other, apart, data.exact),
            "seconds": seconds, "other_seconds": spent,
        }  # fmt: skip


def _otherwise(as_it_is: Any, other: Any, apart: float, exact: bool) -> bool:
    """Whether two answers differ: in status, or in x by more than 0.02 of the error, or 1e-9 if exact."""
    if as_it_is.status != other.status:
        return True
    if not as_it_is.success:
        return False  # two failures end at whatever they met last
    return not apart <= (1e-9 if exact else max(0.02 * (as_it_is.error or 0.0), 1e-9))


def table(rows: Sequence[dict[str, str]]) -> str:
    """What ends otherwise, by rewrite and by kind."""
    lines = [
        f"{'':26}{'all':>6}{'otherwise':>11}{'status':>8}{'sure':>7}{'otherwise':>11}{'status':>8}"
        f"{'success, as it is':>19}{'rewritten':>11}{'deviations':>12}"
    ]
    groups = {name: [row for row in rows if row["rewrite"] == name] for name in REWRITES}
    groups |= {f"kind: {kind}": [row for row in rows if row["kind"] == kind] for kind in KINDS}
    groups |= {"exact": [row for row in rows if float(row["sigma"]) == 0], "all": list(rows)}
    for name, group in groups.items():
        if group:
            line = f"{name:26}"
            for part in (group, [row for row in group if row["sure"] == "True"]):
                other = sum(row["status"] != row["other_status"] for row in part)
                line += f"{len(part):{6 if part is group else 7}}{int(column(part, 'otherwise').sum()):11}{other:8}"
            lines.append(line + _rates(group))
    return "\n".join(lines)


def _rates(rows: Sequence[dict[str, str]]) -> str:
    """The rates of success, and how many deviations apart: each problem is met twice, so changes alone count."""
    before, after = column(rows, "success"), column(rows, "other_success")
    gained, lost = np.sum(after > before), np.sum(after < before)
    apart = abs(gained - lost) / np.sqrt(max(gained + lost, 1))
    return f"{before.mean():19.1%}{after.mean():11.1%}{apart:12.1f}"


def comparison(rows: Sequence[dict[str, str]], other: Sequence[dict[str, str]]) -> str:
    """What ends otherwise there and here, of the same rewrites."""
    pairs = trials.paired(rows, other, ("seed", "number", "rewrite"))
    lines = [f"{len(pairs)} rewrites in both; end otherwise, there -> here"]
    for name in (*REWRITES, "all"):
        both = [pair for pair in pairs if name in (pair[1]["rewrite"], "all")]
        if both:
            there, here = (int(column([pair[i] for pair in both], "otherwise").sum()) for i in (0, 1))
            lines.append(f"{name:26}{len(both):6}{there:7} -> {here}")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the study; the exit code tells whether a sure problem ended otherwise."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--problems", type=int, default=192)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=np.inf, help="begin no problem after so long")
    parser.add_argument("--share", type=float, default=1.0, help="of the measurements: 0.4 is near the transition")
    parser.add_argument("--only", help="only these rewrites, with commas between them")
    parser.add_argument("--csv", type=Path, help="where to keep the trials, and to go on from")
    parser.add_argument("--tree", type=Path, help="solve with the package of this tree")
    parser.add_argument("--compare", type=Path, help="a CSV of the same problems, or a tree to run them in")
    parser.add_argument("--show", action="store_true", help="list what ends otherwise")
    given = parser.parse_args(arguments)
    if given.tree is not None:
        return trials.in_tree(given.tree.resolve(), "benchmarks.studies.rewrites", trials.without(arguments, "--tree"))
    old = trials.read(given.csv) if given.csv is not None and given.csv.exists() else []
    rows = old + list(trials.written(given.csv, _trials(given, {(row["seed"], row["number"]) for row in old})))
    for row in rows:
        if given.show and row["otherwise"] == "True":
            print(
                f"{row['number']:>4} {row['rewrite']:22} {row['kind']:13} n={row['n']} m={row['m']} k={row['k']} "
                f"sigma={row['sigma']}{' told' * (row['told'] == 'True')}{' sure' * (row['sure'] == 'True')}: "
                f"{row['status']} -> {row['other_status']}, apart {row['apart']}, dist {row['dist']} -> "
                f"{row['other_dist']}, error {row['error']} -> {row['other_error']}"
            )
    print(table(rows))
    if given.compare is not None:
        path = given.compare
        if path.is_dir():
            path = (given.csv or Path("rewrites.csv")).with_suffix(".there.csv").resolve()
            rest = trials.without(trials.without(trials.without(arguments, "--compare"), "--csv"), "--seconds")
            trials.in_tree(given.compare.resolve(), "benchmarks.studies.rewrites", [*rest, "--csv", str(path)])
        print(comparison(rows, trials.read(path)))
    return int(any(row["sure"] == row["otherwise"] == "True" for row in rows))


def _trials(given: argparse.Namespace, done: set[tuple[str, ...]]) -> Iterator[dict[str, Any]]:
    begin = time.perf_counter()
    for number in range(given.problems):
        if time.perf_counter() - begin > given.seconds:
            return
        if (str(given.seed), str(number)) not in done:
            # all rewrites of a problem at once, so that a file holds whole problems
            only = given.only.split(",") if given.only else None
            yield from list(ends(number, given.seed, only=only, share=given.share))


if __name__ == "__main__":
    sys.exit(main())
