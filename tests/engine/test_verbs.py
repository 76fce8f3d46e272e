"""The verbs of the Jacobian, `along`, `gradient` and `gram`: every kind has them, without an m×n array."""

import naive
import numpy as np
import pytest
from scipy import sparse
from tensors import complex_normal, parts, relative_error

import fastquad as fq
from fastquad.engine.digest import digest
from fastquad.engine.driver import drive, finish
from fastquad.engine.encoding import Encoder, decoded, dense
from fastquad.engine.problem import Problem
from fastquad.engine.run import Limits, Run
from fastquad.engine.steps import End, Outcome, Step
from fastquad.measurements.contractions import Along, Gradient, Gram, Measure
from fastquad.measurements.structured.basis import BasisTensor
from fastquad.measurements.views import ComplexView, RealPart, RealView
from fastquad.testing import check_measurements

M, N = 13, 6
RNG = np.random.default_rng(0)
REAL = RNG.standard_normal((M, N, N))
COMPLEX = complex_normal(RNG, M, N, N)
FEW = REAL * (RNG.random((M, N, N)) < 0.3)


def stacked(array):
    return fq.SparseTensor([sparse.csr_array(matrix) for matrix in array])


KINDS = {
    "raw": lambda: (fq.as_measurements(REAL), REAL),
    "packed": lambda: (fq.pack(REAL), REAL),
    "complex": lambda: (fq.as_measurements(COMPLEX), COMPLEX),
    "packed, complex": lambda: (fq.pack(COMPLEX), COMPLEX),
    "rank one, complex": lambda: (fq.RankOneTensor(COMPLEX[:, 0]), None),
    "low rank, complex": lambda: (fq.LowRankTensor(COMPLEX[:, :2], [1.0, -0.5]), None),
    "shifts": lambda: (fq.ShiftTensor(7), None),
    "cyclic shifts": lambda: (fq.ShiftTensor(8, cyclic=True, lags=[0, 1, 4, 3]), None),
    "fourier": lambda: (fq.FourierTensor(complex_normal(np.random.default_rng(1), 2, 5)), None),
    "sparse": lambda: (stacked(FEW), FEW),
    "sparse, complex": lambda: (stacked(FEW + 1j * FEW[::-1]), FEW + 1j * FEW[::-1]),
    "bilinear": lambda: (fq.BilinearTensor(REAL[:, :4, :3]).balanced(), None),
    "affine": lambda: (fq.AffineTensor(REAL, REAL[:, 0]).lifted(), None),
    "basis": lambda: (BasisTensor(fq.as_measurements(REAL), REAL[0][:, :4]), None),
    "computed": lambda: (fq.GaussianTensor(M, N, 0), None),
    "real part": lambda: (RealPart(fq.as_measurements(COMPLEX)), COMPLEX.real),
    "sparse, real part": lambda: (RealPart(stacked(FEW + 1j * FEW[::-1])), FEW),
    "complex view": lambda: (ComplexView(fq.as_measurements(REAL)), naive.sym(REAL).astype(complex)),
    "sparse, complex view": lambda: (ComplexView(stacked(FEW)), naive.sym(FEW).astype(complex)),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_verbs_agree_with_their_twins(kind):
    A, array = KINDS[kind]()
    array = A.matrices(0, A.m) if array is None else array
    rng = np.random.default_rng(2)
    x, V = (complex_normal(rng, A.n, *b) if A.complex else rng.standard_normal((A.n, *b)) for b in ((), (3,)))
    d, r = rng.random(A.m), rng.standard_normal(A.m)
    for name, *given in [("along", x, V), ("along", x, V[:, 0].copy()), ("gradient", x, r), ("gram", x, d, r)]:
        assert relative_error(getattr(A, name)(*given), getattr(naive, name)(array, *given)) < 1e-13, name
    assert relative_error(A.measure(x), naive.measure(array, x)) < 1e-13


@pytest.mark.parametrize("kind", [name for name in KINDS if "complex" in name or name == "fourier"])
def test_complex_kinds_conform_in_real_coordinates(kind):
    A, _ = KINDS[kind]()
    assert check_measurements(RealView(A)).ok


@pytest.mark.parametrize("kind", ["sparse", "cyclic shifts", "basis", "affine", "bilinear", "sparse, real part"])
def test_real_kinds_conform(kind):
    A, _ = KINDS[kind]()
    assert check_measurements(A).ok


@pytest.mark.parametrize("kind", ["raw", "packed, complex", "computed", "basis"])
def test_chunks_make_the_whole(kind, monkeypatch):
    """Also where the products do not fit in a block, so that they are asked for in parts."""
    A, _ = KINDS[kind]()
    rng = np.random.default_rng(3)
    x = complex_normal(rng, A.n) if A.complex else rng.standard_normal(A.n)
    d, r = rng.random(A.m), rng.standard_normal(A.m)
    whole = [A.along(x, x), A.gradient(x, r), A.gram(x, d, r)]
    monkeypatch.setattr("fastquad.measurements.base._BLOCK_BYTES", 1)
    assert len(list(A._product_chunks(x, 1))) == 2
    for one, other in zip(whole, [A.along(x, x), A.gradient(x, r), A.gram(x, d, r)], strict=True):
        assert relative_error(one, other) < 1e-14


def test_streamed_and_dask_tensors_have_them(tmp_path):
    m, n = 1000, 80
    array = np.random.default_rng(4).standard_normal((m, n, n))
    fq.pack(array, tmp_path / "A.fq")
    A = fq.open(tmp_path / "A.fq", memory=18_000_000)
    assert type(A).__name__ == "StreamedTensor"
    kinds, whole = [A], fq.as_measurements(array)
    try:
        import dask.array
    except ImportError:
        pass
    else:
        kinds.append(fq.as_measurements(dask.array.from_array(array, chunks=(300, n, n))))
    x, d, r = RNG.standard_normal(n), RNG.random(m), RNG.standard_normal(m)
    for each in kinds:
        before = each.bytes_read
        assert relative_error(each.gram(x, d, r), whole.gram(x, d, r)) < 1e-12
        assert each is not A or each.bytes_read - before == pytest.approx(A.nbytes, rel=1e-2)
        assert relative_error(each.along(x, x), whole.along(x, x)) < 1e-12
        assert relative_error(each.gradient(x, r), whole.gradient(x, r)) < 1e-12


def test_the_pattern_of_a_sparse_gram_is_that_of_the_graph():
    """A chain: measurement i sees the coordinates i and i + 1, so its matrix is tridiagonal."""
    n = 50
    i = np.arange(n - 1)
    A = fq.SparseTensor.from_entries(i, i, i + 1, np.ones(n - 1), m=n - 1, n=n)
    G, _ = A.gram(np.ones(n), np.ones(n - 1), np.ones(n - 1))
    assert A.gram_kind == "sparse"
    assert G.nnz == n + 2 * (n - 1)
    assert G.has_canonical_format
    # A coordinate that nothing measures has a place on the diagonal.
    alone, _ = fq.SparseTensor.from_entries([0], [0], [0], [1.0], m=1, n=2).gram(np.ones(2), [1.0], [1.0])
    assert alone.nnz == 2
    assert (G != G.T).nnz == 0


def test_a_measurement_of_everything_leaves_the_two_verbs(monkeypatch):
    monkeypatch.setattr("fastquad.measurements.structured.sparse._MOST_PAIRS", 100)
    i = np.arange(20)
    A = fq.SparseTensor.from_entries(np.zeros(20, dtype=int), i, i, np.ones(20), m=1, n=20)
    assert A.gram_kind is None


def asking(request):
    answer = yield request
    return answer


@pytest.mark.parametrize("kind", ["sparse", "packed"])
def test_the_driver_answers_them(kind):
    A, array = KINDS[kind]()
    x, d, r = RNG.standard_normal(N), RNG.random(M), RNG.standard_normal(M)
    assert relative_error(finish(A, asking(Gram(x, d, r))), naive.gram(array, x, d, r)) < 1e-13
    assert relative_error(finish(A, asking(Along(x, x))), naive.along(array, x, x)) < 1e-13
    assert relative_error(finish(A, asking(Gradient(x, r))), naive.gradient(array, x, r)) < 1e-13


def test_what_is_not_finite_in_A_is_found_by_them():
    array = REAL.copy()
    array[3, 2, 1] = np.nan
    A = fq.as_measurements(array)
    for request in (Gram(np.ones(N), np.ones(M), np.ones(M)), Gradient(np.ones(N), np.ones(M))):
        with pytest.raises(ValueError, match="`A` must be finite"):
            finish(A, asking(request))


@pytest.mark.parametrize("kind", ["packed", "sparse"])
def test_a_batch_shares_a_pass(kind):
    """Of a dense kind, whose products are read once for all signals."""
    A, array = KINDS[kind]()
    points = np.random.default_rng(5).standard_normal((3, N))
    seen = []

    def steps(x):
        seen.append((yield Gram(x, np.ones(M), np.ones(M))))
        seen.append((yield Along(x, x)))
        seen.append((yield Gradient(x, np.ones(M))))
        yield Step(x, 1.0)
        return Outcome(x, 1.0, End.MAX_ITER)

    rng = np.random.default_rng(0)
    problem = Problem(M, N, np.ones(M), A.dtype, None, None, None, fq.noise.Gaussian(), 1e-8, lambda: rng, 1 << 30)
    solutions = drive(A, [Run(problem, steps(x), "toy", Limits(), signal=i) for i, x in enumerate(points)])
    assert [solution.n_passes for solution in solutions] == [pytest.approx(3.0)] * 3
    for x, answer in zip(points, seen[:3], strict=True):
        assert relative_error(answer, naive.gram(array, x, np.ones(M), np.ones(M))) < 1e-13
    for x, answer in zip(points, seen[6:], strict=True):
        assert relative_error(answer, naive.gradient(array, x, np.ones(M))) < 1e-13


def test_a_checkpoint_keeps_a_sparse_answer():
    A, _ = KINDS["sparse, complex"]()
    answer = A.gram(complex_normal(RNG, N), np.ones(M), np.ones(M))
    encoder = Encoder()
    said = encoder([dense(answer)])
    again = decoded(said, encoder.arrays)[0]
    assert all((a == b).all() for a, b in zip(parts(answer), parts(again), strict=True))
    assert digest("Gram", np.ones(3)) != digest("Along", np.ones(3))


def test_bad_arguments_are_named():
    A = fq.as_measurements(REAL)
    for call, words in (
        (lambda: A.along(np.ones((N, 2)), np.ones(N)), r"`x` must have shape \(6,\)"),
        (lambda: A.along(np.ones(N), np.ones(N + 1)), r"`v` must have shape"),
        (lambda: A.gradient(np.ones(N), np.ones(N)), r"`w` must have shape \(13,\), got \(6,\)"),
        (lambda: A.gram(np.ones(N), np.ones(M), [np.nan] * M), "`r` must be finite"),
    ):
        with pytest.raises(ValueError, match=words):
            call()


def test_measure_is_a_verb_too():
    A, array = KINDS["sparse"]()
    x = RNG.standard_normal(N)
    assert relative_error(finish(A, asking(Measure(x))), naive.measure(array, x)) < 1e-13
