"""Data as users have them: are right answers called a success, and is a success right?

    python -m benchmarks.studies.ordinary [--each 20] [--only CLASS,...] [--csv FILE] [--compare TREE or FILE]
    python -m benchmarks.studies.ordinary --ordinary 2000 [...]    ordinary problems, each in three storages

Each class draws its data from a seed, its name and a number: rounded or printed measurements, counts, noise that is not
Gaussian or not independent, small mistakes in A, and A as it comes from sensors, grids, elements, qubits and lenses.
A class may tell the noise or not.

right     dist is at most twice that of weighted least squares from the truth on the true support, or twice its standard
          error, whichever is larger, which is below 0.25; all coordinates are determined
refused   right, but not called a success: at most 5 % are asked for
wrong     a success further off than 3 `error` (at least 1e-3 in noise, 1e-6 exact), or than 0.75
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse
from scipy.spatial import Delaunay

import fastquad as fq
from benchmarks.studies import trials
from benchmarks.studies.trials import Array, Model, column

_MAX_SECONDS = 30.0
Rng = np.random.Generator


class Data(NamedTuple):
    """One problem."""

    #: What `solve` is given.
    A: Any
    #: The same, dense: (m, n, n); and its linear terms, (m, n), if there are any.
    matrices: Array
    x: Array
    y: Array
    #: The standard deviation of each measurement, (m,), for the optimum; None: that of y − z at the truth.
    sigma: Array | None = None
    options: Mapping[str, Any] = MappingProxyType({})
    linear: Array | None = None


Class = Callable[[Rng], Data]
CLASSES: dict[str, Class] = {}


def ordinary(make: Class) -> Class:
    """Register a class under its name."""
    CLASSES[make.__name__.strip("_").replace("_", " ")] = make
    return make


# -- parts --------------------------------------------------------------------------------------------------------


def signal(rng: Rng, n: int, k: int) -> Array:
    x = np.zeros(n)
    x[rng.choice(n, k, replace=False)] = rng.uniform(0.5, 1.5, k) * rng.choice([-1, 1], k)
    return x


def measured(A: Array, x: Array, linear: Array | None = None) -> Array:
    """y without noise, in double precision."""
    z = np.einsum("ijk,j,k->i", A, x.conj(), x, optimize=True).real
    return z if linear is None else z + linear @ x


def rms(y: Array) -> float:
    return float(np.sqrt(np.mean(np.abs(y) ** 2)))


def gaussian(rng: Rng) -> tuple[Array, Array, Array]:
    """A, x and its measurements: dense or sparse x, Gaussian A, enough measurements."""
    n = int(rng.integers(8, 41))
    k = n if rng.random() < 0.5 else int(rng.integers(2, max(3, n // 4)))
    m = int(rng.uniform(2.5, 5) * n) if k == n else int(rng.uniform(2, 4) * (k + k * np.log(n / k))) + 3
    A, x = rng.standard_normal((m, n, n)), signal(rng, n, k)
    return A, x, measured(A, x)


def said(rng: Rng, sigma: float | Array) -> dict[str, Any]:
    """The noise is told in half of the problems."""
    return {"noise": sigma} if rng.random() < 0.5 else {}


def gaussian_noise(rng: Rng, y: Array, level: float | None = None) -> tuple[Array, float]:
    """Noise from 0.1 to 10 % of y, and its standard deviation."""
    sigma = (10 ** rng.uniform(-3, -1) if level is None else level) * rms(y)
    return sigma * rng.standard_normal(y.size), sigma


# -- how y is kept ------------------------------------------------------------------------------------------------


def _quantised(rng: Rng, bits: int) -> Data:
    """A converter whose range is that of y."""
    A, x, y = gaussian(rng)
    step = 2 * np.abs(y).max() / 2**bits
    return Data(A, A, x, np.round(y / step) * step, np.full(y.size, step / np.sqrt(12)))


@ordinary
def quantised_to_8_bits(rng: Rng) -> Data:
    return _quantised(rng, 8)


@ordinary
def quantised_to_12_bits(rng: Rng) -> Data:
    return _quantised(rng, 12)


@ordinary
def quantised_to_16_bits(rng: Rng) -> Data:
    return _quantised(rng, 16)


@ordinary
def y_in_float16(rng: Rng) -> Data:
    A, x, y = gaussian(rng)
    return Data(A, A, x, y.astype(np.float16).astype(float))


@ordinary
def y_in_float32(rng: Rng) -> Data:
    A, x, y = gaussian(rng)
    return Data(A, A, x, y.astype(np.float32))


@ordinary
def four_printed_digits(rng: Rng) -> Data:
    A, x, y = gaussian(rng)
    return Data(A, A, x, np.array([float(f"{each:.3e}") for each in y]))


@ordinary
def two_printed_decimals(rng: Rng) -> Data:
    A, x, y = gaussian(rng)
    return Data(A, A, x, np.round(y, 2), np.full(y.size, 0.01 / np.sqrt(12)))


@ordinary
def A_in_float16(rng: Rng) -> Data:
    """The matrices were rounded to half precision after the measurement."""
    A, x, y = gaussian(rng)
    return Data(A.astype(np.float16), A.astype(np.float16).astype(float), x, y)


# -- noise --------------------------------------------------------------------------------------------------------


@ordinary
def gaussian_noise_of_one_level(rng: Rng) -> Data:
    A, x, y = gaussian(rng)
    noise, sigma = gaussian_noise(rng, y)
    return Data(A, A, x, y + noise, np.full(y.size, sigma), said(rng, sigma))


@ordinary
def noise_that_grows_with_y(rng: Rng) -> Data:
    """A meter of one per cent with a floor, and its noise told."""
    A, x, y = gaussian(rng)
    sigma = 0.01 * np.maximum(np.abs(y), 0.1 * rms(y))
    return Data(A, A, x, y + sigma * rng.standard_normal(y.size), sigma, {"noise": sigma})


@ordinary
def counts_of_real_vectors(rng: Rng) -> Data:
    """Photons: real phase retrieval, 30 to 3,000 on the average."""
    n = int(rng.integers(6, 25))
    a, x = rng.standard_normal((int(rng.uniform(4, 9) * n), n)), signal(rng, n, n)
    A = a[:, :, None] * a[:, None, :]
    z = measured(A, x)
    gain = np.mean(z) / 10 ** rng.uniform(1.5, 3.5)
    sigma = np.sqrt(gain * np.maximum(z, gain))
    return Data(fq.RankOneTensor(a), A, x, gain * rng.poisson(z / gain), sigma, said(rng, sigma))


@ordinary
def counts_of_complex_vectors(rng: Rng) -> Data:
    n = int(rng.integers(6, 17))
    a = rng.standard_normal((int(rng.uniform(6, 10) * n), n, 2)).view(complex)[..., 0]
    x = signal(rng, n, n) * np.exp(2j * np.pi * rng.random(n))
    A = a[:, :, None] * a[:, None, :].conj()
    z = measured(A, x)
    gain = np.mean(z) / 10 ** rng.uniform(1.5, 3.5)
    sigma = np.sqrt(gain * np.maximum(z, gain))
    return Data(fq.RankOneTensor(a), A, x, gain * rng.poisson(z / gain), sigma, said(rng, sigma))


@ordinary
def student_noise(rng: Rng) -> Data:
    """Three degrees of freedom."""
    A, x, y = gaussian(rng)
    sigma = 10 ** rng.uniform(-3, -1.5) * rms(y)
    return Data(A, A, x, y + sigma * rng.standard_t(3, y.size))


@ordinary
def noise_that_remembers(rng: Rng) -> Data:
    """AR(1), with a correlation of 0.7 from one measurement to the next."""
    A, x, y = gaussian(rng)
    white, sigma = gaussian_noise(rng, y)
    noise = white.copy()
    for i in range(1, y.size):
        noise[i] = 0.7 * noise[i - 1] + np.sqrt(1 - 0.7**2) * white[i]
    return Data(A, A, x, y + noise, None, said(rng, sigma))


@ordinary
def drift(rng: Rng) -> Data:
    A, x, y = gaussian(rng)
    noise, sigma = gaussian_noise(rng, y, 0.01)
    return Data(A, A, x, y + noise + 2 * sigma * np.linspace(-1, 1, y.size))


@ordinary
def hum(rng: Rng) -> Data:
    A, x, y = gaussian(rng)
    noise, sigma = gaussian_noise(rng, y, 0.01)
    wave = np.sin(rng.uniform(0.1, 3) * np.arange(y.size) + rng.uniform(0, 6))
    return Data(A, A, x, y + noise + 2 * sigma * wave)


@ordinary
def offset(rng: Rng) -> Data:
    A, x, y = gaussian(rng)
    noise, sigma = gaussian_noise(rng, y, 0.01)
    return Data(A, A, x, y + noise + 2 * sigma)


@ordinary
def units(rng: Rng) -> Data:
    """Rows in units of their own, over six decades, with their noise."""
    A, x, y = gaussian(rng)
    noise, sigma = gaussian_noise(rng, y)
    unit = 10.0 ** rng.uniform(-3, 3, y.size)
    A = A * unit[:, None, None]
    return Data(A, A, x, unit * (y + noise), unit * sigma, {"noise": unit * sigma})


@ordinary
def few_units(rng: Rng) -> Data:
    """Three instruments, each in its units and with its noise; nothing is told."""
    A, x, y = gaussian(rng)
    noise, _ = gaussian_noise(rng, y)
    unit = np.array([1.0, 0.2, 5.0])[np.arange(y.size) % 3]
    A = A * unit[:, None, None]
    return Data(A, A, x, unit * (y + noise), unit * rms(noise))


# -- mistakes in A ------------------------------------------------------------------------------------------------


@ordinary
def gains(rng: Rng) -> Data:
    """Four detectors whose gains are off by one per cent."""
    A, x, y = gaussian(rng)
    noise, _ = gaussian_noise(rng, y, 0.003)
    gain = 1 + 0.01 * rng.standard_normal(4)
    return Data(A, A, x, y * gain[np.arange(y.size) % 4] + noise)


@ordinary
def one_per_cent_of_A(rng: Rng) -> Data:
    """Entries of A are off by one per cent."""
    A, x, y = gaussian(rng)
    A = A * (1 + 0.01 * rng.standard_normal(A.shape))
    return Data(A, A, x, y)


@ordinary
def dead_rows(rng: Rng) -> Data:
    """A tenth of the rows saw nothing: their matrices are zero, their y is noise."""
    A, x, y = gaussian(rng)
    noise, sigma = gaussian_noise(rng, y)
    A[rng.choice(y.size, y.size // 10, replace=False)] = 0
    y = measured(A, x) + noise
    return Data(A, A, x, y, np.full(y.size, sigma), said(rng, sigma))


@ordinary
def rows_made_twice(rng: Rng) -> Data:
    """A third of the measurements were repeated."""
    A, x, y = gaussian(rng)
    again = rng.choice(y.size, y.size // 3, replace=False)
    A, y = np.concatenate([A, A[again]]), np.concatenate([y, y[again]])
    noise, sigma = gaussian_noise(rng, y)
    return Data(A, A, x, y + noise, np.full(y.size, sigma), said(rng, sigma))


@ordinary
def zeros_and_ones(rng: Rng) -> Data:
    """Masks: which pairs of coordinates a measurement sums."""
    n = int(rng.integers(12, 33))
    A, x = (rng.random((int(rng.uniform(3, 5) * n), n, n)) < 0.3).astype(float), signal(rng, n, n)
    y = measured(A, x)
    noise, sigma = gaussian_noise(rng, y)
    return Data(A, A, x, y + noise, np.full(y.size, sigma), said(rng, sigma))


# -- where A comes from -------------------------------------------------------------------------------------------


@ordinary
def real_vectors_as_an_array(rng: Rng) -> Data:
    n = int(rng.integers(6, 31))
    a, x = rng.standard_normal((int(rng.uniform(4, 10) * n), n)), signal(rng, n, n)
    A = a[:, :, None] * a[:, None, :]
    y = measured(A, x)
    noise, sigma = gaussian_noise(rng, y, 0.01)
    return Data(A, A, x, y + noise, np.full(y.size, sigma), said(rng, sigma))


@ordinary
def sensor_network(rng: Rng) -> Data:
    """Positions in the plane from ranges to each other and to anchors: squared ranges, with their noise told."""
    sensors, anchors = int(rng.integers(5, 11)), rng.uniform(-1, 1, (6, 2))
    p = rng.uniform(-1, 1, (sensors, 2))
    x, matrices, linear, constant, ranges = p.ravel(), [], [], [], []
    for i in range(sensors):
        for j in range(sensors + len(anchors)):
            if j <= i and j < sensors:
                continue
            M, b, c = np.zeros((x.size, x.size)), np.zeros(x.size), 0.0
            for axis in (0, 1):
                u = 2 * i + axis
                M[u, u] = 1
                if j < sensors:
                    v = 2 * j + axis
                    M[v, v], M[u, v], M[v, u] = 1, -1, -1
                else:
                    b[u], c = -2 * anchors[j - sensors, axis], c + anchors[j - sensors, axis] ** 2
            if rng.random() < 0.8:
                other = p[j] if j < sensors else anchors[j - sensors]
                ranges.append(np.linalg.norm(p[i] - other))
                matrices.append(M)
                linear.append(b)
                constant.append(c)
    level = rng.choice([0.0, 1e-3, 1e-2])
    d, A, b = np.array(ranges), np.array(matrices), np.array(linear)
    seen = d + level * rng.standard_normal(d.size)
    sigma = 2 * d * level
    options = {"noise": sigma} if level else {}
    given = fq.AffineTensor(fq.SparseTensor([scipy.sparse.csr_array(each) for each in A]), b)
    return Data(given, A, x, seen**2 - np.array(constant), sigma if level else None, options, b)


@ordinary
def power_grid(rng: Rng) -> Data:
    """A random grid: powers into both ends of each line and squared voltages, with meters of one per cent."""
    n = int(rng.integers(6, 17))
    lines = {(int(rng.integers(i)), i) for i in range(1, n)}
    while len(lines) < int(1.5 * n):
        i, j = sorted(rng.choice(n, 2, replace=False).tolist())
        lines.add((i, j))
    V = rng.uniform(0.95, 1.05, n) * np.exp(1j * np.cumsum(rng.uniform(-0.1, 0.1, n)))
    matrices = []
    for i, j in sorted(lines):
        admittance = 1 / complex(rng.uniform(0.01, 0.05), rng.uniform(0.05, 0.2))
        for a, b in ((i, j), (j, i)):
            M = np.zeros((n, n), dtype=complex)
            M[a, a], M[b, a] = np.conj(admittance), -np.conj(admittance)
            matrices += [(M + M.conj().T) / 2, (M - M.conj().T) / 2j]
    for i in range(n):
        M = np.zeros((n, n), dtype=complex)
        M[i, i] = 1
        matrices.append(M)
    A = np.array(matrices)
    y = measured(A, V)
    sigma = 0.01 * np.maximum(np.abs(y), 0.1)
    given = fq.SparseTensor([scipy.sparse.csr_array(each) for each in A])
    return Data(given, A, V, y + sigma * rng.standard_normal(y.size), sigma, {"noise": sigma})


@ordinary
def finite_elements(rng: Rng) -> Data:
    """A field on triangles from the energies in each of them: ∫ |grad u|² and ∫ u²."""
    points = rng.random((int(rng.integers(10, 25)), 2))
    n, matrices = len(points), []
    for corners in Delaunay(points).simplices:
        T = np.column_stack([np.ones(3), points[corners]])
        area = abs(np.linalg.det(T)) / 2
        if area < 1e-3:
            continue  # slivers
        gradient = np.linalg.inv(T)[1:]
        for local in (area * gradient.T @ gradient, area / 12 * (np.ones((3, 3)) + np.eye(3))):
            M = np.zeros((n, n))
            M[np.ix_(corners, corners)] = local
            matrices.append(M)
    A, x = np.array(matrices), signal(rng, n, n)
    y = measured(A, x)
    sigma = 10 ** rng.uniform(-4, -2) * np.abs(y)
    given = fq.SparseTensor([scipy.sparse.csr_array(each) for each in A])
    return Data(given, A, x, y + sigma * rng.standard_normal(y.size), sigma, {"noise": sigma})


@ordinary
def tomography(rng: Rng) -> Data:
    """Pure states of three or four qubits from Pauli expectations, exact or of 1,000 shots each."""
    q = int(rng.integers(3, 5))
    n = 2**q
    paulis = np.array([[[1, 0], [0, 1]], [[0, 1], [1, 0]], [[0, -1j], [1j, 0]], [[1, 0], [0, -1]]])
    labels = np.arange(4**q)
    chosen = np.sort(
        np.concatenate([[0], 1 + rng.choice(4**q - 1, int(rng.uniform(0.6, 1) * 4**q) - 1, replace=False)])
    )
    A = np.ones((chosen.size, 1, 1), dtype=complex)
    for digit in range(q):
        P = paulis[labels[chosen] // 4**digit % 4]
        A = np.einsum("iab,icd->iacbd", A, P).reshape(chosen.size, 2 ** (digit + 1), 2 ** (digit + 1))
    x = rng.standard_normal((n, 2)).view(complex)[:, 0]
    kind = int(rng.integers(3))
    if kind:  # GHZ, or W
        x = np.zeros(n, dtype=complex)
        x[[0, -1] if kind == 1 else 2 ** np.arange(q)] = 1
    x /= np.linalg.norm(x)
    z = measured(A, x)
    if rng.random() < 0.5:
        return Data(A, A, x, z)
    shots = 1000
    y = 2 * rng.binomial(shots, np.clip((1 + z) / 2, 0, 1)) / shots - 1
    sigma = np.sqrt(np.maximum(1 - z**2, 1 / shots) / shots)
    return Data(A, A, x, y, sigma, {"noise": sigma})


def _diffraction(rng: Rng, masks: Array, measured_pixels: Array | None = None) -> Data:
    """Intensities behind masks, with noise of one per cent or photons."""
    shape = masks.shape[1:]
    x = (rng.standard_normal((*shape, 2)).view(complex)[..., 0] + 1).ravel()
    given = fq.FourierTensor(masks, measured=measured_pixels)
    A = given.matrices(0, given.m)
    z = measured(A, x)
    if rng.random() < 0.5:
        sigma = np.full(z.size, 0.01 * rms(z))
        return Data(given, A, x, z + sigma * rng.standard_normal(z.size), sigma, said(rng, float(sigma[0])))
    gain = np.mean(z) / 300
    sigma = np.sqrt(gain * np.maximum(z, gain))
    return Data(given, A, x, gain * rng.poisson(z / gain), sigma, {"noise": sigma})


@ordinary
def coded_diffraction(rng: Rng) -> Data:
    return _diffraction(rng, np.exp(2j * np.pi * rng.random((6, 6, 6))))


@ordinary
def diffraction_with_missing_rows(rng: Rng) -> Data:
    """A beam stop, and dead pixels."""
    seen = rng.random((7, 6, 6)) > 0.05
    seen[:, 0, 0] = False
    return _diffraction(rng, np.exp(2j * np.pi * rng.random((7, 6, 6))), seen)


@ordinary
def ptychography(rng: Rng) -> Data:
    """A window with random phases at sixteen places of an image of eight by eight pixels, which overlap."""
    probe = np.exp(2j * np.pi * rng.random((4, 4)))
    masks = np.zeros((16, 8, 8), dtype=complex)
    for mask, (i, j) in zip(masks, np.ndindex(4, 4), strict=True):
        rows, columns = (2 * i + np.arange(4)) % 8, (2 * j + np.arange(4)) % 8
        mask[np.ix_(rows, columns)] = probe
    # a window of four pixels needs every second frequency only: twice as many rows would be sums of the others
    return _diffraction(rng, masks, rng.random(masks.shape) < 0.6)


@ordinary
def autocorrelations(rng: Rng) -> Data:
    """Of a signal behind four masks of signs."""
    n = int(rng.integers(8, 25))
    shifts = fq.ShiftTensor(n)
    each, x = shifts.matrices(0, shifts.m), signal(rng, n, n)
    signs = rng.choice([-1.0, 1.0], (4, n))
    A = np.concatenate([each * mask * mask[:, None] for mask in signs])
    # the lag 0 is the same behind all
    A = np.delete(A, [n, 2 * n, 3 * n], axis=0)
    y = measured(A, x)
    noise, sigma = gaussian_noise(rng, y)
    return Data(A, A, x, y + noise, np.full(y.size, sigma), said(rng, sigma))


@ordinary
def autocorrelation_with_a_reference(rng: Rng) -> Data:
    """Holography: the autocorrelation of a signal beside one that is known."""
    n = int(rng.integers(6, 17))
    known, x = rng.standard_normal(n), signal(rng, n, n)
    shifts = fq.ShiftTensor(3 * n)
    each = shifts.matrices(0, shifts.m)
    A, b = each[:, :n, :n], 2 * np.einsum("ijk,k->ij", each[:, :n, 2 * n :], known)
    used = np.any(A != 0, axis=(1, 2)) | np.any(b != 0, axis=1)
    A, b = np.ascontiguousarray(A[used]), b[used]
    y = measured(A, x, b)
    noise, sigma = gaussian_noise(rng, y)
    return Data(fq.AffineTensor(A, b), A, x, y + noise, np.full(y.size, sigma), said(rng, sigma), b)


# -- ordinary problems in three storages --------------------------------------------------------------------------

STORAGES = ("raw", "packed", "on disk")


def drawn(rng: Rng) -> tuple[Array, Array, float, bool]:
    """A, x, the relative level of the noise, and whether it is told: random matrices of five kinds, 30 % exact."""
    A, x, _ = gaussian(rng)
    kind = int(rng.integers(5))
    if kind:
        draw: tuple[Callable[[], Array], ...] = (
            lambda: rng.choice([-1.0, 1.0], A.shape),
            lambda: rng.random(A.shape),
            lambda: rng.standard_normal(A.shape) * (rng.random(A.shape) < 0.5),
            lambda: rng.standard_normal(A.shape) + 1,
        )
        A = draw[kind - 1]()
    level = 0.0 if rng.random() < 0.3 else 10 ** rng.uniform(-7, -1)
    return A, x, level, bool(rng.random() < 0.5)


def problem(rng: Rng) -> Data:
    """An ordinary problem."""
    A, x, level, told = drawn(rng)
    y = measured(A, x)
    if level == 0:
        return Data(A, A, x, y)
    noise, sigma = gaussian_noise(rng, y, level)
    return Data(A, A, x, y + noise, np.full(y.size, sigma), {"noise": sigma} if told else {})


# -- trials -------------------------------------------------------------------------------------------------------


def model(data: Data, support: Array) -> Model:
    """What is measured of the coordinates on the support, with linear terms."""
    quadratic = trials.model_of_arrays(data.matrices, support)
    if data.linear is None:
        return quadratic
    b = data.linear[:, support]

    def values(v: Array) -> tuple[Array, Array]:
        z, J = quadratic(v)
        return z + b @ v, J + b

    return values


def run(data: Data, seed: int = 0) -> dict[str, Any]:
    """Solve, and compare with least squares from the truth."""
    signed = data.linear is not None
    support = np.flatnonzero(data.x)
    f, gauge = model(data, support), int(np.iscomplexobj(data.x))
    truth = trials.real_coordinates(data.x[support])
    off = data.y - f(truth)[0]
    exact = bool(np.all(np.abs(off) <= 1e-12 * np.abs(data.y).max()))
    sigma = np.full(data.y.size, max(rms(off), 1e-15 * rms(data.y))) if data.sigma is None else data.sigma
    stderr = trials.standard_errors(f, truth, sigma, gauge)
    expected, optimum = np.nan, np.nan
    if stderr is not None:
        expected = float(np.linalg.norm(stderr) / np.linalg.norm(data.x))
        best = trials.least_squares(f, truth, data.y, sigma)
        values = best[: support.size] + 1j * best[support.size :] if gauge else best
        optimum = float(fq.distance(values, data.x[support], signed=signed))
    answer = trials.solved(
        lambda: fq.solve(data.A, data.y, rng=seed, max_time=_MAX_SECONDS, **data.options),
        lambda found: float(fq.distance(found, data.x, signed=signed)),
    )
    right = bool(expected < 0.25 and answer.dist <= max(2 * max(optimum, expected), 1e-9))
    return {
        "n": data.x.size, "m": data.y.size, "k": support.size, "told": "noise" in data.options, "exact": exact,
        "status": answer.status, "success": answer.success, "dist": answer.dist, "optimum": optimum,
        "expected": expected, "error": answer.error,
        "claim": answer.dist / answer.error if answer.error > 0 else np.nan,
        "right": right, "refused": right and not answer.success, "wrong": trials.is_wrong(answer, exact),
        "seconds": answer.seconds, "message": answer.message if not answer.success else "",
    }  # fmt: skip


def of_class(name: str, seed: int, number: int) -> dict[str, Any]:
    """A trial of a class."""
    rng = np.random.default_rng([seed, zlib.crc32(name.encode()), number])
    return {"seed": seed, "class": name, "number": number, **run(CLASSES[name](rng), number)}


def in_storages(seed: int, number: int) -> Iterator[dict[str, Any]]:
    """The trials of an ordinary problem."""
    data = problem(np.random.default_rng([seed, number]))
    for storage in STORAGES:
        with tempfile.TemporaryDirectory() as folder:
            A = data.A
            if storage == "packed":
                A = fq.pack(A)
            elif storage == "on disk":
                np.save(Path(folder) / "A.npy", A)
                A = Path(folder) / "A.npy"
            yield {"seed": seed, "class": f"ordinary, {storage}", "number": number, **run(data._replace(A=A), number)}


def table(rows: Sequence[Mapping[str, str]]) -> str:
    """One line a class."""
    lines = [
        f"{'class':34}{'posed':>7}{'determined':>12}{'right':>7}{'refused':>9}{'success':>9}{'wrong':>7}"
        f"{'dist/error: median':>20}{'above 3':>9}{'right without error':>21}{'ms':>8}"
    ]
    groups: dict[str, list[Mapping[str, str]]] = {}
    for row in rows:
        groups.setdefault(row["class"], []).append(row)
    noisy = [row for row in rows if row["exact"] != "True"]
    groups |= {"all exact": [row for row in rows if row["exact"] == "True"], "all in noise": noisy, "all": list(rows)}
    for name, group in groups.items():
        if not group:
            continue
        right, refused = column(group, "right") == 1, int(column(group, "refused").sum())
        success, claims = column(group, "success") == 1, column(group, "claim")
        stated = success & np.isfinite(claims)
        median = f"{np.median(claims[stated]):20.2f}" if stated.any() else f"{'–':>20}"
        unsaid = int((right & ~np.isfinite(column(group, "error"))).sum())
        determined = int(np.sum(column(group, "expected") < 0.25))
        lines.append(
            f"{name:34}{len(group):7}{determined:12}{right.sum():7}{refused:9}{success.sum():9}"
            f"{int(column(group, 'wrong').sum()):7}{median}{int((stated & (claims > 3)).sum()):9}{unsaid:21}"
            f"{1e3 * np.median(column(group, 'seconds')):8.0f}"
        )
    right_count = max(int(column(rows, "right").sum()), 1)
    lines.append(f"right answers refused: {column(rows, 'refused').sum() / right_count:.1%}")
    return "\n".join(lines)


def comparison(rows: Sequence[dict[str, str]], other: Sequence[dict[str, str]]) -> str:
    """What became of the same problems in another tree or file."""
    pairs = trials.paired(rows, other, ("seed", "class", "number"))
    lines = [f"{len(pairs)} problems in both; there -> here"]
    for name in (*dict.fromkeys(row["class"] for row in rows), "all"):
        both = [pair for pair in pairs if name in (pair[1]["class"], "all")]
        if both:
            there, here = [a for a, _ in both], [b for _, b in both]
            lines.append(f"{name:34}{len(both):6}: " + ", ".join(
                f"{word} {int(column(there, word).sum())} -> {int(column(here, word).sum())}"
                for word in ("right", "refused", "success", "wrong")
            ))  # fmt: skip
    return "\n".join(lines)


def _trials(given: argparse.Namespace, done: set[tuple[str, ...]]) -> Iterator[dict[str, Any]]:
    begin = time.perf_counter()
    names = given.only.split(",") if given.only else list(CLASSES)
    # in turns, so that a run that is cut short has met every class
    for number in range(given.ordinary or given.each):
        for name in [""] if given.ordinary else names:
            if time.perf_counter() - begin > given.seconds:
                return
            if (str(given.seed), name or f"ordinary, {STORAGES[-1]}", str(number)) in done:
                continue
            for row in (
                list(in_storages(given.seed, number)) if given.ordinary else [of_class(name, given.seed, number)]
            ):
                if given.show and (row["refused"] or row["wrong"]):
                    print(
                        f"{'WRONG  ' if row['wrong'] else 'refused'} {row['class']:30} {number:4} n={row['n']} "
                        f"m={row['m']} {row['status']} dist {row['dist']:.2g} of {row['optimum']:.2g}, error "
                        f"{row['error']:.2g}: {row['message']}"
                    )
                yield row


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the study; the exit code tells whether a success was wrong."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--each", type=int, default=20, help="problems of each class")
    parser.add_argument(
        "--ordinary", type=int, help="so many ordinary problems, in three storages, in place of classes"
    )
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--only", help="only these classes, with commas between them")
    parser.add_argument("--seconds", type=float, default=np.inf, help="begin no problem after so long")
    parser.add_argument("--csv", type=Path, help="where to keep the trials, and to go on from")
    parser.add_argument("--tree", type=Path, help="solve with the package of this tree")
    parser.add_argument("--compare", type=Path, help="a CSV of the same problems, or a tree to run them in")
    parser.add_argument("--show", action="store_true", help="list what is refused or wrong")
    given = parser.parse_args(arguments)
    if given.tree is not None:
        return trials.in_tree(given.tree.resolve(), "benchmarks.studies.ordinary", trials.without(arguments, "--tree"))
    old = trials.read(given.csv) if given.csv is not None and given.csv.exists() else []
    done = {(row["seed"], row["class"], row["number"]) for row in old}
    rows = old + list(trials.written(given.csv, _trials(given, done)))
    print(table(rows))
    if given.compare is not None:
        path = given.compare
        if path.is_dir():
            path = (given.csv or Path("ordinary.csv")).with_suffix(".there.csv").resolve()
            rest = trials.without(trials.without(trials.without(arguments, "--compare"), "--csv"), "--seconds")
            trials.in_tree(given.compare.resolve(), "benchmarks.studies.ordinary", [*rest, "--csv", str(path)])
        print(comparison(rows, trials.read(path)))
    return int(any(row["wrong"] == "True" for row in rows))


if __name__ == "__main__":
    sys.exit(main())
