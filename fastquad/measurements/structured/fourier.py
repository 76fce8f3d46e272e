"""Fourier intensities behind masks, from the masks alone: `y = |F(mask · x)|²`, as in coded diffraction.

For pixel k of the transform and mask l, `a^* x = Σ_j mask_l(j) exp(−2πi Σ_d k_d j_d/N_d) x_j`. So

    B x           a multiplication with each mask and a fast Fourier transform
    B^* z         the inverse transform, times the conjugate masks, summed over them
    B^* B         diagonal if all pixels are measured: N Σ_l |mask_l(j)|², N the number of pixels
    Σ_i w_i A_i   conj(mask_l(j)) mask_l(k) c_l(j − k), with c_l the inverse transform of w_l, summed over the masks

and no vector is ever stored. Pixels that are not measured, behind a beam stop or dead, are left out of y.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from fastquad import arguments
from fastquad.measurements.structured.factored import FactoredTensor
from fastquad.numerics import krylov
from fastquad.numerics.transform import Room, Transform, Unit
from fastquad.system.deadline import check
from fastquad.typing import Float, Indices, Number


class FourierTensor(FactoredTensor):
    """Measurements `y = |F(mask · x)|²`, one for each mask and pixel: phase retrieval by coded diffraction.

    F is the Fourier transform as `numpy.fft.fftn` has it. Signals are complex; if yours are real, give `solve`
    signal="real". x is flattened, and so is y: mask by mask, pixel by pixel.

    With a single mask of ones, x reversed, moved or conjugated may measure the same. Masks of random phases leave
    only the phase of x open.

    Parameters
    ----------
    masks : array of shape (L, ...)
        L masks, real or complex, each of the shape of the object x: (L, n), or (L, height, width) for images.
    size : tuple of int, optional
        The shape of the transform, if it is larger than that of the object. Zeros are appended, which measures
        between the pixels (oversampling). Default: that of the object.
    measured : boolean array of shape (L, ...), optional
        Which pixels of the L transforms are measured; default: all.

    Examples
    --------
    >>> import numpy as np, fastquad as fq
    >>> rng = np.random.default_rng(0)
    >>> image, masks = rng.random((16, 16)), np.exp(2j * np.pi * rng.random((4, 16, 16)))
    >>> A = fq.FourierTensor(masks)
    >>> A
    FourierTensor(m=1024, n=256, complex128, 16.4 kB, 4 masks of 16×16)
    >>> y = np.abs(np.fft.fft2(masks * image)).ravel() ** 2
    >>> solution = fq.solve(A, y, signal="real")
    >>> solution.status.name, bool(fq.distance(solution.x, image.ravel()) < 1e-12)
    ('PROVEN', True)
    """

    by_transform = intensities = True
    gram_kind = None

    def __init__(
        self, masks: ArrayLike, *, size: tuple[int, ...] | None = None, measured: ArrayLike | None = None
    ) -> None:
        a = np.asarray(masks)
        arguments.check_numbers(a, "masks", complex_too=True)
        if a.ndim < 2 or 0 in a.shape:
            raise ValueError(f"`masks` must have shape (L, ...), L masks of the shape of x, got {a.shape}.")
        if not np.isfinite(a).all() or not a.reshape(len(a), -1).any(axis=1).all():
            raise ValueError("`masks` must be finite, and none of them zero everywhere.")
        self.masks = np.ascontiguousarray(a, dtype=np.complex128)
        self.size, self.shape_of_x = _size(size, a.shape[1:]), a.shape[1:]
        self.measured = _measured(measured, (len(a), *self.size))
        self.n, self.dtype = math.prod(a.shape[1:]), np.dtype(np.complex128)
        self.m = math.prod(self.size) * len(a) if self.measured is None else int(np.count_nonzero(self.measured))

    def _about(self) -> tuple[str, ...]:
        shape = "×".join(map(str, self.masks.shape[1:]))
        count = f"{len(self.masks)} mask{'s' if len(self.masks) > 1 else ''} of {shape}"
        return (count, *(["×".join(map(str, self.size)) + " pixels"] if self.size != self.masks.shape[1:] else []))

    @property
    def nbytes(self) -> int:
        """Bytes that one full pass reads."""
        return self.masks.nbytes

    def _identity(self) -> tuple[Any, ...]:
        return "fourier", self.masks, self.size, self.measured

    def _part(self, start: int, stop: int) -> FourierTensor:
        chosen = np.zeros((len(self.masks), *self.size), dtype=bool)
        chosen.reshape(-1)[self._pixels[start:stop]] = True
        return FourierTensor(self.masks, size=self.size, measured=chosen)

    @property
    def symmetry(self) -> str:
        """Without masks x may be anywhere, and reversed, as `fastquad.distance` reads it."""
        return _symmetry(self.masks, self.size)

    def _transform(self, real: bool) -> FourierTransform:
        return FourierTransform(self.masks, self.size, self.measured, real)

    # -- entries: only if they are asked for -----------------------------------------------------------------------

    @property
    def _pixels(self) -> Indices:
        """The place of each measurement among all pixels of all masks, flat."""
        if self.measured is None:
            return np.arange(len(self.masks) * math.prod(self.size))
        return np.flatnonzero(self.measured)

    def _columns(self, support: Indices, pixels: Indices | None = None) -> Number:
        """`B[:, S]`, (m, s); of some measurements, given as their places among all pixels."""
        pixels = self._pixels if pixels is None else pixels
        mask, *at = np.unravel_index(pixels, (len(self.masks), *self.size))
        B = self.masks.reshape(len(self.masks), -1)[:, support][mask]
        for k, j, size in zip(at, np.unravel_index(support, self.masks.shape[1:]), self.size, strict=True):
            waves = np.exp(-2j * np.pi / size * np.arange(size))
            B *= waves[np.outer(np.arange(size), j) % size][k]
        return B

    def matrices(self, start: int, stop: int) -> Number:
        self._check_range(start, stop)
        B = self._columns(np.arange(self.n), self._pixels[start:stop])
        return B.conj()[:, :, None] * B[:, None, :]

    def _diagonals(self, n_threads: int) -> Float:
        squares = np.abs(self.masks.reshape(len(self.masks), -1)) ** 2
        return squares[self._pixels // math.prod(self.size)]

    def _rows(self, support: Indices, n_threads: int) -> Number:
        return self._block(support, np.arange(self.n), n_threads)

    def _block(self, rows: Indices, cols: Indices, n_threads: int) -> Number:
        return self._columns(rows).conj()[:, :, None] * self._columns(cols)[:, None, :]

    # -- contractions by transforms -----------------------------------------------------------------------------------

    def reads_rows(self, nnz: int) -> bool:
        return False

    def _images(self, x: Number) -> Number:
        """`B x`, (m,), or (m, b) for x of shape (n, b)."""
        objects = np.ascontiguousarray(x.T).reshape(-1, 1, *self.masks.shape[1:])
        z = _fft(self.masks * objects, self.size).reshape(len(objects), -1)
        z = z if self.measured is None else z[:, self._pixels]
        return z[0] if x.ndim == 1 else np.ascontiguousarray(z.T)

    def _products(self, x: Number, W: Number, n_threads: int) -> None:
        p, everything, pixels = self._images(x), np.arange(self.n), self._pixels
        step = max(1, (1 << 22) // self.n)  # a few rows at a time: W itself may be most of the memory
        for start in range(0, self.m, step):
            check()
            part = slice(start, start + step)
            B = self._columns(everything, pixels[part]).conj()
            W[part] = B * p[part, None] if x.ndim == 1 else B[:, :, None] * p[part, None, :]

    def _measure(self, x: Number, n_threads: int) -> Float:
        return np.abs(self._images(x)) ** 2

    def _along(self, x: Number, v: Number, n_threads: int) -> Float:
        z = 2 * self._images(x).conj()
        return ((z if v.ndim == 1 else z[:, None]) * self._images(v)).real

    def _gradient(self, x: Number, w: Float, n_threads: int) -> Number:
        B = self._transform(real=False)
        return B.adjoint(np.repeat(2 * w, 2) * B.forward(x.view(np.float64))).view(np.complex128)

    def _weighted_sum(self, w: Float, n_threads: int) -> Number:
        shape = (len(self.masks), *self.size)
        j = np.array(np.unravel_index(np.arange(self.n), self.masks.shape[1:]))
        apart = [(here[:, None] - here) % size for here, size in zip(j, self.size, strict=True)]
        masks, S = self.masks.reshape(len(self.masks), -1), np.zeros((w.shape[1], self.n, self.n), dtype=np.complex128)
        for out, column in zip(S, w.T, strict=True):
            full = np.zeros(math.prod(shape))
            full[self._pixels] = column
            for mask, each in zip(masks, _fft(full.reshape(shape), self.size, inverse=True), strict=True):
                out += mask.conj()[:, None] * mask * each[tuple(apart)]
        return (S + S.transpose(0, 2, 1).conj()) / 2

    def _inner(self, D: Number, n_threads: int) -> Float:
        # The sums of D's entries at each difference of two places, and their transform.
        j = np.array(np.unravel_index(np.arange(self.n), self.masks.shape[1:]))
        apart = [(here[:, None] - here) % size for here, size in zip(j, self.size, strict=True)]
        where, count = np.ravel_multi_index(tuple(apart), self.size).reshape(-1), math.prod(self.size)
        out = np.empty((len(self.masks), *self.size))
        for mask, each in zip(self.masks.reshape(len(self.masks), -1), out, strict=True):
            entries = (mask[:, None] * mask.conj() * D).reshape(-1)
            real, imag = (np.bincount(where, weights=part, minlength=count) for part in (entries.real, entries.imag))
            each[...] = _fft((real + 1j * imag).reshape(1, *self.size), self.size)[0].real
        return out.reshape(-1)[self._pixels]

    def _frobenius(self, n_threads: int) -> Float:
        squares = np.sum(np.abs(self.masks.reshape(len(self.masks), -1)) ** 2, axis=1)
        return squares[self._pixels // math.prod(self.size)]

    def _compress(self, U: Number, n_threads: int) -> Number:
        p = self._images(U)
        return p[:, :, None].conj() * p[:, None, :]

    def _sweep(self, z: Number, v: Float, c: Float, n_threads: int) -> tuple[Float, Number]:
        squares = np.abs(self.masks.reshape(len(self.masks), -1)) ** 2 @ v
        r = c - self._measure(z, n_threads) - squares[self._pixels // math.prod(self.size)]
        return r, self._weighted_sum(r, n_threads)


class FourierTransform(Transform):
    """B of real signals (n,), or of complex ones as real numbers, Re and Im in turn; two numbers per measurement."""

    R = 2
    diagonal = True

    def __init__(self, masks: Number, size: tuple[int, ...], measured: NDArray[np.bool_] | None, real: bool) -> None:
        self.masks, self.size, self.real = masks, size, real
        self.pixels = None if measured is None else np.flatnonzero(measured)
        self.count = len(masks) * math.prod(size)
        self.m = self.count if self.pixels is None else self.pixels.size
        self.n = masks[0].size * (1 if real else 2)
        #: With pixels missing, B^T B has no eigenvectors that are known.
        self.complete = measured is None
        self._measured = measured
        self.symmetry = _symmetry(masks, size)

    def _forward(self, x: Float) -> Float:
        z = self.masks * (x if self.real else x.view(np.complex128)).reshape(self.masks.shape[1:])
        z = _fft(z, self.size, overwrite=True).reshape(-1)
        return (z if self.pixels is None else z[self.pixels]).view(np.float64)

    def _adjoint(self, z: Float) -> Float:
        full: Number = z.view(np.complex128)
        if self.pixels is not None:
            full = np.zeros(self.count, dtype=np.complex128)
            full[self.pixels] = z.view(np.complex128)
        x = _fft(full.reshape(len(self.masks), *self.size), self.size, inverse=True)
        x = x[(slice(None), *(slice(each) for each in self.masks.shape[1:]))]
        x = np.einsum("l...,l...->...", self._conjugate, x).reshape(-1)
        return np.ascontiguousarray(x.real) if self.real else x.view(np.float64)

    @cached_property
    def _conjugate(self) -> Number:
        return self.masks.conj()

    @cached_property
    def eigenvalues(self) -> Float:
        """Of all pixels: with some of them missing, B^T B has no eigenvectors that are known, and these are larger."""
        values = math.prod(self.size) * np.sum(np.abs(self.masks) ** 2, axis=0).reshape(-1)
        return values if self.real else np.repeat(values, 2)

    def filtered(self, shares: Float, v: Float) -> Float:
        return shares * v

    def leading(self, weights: Float) -> tuple[Float, Float]:
        w = np.repeat(weights, 2)
        return krylov.leading_vectors(lambda v: self.adjoint(w * self.forward(v)), self.n, np.random.default_rng(0))

    @cached_property
    def equations(self) -> int:
        """Behind real masks opposite pixels of a real signal are equal."""
        if not self.real or self.masks.imag.any():
            return self.m
        pixels = np.arange(self.count).reshape(len(self.masks), *self.size)
        opposite = np.roll(np.flip(pixels, axes := tuple(range(1, pixels.ndim))), 1, axis=axes)
        pairs = np.minimum(pixels, opposite).reshape(-1)
        return int(np.unique(pairs if self.pixels is None else pairs[self.pixels]).size)

    @cached_property
    def rigidity(self) -> float:
        """By the masks alone, for all pixels, and for real x by `_rigidity_for_real`.

        A map Q of signals, linear over the reals, that leaves each |F(m Qv)_k| turns (F m v)_k or its conjugate by a
        phase: with circulants C and C' of each mask m, (Qv)_j sums (C(j−k) m_k v_k + C'(j+k) conj(m_k v_k))/m_j over k.
        For two masks with the ratio ρ, C(s) can only be nonzero if ρ(j)/ρ(j−s) is one number for all j, and C'(t) if
        ρ(j)/conj(ρ(t−j)) is: if the correlations of ρ with itself are as large as ‖ρ‖², at a shift that is not zero.
        """
        if self.pixels is not None or self.size != self.masks.shape[1:] or not self.masks.all():
            return 0.0
        if self.real:
            return _rigidity_for_real(self.masks)
        shifted, reflected = np.ones(self.size), np.ones(self.size)
        for mask in self.masks[1:]:
            ratio = mask / self.masks[0]
            power, f = float(np.sum(np.abs(ratio) ** 2)), np.fft.fftn(ratio)
            shifted = np.minimum(shifted, np.abs(np.fft.ifftn(np.abs(f) ** 2)) / power)
            reflected = np.minimum(reflected, np.abs(np.fft.ifftn(f * f)) / power)
        shifted.flat[0] = 0.0
        return 1 - max(float(shifted.max()), float(reflected.max()))

    def twins(self, x: Float) -> Iterator[tuple[str, Float]]:
        """Behind a single mask the product with it may be anywhere, and reversed."""
        if len(self.masks) > 1 or self.real or self.symmetry or not self.masks.all():
            return
        mask = self.masks[0]
        seen = mask * x.view(np.complex128).reshape(mask.shape)
        twins = [("reversed behind the mask", np.flip(seen).conj())]
        if self.size == mask.shape:
            twins.append(("moved behind the mask", np.roll(seen, 1, axis=-1)))
        for name, twin in twins:
            yield name, np.ascontiguousarray(twin / mask).reshape(-1).view(np.float64)

    def room(self) -> Room:
        """As large as the transform. Pixels opposite to each other have equal intensities if x is real."""
        pixels = np.arange(math.prod(self.size)).reshape(self.size)
        places = pixels[tuple(slice(side) for side in self.masks.shape[1:])].reshape(-1)
        source = np.full(self.count, -1)
        source[slice(None) if self.pixels is None else self.pixels] = np.arange(self.m)
        if self.real:
            opposite = np.roll(np.flip(pixels), 1, axis=tuple(range(pixels.ndim))).reshape(-1)
            source = np.where(source < 0, source[opposite], source)
        return Room(self.size, self.real, float(abs(self.masks.flat[0])), places, source)

    @cached_property
    def norms(self) -> Float:
        counts = math.prod(self.size)
        if self._measured is not None:
            counts = np.count_nonzero(self._measured.reshape(len(self.masks), -1), axis=1)
        values = np.tensordot(np.broadcast_to(counts, len(self.masks)), np.abs(self.masks) ** 2, 1).reshape(-1)
        return values if self.real else np.repeat(values, 2)

    def unit(self) -> Unit:
        """B with masks of norm 1."""
        squares = np.sum(np.abs(self.masks.reshape(len(self.masks), -1)) ** 2, axis=1)
        norms = np.sqrt(squares if self.real else 2 * squares)
        masks = self.masks / norms.reshape(-1, *[1] * len(self.size))
        norms = np.repeat(norms, math.prod(self.size))
        if self.pixels is not None:
            norms = norms[self.pixels]
        return Unit(FourierTransform(masks, self.size, self._measured, self.real), norms, np.arange(self.m))


def _rigidity_for_real(masks: Number) -> float:
    """The same for real x, and masks of one modulus each up to a common one, g.

    gQ/g is orthogonal then, and with the phases m of any mask its entry at j, k is C(s) m_k/m_j + C'(t)/(m_j m_k) for
    s = j − k and t = j + k. What it is at j, k beyond that at k, j is so `2 Re C(s) ρ(j)` with ρ(j) = m_k/m_j, unless
    all ρ(j) of one s lie on a line. For masks 1 and l the cosine of the angle between such vectors is at most

        (|Σ ρ_1 ρ_l| + |Σ ρ_1 conj(ρ_l)|)/√((n − |Σ ρ_1²|)(n − |Σ ρ_l²|))

    and where it is below 1 for some l, C(s) = 0. C'(t) = 0 unless all m_j m_{t−j} lie on a line, and Q is 1 or −1.
    """
    sizes = np.abs(masks)
    sizes = sizes / sizes.mean(axis=tuple(range(1, masks.ndim)), keepdims=True)
    if np.abs(sizes - sizes[0]).max() > 1e-9 * sizes.max():
        return 0.0
    phases, n = masks / np.abs(masks), masks[0].size

    def correlation(f: Number) -> Float:
        """|Σ_j f(j) conj(f(j − s))| for each shift s."""
        return np.asarray(np.abs(np.fft.ifftn(np.abs(np.fft.fftn(f)) ** 2)))

    first, cosine = phases[0], np.full(masks.shape[1:], np.inf)
    own = np.maximum(n - correlation(first**2), 1e-9 * n)
    for each in phases[1:]:
        beside = np.maximum(n - correlation(each**2), 1e-9 * n)
        both = correlation(first * each) + correlation(first * each.conj())
        cosine = np.minimum(cosine, both / np.sqrt(own * beside))
    cosine.flat[0] = 0.0
    # The places with 2j = t say nothing of C'(t).
    line = np.abs(np.fft.ifftn(np.fft.fftn(first**2) ** 2)) + 2.0**masks.ndim
    return float(np.clip(1 - max(float(cosine.max()), float(line.max()) / n), 0.0, 1.0))


def _symmetry(masks: Number, size: tuple[int, ...]) -> str:
    """What leaves |F(mask · x)|² as it is beside a phase, for one mask that is the same number everywhere."""
    if len(masks) > 1 or np.ptp(masks.real) > 0 or np.ptp(masks.imag) > 0:
        return ""
    shape, room = ("×".join(map(str, each)) for each in (masks.shape[1:], size))
    return f", translation and reflection of {shape}" + ("" if room == shape else f" in {room}")


def _fft(z: Number, size: tuple[int, ...], *, inverse: bool = False, overwrite: bool = False) -> Number:
    """The transform over the last axes, of this size; the inverse one times the number of pixels."""
    from scipy import fft  # importing fastquad does without

    axes = tuple(range(-len(size), 0))
    if inverse:
        return fft.ifftn(z, axes=axes, norm="forward")
    return fft.fftn(z, s=size, axes=axes, overwrite_x=overwrite)


def _size(size: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The shape of the transform, at least that of the object."""
    if size is None:
        return shape
    whole = tuple(arguments.count(each, "size") for each in size)
    if len(whole) != len(shape) or any(large < small for large, small in zip(whole, shape, strict=True)):
        raise ValueError(f"`size` must be at least the shape {shape} of a mask, got {whole}.")
    return whole


def _measured(measured: ArrayLike | None, shape: tuple[int, ...]) -> NDArray[np.bool_] | None:
    """Which pixels are measured; None for all."""
    if measured is None:
        return None
    chosen = np.asarray(measured)
    if chosen.dtype != np.bool_ or chosen.shape != shape or not chosen.any():
        raise ValueError(
            f"`measured` must be a boolean array of shape {shape}, for each pixel behind each mask, and not all False, "
            f"got {chosen.dtype} of shape {chosen.shape}."
        )
    return None if chosen.all() else np.ascontiguousarray(chosen)
