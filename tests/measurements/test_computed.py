"""Tensors that are never stored: entries of the Gaussian ensemble bit for bit, and contractions around a function."""

import hashlib
import subprocess
import sys

import naive
import numba
import numpy as np
import pytest
from scipy import stats
from tensors import calls, relative_error

import fastquad as fq
from fastquad._kernels import gaussian as kernel

SHAPES = [(1, 1), (1, 5), (3, 1), (7, 4), (9, 17), (17, 33), (20, 50)]


@numba.njit
def wave(i, j, k, frequency):
    return np.cos(frequency[i] * (j - 2 * k))


FREQUENCY = np.linspace(0, 3, 60)
# SHA-256 of the entries of GaussianTensor(100, 60, seed=12345), float32 in little-endian order.
GOLDEN = "edce85b9ea547adad8f31a8e2dd245b3628663ccec93c2250e1edf4c75ad1050"


def make(kind, m, n):
    """A tensor of a kind, and the array that it stands for."""
    if kind == "gaussian":
        i, j, k = np.ogrid[:m, :n, :n]
        return fq.GaussianTensor(m, n, seed=3), gaussian_entries(3, i, j, k)
    A = fq.ComputedTensor(wave, m, n, args=(FREQUENCY,))
    i, j, k = np.ogrid[:m, :n, :n]
    return A, np.cos(FREQUENCY[i] * (j - 2 * k))


# -- the slow twin of the generator: the same formulas on NumPy's IEEE arithmetic ------------------------------------


def threefry(counter, key):
    """Threefry-4x32-20 of counters and a key of four words each."""
    x = [np.asarray(word, dtype=np.uint32) for word in counter]
    key = [np.uint32(word) for word in key]
    key.append(np.bitwise_xor.reduce([np.uint32(0x1BD11BDA), *key]))
    rotations = [(10, 26), (11, 21), (13, 27), (23, 5), (6, 20), (17, 11), (25, 10), (18, 20)]
    x = [word + k for word, k in zip(x, key, strict=False)]
    for r in range(20):
        one, three = (1, 3) if r % 2 == 0 else (3, 1)
        for a, b, by in ((0, one, rotations[r % 8][0]), (2, three, rotations[r % 8][1])):
            x[a] = x[a] + x[b]
            x[b] = (x[b] << np.uint32(by) | x[b] >> np.uint32(32 - by)) ^ x[a]
        if r % 4 == 3:
            turn = r // 4 + 1
            x = [word + key[(turn + w) % 5] for w, word in enumerate(x)]
            x[3] = x[3] + np.uint32(turn)
    return x


