"""Linear terms and known values: the lifted tensor against its matrices, and solves that must get the sign right."""

import numpy as np
import pytest
from scipy import sparse
from tensors import assert_agrees

import fastquad as fq
from fastquad.noise import Gaussian


def affine(m, n, seed=0, size=1.0, kind=np.asarray):
    """Measurements with standard normal A, c, and b of rms `size`."""
    rng = np.random.default_rng(seed)
    A, b, c = rng.standard_normal((m, n, n)), size * rng.standard_normal((m, n)), rng.standard_normal(m)
    return fq.AffineTensor(kind(A), b, c)


@pytest.mark.parametrize("kind", [
    np.asarray, fq.pack, lambda A: fq.RankOneTensor(A[:, 0]), lambda A: [sparse.csr_array(each) for each in A],
], ids=["raw", "packed", "rank one", "sparse"])  # fmt: skip
@pytest.mark.parametrize(("m", "n"), [(5, 1), (7, 4), (20, 33)])
def test_the_lifted_tensor_agrees_with_its_matrices(m, n, kind):
    A = affine(m, n, kind=kind)
    lifted = A.lifted()
    array = np.zeros((m, n + 1, n + 1))
    array[:, :n, :n] = A.A.matrices(0, m)
    array[:, n, :n] = A.b / lifted.value
    assert_agrees(lifted, array)
    x = np.random.default_rng(1).standard_normal(n)
    np.testing.assert_allclose(lifted.measure(np.append(x, lifted.value)) + A.c, A.measure(x), rtol=1e-12)
    expected = [x @ M @ x + b @ x + c for M, b, c in zip(A.A.matrices(0, m), A.b, A.c, strict=True)]
    np.testing.assert_allclose(fq.measure(A, x), expected, rtol=1e-12)


def test_the_new_entries_are_as_large_as_the_others():
    lifted = affine(200, 30, size=7.0).lifted()
    entries = lifted.matrices(0, 200)
    apart = entries[:, :-1, :-1][:, ~np.eye(30, dtype=bool)]
    assert np.sqrt(np.mean(lifted.border**2) / np.mean(apart**2)) == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize("method", ["auto", "lm"])
def test_the_sign_is_found(method, sign):
    A = affine(60, 20)
    x = sign * np.random.default_rng(5).standard_normal(20)
    solution = fq.solve(A, fq.measure(A, x), method=method, x_true=x)
    assert solution.status is fq.Status.EXACT
    np.testing.assert_allclose(solution.x, x, atol=1e-12)
    assert solution.history["distance"][-1] < 1e-12
    assert solution.support.size == 20


def test_the_history_knows_the_sign_where_the_data_do():
    """−x is no answer where linear terms tell it from x: it is at a distance of 2, and at 0 where they do not."""
    A = affine(60, 20)
    x = np.random.default_rng(5).standard_normal(20)
    far = fq.solve(A, fq.measure(A, x), method="lm", x0=-x, x_true=x, max_iter=1)
    assert far.history["distance"][0] == pytest.approx(2.0)
    quadratic = fq.problems.gaussian(m=60, n=20, rng=0)
    alike = fq.solve(quadratic.A, quadratic.y, method="lm", x0=-quadratic.x, x_true=quadratic.x, max_iter=1)
    assert alike.history["distance"][0] == pytest.approx(0.0)
    # a known value that is not zero tells the sign as well; a known zero does not
    for value, distance in ((float(quadratic.x[3]), 2.0), (0.0, 0.0)):
        known = quadratic.x.copy()
        known[3] = value
        other = -known
        other[3] = value
        prior = fq.Sparse(fixed={3: value})
        y = fq.measure(quadratic.A, known)
        history = fq.solve(quadratic.A, y, method="lm", prior=prior, x0=other, x_true=known, max_iter=1).history
        off = np.linalg.norm(other - known) / np.linalg.norm(known)
        assert history["distance"][0] == pytest.approx(off if distance else 0.0)
        assert off == pytest.approx(2.0, abs=0.5)


