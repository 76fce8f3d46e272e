"""Complex signals: the real problem of their real and imaginary parts, and its answer made complex again.

What A and y say (`signal` decides where they leave it open):

    A complex            y real        x complex, measured by the Hermitian parts of A
    A complex or real    y complex     x complex; each matrix gives two Hermitian measurements, of Re y and of Im y
    A real symmetric     y real        x real; with signal="complex" x is complex, known up to a phase and conjugation
    A complex            signal="real" x real; only the real parts of the Hermitian matrices matter
    A complex            a decoder     x complex where that has two outputs an entry, Re and Im in turn; real where one

See `fastquad.measurements.views` for the views of A. What the user gives for n complex coordinates is handed on for 2n
real ones, and what comes back is viewed as complex, turned so that its largest entry is real and positive.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from fastquad import arguments
from fastquad.measurements.base import Measurements
from fastquad.measurements.dense.complex import ComplexTensor
from fastquad.measurements.dense.raw import RawTensor
from fastquad.measurements.views import ComplexView, RealPart, RealView
from fastquad.priors.base import Prior
from fastquad.priors.generative import Generative
from fastquad.priors.image import Denoiser
from fastquad.priors.sparse import Sparse
from fastquad.reductions import Given, Reduction, holds_complex
from fastquad.solution import Solution
from fastquad.status import noted
from fastquad.typing import Number

SIGNALS = ("real", "complex")
# Of complex y with Hermitian A, the imaginary part is rounding up to this share.
_ROUNDING = {8: 1e-10, 4: 1e-4}
# A complex answer that is real up to a phase has an imaginary part below this share.
_REAL = 1e-12


class Reading(NamedTuple):
    """What the solver is given: measurements, data, and whether x is complex."""

    A: Measurements
    y: Any
    complex: bool
    #: How many measurements come from one of the user's.
    parts: int = 1


def read(A: Measurements, y: Any, signal: str | None) -> Reading:
    """What A, y and `signal` say of the signal."""
    if signal is not None:
        arguments.choice(signal, "signal", SIGNALS)
    complex_y = holds_complex(y)
    if not complex_y and not A.complex and signal != "complex":
        return Reading(A, y, False)
    if not complex_y:
        return _with_real_data(A, y, signal)
    y = arguments.array(y, "y")
    single = np.zeros(0, dtype=A.dtype).real.dtype.itemsize < 8
    if float(np.linalg.norm(y.imag)) <= _ROUNDING[4 if single else 8] * float(np.linalg.norm(y)):
        return _with_real_data(A, np.ascontiguousarray(y.real), signal)
    both = _both_parts(A)
    if both is None:
        raise ValueError(
            "`y` must be real, because A is Hermitian (or real symmetric, or packed as such): x^* A_i x is real. Give "
            "the array of matrices as it is, not packed, or the real part of y."
        )
    data = np.ascontiguousarray(y, dtype=np.complex128).view(np.float64)
    if signal == "real":
        return Reading(RealPart(both), data, False, 2)
    return Reading(RealView(both), data, True, 2)


def _with_real_data(A: Measurements, y: Any, signal: str | None) -> Reading:
    if A.complex:
        return Reading(RealPart(A), y, False) if signal == "real" else Reading(RealView(A), y, True)
    if signal == "complex":
        return Reading(RealView(ComplexView(A), "phase and conjugation"), y, True)
    return Reading(A, y, False)


def _both_parts(A: Measurements) -> ComplexTensor | None:
    """The Hermitian and the skew measurements of an array; None where there are no skew ones."""
    if not isinstance(A, RawTensor | ComplexTensor):
        return None
    array = A.array if A.complex else A.array.astype(np.complex64 if A.dtype.itemsize < 8 else np.complex128)
    both = ComplexTensor(array, both=True)
    # A look at a few matrices nearly always tells; else all of them must be Hermitian, seen by a random vector.
    few = both.matrices(0, min(both.m, 16))
    size = float(np.abs(few[::2]).max(initial=0.0))
    if float(np.abs(few[1::2]).max(initial=0.0)) > 1e-6 * size:
        return both
    z = np.random.default_rng(0).standard_normal((2, A.n))
    seen = np.abs(both.measure(z[0] + 1j * z[1])).reshape(-1, 2)
    return both if (seen[:, 1] > 1e-6 * seen.max(initial=0.0)).any() else None


class Complex(Reduction):
    """Complex A, complex y, and `signal`."""

    def problem(self, given: Given) -> Given | None:
        signal = given.signal
        if signal is None and (_decodes_real(given.prior, given.A.n) or _says_real(given.prior)):
            signal = "real"
        reading = self.reading = read(given.A, given.y, signal)
        if reading.A is given.A:
            return None
        given = given.with_noise(lambda noise: noise.repeated(reading.parts))
        changes: dict[str, Any] = {"A": reading.A, "y": reading.y, "signal": None}
        if not reading.complex:
            return replace(given, **changes)
        n = reading.A.n // 2
        for name in ("x0", "x_true"):
            if getattr(given, name) is not None:
                changes[name] = interleaved(getattr(given, name), name, n)
        given = given.with_callback(lambda state: state._replace(x=state.x.view(np.complex128)))
        return replace(given, **changes, prior=_paired(given.prior, n))

    def solution(self, found: Solution, i: int) -> Solution:
        return complex_solution(found, self.reading.A.gauge) if self.reading.complex else found


def _decodes_real(prior: Any, n: int) -> bool:
    """Whether the signal is the output of a decoder with one real number per coordinate."""
    return isinstance(prior, Generative) and prior.decoder.n == n


def _says_real(prior: Any) -> bool:
    """Whether complex numbers cannot be as a prior says: not negative, or of a few real values."""
    return isinstance(prior, Prior) and (getattr(prior, "nonnegative", False) or prior.alphabet is not None)


def interleaved(x: Any, name: str, n: int) -> Number:
    """Complex signals (…, n) as real ones (…, 2n)."""
    X = np.ascontiguousarray(arguments.array(x, name), dtype=np.complex128)
    if X.ndim not in (1, 2) or X.shape[-1] != n:
        raise ValueError(f"`{name}` must have shape ({n},) or (b, {n}), got {X.shape}.")
    return X.view(np.float64)


def _paired(prior: Any, n: int) -> Any:
    """The prior of n complex coordinates for their real and imaginary parts."""
    if isinstance(prior, Generative):
        if prior.decoder.n != 2 * n:
            raise ValueError(
                f"the decoder of `prior` must have {2 * n} outputs for a complex signal of n = {n}, Re and Im of each "
                f"entry in turn, or {n} for a real one, got {prior.decoder.n}."
            )
        return prior
    if isinstance(prior, Denoiser):
        return prior.of_complex()
    if not isinstance(prior, Sparse):
        if isinstance(prior, Prior) and not getattr(prior, "complex", False):
            raise ValueError(
                "`prior` must be fastquad.Sparse(...), Generative(...) or None for a complex signal, got "
                f"{type(prior).__name__}; with signal='real' x is real."
            )
        return prior  # what is not a prior is refused by solve
    prior.check(n)
    for name in ("nonnegative", "partial", "fixed", "basis"):
        if getattr(prior, name) is not None and getattr(prior, name) is not False:
            raise ValueError(f"`{name}` must not be given for a complex signal; with signal='real' x is real.")
    changes: dict[str, Any] = {}
    if prior.support is not None:
        changes["support"] = np.repeat(2 * prior.support, 2) + np.tile([0, 1], prior.support.size)
    if prior.k is not None:
        changes["k"] = 2 * prior.k
    groups = prior.grouping(n)
    if groups is not None:
        changes["groups"] = np.repeat(groups.of, 2)
    return replace(prior, **changes)


def complex_solution(found: Solution, gauge: str) -> Solution:
    """The answer in complex numbers, turned so that its largest entry is real and positive."""
    x = found.x.view(np.complex128)
    note = ""
    if x.any():
        x, real = _turned(x)
        note = "x is real." if real else ""
    stderr = None if found.stderr is None else np.linalg.norm(found.stderr.reshape(-1, 2), axis=1)
    message = noted(found.message.replace("up to sign", f"up to a {gauge}"), note)
    rival = None if found.rival is None else complex_signal(found.rival)
    return replace(found, x=x, support=np.flatnonzero(x), stderr=stderr, message=message, rival=rival)


def _turned(x: Number) -> tuple[Number, bool]:
    """x with the phase for which its largest entry is real and positive, and whether all of it is real then."""
    square = np.sum(x * x)
    if abs(square) > 0:
        # Of a real signal, times a phase, Σ x_j² has twice that phase.
        straight = x / np.sqrt(square / abs(square))
        if float(np.linalg.norm(straight.imag)) <= _REAL * float(np.linalg.norm(x)):
            largest = straight.real[np.argmax(np.abs(straight.real))]
            return (straight.real * np.sign(largest)).astype(np.complex128), True
    at = int(np.argmax(np.abs(x)))
    x = x * (abs(x[at]) / x[at])
    x[at] = abs(x[at])
    return x, False


def complex_signal(x: Number) -> Number:
    """Re and Im in turn as a complex signal, turned so that its largest entry is real and positive."""
    z = x.view(np.complex128)
    return _turned(z)[0] if z.any() else z


def complex_data(A: Measurements, x: Number, n_threads: int) -> Number:
    """`x^* A_i x` of a complex A, or of a real one and complex x, (m,) or (b, m); real where A is Hermitian."""
    columns = np.ascontiguousarray(x.T, dtype=np.complex128)
    whole = A if A.complex else ComplexView(A)
    both = _both_parts(A) if isinstance(A, RawTensor | ComplexTensor) else None
    if both is None:
        return np.ascontiguousarray(whole.measure(columns, n_threads=n_threads).T)
    y = np.ascontiguousarray(both.measure(columns, n_threads=n_threads).T)
    return y.view(np.complex128)
