"""What a solver may ask for: the contractions of A, each with its cost and how it is answered.

The cost of an answer is the share of A's distinct entries that it reads, in passes over A.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from fastquad.measurements.base import Float, Measurements


class Products(NamedTuple):
    """Answered with `W[i] = Ã_i x`, (m, n); `out` is memory of that shape, no longer needed, that W may be put in."""

    x: Float
    out: Float | None = None

    def cost(self, A: Measurements) -> float:
        return _cost_of_products(A, int(np.count_nonzero(self.x)))

    def answer(self, A: Measurements, n_threads: int) -> Float:
        x = self.x
        # What comes from a solver need not be checked, unless it is not what a solver should send.
        if x.dtype.char == "d" and x.shape == (A.n,) and x.flags.c_contiguous:
            return A._apply(x, n_threads, self.out)
        return A.products(x, n_threads=n_threads)

    @staticmethod
    def shared_cost(A: Measurements, requests: Sequence[Products]) -> float:
        nonzero = np.zeros(A.n, dtype=bool)
        for request in requests:
            nonzero |= request.x != 0
        return _cost_of_products(A, int(np.count_nonzero(nonzero)))

    @staticmethod
    def answer_all(A: Measurements, requests: Sequence[Products], n_threads: int) -> list[Float]:
        # Signals that start from one and the same vector share its products as well.
        distinct = {id(q.x): q.x for q in requests}
        if len(distinct) == 1:
            return [A.products(requests[0].x, n_threads=n_threads)] * len(requests)
        W = A.products(np.stack(list(distinct.values()), axis=1), n_threads=n_threads)
        answers = {key: np.ascontiguousarray(W[:, :, s]) for s, key in enumerate(distinct)}
        return [answers[id(q.x)] for q in requests]


class SidedProducts(NamedTuple):
    """Answered with `A_i x`, or `A_i^T x`, of A as given, (m, n)."""

    x: Float
    transpose: bool = False

    def cost(self, A: Measurements) -> float:
        # Where A is symmetric these are the products; elsewhere all of it is read.
        symmetric = type(A)._sided_products is Measurements._sided_products
        return _cost_of_products(A, int(np.count_nonzero(self.x))) if symmetric else 1.0

    def answer(self, A: Measurements, n_threads: int) -> Float:
        return A.sided_products(self.x, transpose=self.transpose, n_threads=n_threads)


class WeightedSum(NamedTuple):
    """Answered with `Σ_i w_i Ã_i`, (n, n)."""

    w: Float

    def cost(self, A: Measurements) -> float:
        return 1.0

    def answer(self, A: Measurements, n_threads: int) -> Float:
        return A.weighted_sum(self.w, n_threads=n_threads)

    @staticmethod
    def shared_cost(A: Measurements, requests: Sequence[WeightedSum]) -> float:
        return 1.0

    @staticmethod
    def answer_all(A: Measurements, requests: Sequence[WeightedSum], n_threads: int) -> list[Float]:
        return list(A.weighted_sum(np.stack([q.w for q in requests], axis=1), n_threads=n_threads))


class Diagonals(NamedTuple):
    """Answered with `diag(A_i)`, (m, n), read-only; A is read for it once a solve."""

    def cost(self, A: Measurements) -> float:
        return 2 / (A.n + 1)

    def answer(self, A: Measurements, n_threads: int) -> Float:
        diagonals = A.diagonals(n_threads=n_threads)
        diagonals.flags.writeable = False
        return diagonals


class Rows(NamedTuple):
    """Answered with `Ã_i[S, :]`, (m, s, n), in the dtype of A."""

    support: Any

    def cost(self, A: Measurements) -> float:
        return A.share_of_rows(len(self.support))

    def answer(self, A: Measurements, n_threads: int) -> Float:
        return A.rows(self.support, n_threads=n_threads)


class Block(NamedTuple):
    """Answered with `Ã_i[S, T]`, (m, s, t); T = S where cols is None."""

    rows: Any
    cols: Any = None

    def cost(self, A: Measurements) -> float:
        return _pairs(self.rows, self.cols) / (A.n * (A.n + 1) / 2)

    def answer(self, A: Measurements, n_threads: int) -> Float:
        return A.block(self.rows, self.cols, n_threads=n_threads)


class Compress(NamedTuple):
    """Answered with `U^T Ã_i U`, (m, p, p)."""

    U: Float

    def cost(self, A: Measurements) -> float:
        return 1.0

    def answer(self, A: Measurements, n_threads: int) -> Float:
        return A.compress(self.U, n_threads=n_threads)

    @staticmethod
    def shared_cost(A: Measurements, requests: Sequence[Compress]) -> float:
        return 1.0

    @staticmethod
    def answer_all(A: Measurements, requests: Sequence[Compress], n_threads: int) -> list[Float]:
        # One and the same U is one answer, which its askers share: they must not write to it.
        answers = {key: A.compress(U, n_threads=n_threads) for key, U in {id(q.U): q.U for q in requests}.items()}
        return [answers[id(q.U)] for q in requests]


class Sweep(NamedTuple):
    """Answered with `r = c − A(zz^T + diag v)` and `S = Σ_i r_i Ã_i`."""

    z: Float
    v: Float
    c: Float

    def cost(self, A: Measurements) -> float:
        return float(A.sweep_passes())

    def answer(self, A: Measurements, n_threads: int) -> tuple[Float, Float]:
        return A.sweep(self.z, self.v, self.c, n_threads=n_threads)

    @staticmethod
    def shared_cost(A: Measurements, requests: Sequence[Sweep]) -> float:
        return float(A.sweep_passes())

    @staticmethod
    def answer_all(A: Measurements, requests: Sequence[Sweep], n_threads: int) -> list[tuple[Float, Float]]:
        z, v, c = (np.stack([q[part] for q in requests], axis=1) for part in range(3))
        r, S = A.sweep(z, v, c, n_threads=n_threads)
        return [(np.ascontiguousarray(r[:, s]), S[s]) for s in range(len(requests))]


class Together(NamedTuple):
    """Answered with this run's entry of `function([argument, ...])`, called once for all runs that wait with it.

    For work that does not read A and is cheaper for many signals at once: `function` takes the list of their arguments
    and returns the list of their answers. Where it is `threaded`, it takes the number of threads too.
    """

    function: Callable[..., list[Any]]
    argument: Any
    threaded: bool = False

    def cost(self, A: Measurements) -> float:
        return 0.0

    def answer(self, A: Measurements, n_threads: int) -> Any:
        return self._call([self.argument], n_threads)[0]

    def _call(self, arguments: list[Any], n_threads: int) -> list[Any]:
        return self.function(arguments, n_threads) if self.threaded else self.function(arguments)

    @staticmethod
    def shared_cost(A: Measurements, requests: Sequence[Together]) -> float:
        return 0.0

    @staticmethod
    def answer_all(A: Measurements, requests: Sequence[Together], n_threads: int) -> list[Any]:
        waiting: dict[Callable, list[int]] = {}
        for position, request in enumerate(requests):
            waiting.setdefault(request.function, []).append(position)
        answers: list[Any] = [None] * len(requests)
        for positions in waiting.values():
            found = requests[positions[0]]._call([requests[p].argument for p in positions], n_threads)
            for position, answer in zip(positions, found, strict=True):
                answers[position] = answer
        return answers


class Work(NamedTuple):
    """Answered with `function(*arguments)`, a tuple of arrays.

    For long work on what has been read, with the same result every time: a checkpoint keeps it.
    """

    function: Callable[..., tuple[Any, ...]]
    arguments: tuple[Any, ...]

    def cost(self, A: Measurements) -> float:
        return 0.0

    def answer(self, A: Measurements, n_threads: int) -> tuple[Any, ...]:
        return self.function(*self.arguments)


class Reread(NamedTuple):
    """A copy of A that the solver holds was read: charged as so many passes, answered with nothing."""

    passes: float

    def cost(self, A: Measurements) -> float:
        return self.passes

    def answer(self, A: Measurements, n_threads: int) -> Float:
        return np.empty(0)


class Expect(NamedTuple):
    """Rows that are going to be asked for in parts: where A is on disk they are read now, at once. Not answered."""

    rows: Any

    def cost(self, A: Measurements) -> float:
        return 0.0

    def answer(self, A: Measurements, n_threads: int) -> Float:
        A.expect(self.rows, n_threads=n_threads)
        return np.empty(0)


Request = (
    Products
    | SidedProducts
    | WeightedSum
    | Diagonals
    | Rows
    | Block
    | Compress
    | Sweep
    | Together
    | Work
    | Reread
    | Expect
)

#: Requests of these kinds from several signals are answered with one pass.
SHARED = (Products, WeightedSum, Compress, Sweep, Together)

#: Answers that a checkpoint keeps.
KEPT = (Products, SidedProducts, WeightedSum, Rows, Block, Compress, Sweep, Work)


def _cost_of_products(A: Measurements, nnz: int) -> float:
    return A.share_of_rows(nnz) if A.reads_rows(nnz) else 1.0


def _pairs(rows: Any, cols: Any) -> int:
    """How many distinct unordered pairs (j, k) the block rows × cols has."""
    S = set(map(int, rows))
    if cols is None:
        return len(S) * (len(S) + 1) // 2
    T = set(map(int, cols))
    both = len(S & T)
    # A pair within the intersection is met from both sides.
    return len(S) * len(T) - both * (both - 1) // 2
