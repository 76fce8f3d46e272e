"""What raw and packed tensors share: chunks of measurements, and the sweep, which adds up chunk by chunk."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable

import numpy as np

from fastquad.measurements.base import Measurements
from fastquad.system import threads
from fastquad.typing import Number

Chunks = list[tuple[int, int]]

#: The least size of a chunk in bytes: handing it out then costs nothing in comparison.
CHUNK_BYTES = 1 << 20
#: The largest size of a chunk in bytes: Ctrl-C is seen between two chunks.
LONGEST_CHUNK = 32 << 20
# The size in bytes up to which a pass takes a microsecond or two.
_TINY_BYTES = 1 << 16
#: The number of bytes that stay in the last-level cache until a sweep uses them again.
_CACHE_BYTES = 12 << 20
#: The largest size in bytes of the partial sums of a sweep.
_SUMS_BYTES = 256 << 20


class StoredTensor(Measurements):
    """Measurements held as an array of `_units` (matrices, or blocks of them), each of `_unit_bytes`."""

    numbers = "memory"
    _separate = True
    _units: int
    _unit_bytes: int

    def _apply(self, x: Number, n_threads: int, out: Number | None = None) -> Number:
        if x.ndim != 1 or self._units * self._unit_bytes > _TINY_BYTES:
            return super()._apply(x, n_threads, out)
        # Read all of it: to find out whether a few rows are enough would take as long.
        W = np.empty((self.m, self.n), dtype=self.number) if out is None else out
        self._products(x, W, 1)
        return W

    def _run(
        self,
        kernel: Callable[..., object],
        *arguments: object,
        n_threads: int,
        chunks: Chunks | None = None,
        share: float = 1.0,
    ) -> None:
        """Run a kernel that owns what it writes on all units, or on these chunks of something else.

        Its cost is about that of reading `share` of the tensor.
        """
        cost = self._units * self._unit_bytes * share
        if chunks is None and cost <= CHUNK_BYTES:
            # Skip the chunking for a small tensor: it would take longer than the work.
            kernel(*arguments, 0, self._units)
            return
        n_threads = threads.worthwhile(n_threads, int(cost))
        if chunks is None:
            chunks = self._chunks(n_threads, share)
        threads.run(kernel, [(*arguments, *chunk) for chunk in chunks], n_threads)

    def _chunks(self, n_threads: int, share: float = 1.0) -> Chunks:
        # Make several chunks for each thread, because one may stall, each short enough for Ctrl-C.
        wanted = self.nbytes * share / (16 * n_threads) if n_threads > 1 else LONGEST_CHUNK
        size = min(max(wanted, CHUNK_BYTES), LONGEST_CHUNK)
        return threads.chunks(self._units, max(1, int(size / max(self._unit_bytes * share, 1))))

    def __sizeof__(self) -> int:
        # Include the array, so that Dask does not consider the tensor cheap to move.
        return object.__sizeof__(self) + self.nbytes

    # -- the sweep ------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def _sweep_bytes(self) -> int:
        """What the sweep's kernel reads, and then comes back to."""

    @abstractmethod
    def _sweep_chunk(self, z: Number, v: Number, r: Number, sums: Number, start: int, stop: int) -> None:
        """`r_i −= <Ã_i, zz^T + diag(v)>` and `sums += Σ_i r_i Ã_i` for one chunk, in the layout of `_new_sums`."""

    @abstractmethod
    def _quadratic(self, z: Number, v: Number, r: Number, n_threads: int) -> None:
        """`r_i −= <Ã_i, zz^T + diag(v)>`"""

    @abstractmethod
    def _new_sums(self, count: int, b: int) -> Number:
        """Zeros for `count` chunks' sums of b signals each."""

    @abstractmethod
    def _as_matrices(self, sums: Number) -> Number:
        """The sums of b signals as symmetric matrices, (b, n, n)."""

    @abstractmethod
    def _aligned(self, z: Number, v: Number, c: Number) -> tuple[Number, Number, Number]:
        """z, v and c as the kernels want them: a row per signal."""

    def sweep_passes(self) -> int:
        return 1 if fits_cache(self._sweep_bytes) else 2

    def _sweep(self, z: Number, v: Number, c: Number, n_threads: int) -> tuple[Number, Number]:
        return self._sweep_by(self._sweep_chunk, z, v, c, n_threads)

    def _sweep_by(
        self, sweep_chunk: Callable[..., None], z: Number, v: Number, c: Number, n_threads: int
    ) -> tuple[Number, Number]:
        """The sweep with this way to do a chunk, if a chunk fits in cache."""
        z, v, r = self._aligned(z, v, c)
        if self.sweep_passes() == 2:
            self._quadratic(z, v, r, n_threads)
            r = r[:, : self.m].T.copy()
            return r, self._weighted_sum(r, n_threads)
        chunks = sweep_chunks(self._units, self.n, len(z), self.nbytes)
        sums = self._new_sums(len(chunks), len(z))
        tasks = [(z, v, r, part, *chunk) for part, chunk in zip(sums, chunks, strict=True)]
        threads.run(sweep_chunk, tasks, threads.worthwhile(n_threads, self.nbytes * len(z)))
        return r[:, : self.m].T.copy(), self._as_matrices(added_up(sums))


def fits_cache(nbytes: int) -> bool:
    """Whether a sweep that comes back to these bytes finds them in the last-level cache."""
    return nbytes <= _CACHE_BYTES


def sweep_chunks(units: int, n: int, b: int, nbytes: int | None = None) -> Chunks:
    """Chunks for a sweep of b signals, each with sums of its own: the same ones for any number of threads.

    Sums are written, too, and cost time if a stored tensor has few of its `nbytes` to each of them.
    """
    per_sum = 4 * n**2
    wanted = 16 if nbytes is None else int(np.clip(nbytes // (50 * per_sum), 4, 16))
    n_chunks = int(np.clip(_SUMS_BYTES // (per_sum * b), 2, wanted))
    return threads.chunks(units, -(-units // n_chunks))


def added_up(sums: Number) -> Number:
    """The sums of all chunks, added up in their order."""
    for part in sums[1:]:
        sums[0] += part
    return sums[0]
