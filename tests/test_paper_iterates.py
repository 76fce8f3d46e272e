"""Iterates agree, step by step, with an independent implementation of the paper."""

import numpy as np
import paper_reference as paper
import pytest

import fastquad as fq

N_STEPS = 50


@pytest.fixture(scope="module")
def problem():
    return fq.problems.gaussian(m=60, n=40, k=5, rng=1)


@pytest.fixture(params=["raw", "packed", "mapped"])
def tensor(request, problem, tmp_path):
    if request.param == "raw":
        return problem.A
    if request.param == "packed":
        return fq.pack(problem.A)
    path = tmp_path / "A.npy"
    np.save(path, problem.A)
    return path


def iterates(A, y, method, steps, **options):
    """What the callback sees in the first steps."""
    seen = []
    fq.solve(
        A, y, method=method, tol=0.0, max_iter=steps, callback=lambda state: seen.append(state.x.copy()), **options
    )
    return seen


def assert_agree(got, expected):
    assert len(got) == len(expected)
    for x, reference in zip(got, expected, strict=True):
        assert np.linalg.norm(x - reference) <= 1e-10 * np.linalg.norm(reference)


@pytest.mark.parametrize("threshold", ["soft", "hard"])
def test_twf(problem, tensor, threshold):
    expected = paper.twf(problem.A, problem.y, N_STEPS, threshold=getattr(paper, threshold))
    assert_agree(iterates(tensor, problem.y, fq.TWF(threshold=threshold), N_STEPS), expected)


def test_twf_where_the_iterates_are_sparse(problem, tensor):
    expected = paper.twf(problem.A, problem.y, N_STEPS, beta=4.0)
    assert np.count_nonzero(expected[-1]) <= 10
    assert_agree(iterates(tensor, problem.y, fq.TWF(beta=4.0), N_STEPS), expected)


def test_wf(problem, tensor):
    expected = paper.twf(problem.A, problem.y, N_STEPS, beta=0.0)
    assert_agree(iterates(tensor, problem.y, fq.methods.WF(), N_STEPS), expected)


def test_twf_with_a_known_support(problem, tensor):
    support = np.flatnonzero(problem.x)
    expected = paper.twf(problem.A, problem.y, N_STEPS, known=list(support))
    assert_agree(iterates(tensor, problem.y, fq.TWF(), N_STEPS, prior=fq.Sparse(support=support)), expected)


def test_twf_with_a_known_norm_and_a_constant_step(problem, tensor):
    norm = float(np.linalg.norm(problem.x))
    expected = paper.twf(problem.A, problem.y, N_STEPS, phi=norm, step=lambda t: 0.2)
    assert_agree(iterates(tensor, problem.y, fq.TWF(step="constant", mu=0.2), N_STEPS, norm=norm), expected)


def test_user_shrinkage(problem):
    """The firm threshold, which is neither soft nor hard."""

    def firm(a, tau):
        return np.where(np.abs(a) <= tau, 0.0, np.where(np.abs(a) > 2 * tau, a, 2 * paper.soft(a, tau)))

    expected = paper.twf(problem.A, problem.y, N_STEPS, threshold=firm)
    assert_agree(iterates(problem.A, problem.y, fq.TWF(threshold=firm), N_STEPS), expected)


def test_steps_are_damped_after_a_thousand():
    problem = fq.problems.gaussian(m=12, n=6, k=2, rng=3)
    expected = paper.twf(problem.A, problem.y, 1100, beta=8.0)
    got = iterates(problem.A, problem.y, fq.TWF(beta=8.0), 1100)
    assert np.linalg.norm(expected[1099] - expected[1000]) > 0
    assert_agree(got, expected[: len(got)])


def test_spf_on_the_matrices_as_given(problem, tmp_path):
    path = tmp_path / "A.npy"
    np.save(path, problem.A)
    expected = paper.spf(problem.A, problem.y, k=5, T=5)
    for tensor in (problem.A, path):
        assert_agree(iterates(tensor, problem.y, fq.methods.SPF(k=5), 5), expected)


def test_spf_on_a_packed_tensor(problem):
    """A packed tensor is symmetric, so there SPF works with the symmetric part."""
    symmetric = (problem.A + problem.A.transpose(0, 2, 1)) / 2
    expected = paper.spf(symmetric, problem.y, k=5, T=5)
    assert_agree(iterates(fq.pack(problem.A), problem.y, fq.methods.SPF(k=5), 5), expected)


@pytest.mark.parametrize("support", ["estimated", "full", "given"])
def test_spectral_init(problem, tensor, support):
    if support == "given":
        block = [1, 3, 8, 20]
        expected = np.zeros(40)
        S = paper.spectral_matrix(problem.A, problem.y)[np.ix_(block, block)]
        expected[block] = paper.norm_estimate(problem.y) * paper.leading_unit_eigenvector(S)
        got = fq.methods.spectral_init(tensor, problem.y, support=block)
    elif support == "full":
        expected = paper.standard_spectral_start(problem.A, problem.y)
        got = fq.methods.spectral_init(tensor, problem.y, support="full")
    else:
        expected = paper.spectral_start(problem.A, problem.y, alpha=0.3, phi=2.0)
        got = fq.methods.spectral_init(tensor, problem.y, alpha=0.3, norm=2.0)
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-12 * np.linalg.norm(expected))


def test_spectral_init_by_an_iterative_eigensolver():
    """Above 200 coordinates the eigenvector comes from Lanczos."""
    problem = fq.problems.gaussian(m=30, n=230, k=2, rng=0)
    expected = paper.standard_spectral_start(problem.A, problem.y)
    got = fq.methods.spectral_init(problem.A, problem.y, support="full")
    np.testing.assert_allclose(got, expected, rtol=0, atol=1e-9)
