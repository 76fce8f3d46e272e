"""What measurements can and cannot see: against the Jacobian as a dense matrix, and against removing each in turn."""

import json

import numpy as np
import pytest
from click.testing import CliRunner
from scipy import sparse

import fastquad as fq
from fastquad import cli


def jacobian(A, x):
    """The derivatives of all measurements in all real coordinates."""
    A = fq.as_measurements(A)
    directions = np.eye(A.n)
    if A.complex:
        directions = np.concatenate([directions, 1j * directions], axis=1)
    return A.along(x, directions)


def scaled(J):
    size = np.linalg.norm(J, axis=1, keepdims=True)
    return J / np.where(size > 0, size, 1.0)


def rank(J):
    return np.linalg.matrix_rank(scaled(J), tol=1e-9) if J.size else 0


def critical(J):
    """The measurements without which the rank is smaller, by removing each in turn."""
    whole = rank(J)
    return [i for i in range(len(J)) if rank(np.delete(J, i, axis=0)) < whole]


def leverage(J):
    U, s, _ = np.linalg.svd(J, full_matrices=False)
    return np.sum(U[:, s > 1e-10 * s[0]] ** 2, axis=1)


def ring(n, keep=1.0, seed=0, dtype=float):
    """Sparse measurements of a ring: squares, and the products of neighbours, of which some are left out."""
    rng = np.random.default_rng(seed)
    matrices = [sparse.coo_array(([1.0], ([i], [i])), shape=(n, n)) for i in range(n)]
    for i in range(n):
        for factor in (1.0,) if dtype is float else (1.0, 1j):
            matrices.append(sparse.coo_array(([factor], ([i], [(i + 1) % n])), shape=(n, n)))
    chosen = np.sort(rng.permutation(len(matrices))[: round(keep * len(matrices))])
    return fq.SparseTensor([matrices[i].astype(dtype) for i in chosen])


@pytest.mark.parametrize("dtype", [float, complex])
@pytest.mark.parametrize("keep", [1.0, 0.8, 0.6, 0.4])
@pytest.mark.parametrize("dense", [False, True])
def test_agrees_with_removing_each_measurement(dtype, keep, dense):
    A = ring(9, keep, seed=3, dtype=dtype)
    if dense:
        A = fq.as_measurements(A.matrices(0, A.m))
    rng = np.random.default_rng(1)
    x = rng.standard_normal(9) + (1j * rng.standard_normal(9) if dtype is complex else 0)
    sigma = 0.01 * (1 + rng.random(A.m))
    found = fq.diagnose(A, x, sigma)
    J = jacobian(A, x)
    phase = 1 if dtype is complex else 0
    N = J.shape[1]
    assert found.unseen.shape == (9, N - phase - rank(J))
    assert found.critical.tolist() == critical(J)
    np.testing.assert_allclose(found.leverage, leverage(J / sigma[:, None]), atol=1e-9)
    assert (found.redundancy[found.critical] == 0).all()
    for v in found.unseen.T:
        np.testing.assert_allclose(np.linalg.norm(v), 1, rtol=1e-12)
        np.testing.assert_allclose(A.along(x, np.ascontiguousarray(v)), 0, atol=1e-9)
    assert not found.random
    assert found.complete


def test_the_sum_of_redundancies_is_what_is_to_spare():
    problem = fq.problems.gaussian(m=70, n=20, k=4, rng=0)
    found = fq.diagnose(problem.A, noise=0.1)
    assert found.random
    np.testing.assert_allclose(found.redundancy.sum(), 50, rtol=1e-9)
    assert found.unseen.shape == (20, 0)
    assert "random signal, because no x was given" in str(found)


def test_more_measurements_of_the_same_are_no_longer_critical():
    A = ring(8, 0.5, seed=5)
    x = np.random.default_rng(0).standard_normal(8)
    before = fq.diagnose(A, x)
    assert before.critical.size
    array = A.matrices(0, A.m)
    twice = fq.diagnose(np.concatenate([array, array[before.critical[:1]]]), x)
    assert before.critical[0] not in twice.critical
    np.testing.assert_allclose(twice.redundancy[[before.critical[0], A.m]], 0.5, atol=1e-12)


