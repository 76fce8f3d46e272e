"""Other people's methods for phase retrieval, as a good user would write them from their papers.

They measure amplitudes `b_i = |a_i^T x|` or, in Fourier optics, `b = |F x|`; the sparse ones are told k, the number of
nonzeros. The examples and `benchmarks/studies` compare `fastquad.solve` with them, which is told nothing.
"""

import numpy as np
from scipy import fft


def coded_diffraction(codes, measured=None):
    """x to `F D_l x` of the pixels that are measured, and its adjoint, by orthonormal fast Fourier transforms."""
    chosen = slice(None) if measured is None else np.flatnonzero(measured)

    def forward(x):
        return fft.fft2(codes * x.reshape(codes.shape[1:]), norm="ortho").ravel()[chosen]

    def adjoint(w):
        full = np.zeros(codes.size, dtype=complex)
        full[chosen] = w
        return np.sum(codes.conj() * fft.ifft2(full.reshape(codes.shape), norm="ortho"), axis=0).ravel()

    return forward, adjoint


def amplitude_flow(forward, adjoint, b, start, *, step, max_iter=1000, tol=1e-10, average=None):
    """Gradient descent on Σ (|Fx| − b)²/2 (Wang, Giannakis and Eldar 2018, without truncation).

    `average`: where x is known to be real, `numpy.real`. Returns x and how many steps it took.
    """
    x, count = start, 0
    while count < max_iter:
        count += 1
        z = forward(x)
        size = np.abs(z)
        gradient = adjoint(z - b * z / np.maximum(size, 1e-300))
        x = x - step * (gradient if average is None else average(gradient))
        if np.linalg.norm(size - b) < tol * np.linalg.norm(b):
            break
    return x, count


def spectral_amplitude_start(forward, adjoint, b, shape, rng, *, steps=50, average=None):
    """The leading eigenvector of Σ over the sixth of the measurements with the largest amplitudes, by power steps."""
    weight = b >= np.quantile(b, 5 / 6)
    x = rng.standard_normal(shape)
    for _ in range(steps):
        x = adjoint(weight * forward(x))
        x = x if average is None else average(x)
        x = x / np.linalg.norm(x)
    return x * np.linalg.norm(b) / np.linalg.norm(forward(x))


def reweighted_amplitude_flow(a, b, *, max_iter=1000, step=2.0, tol=1e-10):
    """RAF for real a, (m, n) (Wang, Giannakis, Saad and Chen 2018), from its own weighted spectral start."""
    m = len(a)
    chosen = np.argsort(-b)[: 3 * m // 13]
    weights = np.sqrt(b[chosen])
    _, vectors = np.linalg.eigh((a[chosen] * weights[:, None]).T @ a[chosen])
    x = vectors[:, -1] * np.sqrt(np.mean(b**2))
    for _ in range(max_iter):
        z = a @ x
        size = np.abs(z)
        trust = size / (size + 10.0 * b + 1e-300)
        x = x - step / m * (a.T @ (trust * (z - b * np.sign(z))))
        if np.linalg.norm(size - b) < tol * np.linalg.norm(b):
            break
    return x


# -- sparse signals, k known ------------------------------------------------------------------------------------------


def _largest(values, k):
    """The indices of the k largest."""
    return np.sort(np.argpartition(-values, k - 1)[:k])


def _sparse_start(a, b, k):
    """The k largest marginals Σ b_i² a_ij², and the leading eigenvector of Σ b_i² a_i a_i^T on them."""
    support = _largest(b**2 @ a**2, k)
    part = a[:, support]
    _, vectors = np.linalg.eigh((part * (b**2)[:, None]).T @ part)
    x = np.zeros(a.shape[1])
    x[support] = vectors[:, -1] * np.sqrt(np.mean(b**2))
    return x


def _fits(a, b, x, tol=1e-10):
    return np.linalg.norm(np.abs(a @ x) - b) < tol * np.linalg.norm(b)


def sparta(a, b, k, *, max_iter=1000, step=1.0, gamma=1.0):
    """SPARTA: truncated amplitude flow with hard thresholding (Wang, Zhang, Giannakis, Akçakaya and Chen 2018)."""
    m, n = a.shape
    support = _largest(b**2 @ a**2, k)
    part = a[:, support] / np.linalg.norm(a[:, support], axis=1, keepdims=True)
    chosen = np.argsort(-b / np.linalg.norm(a[:, support], axis=1))[: max(k, m // 6)]
    _, vectors = np.linalg.eigh(part[chosen].T @ part[chosen])
    x = np.zeros(n)
    x[support] = vectors[:, -1] * np.sqrt(np.mean(b**2))
    for _ in range(max_iter):
        z = a @ x
        kept = np.abs(z) >= b / (1 + gamma)
        moved = x - step / m * ((z - b * np.sign(z)) * kept) @ a
        x = np.zeros(n)
        support = _largest(np.abs(moved), k)
        x[support] = moved[support]
        if _fits(a, b, x):
            break
    return x


def htp(a, b, k, *, max_iter=100, step=0.95):
    """Hard thresholding pursuit (Cai, Li and Xia 2022): a thresholded gradient step, then least squares on k."""
    m, n = a.shape
    x = _sparse_start(a, b, k)
    for _ in range(max_iter):
        target = b * np.sign(a @ x)
        support = _largest(np.abs(x + step / m * ((target - a @ x) @ a)), k)
        x = np.zeros(n)
        x[support] = np.linalg.lstsq(a[:, support], target, rcond=None)[0]
        if _fits(a, b, x):
            break
    return x


def copram(a, b, k, *, max_iter=50, inner=5):
    """CoPRAM: signs and CoSaMP in turn (Jagatap and Hegde 2017)."""
    x = _sparse_start(a, b, k)
    for _ in range(max_iter):
        target = b * np.sign(a @ x)
        for _ in range(inner):
            candidates = np.union1d(_largest(np.abs((target - a @ x) @ a), 2 * k), np.flatnonzero(x))
            values = np.linalg.lstsq(a[:, candidates], target, rcond=None)[0]
            kept = _largest(np.abs(values), k)
            x = np.zeros(a.shape[1])
            x[candidates[kept]] = values[kept]
        if _fits(a, b, x):
            break
    return x
