"""Float arithmetic, 16-bit storage and the levels of SIMD: errors as small as is said."""

import os
import subprocess
import sys

import naive
import numpy as np
import pytest

import fastquad as fq
from fastquad._kernels import packed as kernels

SHAPES = [(1, 1), (3, 1), (7, 4), (9, 17), (17, 33), (9, 70), (11, 131)]
NARROW = ["float32", "float16"]


def make(m, n, dtype, seed=0):
    """A packed tensor, and the (m, n, n) array of its entries."""
    A = np.random.default_rng([seed, m, n]).standard_normal((m, n, n))
    return fq.pack(A, dtype=dtype), naive.sym(A).astype(dtype).astype(np.float64)


def rms(a):
    return float(np.sqrt(np.mean(np.square(a))))


@pytest.mark.parametrize(("m", "n"), SHAPES)
@pytest.mark.parametrize("dtype", NARROW)
def test_float_arithmetic_agrees_with_its_twin(dtype, m, n):
    A, array = make(m, n, dtype)
    rng = np.random.default_rng(1)
    for shape in ((n,), (n, 1), (n, 2), (n, 3), (n, 4), (n, 5), (n, 9), (n, 16)):
        x, v, c = rng.standard_normal(shape), rng.random(shape), rng.standard_normal((m, *shape[1:]))
        W, expected = A.products(x, precise=False), naive.products(array, x)
        assert rms(W - expected) <= 4e-7 * rms(expected), shape
        r, S = A.sweep(x, v, c, precise=False)
        exact_r, _ = naive.sweep(array, x, v, c)
        scale = rms(np.abs(naive.measure(np.abs(array), np.abs(x)))) + 1
        assert rms(r - exact_r) <= 1e-6 * scale, shape
        exact_S = naive.weighted_sum(array, r)
        assert rms(S - exact_S) <= 4e-7 * rms(naive.weighted_sum(np.abs(array), np.abs(r))), shape


@pytest.mark.parametrize("n", [784, 2000])
def test_error_of_float_arithmetic(n):
    """1.5e-7 of W, root mean square, over two draws; each product is rounded once more where nothing fuses it."""
    squares, many = [], []
    for seed in range(2):
        rng = np.random.default_rng(seed)
        A = fq.pack(rng.standard_normal((8, n, n), dtype=np.float32))
        for x, found in ((rng.standard_normal(n), squares), (rng.standard_normal((n, 16)), many)):
            W = A.products(x)
            found.append((rms(A.products(x, precise=False) - W) / rms(W)) ** 2)
    # one more rounding of 24 bits is at most 6e-8: sqrt(1.5² + 0.6²) = 1.62
    limit = 1.5e-7 if kernels.simd in ("AVX2", "AVX-512", "NEON") else 1.62e-7
    assert np.sqrt(np.mean(squares)) < limit
    assert np.sqrt(np.mean(many)) < limit


def test_float64_is_never_touched_by_it():
    A, _ = make(9, 30, "float64")
    x, v, c = np.ones(30), np.ones(30), np.ones(9)
    np.testing.assert_array_equal(A.products(x, precise=False), A.products(x))
    np.testing.assert_array_equal(A.sweep(x, v, c, precise=False)[1], A.sweep(x, v, c)[1])


@pytest.mark.parametrize("scale", [1e-30, 1e-14, 1e14, 1e30])
def test_sizes_that_floats_do_not_hold_are_computed_in_double(scale):
    rng = np.random.default_rng(0)
    A = fq.pack((rng.standard_normal((9, 30, 30)) * scale).astype(np.float32))
    for size in (1e-30, 1.0, 1e30):
        x, v, c = size * rng.standard_normal(30), np.zeros(30), rng.standard_normal(9)
        np.testing.assert_allclose(A.products(x, precise=False), A.products(x), rtol=1e-4)
        r, S = A.sweep(x, v, c, precise=False)
        exact_r, exact_S = A.sweep(x, v, c)
        np.testing.assert_allclose(r, exact_r, rtol=1e-4, atol=1e-5 * np.abs(exact_r).max())
        np.testing.assert_allclose(S, exact_S, rtol=1e-4, atol=1e-5 * np.abs(exact_S).max())


