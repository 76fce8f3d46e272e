"""Solve a fixed set of problems and print a digest of each answer, to see whether a change kept the bits.

Run `python benchmarks/tools/same_bits.py > FILE` on two commits, on one machine, and compare the files with `diff`. A
change of names, comments or rooms must leave every line as it is; a change of arithmetic shows which solves it reached.
A digest covers x, status, residual, passes, steps, history, noise and error, but no times and no words.

Every solve runs with one thread, with two, and interrupted and resumed through a checkpoint (`MODES`). The three lines
must have the same digest as well; the exit status is 1 where they have not.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

import fastquad as fq

# One solve: A, y, and the options of `solve`.
Case = tuple[Any, np.ndarray, dict[str, Any]]


def sparse_signal(n: int, k: int, seed: int, dtype: Any = float) -> np.ndarray:
    """A signal with k normal entries."""
    rng = np.random.default_rng(seed)
    x = np.zeros(n, dtype)
    values = rng.standard_normal((k, 2))
    x[rng.permutation(n)[:k]] = values @ [1, 1j] if x.dtype.kind == "c" else values[:, 0]
    return x


def methods() -> Iterator[tuple[str, Case]]:
    """Every method that needs no decoder, for one signal and for a batch, in double and single precision."""
    for dtype in ("float64", "float32"):
        problem = fq.problems.gaussian(m=150, n=50, k=5, dtype=dtype, rng=0)
        Y = np.stack([problem.y, fq.measure(problem.A, np.roll(problem.x, 7))])
        start = problem.x + 0.05 * np.random.default_rng(1).standard_normal(50)
        options: dict[str, dict[str, Any]] = {
            "auto": {}, "pursuit": {}, "amp": {}, "lm": {"x0": start}, "twf": {"max_iter": 200},
            "wf": {"max_iter": 50, "x0": start}, "spf": {"prior": fq.Sparse(k=5)}, "sgn": {"prior": fq.Sparse(k=5)},
        }  # fmt: skip
        for name, given in options.items():
            yield f"{name} {dtype}", (problem.A, problem.y, {"method": name, **given})
            if "x0" not in given:
                yield f"{name} {dtype} batch", (problem.A, Y, {"method": name, **given})


def generative() -> Iterator[tuple[str, Case]]:
    """The methods for decoders, on a small network."""
    rng = np.random.default_rng(2)
    weights = [rng.standard_normal((3, 16)), rng.standard_normal((16, 40))]
    biases = [rng.standard_normal(16), rng.standard_normal(40)]
    prior = fq.Generative(fq.decoders.Decoder(weights, biases, ["tanh", "sigmoid"]))
    A = rng.standard_normal((30, 40, 40))
    y = fq.measure(A, prior.signal(rng.standard_normal(3)))
    for name in ("latent", "pgd", "ppower"):
        yield f"{name} decoder", (A, y, {"method": name, "prior": prior})


def kinds(folder: Path) -> Iterator[tuple[str, Case]]:
    """The default method on every kind of measurements."""
    rng = np.random.default_rng(3)
    m, n, k = 90, 40, 4
    array, x = rng.standard_normal((m, n, n)), sparse_signal(n, k, 4)
    hermitian = array + 1j * rng.standard_normal((m, n, n))
    z = sparse_signal(n, k, 5, complex)
    vectors = rng.standard_normal((m, n))
    fq.pack(array, folder / "A.fq")
    np.save(folder / "A.npy", array)
    large = rng.standard_normal(
        (220, 150, 150)
    )  # enough work for two threads, and more than the least memory to stream in
    fq.pack(large, folder / "large.fq")
    tensors: dict[str, Any] = {
        "packed": fq.pack(array), "packed float32": fq.pack(array, dtype="float32"),
        "packed float16": fq.pack(array, dtype="float16"), "npy file": folder / "A.npy", "folder": folder / "A.fq",
        "streamed large": fq.open(folder / "large.fq", memory="17 MB"), "rank one": fq.RankOneTensor(vectors),
        "low rank": fq.LowRankTensor(rng.standard_normal((m, 3, n))), "shifts": fq.ShiftTensor(n),
        "sparse": fq.SparseTensor([sparse.random_array((n, n), density=0.2, rng=rng) for _ in range(m)]),
        "gaussian": fq.GaussianTensor(m, n, seed=6), "affine": fq.AffineTensor(array, vectors),
        "packed large": fq.pack(large, dtype="float32"),
    }  # fmt: skip
    for name, A in tensors.items():
        signal = sparse_signal(150, 20, 7) if name.endswith("large") else x
        yield name, (A, fq.measure(A, signal), {})
    fourier, image = fq.FourierTensor(np.exp(2j * np.pi * rng.random((4, 12, 16)))), rng.random(192)
    y = fq.measure(fourier, image)
    yield "fourier", (fourier, y, {"signal": "real"})
    yield "fourier, noise", (fourier, y * (1 + 0.02 * rng.standard_normal(y.size)), {})
    for name, A in {"complex": hermitian, "complex packed": fq.pack(hermitian)}.items():
        yield name, (A, fq.measure(A, z), {})


def signals() -> Iterator[tuple[str, Case]]:
    """The default method with noise, outliers, and every prior but decoders."""
    rng = np.random.default_rng(8)
    m, n = 90, 48
    A = rng.standard_normal((m, n, n))
    x = sparse_signal(n, 6, 9)
    y, sigma = fq.measure(A, x), 0.1 * (1 + rng.random(m))
    noise = rng.standard_normal(m)
    far = y.copy()
    far[:5] = 100.0
    steps, signs = np.repeat([2.0, -1.0, 0.5], 16), rng.choice([-1.0, 1.0], n)
    given: dict[str, tuple[np.ndarray, dict[str, Any]]] = {
        "noise": (y + 0.1 * noise, {}), "known noise": (y + 0.1 * noise, {"noise": 0.1}),
        "unequal noise": (y + sigma * noise, {"noise": sigma}), "outliers": (far, {"outliers": True}),
        "unknown k": (y, {"prior": fq.Sparse()}), "fixed": (y, {"prior": fq.Sparse(fixed={0: float(x[0])})}),
        "support": (y, {"prior": fq.Sparse(support=np.flatnonzero(x))}),
        "nonnegative": (fq.measure(A, np.abs(x)), {"prior": fq.Sparse(nonnegative=True)}),
        "groups": (fq.measure(A, np.repeat(x[:24], 2)), {"prior": fq.Sparse(groups=np.repeat(np.arange(24), 2))}),
        "basis": (y, {"prior": fq.Sparse(basis="dct")}),
        "steps": (fq.measure(A, steps), {"prior": fq.PiecewiseConstant()}),
        "discrete": (fq.measure(A, signs), {"prior": fq.Discrete([-1, 1])}), "hard": (y[:30], {"max_passes": 60.0}),
    }  # fmt: skip
    for name, (data, options) in given.items():
        yield name, (A[: len(data)], data, options)


def solve(case: Case, **options: Any) -> Any:
    A, y, own = case
    return fq.solve(A, y, rng=0, **{**own, **options})


class Interrupt(Exception):
    """Ends a solve from within its callback."""


def interrupted(case: Case) -> Any:
    """Interrupted after one step and again after three, and resumed from the checkpoint each time."""
    with tempfile.TemporaryDirectory() as folder:
        for limit in (1, 3, None):

            def callback(state: Any, limit: int | None = limit) -> None:
                if limit is not None and state.n_iter >= limit:
                    raise Interrupt

            with suppress(Interrupt):
                return solve(case, n_threads=1, callback=callback, checkpoint=Path(folder) / "solve.ck")


MODES: dict[str, Callable[[Case], Any]] = {
    "1 thread": lambda case: solve(case, n_threads=1),
    "2 threads": lambda case: solve(case, n_threads=2),
    "checkpoint": interrupted,
}


def digest(found: Any) -> str:
    """What a solve found, in 16 hexadecimal digits."""
    total = hashlib.sha256()
    for solution in found if not isinstance(found, fq.Solution) else [found]:
        for array in (solution.x, solution.support, solution.history["residual"], solution.history["n_passes"]):
            total.update(np.ascontiguousarray(array).tobytes())
        numbers = (solution.residual, solution.n_passes, solution.n_iter, solution.noise, solution.error)
        total.update(repr((solution.status.name, solution.method, *map(repr, numbers))).encode())
    return total.hexdigest()[:16]


def lines(words: list[str], folder: Path) -> Iterator[tuple[str, str, str]]:
    """(solve, mode, what came out) of every solve with one of the words in its name."""
    for family in (methods(), generative(), kinds(folder), signals()):
        for name, case in family:
            if words and not any(word in name for word in words):
                continue
            for mode, run in MODES.items():
                try:
                    found = run(case)
                except (TypeError, ValueError) as error:  # an older commit may not know an option
                    yield name, mode, f"refused: {error}"
                else:
                    last = found[-1] if not isinstance(found, fq.Solution) else found
                    yield name, mode, f"{digest(found)}  {last.status.name}, {last.n_passes:.2f} passes"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("words", nargs="*", help="only the solves with one of these words in their names")
    first: dict[str, str] = {}
    differ = 0
    with tempfile.TemporaryDirectory() as folder:
        for name, mode, found in lines(parser.parse_args().words, Path(folder)):
            print(f"{name:24} {mode:12} {found}", flush=True)
            differ += first.setdefault(name, found) != found
    if differ:
        print(f"{differ} lines differ from the first of the same solve.", file=sys.stderr)
    return bool(differ)


if __name__ == "__main__":
    sys.exit(main())