def test_standard_errors_are_those_of_the_solution():
    A = ring(12, dtype=complex)
    x = np.exp(0.2j * np.arange(12))
    sigma = 1e-3 * (1 + np.arange(A.m) % 3)
    solution = fq.solve(A, A.measure(x) + sigma * np.random.default_rng(0).standard_normal(A.m), noise=sigma)
    assert solution.success
    np.testing.assert_allclose(fq.diagnose(A, solution.x, sigma).stderr, solution.stderr, rtol=1e-6)
    # What one measurement more of |x_0|² buys.
    matrices = [sparse.coo_array(M) for M in A.matrices(0, A.m)]
    more = fq.SparseTensor([*matrices, sparse.coo_array(([1.0 + 0j], ([0], [0])), shape=(12, 12))])
    better = fq.diagnose(more, solution.x, np.append(sigma, 1e-4))
    assert (better.stderr <= solution.stderr * (1 + 1e-9)).all()
    assert better.stderr[0] < 0.99 * solution.stderr[0]


def test_what_is_unseen_has_no_standard_error():
    A = np.zeros((2, 3, 3))
    A[0, 0, 0] = A[1, 1, 1] = 1.0
    found = fq.diagnose(A, [1.0, 2.0, 3.0], 0.1)
    np.testing.assert_allclose(np.abs(found.unseen), [[0.0], [0.0], [1.0]], atol=1e-12)
    np.testing.assert_allclose(found.stderr, [0.05, 0.025, np.inf])
    assert found.moved.tolist() == [2]
    assert "1 direction of x is unseen. Coordinates that they move: 2." in str(found)


def feeder(voltage_at_its_end):
    """A ring of 60 buses with every meter, and one bus more behind a line, of which only P and Q are measured."""
    n = 61
    matrices = [sparse.coo_array(([1.0 + 0j], ([i], [i])), shape=(n, n)) for i in range(n - 1)]
    for i in range(n - 1):
        for factor in (1.0, 1j):
            matrices.append(sparse.coo_array(([factor], ([i], [(i + 1) % (n - 1)])), shape=(n, n)))
    # V conj(Y (V − V_0)) of the last bus.
    Y = 4 - 12j
    for factor in (1.0, -1j):
        entries = [Y.conjugate() * factor, -Y.conjugate() * factor]
        matrices.append(sparse.coo_array((entries, ([n - 1, 0], [n - 1, n - 1])), shape=(n, n)))
    if voltage_at_its_end:
        matrices.append(sparse.coo_array(([1.0 + 0j], ([n - 1], [n - 1])), shape=(n, n)))
    return fq.SparseTensor(matrices)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("noise", [None, 1e-5])
def test_another_root_of_a_part_is_a_rival(seed, noise):
    """A bus takes the same power at a high and at a low voltage: critical meters alone do not choose between them."""
    rng = np.random.default_rng(seed)
    V = (1 + 0.03 * rng.standard_normal(61)) * np.exp(0.1j * rng.standard_normal(61))
    V[-1] = V[0] - 0.1 - 0.05j
    for end in (False, True):
        A = feeder(end)
        y = A.measure(V) + (noise or 0.0) * rng.standard_normal(A.m)
        solution = fq.solve(A, y, x0=np.ones(61, dtype=complex), noise=noise)
        if end:
            assert solution.success
            assert fq.distance(solution.x, V) < 1e-3
        else:
            assert fq.diagnose(A, V).critical.tolist() == [A.m - 2, A.m - 1]
            assert solution.status == "AMBIGUOUS"
            left = A.measure(solution.rival) - y
            assert np.linalg.norm(left) < 1e-9 if noise is None else np.abs(left).max() < 5 * noise
            assert fq.distance(solution.rival, solution.x) > 0.01


def test_kinds_without_matrices():
    labels = ["II", "ZI", "IZ", "ZZ", "XX", "YY", "XZ", "ZX", "IX"]
    A = fq.PauliTensor(labels)
    rng = np.random.default_rng(0)
    x = rng.standard_normal(4) + 1j * rng.standard_normal(4)
    found = fq.diagnose(A, x, 0.1)
    J = jacobian(A, x)
    assert found.critical.tolist() == critical(J)
    np.testing.assert_allclose(found.leverage, leverage(J), atol=1e-9)
    B = rng.standard_normal((12, 4))
    operator = fq.OperatorTensor(lambda x: (B @ x) ** 2, m=12, n=4)
    np.testing.assert_allclose(
        fq.diagnose(operator, x.real, 0.1).leverage, leverage(2 * (B @ x.real)[:, None] * B), atol=1e-9
    )


def test_an_affine_tensor_says_what_to_give():
    A = fq.AffineTensor(np.ones((3, 2, 2)), np.ones((3, 2)))
    with pytest.raises(TypeError, match="`A`"):
        fq.diagnose(A)


