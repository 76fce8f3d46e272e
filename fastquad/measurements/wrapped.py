"""Measurements made of others: views of complex matrices, linear terms, another basis."""

from __future__ import annotations

from fastquad.measurements.base import Measurements


class WrappedTensor(Measurements):
    """Measurements whose contractions are computed from those of `inner`, which is all that they read."""

    def __init__(self, inner: Measurements, n: int | None = None) -> None:
        self.inner = inner
        self.m, self.n, self.dtype = inner.m, inner.n if n is None else n, inner.dtype

    @property
    def bytes_read(self) -> int:  # type: ignore[override]
        """The number of bytes read from disk so far."""
        return self.inner.bytes_read

    @property
    def medium(self) -> str:  # type: ignore[override]
        """Where the inner tensor is read from."""
        return self.inner.medium

    @property
    def memory(self) -> int | None:  # type: ignore[override]
        """The memory budget that the inner tensor was opened with, if any."""
        return self.inner.memory

    @property
    def nbytes(self) -> int:
        """Bytes that one full pass reads."""
        return self.inner.nbytes

    @property
    def gram_kind(self) -> str | None:  # type: ignore[override]
        """What the inner tensor answers `gram` with."""
        return self.inner.gram_kind

    @property
    def matrix_free(self) -> bool:  # type: ignore[override]
        """Whether the inner tensor is one of functions."""
        return self.inner.matrix_free

    @property
    def intensities(self) -> bool:  # type: ignore[override]
        """Whether the inner tensor's measurements are sums of squares."""
        return self.inner.intensities

    @property
    def only_verbs(self) -> bool:  # type: ignore[override]
        """Whether the inner tensor has nothing but functions."""
        return self.inner.only_verbs

    def sweep_passes(self) -> int:
        """How often `sweep` reads A."""
        return self.inner.sweep_passes()
