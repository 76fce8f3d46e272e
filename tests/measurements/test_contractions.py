"""Every contraction of every kind of tensor agrees with its slow twin in naive.py, whatever the shape and dtype."""

import itertools
import mmap

import naive
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tensors import Own, calls, parts, relative_error

import fastquad as fq
from fastquad.measurements.contractions import FirstProducts

SHAPES = [(1, 1), (1, 5), (3, 1), (7, 4), (8, 3), (9, 17), (17, 33), (20, 50), (9, 70)]
KINDS = ["raw", "packed", "rank one", "user's own"]


def make(kind, m, n, dtype="float64", seed=0):
    """Measurements of a kind, and the (m, n, n) array that they stand for."""
    rng = np.random.default_rng([seed, m, n])
    if kind == "rank one":
        a = rng.standard_normal((m, n)).astype(dtype)
        return fq.RankOneTensor(a), a[:, :, None].astype(float) * a[:, None, :]
    A = rng.standard_normal((m, n, n)).astype(dtype)
    if kind == "packed":
        return fq.pack(A), naive.sym(A).astype(dtype)
    return (Own(A) if kind == "user's own" else fq.as_measurements(A)), A


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("m", "n"), SHAPES)
@pytest.mark.parametrize("kind", KINDS)
def test_agrees_with_its_twin(kind, m, n, dtype):
    A, array = make(kind, m, n, dtype)
    for batch in (None, 1, 2, 5, 9):
        for name, *arguments in calls(m, n, batch):
            got, expected = getattr(A, name)(*arguments), getattr(naive, name)(array, *arguments)
            # Sums of n² terms in double, whatever the storage; r of the sweep may cancel, hence not 1e-15.
            assert relative_error(got, expected) < 2e-13, (name, batch)


