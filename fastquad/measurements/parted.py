"""Measurements that come in parts: consecutive ones, each with kernels of its own.

A contraction of A is that of its parts, put one after the other (an entry a measurement), or added up in their order (a
sum over measurements). So the answer does not depend on which part was done first. Where the parts are is a matter of
the kind: on other machines (`distributed.py`), or chunks that are computed in turn (`chunked.py`).
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from fastquad.measurements.base import Float, Measurements

#: What a contraction of a part gives: an entry a measurement, and a sum over measurements; either may be None.
Answer = tuple[Float | None, Float | None]
Places = NDArray[np.intp]


class PartedTensor(Measurements):
    """Measurements in the parts `_bounds`, (start, stop) of each; `_like` is of the kind of the parts, for all of m."""

    _bounds: list[tuple[int, int]]
    _like: Measurements

    @abstractmethod
    def _ask(self, call: str, common: tuple, own: dict[int, tuple], n_threads: int) -> Iterable[Answer]:
        """`contract(part, call, common + own[part])` for each part of `own`, in order; neighbours may come merged."""

    # -- what a read costs is what it costs the parts ---------------------------------------------------------------

    def reads_rows(self, nnz: int) -> bool:
        return self._like.reads_rows(nnz)

    def share_of_rows(self, s: int) -> float:
        return self._like.share_of_rows(s)

    def sweep_passes(self) -> int:
        return self._like.sweep_passes()

    @property
    def nbytes(self) -> int:
        """Bytes that one full pass reads."""
        return self._like.nbytes

    # -- an entry a measurement -------------------------------------------------------------------------------------

    def matrices(self, start: int, stop: int) -> Float:
        wanted = {
            part: (max(start, first) - first, min(stop, last) - first)
            for part, (first, last) in enumerate(self._bounds)
            if first < stop and start < last
        }
        out = np.empty((stop - start, self.n, self.n))
        return _put(self._ask("matrices", (), wanted, 1), out)

    def _stacked(self, call: str, *common: Any, shape: tuple[int, ...], n_threads: int) -> Float:
        """The contractions of all parts, one after the other."""
        return _put(self._ask(call, common, self._all(), n_threads), np.empty((self.m, *shape)))

    def _apply(self, x: Float, n_threads: int, out: Float | None = None) -> Float:
        out = np.empty((self.m, *x.shape)) if out is None else out
        return _put(self._ask("_apply", (x,), self._all(), n_threads), out)

    def _measure(self, x: Float, n_threads: int) -> Float:
        return self._stacked("_measure", x, shape=x.shape[1:], n_threads=n_threads)

    def _sided_products(self, x: Float, transpose: bool, n_threads: int) -> Float:
        return self._stacked("_sided_products", x, transpose, shape=(self.n,), n_threads=n_threads)

    def _diagonals(self, n_threads: int) -> Float:
        return self._stacked("_diagonals", shape=(self.n,), n_threads=n_threads)

    def _rows(self, support: Places, n_threads: int) -> Float:
        # In the precision in which the parts give them.
        rows, _ = merged(self._ask("_rows", (support,), self._all(), n_threads))
        assert rows is not None
        return rows

    def _block(self, rows: Places, cols: Places, n_threads: int) -> Float:
        return self._stacked("_block", rows, cols, shape=(rows.size, cols.size), n_threads=n_threads)

    def _compress(self, U: Float, n_threads: int) -> Float:
        p = U.shape[1]
        return self._stacked("_compress", U, shape=(p, p), n_threads=n_threads)

    # -- sums over measurements -------------------------------------------------------------------------------------

    def _weighted_sum(self, w: Float, n_threads: int) -> Float:
        _, S = merged(self._ask("_weighted_sum", (), self._cut(w), n_threads))
        assert S is not None
        return S

    def _sweep(self, z: Float, v: Float, c: Float, n_threads: int) -> tuple[Float, Float]:
        r, S = merged(self._ask("_sweep", (z, v), self._cut(c), n_threads))
        assert r is not None
        assert S is not None
        return r, S

    def _all(self) -> dict[int, tuple]:
        return dict.fromkeys(range(len(self._bounds)), ())

    def _cut(self, w: Float) -> dict[int, tuple]:
        """The weights of each part."""
        return {part: (w[start:stop],) for part, (start, stop) in enumerate(self._bounds)}


def contract(A: Measurements, call: str, arguments: Sequence[Any], n_threads: int) -> Answer:
    """One contraction of one part."""
    if call == "matrices":
        return A.matrices(*arguments), None
    answer = getattr(A, call)(*arguments, n_threads)
    if call == "_sweep":
        return answer
    return (None, answer) if call == "_weighted_sum" else (answer, None)


def merged(answers: Iterable[Answer]) -> Answer:
    """The answers of consecutive parts as that of one: entries one after the other, sums added up in order."""
    entries, total, owned = [], None, False
    for entry, part in answers:
        if entry is not None:
            entries.append(entry)
        if part is not None:
            if total is None:
                total = part
            elif owned:
                total += part
            else:  # what came may be read-only, and is not ours to write to
                total, owned = total + part, True
    return (np.concatenate(entries) if entries else None), total


def _put(answers: Iterable[Answer], out: Float) -> Float:
    """Put the entries of consecutive parts in their places, each as soon as it is there."""
    position = 0
    for entry, _ in answers:
        assert entry is not None
        out[position : position + len(entry)] = entry
        position += len(entry)
    return out