@pytest.mark.parametrize(("call", "error", "said"), [
    (lambda A: fq.diagnose(A, np.ones(3)), ValueError, "`x` must have shape"),
    (lambda A: fq.diagnose(A, np.zeros(4)), ValueError, "`x` must be finite and not zero"),
    (lambda A: fq.diagnose(A, np.ones(4), labels=["a"]), ValueError, "`labels` must be 5"),
    (lambda A: fq.diagnose(A, 1j * np.ones(4), signal="real"), ValueError, "`x` must be real"),
    (lambda A: fq.plot.diagnosis(3), TypeError, "`found` must be what fastquad.diagnose returned"),
])  # fmt: skip
def test_what_is_refused(call, error, said):
    A = np.random.default_rng(0).standard_normal((5, 4, 4))
    with pytest.raises(error, match=said):
        call(A)


def test_the_table_and_the_picture():
    A = ring(8, 0.6, seed=5)
    labels = [f"meter {i}" for i in range(A.m)]
    found = fq.diagnose(A, labels=labels)
    rows = found.to_rows()
    assert [row["measurement"] for row in rows if row["critical"]] == found.critical.tolist()
    assert rows[0]["label"] == f"meter {rows[0]['measurement']}"
    assert [row["redundancy"] for row in rows] == sorted(found.redundancy)
    plt = pytest.importorskip("matplotlib.pyplot")
    ax = fq.plot.diagnosis(found)
    marked = [line for line in ax.lines if line.get_label() == "critical"]
    assert len(marked[0].get_xdata()) == found.critical.size
    plt.close(ax.figure)


def test_the_command(tmp_path):
    A = ring(8, 0.6, seed=5)
    array = A.matrices(0, A.m)
    np.save(tmp_path / "A.npy", array)
    sparse.save_npz(tmp_path / "A.npz", sparse.vstack([sparse.csr_array(M) for M in array]))
    x = np.random.default_rng(0).standard_normal(8)
    np.save(tmp_path / "x.npy", x)
    found = fq.diagnose(A, x, 0.1)
    for name in ("A.npy", "A.npz"):
        result = CliRunner().invoke(
            cli.main, ["diagnose", str(tmp_path / name), "--x", str(tmp_path / "x.npy"), "--noise", "0.1"]
        )
        report = json.loads(result.stdout)
        assert result.exit_code == (1 if found.unseen.size else 0)
        assert report["critical"] == found.critical.tolist()
        np.testing.assert_allclose(report["redundancy"], found.redundancy, atol=1e-9)
    result = CliRunner().invoke(cli.main, ["diagnose", str(tmp_path / "A.npz"), "--table"])
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["measurement", "redundancy", "critical"]
    assert len(lines) == A.m + 1


@pytest.mark.parametrize("stored", ["dense", "sparse"])
@pytest.mark.parametrize("last", [(1e-7,), (1e-8, 1e-9), (1e-8, 0.0)])
def test_a_direction_that_is_hardly_seen_is_not_taken_for_known(stored, last):
    """Below the root of rounding the normal equations see nothing; J itself tells what is hardly seen from nothing."""
    rng = np.random.default_rng(0)
    n, m = 12, 20
    U, V = (np.linalg.qr(rng.standard_normal((k, n)))[0] for k in (m, n))
    J = U * np.r_[np.ones(n - len(last)), last] @ V.T
    x = 1 + rng.random(n)
    # Matrices with 2 M_i x = J_i.
    M = np.einsum("ij,k->ijk", J, x) / (x @ x)
    M = (M + M.transpose(0, 2, 1) - np.einsum("i,j,k->ijk", J @ x, x, x) / (x @ x) ** 2) / 2
    sigma = 0.01 * (1 + rng.random(m))
    found = fq.diagnose(M if stored == "dense" else fq.SparseTensor([sparse.csr_array(each) for each in M]), x, sigma)
    assert found.unseen.shape == (n, last.count(0.0))
    if 0.0 in last:
        np.testing.assert_allclose(np.abs(found.unseen[:, 0] @ V[:, -1]), 1, atol=1e-6)
    else:
        expected = np.linalg.norm(np.linalg.pinv(J / sigma[:, None], rcond=1e-14), axis=1)
        np.testing.assert_allclose(found.stderr, expected, rtol=1e-3)
        np.testing.assert_allclose(found.leverage, leverage(J / sigma[:, None]), atol=1e-4)
