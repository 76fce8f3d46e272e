"""Bases by name: the matrices D of `x = D z` in which signals are sparse."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastquad.typing import Float, Number


def matrix(basis: Number | str, n: int) -> Number:
    """The matrix (n, p) of a basis, checked."""
    if not isinstance(basis, str):
        if basis.shape[0] != n:
            raise ValueError(f"`basis` must have n = {n} rows, got shape {basis.shape}.")
        return basis
    return _dct(n) if basis == "dct" else _wavelets(basis, n)


def orthonormal(D: Number) -> bool:
    """Whether the columns of D are orthonormal, to rounding."""
    return bool(np.abs(D.conj().T @ D - np.eye(D.shape[1])).max() < 1e-9)


def wavelets(name: str) -> Any:
    """PyWavelets, if it has an orthogonal wavelet of this name."""
    said = f"`basis` must be 'dct' or the name of an orthogonal wavelet such as 'haar', got {name!r}."
    try:
        import pywt
    except ImportError:
        raise ImportError(f"{said} Wavelets need PyWavelets: pip install 'fastquad[wavelets]'.") from None
    if name not in pywt.wavelist(kind="discrete") or not pywt.Wavelet(name).orthogonal:
        raise ValueError(said)
    return pywt


def _dct(n: int) -> Float:
    """The orthonormal cosines of the discrete cosine transform."""
    from scipy.fft import idct

    return np.asarray(idct(np.eye(n), axis=0, norm="ortho"))


def _wavelets(name: str, n: int) -> Float:
    """The orthonormal wavelets of PyWavelets, periodic, on as many levels as n allows."""
    pywt = wavelets(name)
    # Halve n as often as possible, while the wavelet is not longer than what it is applied to.
    levels = min((n & -n).bit_length() - 1, pywt.dwt_max_level(n, pywt.Wavelet(name).dec_len))
    if levels == 0:
        raise ValueError(f"`basis` {name!r} needs signals of an even length, long enough for it, got n = {n}.")
    columns = []
    shapes = pywt.wavedec(np.zeros(n), name, mode="periodization", level=levels)
    sizes = [len(part) for part in shapes]
    for unit in np.eye(n):
        parts = np.split(unit, np.cumsum(sizes)[:-1])
        columns.append(pywt.waverec(parts, name, mode="periodization"))
    return np.stack(columns, axis=1)
