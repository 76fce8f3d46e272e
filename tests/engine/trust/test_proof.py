"""Proofs: found where they exist, checked by other code, and never given to a signal that is not the only one."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from scipy import sparse

import fastquad as fq
from fastquad.numerics.dual import Complement, least_eigenvalue

PAULI = {
    "I": np.eye(2), "X": np.array([[0, 1], [1, 0]]), "Y": np.array([[0, -1j], [1j, 0]]), "Z": np.diag([1, -1]),
}  # fmt: skip


def symmetric(rng, m, n, complex=False):
    A = rng.standard_normal((m, n, n))
    if complex:
        A = A + 1j * rng.standard_normal((m, n, n))
    return (A + A.conj().transpose(0, 2, 1)) / 2


def signal(rng, n, complex=False):
    return rng.standard_normal(n) + (1j * rng.standard_normal(n) if complex else 0)


def blind(A, D):
    """A without its component along a Hermitian D."""
    along = np.einsum("ijk,jk->i", A, D.conj()).real / np.sum(np.abs(D) ** 2)
    return A - along[:, None, None] * D


def solved(A, x, norm=True, **options):
    y = fq.measure(A, x)
    options |= {"norm": np.linalg.norm(x)} if norm else {}
    return y, fq.solve(A, y, **options)


# -- proofs are found, and hold ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("complex", "ratio"), [(False, 3.5), (True, 6.5)])
def test_a_measured_norm_gives_a_proof(complex, ratio):
    proven = 0
    for seed in range(8):
        rng = np.random.default_rng(seed)
        n = 24
        A, x = symmetric(rng, int(ratio * n), n, complex), signal(rng, n, complex)
        y, solution = solved(A, x)
        assert solution.success
        assert fq.distance(solution.x, x) < 1e-9
        if solution.status == "PROVEN":
            proven += 1
            assert solution.proof.kind == "dual"
            assert 0 < solution.proof.radius < 1e-9
            assert fq.distance(solution.x, x) <= solution.proof.radius
            assert fq.testing.check_proof(A, y, solution).ok
            assert "proof" in solution.message.lower()
    assert proven >= 7


@pytest.mark.parametrize("make", [
    lambda A: A,
    lambda A: A.astype(np.float32),
    fq.pack,
    lambda A: fq.pack(A, dtype="float32"),
    lambda A: fq.SparseTensor([sparse.csr_array(each) for each in A]),
])  # fmt: skip
def test_every_storage_is_proven(make):
    rng = np.random.default_rng(3)
    A, x = make(symmetric(rng, 60, 15)), rng.standard_normal(15)
    y, solution = solved(A, x)
    assert solution.status == "PROVEN"
    assert fq.testing.check_proof(A, y, solution).ok


def test_rank_one_matrices_need_no_norm():
    for complex in (False, True):
        rng = np.random.default_rng(5)
        n = 20
        A = fq.RankOneTensor(signal(rng, (8 if complex else 5) * n * n, complex).reshape(-1, n))
        x = signal(rng, n, complex)
        y, solution = solved(A, x, norm=False)
        assert solution.status == "PROVEN"
        assert solution.proof.identity == 0
        assert fq.testing.check_proof(A, y, solution).ok


def test_semidefinite_matrices_are_proven_with_either_sign_and_in_any_units():
    rng = np.random.default_rng(5)
    n, x = 12, rng.standard_normal(12)
    vectors = rng.standard_normal((5 * n, n))
    A = vectors[:, :, None] * vectors[:, None]
    signs, units = rng.choice([-1.0, 1.0], 5 * n), 2.0 ** rng.integers(-10, 11, 5 * n)
    for rows in (signs, -np.ones(5 * n), units):
        said = A * rows[:, None, None]
        y, solution = solved(said, x, norm=False)
        assert solution.status == "PROVEN"
        assert fq.testing.check_proof(said, y, solution).ok


def test_images_behind_masks_are_proven():
    rng = np.random.default_rng(0)
    A = fq.FourierTensor(np.exp(2j * np.pi * rng.random((8, 5, 6))))
    y, solution = solved(A, signal(rng, 30, True), norm=False)
    assert solution.status == "PROVEN"
    assert fq.testing.check_proof(A, y, solution).ok


@pytest.mark.parametrize("complex_y", [False, True])
def test_matrices_that_are_not_hermitian(complex_y):
    rng = np.random.default_rng(1)
    n = 10
    A = rng.standard_normal((80, n, n)) + 1j * rng.standard_normal((80, n, n))
    x = signal(rng, n, True)
    y = fq.measure(A, x)
    y = y if complex_y else y.real.copy()
    solution = fq.solve(A, y, norm=np.linalg.norm(x))
    assert solution.status == "PROVEN"
    assert len(solution.proof.weights) == (160 if complex_y else 80)
    assert fq.testing.check_proof(A, y, solution).ok


def test_a_basis():
    rng = np.random.default_rng(1)
    D = np.linalg.qr(rng.standard_normal((20, 12)))[0]
    A, x = symmetric(rng, 90, 20), D @ rng.standard_normal(12)
    y, solution = solved(A, x, prior=fq.Sparse(basis=D))
    assert solution.status == "PROVEN"
    assert fq.testing.check_proof(A, y, solution, basis=D).ok


def test_a_batch_is_proven_signal_by_signal():
    rng = np.random.default_rng(1)
    A, X = symmetric(rng, 60, 12), rng.standard_normal((3, 12))
    Y = fq.measure(A, X)
    found = fq.solve(A, Y, norm=np.linalg.norm(X, axis=1))
    for y, solution in zip(Y, found, strict=True):
        assert solution.status == "PROVEN"
        assert fq.testing.check_proof(A, y, solution).ok


def test_units_of_the_measurements_change_no_proof():
    rng = np.random.default_rng(2)
    A, x = symmetric(rng, 60, 15), rng.standard_normal(15)
    units = 10.0 ** rng.integers(-6, 7, 60)
    y, scaled = solved(A * units[:, None, None], x)
    assert scaled.status == "PROVEN"
    assert fq.testing.check_proof(A * units[:, None, None], y, scaled).ok
    big = solved(1e5 * A, 1e-4 * x)[1]
    assert big.status == "PROVEN"
    assert big.proof.margin == pytest.approx(solved(A, x)[1].proof.margin, rel=1e-6)


def test_nothing_is_asked_where_measurements_are_few():
    rng = np.random.default_rng(2)
    A, x = symmetric(rng, 22, 15), rng.standard_normal(15)
    _, solution = solved(A, x)
    assert solution.status != "PROVEN"


# -- what is saved, and checked again ---------------------------------------------------------------------------


def test_a_proof_is_saved(tmp_path):
    rng = np.random.default_rng(0)
    A, x = symmetric(rng, 40, 10), rng.standard_normal(10)
    y, solution = solved(A, x)
    solution.save(tmp_path / "s.npz")
    again = fq.load_solution(tmp_path / "s.npz")
    assert again == solution
    assert fq.testing.check_proof(A, y, again).ok
    assert json.loads(json.dumps(solution.to_dict()))["proof"]["kind"] == "dual"


def test_a_tampered_proof_is_refused():
    rng = np.random.default_rng(0)
    A, x = symmetric(rng, 40, 10), rng.standard_normal(10)
    y, solution = solved(A, x)
    proof = solution.proof
    moved = proof.weights.copy()
    moved[3] += 1e-3 * np.linalg.norm(moved)
    tampered = [
        replace(solution, proof=replace(proof, weights=moved)),
        replace(solution, proof=replace(proof, identity=proof.identity * 1.01)),
        replace(solution, proof=replace(proof, weights=-proof.weights, identity=-proof.identity)),
        replace(solution, proof=replace(proof, margin=1.1 * proof.margin)),
        replace(solution, x=np.roll(solution.x, 1)),
        replace(solution, x=np.zeros(10)),
    ]
    for each in tampered:
        with pytest.raises(AssertionError, match="does not hold"):
            fq.testing.check_proof(A, y, each)
    with pytest.raises(AssertionError, match="does not hold"):
        fq.testing.check_proof(A, np.roll(y, 1), solution)
    with pytest.raises(ValueError, match="must have a proof"):
        fq.testing.check_proof(A, y, replace(solution, proof=None))


# -- what is not the only signal is never proven -----------------------------------------------------------------


@pytest.mark.parametrize("complex", [False, True])
def test_a_planted_twin_of_the_same_norm_is_no_success(complex):
    shown = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        n = int(rng.integers(6, 12)) if complex else int(rng.integers(8, 20))
        u, v = signal(rng, n, complex), signal(rng, n, complex)
        v *= np.linalg.norm(u) / np.linalg.norm(v)
        A = symmetric(rng, int(rng.uniform(4.5, 7) * n if complex else rng.uniform(2.2, 4) * n), n, complex)
        A = blind(A, np.outer(u, u.conj()) - np.outer(v, v.conj()))
        y, solution = solved(A, u)
        assert not solution.success
        if solution.rival is not None:
            shown += 1
            assert min(fq.distance(solution.rival, u), fq.distance(solution.rival, v)) < 1e-6
            assert np.allclose(fq.measure(A, solution.rival), y, atol=1e-8 * np.abs(y).max())
            assert np.linalg.norm(solution.rival) == pytest.approx(np.linalg.norm(u), rel=1e-7)
    assert shown >= 10


def two_blocks(rng, m, n):
    A = symmetric(rng, m, n)
    A[:, : n // 2, n // 2 :] = A[:, n // 2 :, : n // 2] = 0
    return A, rng.standard_normal(n)


def equal_rows(rng, m, n):
    return np.repeat(symmetric(rng, n // 2, n), -(-2 * m // n), axis=0), rng.standard_normal(n)


def diagonal(rng, m, n):
    return rng.standard_normal((m, n))[:, :, None] * np.eye(n), rng.standard_normal(n)


def mirrored(rng, m, n):
    A = symmetric(rng, m, n)
    return (A + A[:, ::-1, ::-1]) / 2, rng.standard_normal(n)


@pytest.mark.parametrize("make", [two_blocks, equal_rows, diagonal, mirrored])
def test_structures_with_other_signals_are_never_proven(make):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        A, x = make(rng, 70, 16)
        _, solution = solved(A, x, x0=x * (1 + 1e-3 * rng.standard_normal(16)))
        assert solution.status != "PROVEN"
        assert not solution.success


def test_a_conjugate_that_fits_is_no_proof_against_it():
    rng = np.random.default_rng(0)
    A, x = symmetric(rng, 80, 8), signal(rng, 8, True)
    y = np.einsum("ijk,j,k->i", A, x.conj(), x).real
    solution = fq.solve(A, y, signal="complex", norm=np.linalg.norm(x))
    assert solution.status != "PROVEN"


def test_a_norm_that_is_not_that_of_x_is_told():
    rng = np.random.default_rng(0)
    A, x = symmetric(rng, 60, 15), rng.standard_normal(15)
    y = fq.measure(A, x)
    solution = fq.solve(A, y, norm=1.001 * np.linalg.norm(x))
    assert solution.status == "EXACT"
    assert solution.proof is None
    assert "there is no proof" in solution.message


def test_noise_is_never_proven():
    for size in (1e-12, 1e-6, 1e-2):
        rng = np.random.default_rng(0)
        A, x = symmetric(rng, 60, 15), rng.standard_normal(15)
        y = fq.measure(A, x)
        y = y + size * np.abs(y).mean() * rng.standard_normal(60)
        solution = fq.solve(A, y, norm=np.linalg.norm(x))
        if solution.status == "PROVEN":  # rounding that is told as such: the radius holds
            assert size < 1e-9
            assert fq.distance(solution.x, x) <= solution.proof.radius


# -- states of qubits --------------------------------------------------------------------------------------------


def string(letters):
    M = np.eye(1)
    for letter in letters:
        M = np.kron(M, PAULI[letter])
    return M


@pytest.mark.parametrize("kind", ["ghz", "w", "product", "random"])
def test_pauli_strings_prove_states_or_show_another(kind):
    decided = 0
    for seed in range(4):
        rng = np.random.default_rng(seed)
        q, n = 4, 16
        chosen = rng.choice(4**q - 1, int(rng.uniform(5, 7) * n) - 1, replace=False) + 1
        letters = ["I" * q] + ["".join("IXYZ"[(number >> 2 * k) & 3] for k in range(q)) for number in chosen]
        A = fq.SparseTensor([sparse.csr_array(string(each)) for each in letters])
        x = np.zeros(n, dtype=complex)
        if kind == "ghz":
            x[[0, -1]] = 1
        elif kind == "w":
            x[[1, 2, 4, 8]] = 1
        elif kind == "product":
            x = np.ones(1)
            for _ in range(q):
                x = np.kron(x, signal(rng, 2, True))
        else:
            x = signal(rng, n, True)
        x /= np.linalg.norm(x)
        y, solution = solved(A, x, norm=False)
        if solution.status == "PROVEN":
            decided += 1
            assert fq.distance(solution.x, x) < 1e-5
            assert fq.testing.check_proof(A, y, solution, tol=1e-5).ok
        elif solution.rival is not None:
            decided += 1
            assert np.allclose(fq.measure(A, solution.rival), y, atol=1e-7)
            assert fq.distance(solution.rival, solution.x) > 0.05
    assert decided >= 3


# -- the numbers -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("complex", [False, True])
def test_the_least_eigenvalue_is_a_lower_bound(complex):
    rng = np.random.default_rng(0)
    for n in (1, 2, 7, 40):
        Q = np.linalg.qr(signal(rng, n * n, complex).reshape(n, n))[0]
        for least in (1e-3, -0.5, 0.0):
            values = np.concatenate([[least], rng.uniform(1, 2, n - 1)])
            S = (Q * values) @ Q.conj().T
            S = (S + S.conj().T) / 2
            bound = least_eigenvalue(S)
            assert bound <= least
            assert bound >= least - 2e-3 * abs(least) - 1e-11


def test_off_a_vector_only_the_others_count():
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.standard_normal((9, 9)))[0]
    S = (Q * np.array([0.0, *np.linspace(0.3, 2, 8)])) @ Q.T
    assert least_eigenvalue(S) <= 0
    assert 0.299 <= least_eigenvalue(S, Q[:, 0]) <= 0.3


@pytest.mark.parametrize("complex", [False, True])
def test_the_soft_maximum_is_one_off_x_and_has_its_derivative(complex):
    rng = np.random.default_rng(0)
    x, E = signal(rng, 8, complex), symmetric(rng, 2, 8, complex)
    complement = Complement(x)
    P = np.eye(8) - np.outer(x, x.conj()) / np.vdot(x, x).real
    values = np.linalg.eigvalsh(P @ E[0] @ P + -100 * (np.eye(8) - P))[1:]
    soft = complement.soft_maximum(E[0], 5.0)
    assert soft.largest == pytest.approx(values[-1])
    assert soft.value == pytest.approx(math.log(np.exp(5 * values).sum()) / 5)
    h = 1e-5
    slope = (complement.soft_maximum(E[0] + h * E[1], 5.0).value - soft.value) / h
    assert slope == pytest.approx(np.vdot(soft.density(), E[1]).real, rel=1e-3)
    assert np.linalg.norm(soft.density() @ x) < 1e-12


# -- lifting, and noise ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("complex", [False, True])
def test_as_many_matrices_as_numbers_in_xx_prove_it_linearly(complex):
    for seed in range(4):
        rng = np.random.default_rng(seed)
        n = 5 if complex else 8
        A, x = symmetric(rng, 44, n, complex), signal(rng, n, complex)
        y, solution = solved(A, x, norm=False)
        assert solution.status == "PROVEN"
        assert solution.proof.kind == "lifting"
        assert solution.proof.margin == pytest.approx(1, abs=1e-3)
        assert fq.testing.check_proof(A, y, solution).ok


def test_dependent_matrices_do_not_lift():
    rng = np.random.default_rng(0)
    few = symmetric(rng, 20, 8)  # of 36
    A, x = np.tensordot(rng.standard_normal((60, 20)), few, axes=1), rng.standard_normal(8)
    _, solution = solved(A, x, norm=False)
    assert solution.status != "PROVEN"


def test_in_noise_the_radius_is_stated_and_holds():
    stated = 0
    for seed in range(6):
        rng = np.random.default_rng(seed)
        A, x = symmetric(rng, 150, 24), rng.standard_normal(24)
        y = fq.measure(A, x)
        y = y + 1e-2 * np.std(y) * rng.standard_normal(150)
        solution = fq.solve(A, y, norm=np.linalg.norm(x), noise=1e-2 * np.std(y))
        assert solution.status == "CONVERGED"
        if solution.proof is not None:
            stated += 1
            assert fq.distance(solution.x, x) <= solution.proof.radius
    assert stated >= 3