@pytest.mark.parametrize("count", [1, 5, 8, 12])
@pytest.mark.parametrize("kind", KINDS)
def test_products_of_the_first_measurements(kind, count):
    A, array = make(kind, 19, 23)
    x = np.zeros(23)
    x[[3, 11]] = 1.0, -2.0
    request = FirstProducts(x, count)
    W = request.answer(A, 1)
    # Where A has only its matrices, all are answered.
    assert len(W) == (19 if kind == "user's own" else count)
    np.testing.assert_allclose(W, naive.products(array, x)[: len(W)], rtol=1e-12, atol=1e-12)
    share = {"packed": -(-count // 8) * 8 / 24, "user's own": 1.0}.get(kind, count / 19)
    assert request.cost(A) == pytest.approx(A.cost_of_products(2) * share)


@pytest.mark.parametrize("kind", ["raw", "packed"])
def test_sided_products(kind):
    A, array = make(kind, 9, 13)
    x = np.random.default_rng(1).standard_normal(13)
    for transpose in (False, True):
        np.testing.assert_allclose(
            A.sided_products(x, transpose=transpose), naive.sided_products(array, x, transpose), rtol=1e-12
        )


@pytest.mark.parametrize("kind", ["raw", "packed"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_sweep_in_two_passes_where_matrices_do_not_fit_in_cache(kind, dtype, monkeypatch):
    A, array = make(kind, 19, 30, dtype)
    monkeypatch.setattr("fastquad.measurements.dense.chunks._CACHE_BYTES", 1)
    assert A.sweep_passes() == 2
    for batch in (None, 3):
        _, *arguments = next(call for call in calls(19, 30, batch) if call[0] == "sweep")
        assert relative_error(A.sweep(*arguments), naive.sweep(array, *arguments)) < 2e-13


@pytest.mark.parametrize("kind", KINDS)
def test_bits_do_not_depend_on_threads(kind, monkeypatch):
    monkeypatch.setattr("fastquad.measurements.dense.chunks.CHUNK_BYTES", 1 << 12)
    monkeypatch.setattr("fastquad.system.threads._BYTES_WORTH_A_THREAD", 1)
    A, _ = make(kind, 53, 31)
    for batch in (None, 5):
        for name, *arguments in calls(53, 31, batch):
            results = [getattr(A, name)(*arguments, n_threads=n_threads) for n_threads in (1, 2, 4)]
            for other in results[1:]:
                for one, two in zip(parts(results[0]), parts(other), strict=True):
                    np.testing.assert_array_equal(one, two)


@pytest.mark.parametrize("kind", KINDS)
def test_input_is_not_modified(kind):
    rng = np.random.default_rng(3)
    source = rng.standard_normal((9, 11) if kind == "rank one" else (9, 11, 11))
    before = source.copy()
    A = {"raw": fq.as_measurements, "packed": fq.pack, "rank one": fq.RankOneTensor, "user's own": Own}[kind](source)
    for batch in (None, 3):
        for name, *arguments in calls(9, 11, batch):
            copies = [np.copy(argument) for argument in arguments]
            getattr(A, name)(*arguments)
            for argument, copy in zip(arguments, copies, strict=True):
                np.testing.assert_array_equal(argument, copy)
    np.testing.assert_array_equal(source, before)
    assert source.flags.writeable


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_read_only_memory_map_is_used_in_place(tmp_path, dtype):
    array = np.random.default_rng(0).standard_normal((10, 7, 7)).astype(dtype)
    np.save(tmp_path / "A.npy", array)
    mapped = np.load(tmp_path / "A.npy", mmap_mode="r")
    for A in (
        fq.as_measurements(mapped),
        fq.as_measurements(tmp_path / "A.npy"),
        fq.as_measurements(str(tmp_path / "A.npy")),
    ):
        base = A.array
        while isinstance(base.base, np.ndarray):
            base = base.base
        assert isinstance(base, np.memmap) or isinstance(base.base, mmap.mmap)
        for batch in (None, 3):
            for name, *arguments in calls(10, 7, batch):
                expected = getattr(naive, name)(array, *arguments)
                assert relative_error(getattr(A, name)(*arguments), expected) < 2e-13
    assert (
        relative_error(fq.pack(mapped).products(np.ones(7)), naive.products(naive.sym(array).astype(dtype), np.ones(7)))
        < 1e-13
    )


def test_contiguous_arrays_are_not_copied_and_others_are():
    array = np.random.default_rng(0).standard_normal((4, 3, 3))
    assert np.shares_memory(fq.as_measurements(array).array, array)
    for other in (array[::2], np.asfortranarray(array), array.transpose(0, 2, 1), array.astype(">f8")):
        x = np.ones(3)
        np.testing.assert_allclose(fq.as_measurements(other).products(x), naive.products(other, x), rtol=1e-14)


@pytest.mark.parametrize(
    ("dtype", "becomes"), [("float16", "float32"), ("int8", "float64"), ("uint64", "float64"), ("bool", "float64")]
)
def test_other_real_dtypes_are_converted(dtype, becomes):
    array = (np.arange(18).reshape(2, 3, 3) % 2).astype(dtype)
    A = fq.as_measurements(array)
    assert A.dtype == becomes
    np.testing.assert_allclose(A.products(np.ones(3)), naive.products(array, np.ones(3)))


def test_pack_to_another_dtype_rounds_once():
    array = np.random.default_rng(0).standard_normal((9, 6, 6))
    half = fq.pack(array, dtype="float32")
    np.testing.assert_array_equal(half.block(np.arange(6)), naive.sym(array).astype(np.float32))
    assert fq.pack(half) is half
    np.testing.assert_array_equal(fq.pack(half, dtype="float64").block([1, 5]), half.block([1, 5]))


def test_half_the_bytes():
    m, n = 64, 120
    A = fq.pack(np.zeros((m, n, n)))
    assert A.nbytes < 1.04 * 8 * m * n * (n + 1) / 2


def test_products_into_an_array_of_the_users():
    A, _ = make("packed", 9, 20)
    for x in (np.ones(20), np.eye(20)[0], np.ones((20, 1)), np.ones((20, 3))):
        out = np.full((9, *x.shape), np.nan)
        assert np.shares_memory(A.products(x, out=out), out)
        np.testing.assert_array_equal(out, A.products(x))
    with pytest.raises(ValueError, match=r"`out` must be a C-contiguous float64 array of shape \(9, 20\)"):
        A.products(np.ones(20), out=np.empty((20, 9)))


def test_a_sparse_signal_reads_its_rows_alone():
    """NaN elsewhere in A does not reach a signal that does not touch it."""
    for kind in ("raw", "packed"):
        array = np.random.default_rng(0).standard_normal((9, 40, 40))
        poisoned = array.copy()
        poisoned[:, 20, 21] = np.nan
        if kind == "raw":
            A = fq.as_measurements(poisoned)
        else:  # which `pack` would refuse
            blocks = fq.pack(array).blocks.copy()
            blocks[fq.pack(np.isnan(poisoned)).blocks != 0] = np.nan
            A = fq.types.PackedTensor(blocks, 9, 40)
        x = np.zeros(40)
        x[[3, 38]] = 1.0, -2.0
        np.testing.assert_allclose(A.products(x), naive.products(array, x), rtol=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_chosen(kind):
    A, _ = make(kind, 9, 6)
    np.testing.assert_array_equal(A.products(np.zeros(6)), np.zeros((9, 6)))
    assert A.rows([]).shape == (9, 0, 6)
    assert A.block([], [1, 2]).shape == (9, 0, 2)
    assert A.compress(np.zeros((6, 0))).shape == (9, 0, 0)


def test_index_arithmetic_does_not_overflow():
    """Offsets are counted in 64 bits: n = 10⁷ has more entries than 32 bits count."""
    from fastquad._kernels import packed as kernels

    for n in (1, 4, 5, 1001, 70_000, 10_000_000):
        groups = -(-n // 4)
        assert kernels.entries(n) == 4 * groups * n - 8 * groups * (groups - 1)
        assert kernels.entries(n) >= n * (n + 1) // 2


# -- identities, for any shape ----------------------------------------------------------------------------------


@st.composite
def problems(draw):
    kind = draw(st.sampled_from(KINDS))
    m, n = draw(st.integers(1, 20)), draw(st.integers(1, 24))
    A, _ = make(kind, m, n, draw(st.sampled_from(["float32", "float64"])), draw(st.integers(0, 5)))
    rng = np.random.default_rng(draw(st.integers(0, 10**6)))
    return A, rng.standard_normal(n), rng.standard_normal(n), rng.standard_normal(m)


def close(a, b, scale):
    return np.abs(np.asarray(a) - b).max() <= 1e-12 * scale


@settings(max_examples=60, deadline=None)
@given(problems())
def test_identities(problem):
    A, x, u, w = problem
    W, V = A.products(x), A.products(u)
    scale = 1 + np.abs(W).sum() * np.abs(x).sum() + np.abs(V).sum() * np.abs(u).sum()
    assert close(W @ x, A.measure(x), scale)  # x · products(x) = measure
    assert close(A.products(2 * x - u), 2 * W - V, scale)  # linear
    assert close(W @ u, V @ x, scale)  # symmetric
    S = A.weighted_sum(w)
    assert close(S, S.T, 0.0)
    assert close(S @ x, w @ W, scale * np.abs(w).sum())  # adjoint
    assert close(np.diag(S), w @ A.diagonals(), scale * np.abs(w).sum() + np.abs(A.diagonals()).sum())
    everything = np.arange(A.n)
    assert close(A.rows(everything) @ x, W, scale)
    assert close(A.compress(np.eye(A.n)), A.block(everything), scale)
    r, T = A.sweep(x, np.zeros(A.n), w)
    assert close(r, w - A.measure(x), scale + np.abs(w).sum())
    assert close(T, A.weighted_sum(r), scale * (1 + np.abs(r).sum()) * 10)


# -- what is refused --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("A", "error", "message"),
    [
        (np.ones((3, 4, 5)), ValueError, r"`A` must have shape \(m, n, n\), got \(3, 4, 5\)"),
        (np.ones((4, 4)), ValueError, r"`A` must have shape \(m, n, n\), got \(4, 4\)"),
        (np.ones((0, 4, 4)), ValueError, r"at least one measurement .* got shape \(0, 4, 4\)"),
        (np.ones((4, 0, 0)), ValueError, r"at least one measurement .* got shape \(4, 0, 0\)"),
        (np.array([[["a"]]]), TypeError, "`A` must hold numbers .* <U1"),
        (np.ones((2, 2, 2), object), TypeError, r"`A` must hold numbers .* object"),
        (np.ones((2, 2, 2), np.longdouble), TypeError, r"`A` must hold numbers"),
        ("missing.npy", FileNotFoundError, r"`A`: there is no file 'missing.npy'"),
    ],
)
def test_bad_tensors(A, error, message):
    with pytest.raises(error, match=message):
        fq.as_measurements(A)


def test_bad_files(tmp_path):
    text, pickled, cut = tmp_path / "text.npy", tmp_path / "pickled.npy", tmp_path / "cut.npy"
    text.write_text("no array")
    np.save(pickled, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    np.save(cut, np.ones((4, 5, 5)))
    cut.write_bytes(cut.read_bytes()[:500])
    for path in (text, pickled, cut):
        with pytest.raises(ValueError, match=r"`A`: .* cannot be read as a .npy array"):
            fq.as_measurements(path)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda A: A.products(np.ones(5)), ValueError, r"`x` must have shape \(4,\) or \(4, b\), got \(5,\)"),
        (lambda A: A.products(np.ones((4, 1, 1))), ValueError, r"`x` must have shape"),
        (lambda A: A.products([1, 2, np.nan, 0]), ValueError, r"`x` must be finite"),
        (lambda A: A.products([1, 2, np.inf, 0]), ValueError, r"`x` must be finite"),
        (lambda A: A.products(np.ones(4, complex)), TypeError, r"`x` must hold real numbers, got dtype complex128"),
        (lambda A: A.products(["a"] * 4), TypeError, r"`x` must hold real numbers"),
        (lambda A: A.weighted_sum(np.ones(4)), ValueError, r"`w` must have shape \(3,\) or \(3, b\), got \(4,\)"),
        (lambda A: A.sweep(np.ones(4), np.ones(3), np.ones(3)), ValueError, r"`v` must have shape"),
        (lambda A: A.sweep(np.ones(4), np.ones(4), np.ones(4)), ValueError, r"`c` must have shape \(3,\), got \(4,\)"),
        (lambda A: A.rows([4]), ValueError, r"`support` must lie between 0 and 3, got 4 to 4"),
        (lambda A: A.rows([-1]), ValueError, r"`support` must lie between 0 and 3, got -1 to -1"),
        (lambda A: A.rows([0.5]), ValueError, r"`support` must be a list of integers"),
        (lambda A: A.block([0], [[1]]), ValueError, r"`cols` must be a list of integers"),
        (lambda A: A.compress(np.ones(4)), ValueError, r"`U` must have shape \(4, p\), got \(4,\)"),
        (lambda A: A.sided_products(np.ones((4, 2))), ValueError, r"`x` must have shape \(4,\), got \(4, 2\)"),
        (lambda A: A.products(np.ones(4), n_threads=0), ValueError, r"`n_threads` must be a positive integer, got 0"),
        (lambda A: fq.pack(A, dtype="int32"), TypeError, r"`dtype` must be float16, float32 or float64, got int32"),
        (lambda A: fq.RankOneTensor(np.ones(3)), ValueError, r"`vectors` must have shape \(m, n\)"),
        (lambda A: fq.RankOneTensor(np.ones((3, 2), object)), TypeError, r"`vectors` must hold"),
    ],
)
def test_bad_arguments(call, error, message):
    for A in (fq.as_measurements(np.ones((3, 4, 4))), fq.pack(np.ones((3, 4, 4)))):
        with pytest.raises(error, match=message):
            call(A)


def test_every_contraction_is_tested():
    tested = {call[0] for call in itertools.chain(calls(9, 9, None), calls(9, 9, 2))} | {"sided_products"}
    parts = {"sym", "double", "both"}
    twins = {name for name in vars(naive) if callable(getattr(naive, name)) and name not in parts}
    assert tested == twins