def test_a_batch_with_starts_and_a_callback():
    A = affine(60, 20)
    X = np.random.default_rng(5).standard_normal((2, 20))
    seen = []
    found = fq.solve(A, fq.measure(A, X), x0=np.zeros(20), callback=lambda state: seen.append(state.x.shape))
    np.testing.assert_allclose(found.x, X, atol=1e-10)
    assert set(seen) == {(20,)}


def test_known_values_are_kept_and_tell_the_sign():
    problem = fq.problems.gaussian(m=80, n=25, rng=3)
    fixed = {4: float(problem.x[4]), 7: float(problem.x[7])}
    for x_sign in (1.0, -1.0):
        known = {j: x_sign * value for j, value in fixed.items()}
        solution = fq.solve(problem.A, problem.y, prior=fq.Sparse(fixed=known))
        assert solution.x[4] == known[4]
        np.testing.assert_allclose(solution.x, x_sign * problem.x, atol=1e-12)


def test_a_fit_with_weights_is_that_of_scaled_rows():
    """Σ (w_i r_i)² of A and y is Σ r_i² of w_i A_i and w_i y_i."""
    from fastquad.api import Problem
    from fastquad.engine.steps import Step
    from fastquad.numerics.levenberg_marquardt import Rule
    from fastquad.solvers.parts.descent import fit

    rng = np.random.default_rng(0)
    A, w, x = rng.standard_normal((30, 8, 8)), rng.uniform(0.1, 3.0, 30), rng.standard_normal(8)
    y = fq.measure(A, x) + 0.1 * rng.standard_normal(30)

    def found(A, y, weights):
        problem = Problem(
            m=30, n=8, y=y, dtype=A.dtype, prior=None, x0=None, norm=None, noise=Gaussian(), tol=1e-8,
            random=lambda: rng, memory=1 << 30,
        )  # fmt: skip
        steps = fit(problem, x, np.arange(8), Rule(), None, weights)
        measurements, answer = fq.as_measurements(A), None
        while True:
            try:
                item = steps.send(answer)
            except StopIteration as end:
                return end.value
            answer = None if isinstance(item, Step) else item.answer(measurements, 1)

    weighted, scaled = found(A, y, w), found(A * w[:, None, None], y * w, None)
    np.testing.assert_allclose(weighted.x, scaled.x, rtol=1e-7)
    np.testing.assert_allclose(weighted.r * w, scaled.r, rtol=1e-6, atol=1e-9)
    assert weighted.residual == pytest.approx(np.linalg.norm(fq.measure(A, weighted.x) - y) / np.linalg.norm(y))


@pytest.mark.parametrize(("call", "error", "said"), [
    (lambda A, y: fq.AffineTensor(A, np.ones((3, 4))), ValueError, r"`b` must have shape \(30, 5\)"),
    (lambda A, y: fq.AffineTensor(A, np.zeros((30, 5))), ValueError, "`b` must not be zero"),
    (lambda A, y: fq.AffineTensor(A, np.ones((30, 5)), [1.0]), ValueError, r"`c` must have shape \(30,\)"),
    (lambda A, y: fq.solve(fq.AffineTensor(A, np.ones((30, 5))), y, method="twf"), ValueError, "known values"),
    (lambda A, y: fq.solve(fq.AffineTensor(A, np.ones((30, 5))), y, x0=np.ones(6)), ValueError, r"`x0` must have"),
    (lambda A, y: fq.solve(A, y, prior=fq.Sparse(fixed={5: 1.0})), ValueError, "coordinates between 0 and 4"),
    (lambda A, y: fq.Sparse(fixed=[1]), TypeError, "`fixed` must be a dict"),
    (lambda A, y: fq.Sparse(fixed={-1: 1.0}), ValueError, "`fixed` must name coordinates by integers from 0"),
    (lambda A, y: fq.Sparse(fixed={1: [1.0, 2.0]}), ValueError, "one number for each coordinate"),
    (lambda A, y: fq.solve(A, 0 * y, prior=fq.Sparse(fixed={1: 1.0})), ValueError, "`y` must not be all zero"),
])  # fmt: skip
def test_refuses(call, error, said):
    A = np.random.default_rng(0).standard_normal((30, 5, 5))
    with pytest.raises(error, match=said):
        call(A, fq.measure(A, np.ones(5)))
