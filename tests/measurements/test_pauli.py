"""Pauli strings: each contraction against Kronecker products, labels that come in, and states that are found."""

import pickle
import threading
from functools import reduce

import naive
import numpy as np
import pytest
from tensors import complex_normal, relative_error

import fastquad as fq

LETTERS = {
    "I": np.eye(2),
    "X": np.array([[0, 1], [1, 0]]),
    "Y": np.array([[0, -1j], [1j, 0]]),
    "Z": np.diag([1, -1]),
}


def dense(labels):
    """The matrices of strings, by Kronecker products."""
    return np.array([reduce(np.kron, [LETTERS[letter] for letter in label]) for label in labels], dtype=complex)


def strings(q, m, seed=0):
    """Strings drawn at random; some are drawn twice."""
    return ["".join(letters) for letters in np.random.default_rng([seed, q]).choice(list("IXYZ"), (m, q))]


def state(q, seed=0):
    x = complex_normal(np.random.default_rng([seed, q, 1]), 2**q)
    return x / np.linalg.norm(x)


@pytest.mark.parametrize("batch", [None, 1, 3])
@pytest.mark.parametrize(("q", "m"), [(1, 1), (1, 5), (2, 7), (3, 20), (4, 40), (5, 9)])
def test_agrees_with_kronecker_products(q, m, batch):
    rng = np.random.default_rng(m)
    labels = strings(q, m)
    A, H, n = fq.PauliTensor(labels), dense(labels), 2**q
    assert (A.m, A.n, A.dtype, A.qubits) == (m, n, np.complex128, q)
    shape = () if batch is None else (batch,)
    x, c, v = complex_normal(rng, n, *shape), rng.standard_normal((m, *shape)), rng.random((n, *shape))
    some, others = rng.permutation(n)[: max(1, n // 3)], rng.permutation(n)[: max(1, n // 2)]
    calls = [("products", x), ("measure", x), ("weighted_sum", c), ("sweep", x, v, c)]
    if batch is None:
        calls += [("diagonals",), ("rows", some), ("block", some), ("block", some, others)]
    else:
        calls += [("compress", x)]
    for name, *arguments in calls:
        assert relative_error(getattr(A, name)(*arguments), getattr(naive, name)(H, *arguments)) < 1e-13, name
    np.testing.assert_array_equal(A.matrices(m // 2, m), H[m // 2 :])


@pytest.mark.parametrize(("q", "m"), [(1, 4), (3, 50), (6, 200)])
def test_along_and_its_adjoint_agree_with_kronecker_products(q, m):
    rng = np.random.default_rng(q)
    labels = strings(q, m)
    A, H = fq.PauliTensor(labels), dense(labels)
    x, v, w = complex_normal(rng, 2**q), complex_normal(rng, 2**q, 2), rng.standard_normal(m)
    along = 2 * np.einsum("j,ijk,ks->is", x.conj(), H, v).real
    assert relative_error(A._along(x, v, 1), along) < 1e-13
    assert relative_error(A._along(x, v[:, 0].copy(), 1), along[:, 0]) < 1e-13
    assert relative_error(A._gradient(x, w, 1), 2 * np.einsum("i,ijk,k->j", w, H, x)) < 1e-13


def test_all_strings_of_six_qubits():
    # Strings with one x-mask share their sums: all 4^q together are a basis, so Σ y_i P_i = n x x^*.
    labels = ["".join("IXYZ"[i >> 2 * k & 3] for k in range(6)) for i in range(4**6)]
    A, x = fq.PauliTensor(labels), state(6)
    np.testing.assert_allclose(A.weighted_sum(A.measure(x)), 64 * np.outer(x, x.conj()), atol=1e-12)
    np.testing.assert_allclose(A._gradient(x, A.measure(x), 1), 2 * 64 * x, atol=1e-12)


def test_bits_do_not_depend_on_threads():
    A, x = fq.PauliTensor(strings(9, 6000)), state(9)  # several chunks
    assert len(A._chunks) > 2
    w = A.measure(x, n_threads=1)
    assert w.tobytes() == A.measure(x, n_threads=3).tobytes()
    assert A._gradient(x, w, 1).tobytes() == A._gradient(x, w, 3).tobytes()


def test_it_stores_two_masks_a_string():
    A = fq.PauliTensor(["XYZ" * 4] * 10)
    assert A.n == 4096
    assert A.nbytes == 80
    again = pickle.loads(pickle.dumps(A))
    assert again.labels == A.labels
    assert A._part(2, 5).labels == A.labels[2:5]


def test_labels_of_other_kinds():
    class PauliList:
        def to_labels(self):
            return ["XI", "YZ"]

    assert fq.PauliTensor(PauliList()).labels == ["XI", "YZ"]
    assert fq.PauliTensor(np.array(["XI", "YZ"])).labels == ["XI", "YZ"]
    assert fq.PauliTensor(iter(["XI", "YZ"])).labels == ["XI", "YZ"]


@pytest.mark.parametrize(("labels", "error", "said"), [
    ([], ValueError, "`labels` must be at least one string"),
    ("XYZ", TypeError, r"got one string: give \['XYZ'\]"),
    (3, TypeError, "`labels` must be a list of strings, got int"),
    (["XX", 3], TypeError, "got int for label 1"),
    (["XX", "XA"], ValueError, "the letters I, X, Y and Z, got 'XA' for label 1"),
    (["xz"], ValueError, "got 'xz' for label 0: give 'XZ'"),
    (["-XZ"], ValueError, "change the sign of y"),
    ([""], ValueError, "got '' for label 0"),
    (["XX", "XXX"], ValueError, r"one length, got 'XX' and 'XXX' \(label 1\)"),
    (["X" * 30], ValueError, "at most 24 letters, got 30"),
])  # fmt: skip
def test_refuses(labels, error, said):
    with pytest.raises(error, match=said):
        fq.PauliTensor(labels)


@pytest.mark.parametrize(("q", "m"), [(3, 40), (4, 80), (5, 150)])
def test_random_states_are_found(q, m):
    found = 0
    for seed in range(4):
        A, x = fq.PauliTensor(["I" * q, *strings(q, m, seed)]), state(q, seed)
        solution = fq.solve(A, A.measure(x))
        found += solution.success and fq.distance(solution.x, x) < 1e-10
    assert found >= 3


def test_threads_of_the_user_may_share_it():
    A, x = fq.PauliTensor(strings(5, 100)), state(5)
    expected, got = A.measure(x), []
    threads = [threading.Thread(target=lambda: got.append(A.measure(x).tobytes())) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert got == [expected.tobytes()] * 4
