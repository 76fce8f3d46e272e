"""The paper's sparse algorithms in plain NumPy, written from the paper alone, to compare `fastquad.solve` with.

Nothing here comes from fastquad. A is a list of m matrices, every formula is taken literally, and every iterate is
kept.
"""

import numpy as np


def norm_estimate(y):
    return (sum(value**2 for value in y) / len(y)) ** (1 / 4)


def spectral_matrix(A, y):
    S_in = sum(y_i * A_i for y_i, A_i in zip(y, A, strict=True)) / len(y)
    return (S_in + S_in.T) / 2


def leading_unit_eigenvector(S):
    values, vectors = np.linalg.eigh(S)
    v = vectors[:, np.argmax(values)]
    return v if v[np.argmax(abs(v))] > 0 else -v


def support_estimate(A, y, phi, alpha):
    m, n = len(y), A[0].shape[0]
    scores = [sum(y[i] * A[i][l, l] for i in range(m)) / m for l in range(n)]
    passed = [l for l in range(n) if scores[l] > alpha * phi**2 * np.sqrt(np.log(n) / m)]
    return passed, scores


def spectral_start(A, y, alpha=0.5, phi=None, known=None):
    """Algorithm 1; with `known`, the start of TWF-S."""
    n = A[0].shape[0]
    phi = norm_estimate(y) if phi is None else phi
    passed, scores = support_estimate(A, y, phi, alpha)
    candidates = range(n) if known is None else known
    S = [l for l in passed if l in candidates] or [max(candidates, key=lambda l: scores[l])]
    x = np.zeros(n)
    x[S] = phi * leading_unit_eigenvector(spectral_matrix(A, y)[np.ix_(S, S)])
    return x


def standard_spectral_start(A, y):
    return norm_estimate(y) * leading_unit_eigenvector(spectral_matrix(A, y))


def soft(a, tau):
    return np.sign(a) * np.maximum(abs(a) - tau, 0)


def hard(a, tau):
    return a * (abs(a) > tau)


def damped(t):
    return 0.1 * 2.0 ** -(t // 1000)


def twf(A, y, T, beta=0.5, threshold=soft, alpha=0.5, phi=None, known=None, step=damped):
    """Algorithm 2: the iterates x_0 ... x_{T-1}; with `known`, those of TWF-S."""
    m, n = len(y), A[0].shape[0]
    x = spectral_start(A, y, alpha, phi, known)
    phi = norm_estimate(y) if phi is None else phi
    iterates = [x]
    for t in range(T - 1):
        errors = np.array([x @ A_i @ x for A_i in A]) - y
        tau = np.sqrt(beta / m**2 * sum(errors**2)) * np.linalg.norm(x)
        gradient = sum(e * (A_i + A_i.T) / 2 @ x for e, A_i in zip(errors, A, strict=True)) / m
        if known is not None:
            gradient[[j for j in range(n) if j not in known]] = 0
        mu = step(t)
        x = threshold(x - mu / phi**2 * gradient, mu / phi**2 * tau)
        iterates.append(x)
    return iterates


def htp(L, b, k, max_steps=50):
    """Hard thresholding pursuit with step one from zero."""
    u, S = np.zeros(L.shape[1]), None
    for _ in range(max_steps):
        proxy = u + L.T @ (b - L @ u)
        T = sorted(np.argsort(-abs(proxy), kind="stable")[:k])
        if T == S:
            break
        S = T
        u = np.zeros(L.shape[1])
        u[S] = np.linalg.lstsq(L[:, S], b, rcond=None)[0]
    return u


def spf(A, y, k, T, alpha=0.5):
    """The answers after 1 ... T outer steps of sparse power factorization."""
    m = len(y)
    B, b = [A_i / np.sqrt(m) for A_i in A], y / np.sqrt(m)
    v = spectral_start(A, y, alpha)
    answers = []
    for _ in range(T):
        v = v / np.linalg.norm(v)
        u = htp(np.array([B_i @ v for B_i in B]), b, k)
        u = u / np.linalg.norm(u)
        v = htp(np.array([B_i.T @ u for B_i in B]), b, k)
        answers.append(np.sqrt(np.linalg.norm(v)) * v / np.linalg.norm(v))
    return answers