@pytest.mark.parametrize("dtype", NARROW)
def test_float_arithmetic_does_not_depend_on_threads(dtype, monkeypatch):
    monkeypatch.setattr("fastquad.measurements.dense.chunks.CHUNK_BYTES", 1 << 12)
    monkeypatch.setattr("fastquad.system.threads._BYTES_WORTH_A_THREAD", 1)
    A, _ = make(53, 31, dtype)
    x = np.random.default_rng(0).standard_normal((31, 5))
    one, two = (A.products(x, precise=False, n_threads=k) for k in (1, 4))
    np.testing.assert_array_equal(one, two)


# -- 16-bit storage -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("m", "n"), SHAPES)
def test_16_bits_agree_with_their_twin(m, n):
    A, array = make(m, n, "float16")
    assert A.dtype == np.float16
    rng = np.random.default_rng(1)
    for shape in ((n,), (n, 3), (n, 5)):
        x, v, c = rng.standard_normal(shape), rng.random(shape), rng.standard_normal((m, *shape[1:]))
        sparse = np.zeros(shape)
        sparse[0] = 1.5
        for name, *arguments in (("products", x), ("products", sparse), ("weighted_sum", c), ("sweep", x, v, c)):
            got, expected = getattr(A, name)(*arguments), getattr(naive, name)(array, *arguments)
            for g, e in zip(np.atleast_1d(got) if name != "sweep" else got, expected, strict=True):
                np.testing.assert_allclose(g, e, rtol=0, atol=2e-13 * max(np.abs(expected[-1]).max(), 1) * n)
    support = rng.permutation(n)[: max(1, n // 3)]
    np.testing.assert_array_equal(A.rows(support), naive.rows(array, support))
    assert A.rows(support).dtype == np.float32
    np.testing.assert_array_equal(A.block(support), naive.block(array, support))
    np.testing.assert_array_equal(A.diagonals(), naive.diagonals(array))
    U = rng.standard_normal((n, 4))
    np.testing.assert_allclose(A.compress(U), naive.compress(array, U), atol=1e-10)


def test_16_bits_round_once_and_take_a_quarter_of_the_bytes():
    array = np.random.default_rng(0).standard_normal((9, 20, 20))
    A = fq.pack(array, dtype="float16")
    np.testing.assert_array_equal(A.matrices(0, 9), naive.sym(array).astype(np.float16))
    assert 4 * A.nbytes == fq.pack(array).nbytes
    np.testing.assert_array_equal(fq.pack(A, dtype="float32").block([1, 5]), A.block([1, 5]))


@pytest.mark.parametrize("scale", [1e6, 1e-7])
def test_16_bits_refuse_what_they_cannot_hold(scale):
    array = np.random.default_rng(0).standard_normal((9, 6, 6))
    array[4] *= scale
    with pytest.raises(ValueError, match="`dtype` float16 holds numbers between 6e-5 and 65504"):
        fq.pack(array, dtype="float16")


def test_every_16_bit_number_is_read_right():
    bits = np.arange(1 << 16, dtype=np.uint16)
    numbers = bits.view(np.float16)
    numbers = numbers[np.isfinite(numbers)]
    numbers = np.append(numbers, np.zeros(-numbers.size % 8, dtype=np.float16))
    blocks = numbers.reshape(-1, 1, 8).repeat(4, axis=1)
    d = np.empty((numbers.size, 1))
    kernels.diagonals(np.ascontiguousarray(blocks).view(np.uint16), d, 0, len(blocks))
    np.testing.assert_array_equal(d[:, 0], numbers.astype(np.float64))
    W = np.empty((numbers.size, 1))
    kernels.products(np.ascontiguousarray(blocks).view(np.uint16), np.array([1.0, 0, 0, 0]), W, 0, len(blocks))
    np.testing.assert_array_equal(W[:, 0], numbers.astype(np.float64))


def test_16_bits_on_disk(tmp_path):
    A, array = make(17, 33, "float16")
    fq.pack(naive.sym(array), tmp_path / "A.fq", dtype="float16")
    x = np.random.default_rng(0).standard_normal(33)
    for opened in (fq.open(tmp_path / "A.fq"), fq.open(tmp_path / "A.fq", memory=40_000)):
        assert opened.dtype == np.float16
        np.testing.assert_array_equal(opened.products(x), A.products(x))
        np.testing.assert_array_equal(opened.products(x, precise=False), A.products(x, precise=False))
        np.testing.assert_array_equal(opened.rows([3, 30]), A.rows([3, 30]))
        np.testing.assert_array_equal(opened.diagonals(), A.diagonals())


@pytest.mark.parametrize("noise", [0.0, 3e-3])
def test_a_solve_on_16_bits_says_how_far_off_it_is(noise):
    problem = fq.problems.gaussian(m=200, n=60, k=10, rng=0)
    y = problem.y + noise * problem.y.std() * np.random.default_rng(0).standard_normal(200)
    solution = fq.solve(fq.pack(problem.A, dtype="float16"), y, rng=0)
    error = fq.distance(solution.x, problem.x)
    assert solution.success
    assert error < 3 * solution.error
    assert solution.error < 10 * error
    # What it found is polished on the source, where that is at hand.
    polished = fq.solve(problem.A, y, method="lm", x0=solution.x, rng=0)
    assert polished.success
    if not noise:
        assert polished.n_passes < 10
        assert fq.distance(polished.x, problem.x) < 1e-9


# -- memory and levels ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_packing_into_old_memory(dtype):
    rng = np.random.default_rng(0)
    old, new = rng.standard_normal((2, 9, 7, 7))
    packed = fq.pack(old, dtype=dtype)
    blocks = packed.blocks
    assert fq.pack(new, out=packed) is packed
    assert np.shares_memory(packed.blocks, blocks)
    np.testing.assert_array_equal(packed.blocks, fq.pack(new, dtype=dtype).blocks)


def test_packing_into_memory_that_does_not_fit(tmp_path):
    array = np.random.default_rng(0).standard_normal((9, 7, 7))
    with pytest.raises(ValueError, match="`out` must be a PackedTensor with m=9, n=7 and dtype float64"):
        fq.pack(array, out=fq.pack(array[:8]))
    with pytest.raises(ValueError, match="`out` must be in memory"):
        fq.pack(array, out=fq.pack(array, tmp_path / "A.fq"))
    with pytest.raises(ValueError, match="`out` is memory, and `path` a folder"):
        fq.pack(array, tmp_path / "B.fq", out=fq.pack(array))


LEVELS = """
import sys, numpy as np, fastquad as fq
from fastquad._kernels import packed
rng = np.random.default_rng(0)
A = rng.standard_normal((17, 45, 45)); X = rng.standard_normal((45, 5))
parts = [packed.simd.encode()]
for dtype in ("float64", "float32", "float16"):
    P = fq.pack(A, dtype=dtype)
    for precise in (True, False):
        parts += [P.products(X[:, 0], precise=precise), P.products(X, precise=precise)]
        parts += P.sweep(X, np.abs(X), np.ones((17, 5)), precise=precise)
    parts += [P.compress(X)]
raw = fq.as_measurements(A)
parts += [raw.products(X[:, 0]), raw.weighted_sum(np.ones(17))]
np.save(sys.argv[1], np.concatenate([np.ravel(part) for part in parts[1:]]))
print(packed.simd)
"""


def test_levels_of_simd_agree(tmp_path):
    """`FASTQUAD_SIMD` forces a lower level, and every level gives the same numbers to rounding."""
    results, names = [], []
    for level in ("baseline", "v3", "v4"):
        path = tmp_path / f"{level}.npy"
        command = [sys.executable, "-c", LEVELS, str(path)]
        said = subprocess.run(command, env=environment(level), capture_output=True, text=True, check=True)
        names.append(said.stdout.strip())
        results.append(np.load(path))
    if kernels.simd == "AVX-512":
        assert names == ["SSE2", "AVX2", "AVX-512"]
    for other in results[1:]:
        np.testing.assert_allclose(other, results[0], rtol=2e-5, atol=2e-5 * rms(results[0]))


def environment(level):
    return os.environ | {"FASTQUAD_SIMD": level, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
