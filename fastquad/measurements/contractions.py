"""The contractions of A as values: their arguments, their cost, their answer, and how parts of an answer are merged.

Driver, checkpoints and clusters share this vocabulary: a solver yields a contraction, the driver answers it, a
checkpoint recognises it by its arguments, and a cluster sends it to the workers, each of which answers for its own
measurements.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from fastquad.measurements.base import Edges, Measurements, along_of, gradient_of, gram_of
from fastquad.measurements.dense.layout import LANES
from fastquad.typing import Float, Indices

if TYPE_CHECKING:
    from fastquad.numerics.forms import Forms
    from fastquad.numerics.transform import Transform

#: The answer for a range of measurements: entries for each of them, and a sum over them, or several as a tuple; None
#: if it has no such part.
Answer = tuple[Float | None, Any]


class Contraction:
    """A contraction of A, with its arguments as attributes."""

    __slots__ = ()
    #: Whether one pass answers the requests of several signals, by `answer_all` at the cost `shared_cost`.
    shared: ClassVar[bool] = False
    #: Whether a checkpoint saves the answer.
    kept: ClassVar[bool] = True
    #: Whether A is read for it only once in a solve.
    once: ClassVar[bool] = False
    #: Whether the answer is only read, and may be what A holds.
    lent: ClassVar[bool] = False
    #: Whether it only reads ahead for the requests that follow.
    ahead: ClassVar[bool] = False
    #: Whether the answer is computed from A's entries, so that it is not finite if A is not.
    reads: ClassVar[bool] = True

    def arguments(self) -> tuple[Any, ...]:
        """The arguments of the request."""
        return tuple(getattr(self, field.name) for field in fields(self))  # type: ignore[arg-type]

    def cost(self, A: Measurements) -> float:
        """The cost on this kind of A, in passes over it."""
        raise NotImplementedError

    def answer(self, A: Measurements, n_threads: int) -> Any:
        """The answer."""
        raise NotImplementedError

    def of_part(self, start: int, stop: int) -> Contraction | None:
        """The request for the measurements start <= i < stop alone; None if nothing is needed of them."""
        return self

    def split(self, answer: Any) -> Answer:
        """An answer as a pair: entries for each measurement, and a sum over measurements."""
        return answer, None

    def scaled(self, answer: Float, w: Float) -> Float:
        """The answer for the matrices `w_i A_i`, from that for A_i: here of rows, one for each measurement."""
        first = getattr(self, "first", 0)
        return np.ascontiguousarray((answer.T * w[first : first + len(answer)]).T)


@dataclass(frozen=True, slots=True)
class Products(Contraction):
    """Answered with `W[i] = Ã_i x`, (m, n); `out` is an array of that shape that may be overwritten with W.

    For x of shape (n, b), the products of b signals, W has the shape (m, n, b). A solver that is still far from its
    answer says `precise=False`, which allows float arithmetic if A is stored so.
    """

    x: Float
    out: Float | None = None
    precise: bool = True

    shared = True

    def arguments(self) -> tuple[Any, ...]:
        return (self.x,)

    def cost(self, A: Measurements) -> float:
        return A.cost_of_products(int(np.count_nonzero(self.x if self.x.ndim == 1 else self.x.any(axis=1))))

    def answer(self, A: Measurements, n_threads: int) -> Float:
        x = self.x
        # Skip the checks for what solvers usually send.
        if x.dtype.char == "d" and x.shape == (A.n,) and x.flags.c_contiguous:
            return (A._apply if self.precise else A._apply_single)(x, n_threads, self.out)
        return A.products(x, precise=self.precise, n_threads=n_threads)

    @staticmethod
    def shared_cost(A: Measurements, requests: Sequence[Products]) -> float:
        nonzero = np.zeros(A.n, dtype=bool)
        for request in requests:
            nonzero |= _nonzero(request.x)
        return A.cost_of_products(int(np.count_nonzero(nonzero)))

    @staticmethod
    def answer_all(A: Measurements, requests: Sequence[Products], n_threads: int) -> list[Float]:
        # Signals that ask for the same vector share its products.
        distinct, precise = {id(q.x): q.x for q in requests}, any(q.precise for q in requests)
        if len(distinct) == 1:
            return [A.products(requests[0].x, precise=precise, n_threads=n_threads)] * len(requests)
        if A.signals_apart(len(distinct)):
            answers = {key: A.products(x, precise=precise, n_threads=n_threads) for key, x in distinct.items()}
        else:
            W = A.products(_columns(list(distinct.values())), precise=precise, n_threads=n_threads)
            parts = _parts([x.shape for x in distinct.values()])
            answers = {key: np.ascontiguousarray(W[:, :, part]) for key, part in zip(distinct, parts, strict=True)}
        return [answers[id(q.x)] for q in requests]


@dataclass(frozen=True, slots=True)
class FirstProducts(Contraction):
    """Answered with `Ã_i x` of the first `count` measurements, (count, n); of all if A is not stored in parts."""

    x: Float
    count: int

    def cost(self, A: Measurements) -> float:
        return A.cost_of_first_products(int(np.count_nonzero(self.x)), self.count)

    def answer(self, A: Measurements, n_threads: int) -> Float:
        return A._first_products(self.x, self.count, n_threads)

    def of_part(self, start: int, stop: int) -> FirstProducts | None:
        return FirstProducts(self.x, min(self.count, stop) - start) if start < self.count else None


@dataclass(frozen=True, slots=True)
class SidedProducts(Contraction):
    """Answered with `A_i x`, or `A_i^T x`, of A as given, (m, n)."""

    x: Float
    transpose: bool = False

    def cost(self, A: Measurements) -> float:
        # If A is symmetric these are the products; elsewhere all of it is read.
        return A.cost_of_products(int(np.count_nonzero(self.x))) if A.symmetric else 1.0

    def answer(self, A: Measurements, n_threads: int) -> Float:
        return A.sided_products(self.x, transpose=self.transpose, n_threads=n_threads)


@dataclass(frozen=True, slots=True)
class Measure(Contraction):
    """Answered with `x^T A_i x`, (m,), or (m, b) for b signals."""

    x: Float

    def cost(self, A: Measurements) -> float:
        return Products(self.x).cost(A)

    def answer(self, A: Measurements, n_threads: int) -> Float:
        return A.measure(self.x, n_threads=n_threads)


class _AtPoint(Contraction):
    """A contraction with the Jacobian of the measurements at x, `J v = 2 Re(x^* Ã_i v)`.

    Several of them share the products of their signals, chunk by chunk, if these are what is read.
    """

    __slots__ = ()
    shared = True
    x: Float

    def cost(self, A: Measurements) -> float:
        return A.cost_of_products(int(np.count_nonzero(self.x)))

    @staticmethod
    def shared_cost(A: Measurements, requests: Sequence[Any]) -> float:
        if A.gram_kind != "dense":
            return max(request.cost(A) for request in requests)
        return Products.shared_cost(A, requests)

    @classmethod
    def answer_all(cls, A: Measurements, requests: Sequence[Any], n_threads: int) -> list[Any]:
        if A.gram_kind != "dense":
            return [request.answer(A, n_threads) for request in requests]
        X = np.ascontiguousarray(np.stack([request.x for request in requests], axis=1))
        pieces: list[list[Answer]] = [[] for _ in requests]
        for part, W in A._product_chunks(X, n_threads):
            for s, request in enumerate(requests):
                own = request.of_part(part.start, part.stop)
                pieces[s].append(own.split(own.from_products(np.ascontiguousarray(W[:, :, s]))))
        return [cls.whole(merged(each)) for each in pieces]

    @staticmethod
    def whole(answer: Answer) -> Any:
        """The answer from its parts."""
        entries, total = answer
        return total if entries is None else entries


@dataclass(frozen=True, slots=True)
class Along(_AtPoint):
    """Answered with `J v = 2 Re(x^* Ã_i v)`, (m,), or (m, b) for v of shape (n, b)."""

    x: Float
    v: Float

    def answer(self, A: Measurements, n_threads: int) -> Float:
        return A.along(self.x, self.v, n_threads=n_threads)

    def from_products(self, W: Float) -> Float:
        """The answer from the products of x."""
        return along_of(W, self.v)


@dataclass(frozen=True, slots=True)
class Gradient(_AtPoint):
    """Answered with `J^T w = 2 Σ_i w_i Ã_i x`, (n,)."""

    x: Float
    w: Float

    def answer(self, A: Measurements, n_threads: int) -> Float:
        return A.gradient(self.x, self.w, n_threads=n_threads)

    def of_part(self, start: int, stop: int) -> Gradient:
        return Gradient(self.x, self.w[start:stop])

    def split(self, answer: Any) -> Answer:
        return None, answer

    def from_products(self, W: Float) -> Float:
        """The answer from the products of x."""
        return gradient_of(W, self.w)


@dataclass(frozen=True, slots=True)
class Gram(_AtPoint):
    """Answered with the pair `J^T diag(d) J`, `J^T diag(d) r` in real coordinates; the first may be sparse."""

    x: Float
    d: Float
    r: Float

    def answer(self, A: Measurements, n_threads: int) -> tuple[Any, Float]:
        return A.gram(self.x, self.d, self.r, n_threads=n_threads)

    def of_part(self, start: int, stop: int) -> Gram:
        return Gram(self.x, self.d[start:stop], self.r[start:stop])

    def split(self, answer: Any) -> Answer:
        return None, answer

    def from_products(self, W: Float) -> tuple[Float, Float]:
        """The answer from the products of x, which are overwritten."""
        return gram_of(W, self.d, self.r)


@dataclass(frozen=True, slots=True)
class Sizes(Contraction):
    """Answered with the size of the terms of `x^* Ã_i x`, (m,), to which each measurement is rounded."""

    x: Float

    def cost(self, A: Measurements) -> float:
        return Products(self.x).cost(A)

    def answer(self, A: Measurements, n_threads: int) -> Float:
        return A._sizes(self.x)


@dataclass(frozen=True, slots=True)
class SparseMatrices(Contraction):
    """Answered with all matrices as one sparse matrix, `fastquad.measurements.base.Edges`; None if there is none."""

    kept = False
    reads = False

    def cost(self, A: Measurements) -> float:
        return 1.0 if A.gram_kind == "sparse" else 0.0

    def answer(self, A: Measurements, n_threads: int) -> Edges | None:
        return A._edges()


@dataclass(frozen=True, slots=True)
class WeightedSum(Contraction):
    """Answered with `Σ_i w_i Ã_i`, (n, n); for w of shape (m, b), (b, n, n)."""

    w: Float

    shared = True

    def cost(self, A: Measurements) -> float:
        return 1.0

    def answer(self, A: Measurements, n_threads: int) -> Float:
        return A.weighted_sum(self.w, n_threads=n_threads)

    @staticmethod
    def shared_cost(A: Measurements, requests: Sequence[WeightedSum]) -> float:
        return 1.0

    @staticmethod
    def answer_all(A: Measurements, requests: Sequence[WeightedSum], n_threads: int) -> list[Float]:
        S = A.weighted_sum(_columns([q.w for q in requests]), n_threads=n_threads)
        return [S[part] for part in _parts([q.w.shape for q in requests])]

    def of_part(self, start: int, stop: int) -> WeightedSum:
        return WeightedSum(self.w[start:stop])

    def split(self, answer: Any) -> Answer:
        return None, answer


@dataclass(frozen=True, slots=True)
class Inner(Contraction):
    """Answered with `<Ã_i, D>`, (m,), for a symmetric D (n, n): the transpose of `WeightedSum`."""

    D: Float

    def cost(self, A: Measurements) -> float:
        return 1.0

    def answer(self, A: Measurements, n_threads: int) -> Float:
        return A._inner(self.D, n_threads)


@dataclass(frozen=True, slots=True)
class Frobenius(Contraction):
    """Answered with `‖Ã_i‖_F` or little more, (m,), read-only; A is read for it once a solve."""

    once = True
    kept = False

    def cost(self, A: Measurements) -> float:
        return 1.0

    def answer(self, A: Measurements, n_threads: int) -> Float:
        sizes = A._frobenius(n_threads)
        sizes.flags.writeable = False
        return sizes


@dataclass(frozen=True, slots=True)
class Diagonals(Contraction):
    """Answered with `diag(A_i)`, (m, n), read-only; A is read for it once a solve."""

    once = True
    kept = False

    def cost(self, A: Measurements) -> float:
        return A.cost_of_diagonals()

    def answer(self, A: Measurements, n_threads: int) -> Float:
        diagonals = A.diagonals(n_threads=n_threads)
        diagonals.flags.writeable = False
        return diagonals


@dataclass(frozen=True, slots=True)
class Rows(Contraction):
    """Answered with `Ã_i[S, :]`, (m, s, n), in the dtype of A."""

    support: Indices

    def cost(self, A: Measurements) -> float:
        return A.share_of_rows(len(self.support))

    def answer(self, A: Measurements, n_threads: int) -> Float:
        return A.rows(self.support, n_threads=n_threads)


@dataclass(frozen=True, slots=True)
class Block(Contraction):
    """Answered with `Ã_i[S, T]`, (m, s, t); T = S if cols is None."""

    rows: Indices
    cols: Indices | None = None

    def cost(self, A: Measurements) -> float:
        return A.share_of_block(self.rows, self.rows if self.cols is None else self.cols)

    def answer(self, A: Measurements, n_threads: int) -> Float:
        return A.block(self.rows, self.cols, n_threads=n_threads)


@dataclass(frozen=True, slots=True)
class Cells(Contraction):
    """Answered with the first `new` rows of `Ã_i[P, P]` in the packed layout, (blocks, entries, 8); −1 in P is none.

    They are in the precision of A if it is packed. What `fastquad.measurements.dense.kept.Kept` is made of.
    """

    members: Indices
    new: int

    lent = True

    def cost(self, A: Measurements) -> float:
        new, members = self.members[: self.new], self.members
        return A.share_of_block(new[new >= 0], members[members >= 0])

    def answer(self, A: Measurements, n_threads: int) -> Float:
        return A._cells(self.members, self.new, n_threads)

    def scaled(self, answer: Float, w: Float) -> Float:
        lanes = np.zeros((len(answer), 1, LANES))
        lanes.reshape(-1)[: w.size] = w
        return answer * lanes


@dataclass(frozen=True, slots=True)
class Compress(Contraction):
    """Answered with `U^T Ã_i U`, (m, p, p)."""

    U: Float

    shared = True

    def cost(self, A: Measurements) -> float:
        return 1.0

    def answer(self, A: Measurements, n_threads: int) -> Float:
        return A.compress(self.U, n_threads=n_threads)

    @staticmethod
    def shared_cost(A: Measurements, requests: Sequence[Compress]) -> float:
        return 1.0

    @staticmethod
    def answer_all(A: Measurements, requests: Sequence[Compress], n_threads: int) -> list[Float]:
        # Requests with the same U share one answer, so they must not write to it.
        answers = {key: A.compress(U, n_threads=n_threads) for key, U in {id(q.U): q.U for q in requests}.items()}
        return [answers[id(q.U)] for q in requests]


@dataclass(frozen=True, slots=True)
class Sweep(Contraction):
    """Answered with `r = c − A(zz^T + diag v)` and `S = Σ_i r_i Ã_i`; z, v and c may have a column per signal.

    `precise=False` allows float arithmetic if A is stored so.
    """

    z: Float
    v: Float
    c: Float
    precise: bool = True

    shared = True

    def cost(self, A: Measurements) -> float:
        return float(A.sweep_passes())

    def answer(self, A: Measurements, n_threads: int) -> tuple[Float, Float]:
        return A.sweep(self.z, self.v, self.c, precise=self.precise, n_threads=n_threads)

    @staticmethod
    def shared_cost(A: Measurements, requests: Sequence[Sweep]) -> float:
        return float(A.sweep_passes())

    @staticmethod
    def answer_all(A: Measurements, requests: Sequence[Sweep], n_threads: int) -> list[tuple[Float, Float]]:
        z, v, c = (_columns(list(side)) for side in zip(*((q.z, q.v, q.c) for q in requests), strict=True))
        r, S = A.sweep(z, v, c, precise=any(q.precise for q in requests), n_threads=n_threads)
        return [(np.ascontiguousarray(r[:, part]), S[part]) for part in _parts([q.z.shape for q in requests])]

    def of_part(self, start: int, stop: int) -> Sweep:
        return Sweep(self.z, self.v, self.c[start:stop], self.precise)

    def split(self, answer: Any) -> Answer:
        return answer


@dataclass(frozen=True, slots=True)
class Factors(Contraction):
    """Answered with a transform B such that `x^T A_i x = ‖B_i x‖²`; None if A has no such factors.

    What is done with it is charged by `fastquad.engine.requests.Reread`, one pass per product.
    """

    kept = False
    reads = False

    def cost(self, A: Measurements) -> float:
        return 1.0 if not A.by_transform and A._factors().shape[1] else 0.0

    def answer(self, A: Measurements, n_threads: int) -> Transform | None:
        if A.by_transform:
            return A._transform(real=True)
        factors = A._factors()
        from fastquad.numerics.transform import DenseTransform

        return DenseTransform(factors) if factors.shape[1] else None


@dataclass(frozen=True, slots=True)
class Shifts(Contraction):
    """Answered with whether shifts are cyclic, and the lags, (m,), if A_i shifts by them; None if it does not."""

    kept = False
    reads = False

    def cost(self, A: Measurements) -> float:
        return 0.0

    def answer(self, A: Measurements, n_threads: int) -> tuple[bool, Indices] | None:
        return A._shifts()


@dataclass(frozen=True, slots=True)
class Verbs(Contraction):
    """Answered with A as quadratic forms by their functions: `measure`, `along` and `gradient`.

    What is done with them is charged by `fastquad.engine.requests.Reread`, one pass per call.
    """

    kept = False
    reads = False

    def cost(self, A: Measurements) -> float:
        return 0.0

    def answer(self, A: Measurements, n_threads: int) -> Forms:
        from fastquad.numerics.forms import Forms

        return Forms(
            A.m, A.n,
            lambda x: A._measure(x, n_threads),
            lambda x, v: A._along(x, v, n_threads),
            lambda x, w: A._gradient(x, w, n_threads),
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class Matrices(Contraction):
    """Answered with `Ã_i`, first <= i < last, (last − first, n, n)."""

    first: int
    last: int

    def cost(self, A: Measurements) -> float:
        return (self.last - self.first) / A.m

    def answer(self, A: Measurements, n_threads: int) -> Float:
        return A.matrices(self.first, self.last)

    def of_part(self, start: int, stop: int) -> Matrices | None:
        if self.first >= stop or self.last <= start:
            return None
        return Matrices(max(self.first, start) - start, min(self.last, stop) - start)


def merged(answers: Iterable[Answer]) -> Answer:
    """Merge the answers of consecutive parts: entries are concatenated, sums added in order."""
    entries: list[Float] = []
    total: Any = None
    owned = False
    for entry, part in answers:
        if entry is not None:
            entries.append(entry)
        if part is not None:
            # The first answer may be read-only, and is not ours to write to.
            total = part if total is None else _added(total, part, owned)
            owned = total is not part
    return (np.concatenate(entries) if entries else None), total


def _added(total: Any, part: Any, owned: bool) -> Any:
    """The sum of two parts, which may be tuples of arrays; written to the first if it is owned."""
    if isinstance(total, tuple):
        return tuple(_added(a, b, owned) for a, b in zip(total, part, strict=True))
    if owned and isinstance(total, np.ndarray):
        total += part
        return total
    return total + part


def _nonzero(x: Float) -> Any:
    """Whether x, or one of its columns, is nonzero in each coordinate, (n,)."""
    return x != 0 if x.ndim == 1 else x.any(axis=1)


def _columns(arrays: list[Float]) -> Float:
    """Vectors and matrices side by side."""
    return np.concatenate([array[:, None] if array.ndim == 1 else array for array in arrays], axis=1)


def _parts(shapes: list[tuple[int, ...]]) -> list[Any]:
    """The place of each array among the columns: a number for a vector, a slice for a matrix."""
    places: list[Any] = []
    start = 0
    for shape in shapes:
        width = 1 if len(shape) == 1 else shape[1]
        places.append(start if len(shape) == 1 else slice(start, start + width))
        start += width
    return places