def gaussian_entries(seed, i, j, k):
    """`Ã_i[j, k]` of `GaussianTensor(seed=seed)`, elementwise."""
    f = np.float32
    i, j, k = np.broadcast_arrays(i, j, k)
    low, high = np.minimum(j, k).astype(np.uint32), np.maximum(j, k).astype(np.uint32)
    with np.errstate(over="ignore"):
        words = threefry(
            (high, low, (i // 4).astype(np.uint32), np.zeros(i.shape, np.uint32)), (seed % 2**32, seed >> 32, 0, 0)
        )
    pair = i % 4 // 2
    a, b = np.where(pair, words[2], words[0]), np.where(pair, words[3], words[1])
    # −ln((a + ½)/2³²)
    upper = a >> np.uint32(31) == 1
    v = (np.where(upper, ~a, a).astype(np.int32).astype(f) + f(0.5)) * f(2.0**-32)
    m, e = np.frexp(v)
    e = np.where(m < f(0.75), e - 1, e)
    m = np.ldexp(v, -e)
    s = np.where(upper, f(0) - v, m - f(1)) / np.where(upper, f(2) - v, m + f(1))
    q = s * s
    series = f(1) + q * (f(0.33333155) + q * (f(0.20012557) + q * (f(0.13978833) + q * f(0.14095773))))
    minus_log = f(0) - (np.where(upper, f(0), e.astype(f)) * f(0.693147181) + f(2) * s * series)
    radius = np.sqrt(minus_log) * np.where(low == high, f(1), f(0.707106781))
    t = (2 * (b & np.uint32(0x3FFFFFFF)).astype(np.int32) - np.int32(0x3FFFFFFF)).astype(f)
    t = t * (f(0.785398163) * f(2.0**-30))
    q = t * t
    sine = t * (f(0.999999997) + q * (f(-0.166666507) + q * (f(0.00833203688) - q * f(0.00019504022))))
    cosine = f(1) + q * (f(-0.499999996) + q * (f(0.0416666167) + q * (f(-0.00138866192) + q * f(2.43799293e-5))))
    first = np.where(b >> np.uint32(31), -1, 1) * (radius * (cosine - sine))
    second = np.where(b >> np.uint32(30) & np.uint32(1), -1, 1) * (radius * (cosine + sine))
    return np.where(i % 2, second, first)


# -- the Gaussian ensemble ------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ([0] * 4, [0] * 4, [0x9C6CA96A, 0xE17EAE66, 0xFC10ECD4, 0x5256A7D8]),
        ([0xFFFFFFFF] * 4, [0xFFFFFFFF] * 4, [0x2A881696, 0x57012287, 0xF6C7446E, 0xA16A6732]),
        (
            [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
            [0xA4093822, 0x299F31D0, 0x082EFA98, 0xEC4E6C89],
            [0x59CD1DBB, 0xB8879579, 0x86B5D00C, 0xAC8B6D84],
        ),
    ],
)
def test_threefry_gives_the_published_values(counter, key, expected):
    words = np.zeros(4, dtype=np.uint32)
    kernel.threefry(np.array(counter, dtype=np.uint32), np.array(key, dtype=np.uint32), words)
    assert list(words) == expected
    with np.errstate(over="ignore"):
        assert list(threefry(counter, key)) == expected


@pytest.mark.parametrize("seed", [0, 7, 2**64 - 1])
def test_gaussian_entries_are_those_of_the_slow_twin_bit_for_bit(seed):
    rng = np.random.default_rng(0)
    i, (j, k) = rng.integers(0, 1000, 4000), rng.integers(0, 100_000, (2, 4000))
    k[:100] = j[:100]
    out, places = np.empty((1, 8)), [part.astype(np.int32) for part in (j, k)]
    got = np.empty(i.size)
    for p in range(i.size):
        kernel.fill(seed, i[p] // 8, places[0][p : p + 1], places[1][p : p + 1], out)
        got[p] = out[0, i[p] % 8]
    np.testing.assert_array_equal(got, gaussian_entries(seed, i, j, k))


def test_gaussian_entries_are_the_same_on_every_machine():
    A = fq.GaussianTensor(m=100, n=60, seed=12345)
    assert hashlib.sha256(A.matrices(0, 100).astype("<f4").tobytes()).hexdigest() == GOLDEN


def test_gaussian_entries_do_not_depend_on_the_shape():
    small, large = fq.GaussianTensor(11, 9, seed=5), fq.GaussianTensor(50, 40, seed=5)
    np.testing.assert_array_equal(small.matrices(0, 11), large.matrices(0, 11)[:, :9, :9])
    np.testing.assert_array_equal(small.matrices(3, 10), small.matrices(0, 11)[3:10])
    assert small.entry(10, 2, 8) == small.entry(10, 8, 2) == large.matrices(10, 11)[0, 2, 8]
    assert not np.array_equal(small.matrices(0, 11), fq.GaussianTensor(11, 9, seed=6).matrices(0, 11))


def test_gaussian_entries_are_float32_numbers_so_packing_loses_nothing():
    A = fq.GaussianTensor(20, 30, seed=1)
    packed = fq.pack(A, dtype="float32")
    np.testing.assert_array_equal(packed.block(np.arange(30)), A.block(np.arange(30)))
    assert A.dtype == np.float32
    assert A.rows([1, 5]).dtype == np.float32


def test_gaussian_entries_are_standard_normal():
    A = fq.GaussianTensor(m=2000, n=50, seed=0)
    entries = A.matrices(0, 2000)
    off = entries[:, *np.triu_indices(50, 1)] * np.sqrt(2)
    # 2.4 million entries: moments within four standard deviations of their estimates.
    z, N = off.ravel(), off.size
    for power, mean, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96), (6, 15, 10170)):
        assert abs(np.mean(z**power) - mean) < 4 * np.sqrt(variance / N), power
    assert stats.kstest(z, "norm").pvalue > 1e-3
    assert stats.kstest(np.einsum("ijj->ij", entries).ravel(), "norm").pvalue > 1e-3
    for level in (3.0, 4.0):
        expected = 2 * N * stats.norm.sf(level)
        assert abs(np.count_nonzero(np.abs(z) > level) - expected) < 4 * np.sqrt(expected)
    # Neighbours in every direction, the partner of Box and Muller included, are independent, and so are their squares.
    for x in (entries, entries**2 - np.mean(entries**2)):
        for one, two in ((x[1:], x[:-1]), (x[:, 1:, 25:], x[:, :-1, 25:]), (x[:, :25, 26:], x[:, :25, 25:-1])):
            one, two = one[:, :20, -20:].ravel(), two[:, :20, -20:].ravel()
            assert abs(np.corrcoef(one, two)[0, 1]) < 4 / np.sqrt(one.size)


def test_seeds_give_independent_tensors():
    x = [
        fq.GaussianTensor(200, 40, seed=seed).matrices(0, 200)[:, *np.triu_indices(40, 1)].ravel() for seed in range(4)
    ]
    correlations = np.corrcoef(x) - np.eye(4)
    assert np.abs(correlations).max() < 4 / np.sqrt(x[0].size)


@pytest.mark.parametrize(
    ("arguments", "error", "said"),
    [
        ((0, 5), ValueError, "`m` must be a positive integer"),
        ((5, 2.5), TypeError, "`n` must be a positive integer"),
        ((5, 2**31), ValueError, "`n` must be below 2\\^31"),
        ((5, 5, -1), ValueError, "`seed` must be an integer between 0 and"),
        ((5, 5, 2**64), ValueError, "`seed` must be an integer between 0 and"),
        ((5, 5, "a"), TypeError, "`seed` must be an integer between 0 and"),
    ],
)
def test_gaussian_refuses(arguments, error, said):
    with pytest.raises(error, match=said):
        fq.GaussianTensor(*arguments)


def test_gaussian_entry_refuses_what_lies_outside():
    with pytest.raises(ValueError, match="`k` must lie between 0 and 4, got 5"):
        fq.GaussianTensor(3, 5).entry(0, 0, 5)


# -- contractions ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strip", [8, 100, 1 << 13])
@pytest.mark.parametrize(("m", "n"), SHAPES)
@pytest.mark.parametrize("kind", ["gaussian", "computed"])
def test_agrees_with_its_twin(kind, m, n, strip, monkeypatch):
    monkeypatch.setattr("fastquad.measurements.computed.blocks._STRIP", strip)
    A, array = make(kind, m, n)
    for batch in (None, 1, 2, 5):
        for name, *arguments in calls(m, n, batch):
            got, expected = getattr(A, name)(*arguments), getattr(naive, name)(array, *arguments)
            assert relative_error(got, expected) < 2e-13, (name, batch)


@pytest.mark.parametrize("kind", ["gaussian", "computed"])
def test_sweep_in_two_passes_where_blocks_do_not_fit_in_cache(kind, monkeypatch):
    A, array = make(kind, 19, 30)
    monkeypatch.setattr("fastquad.measurements.dense.chunks._CACHE_BYTES", 1)
    assert A.sweep_passes() == 2
    for batch in (None, 3):
        _, *arguments = next(call for call in calls(19, 30, batch) if call[0] == "sweep")
        assert relative_error(A.sweep(*arguments), naive.sweep(array, *arguments)) < 2e-13


@pytest.mark.parametrize("kind", ["gaussian", "computed"])
def test_bits_do_not_depend_on_threads(kind, monkeypatch):
    monkeypatch.setattr("fastquad.measurements.computed.blocks._STRIP", 64)
    A, _ = make(kind, 53, 31)
    for batch in (None, 3):
        for name, *arguments in calls(53, 31, batch):
            results = [getattr(A, name)(*arguments, n_threads=n_threads) for n_threads in (1, 2, 4)]
            for other in results[1:]:
                pairs = [part if isinstance(part, tuple) else (part,) for part in (results[0], other)]
                for one, two in zip(*pairs, strict=True):
                    np.testing.assert_array_equal(one, two)


def test_sparse_products_make_only_the_rows_of_the_support():
    made = []

    class Counting(fq.GaussianTensor):
        def _fill(self, block, j, k, out):
            made.append(j.size * 8)
            super()._fill(block, j, k, out)

    A = Counting(16, 1000, seed=2)
    x = np.zeros(1000)
    x[[3, 500]] = 1.0, -2.0
    W = A.products(x, n_threads=1)
    assert sum(made) == 16 * 2 * 1000
    np.testing.assert_allclose(W[5, 77], A.entry(5, 77, 3) - 2 * A.entry(5, 77, 500), rtol=1e-15)


def test_default_solve_of_a_tensor_that_would_take_gigabytes():
    A = fq.GaussianTensor(m=120, n=5000, seed=11)  # 6 GB in float32, packed
    x = np.zeros(5000)
    x[[17, 4000, 2500]] = 1.0, -0.7, 0.4
    solution = fq.solve(A, A.measure(x))
    assert solution.status is fq.Status.EXACT
    assert fq.distance(solution.x, x) < 1e-9
    assert solution.n_passes < 0.01


# -- a function of the user's ---------------------------------------------------------------------------------------


def test_symmetric_entries_are_computed_once():
    @numba.njit
    def distance(i, j, k):
        return i + abs(j - k)

    i, j, k = np.ogrid[:9, :6, :6]
    for symmetric in (False, True):
        A = fq.ComputedTensor(distance, 9, 6, symmetric=symmetric)
        np.testing.assert_array_equal(A.matrices(0, 9), i + np.abs(j - k))


def test_plain_functions_are_compiled_and_large_indices_do_not_overflow():
    A = fq.ComputedTensor(lambda i, j, k: float(i) + j * k, 3, 2**31 - 1, symmetric=True)
    assert A.block([2**31 - 2])[2, 0, 0] == 2 + float((2**31 - 2) ** 2)


def test_numba_is_not_imported_before_it_is_needed():
    code = "import sys, fastquad as fq; fq.GaussianTensor(3, 5).products([1.0] * 5); assert 'numba' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], check=True)


@pytest.mark.parametrize("entry", [lambda i, j: 1.0, lambda i, j, k: "one"])
def test_what_numba_cannot_compile_is_refused(entry):
    with pytest.raises(TypeError, match=r"`entry` must be a function of \(i, j, k\) and `args` that Numba can compile"):
        fq.ComputedTensor(entry, 3, 3)


def test_entry_must_be_a_function():
    with pytest.raises(TypeError, match="`entry` must be a function of"):
        fq.ComputedTensor(np.ones(3), 3, 3)
