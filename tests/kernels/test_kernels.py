"""The compiled inner loops of AMP, pursuit and Gibbs sampling, and the quartics, against plain NumPy."""

import numpy as np
import pytest
from fastquad._kernels.gram import beside, damped
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import minimize
from scipy.special import expit, logsumexp

from fastquad._kernels import amp, descent, gibbs, growth, sample
from fastquad.numerics import nonnegative, quartic
from fastquad.numerics.gram import gram


def denoise_twin(S, D, z, v, rho, learns, phi2, keep, max_inner, tolerance):
    """`kernels/amp.pyx: denoise`, as formulas: the new z, z_old, v, π, and ρ, s2."""
    old, n = z, z.size
    s2 = phi2 / (n * rho)
    for _ in range(max_inner):
        b, a = (S @ z - v.sum() * old) / D, z @ z / D
        c = 1 / (a + 1 / s2)
        mu = b * c
        weight = expit(np.log(rho / (1 - rho)) + np.log(c / s2) / 2 + b * mu / 2)
        mean, variance = weight * mu, weight * (mu**2 + c) - (weight * mu) ** 2
        old, z, v = z, keep * z + (1 - keep) * mean, keep * v + (1 - keep) * variance
        if learns:
            rho = np.clip(weight.mean(), 2 / n, 1 - 1e-4)
        s2 = np.clip(weight @ (mu**2 + c) / weight.sum(), phi2 / (2 * n * rho), 2 * phi2 / (n * rho))
        if np.linalg.norm(z - old) <= tolerance * np.sqrt(phi2):
            break
    return (z, old, v, weight), (rho, s2)


@pytest.mark.parametrize("n", [1, 2, 7, 33, 100])
@pytest.mark.parametrize("learns", [True, False])
def test_the_denoiser_of_amp(n, learns):
    rng = np.random.default_rng(n)
    x = rng.standard_normal(n) * (rng.random(n) < 0.4) + 0.1
    S = np.outer(x, x) + 0.1 * rng.standard_normal((n, n))
    S = (S + S.T) / 2
    z, v, phi2, weight = x + 0.2 * rng.standard_normal(n), rng.random(n) / n, float(x @ x), np.zeros(n)
    rules = (phi2, 0.4, 10, 1e-3)
    expected, parameters = denoise_twin(S, 0.02, z, v, 0.3, learns, *rules)
    held, prior = (z.copy(), z.copy(), v.copy(), weight), amp.SpikeSlab(0.3, phi2 / (n * 0.3), learns)
    amp.denoise(S, 0.02, amp.Estimate(*held, np.empty((3, n))), prior, *rules)
    np.testing.assert_allclose(held, expected, rtol=1e-10, atol=1e-12)
    assert (prior.rho, prior.s2) == pytest.approx(parameters, rel=1e-10)


@pytest.mark.parametrize(
    "shape", [(1, 1), (3, 2), (5, 8), (40, 9), (7, 24), (60, 33), (200, 100), (0, 4), (2, 0), (700, 300)]
)
def test_gram_matrix_of_columns(shape):
    W = np.random.default_rng(shape).standard_normal(shape)
    W.flags.writeable = False
    G = gram(W)
    np.testing.assert_allclose(G, W.T @ W, rtol=1e-12, atol=1e-12 * max(1, shape[0]))
    assert (G == G.T).all()
    np.testing.assert_allclose(gram(W[:, ::2]), W[:, ::2].T @ W[:, ::2], rtol=1e-12, atol=1e-12 * max(1, shape[0]))


def test_gram_matrix_of_what_is_not_finite():
    W = np.ones((9, 5))
    W[3, 2] = np.nan
    assert np.isnan(gram(W)[2]).all()
    assert np.isfinite(np.delete(np.delete(gram(W), 2, axis=0), 2, axis=1)).all()


@pytest.mark.parametrize("shape", [(1, 1), (3, 2), (9, 8), (40, 9), (60, 33), (200, 100)])
@pytest.mark.parametrize("damping", [1e-8, 0.3, 100.0])
def test_damped_least_squares(shape, damping):
    m, s = shape
    rng = np.random.default_rng(shape)
    W, r = rng.standard_normal(shape), rng.standard_normal(m)
    U, d = np.zeros((s, s)), np.empty(s)
    least = damped(W, r, damping, U, d)
    G = W.T @ W + damping * np.eye(s)
    np.testing.assert_allclose(U.T @ U, G, rtol=1e-12, atol=1e-12 * m)
    np.testing.assert_allclose(G @ d, W.T @ r, rtol=1e-9, atol=1e-10 * m)
    assert least == pytest.approx((U.diagonal() ** 2).min() / np.trace(G))


@pytest.mark.parametrize(("m", "s", "n"), [(3, 1, 1), (9, 4, 5), (40, 9, 17), (200, 100, 100), (60, 33, 8)])
def test_gram_matrix_off_a_span(m, s, n):
    rng = np.random.default_rng([m, s, n])
    W, V, S = rng.standard_normal((m, s)), rng.standard_normal((m, n)), np.empty((n, n))
    assert beside(W, V, S)
    rest = V - W @ np.linalg.lstsq(W, V, rcond=None)[0]
    np.testing.assert_allclose(S, rest.T @ rest, rtol=1e-9, atol=1e-10 * m)
    assert (S == S.T).all()
    assert not beside(np.zeros((m, s)), V, S)


def test_damped_least_squares_of_a_singular_matrix():
    W = np.ones((9, 5))
    assert not damped(W, np.ones(9), 0.0, np.zeros((5, 5)), np.empty(5)) > 1e-12
    W[3, 2] = np.nan
    assert not damped(W, np.ones(9), 1.0, np.zeros((5, 5)), np.empty(5)) > 0


@pytest.mark.parametrize("shape", [(1, 1), (5, 3), (17, 8), (40, 33)])
def test_a_step_along_a_line(shape):
    m, s = shape
    rng = np.random.default_rng(shape)
    W, V, d, z, r, y = (rng.standard_normal(each) for each in (shape, shape, s, s, m, m))
    p, q = 2 * W @ d, V @ d
    np.testing.assert_allclose(descent.terms(W, V, d, r), [r @ p, p @ p, r @ q, p @ q, q @ q], rtol=1e-10, atol=1e-12)
    moved, left = W + 0.7 * V, (W + 0.7 * V) @ z - y
    assert descent.move(V, 0.7, z, y, W, r) == pytest.approx(left @ left)
    np.testing.assert_allclose(W, moved, rtol=1e-13, atol=1e-14)
    np.testing.assert_allclose(r, left, rtol=1e-10, atol=1e-12)


def dependence_twin(X):
    """`kernels/sample.pyx: dependence`, as formulas."""
    m = len(X)
    X = X / np.abs(X).max()
    centred, found = X - X.mean(axis=0), []
    variances = centred.var(axis=0)
    kurtosis = np.mean(centred**4) / variances.mean() ** 2
    found.append(m * np.sum((variances / variances.mean() - 1) ** 2) / max(kurtosis - 1, 1.0))
    for part in (X, X**2):
        varying = part[:, np.ptp(part, axis=0) > 0]
        pairs = np.triu(np.corrcoef(varying, rowvar=False).reshape(varying.shape[1], -1), 1)
        found += [m * np.sum(pairs**2), varying.shape[1]]
    return found


@pytest.mark.parametrize("shape", [(5, 1), (6, 3), (50, 8), (33, 16), (200, 64)])
@pytest.mark.parametrize("scale", [1.0, 1e-120, 1e150])
def test_statistics_of_a_sample(shape, scale):
    rng = np.random.default_rng(shape)
    X = scale * (rng.standard_normal(shape) ** 3 + 0.3)
    X[:, 1:] += 0.5 * X[:, :-1]
    X[:, 2::5] = 0.0
    np.testing.assert_allclose(sample.dependence(X), dependence_twin(X), rtol=1e-9, atol=1e-12)
    square, statistic = sample.moments(X / scale)
    mean, variance = (X / scale).mean(axis=0), (X / scale).var(axis=0)
    assert square == pytest.approx(np.mean((X / scale) ** 2))
    varying = variance > 0
    assert statistic == pytest.approx(np.sum(len(X) * mean[varying] ** 2 / variance[varying]))


def packed_block(m, p, rng):
    """A symmetric (m, p, p), and its pairs as the kernels want them: (p(p+1)/2, padded m), in single precision."""
    A = rng.standard_normal((m, p, p))
    A = (A + A.transpose(0, 2, 1)) / 2
    rows, columns = np.tril_indices(p)
    length = -(-m // growth.MULTIPLE) * growth.MULTIPLE
    pairs = np.zeros((rows.size, length), dtype=np.float32)
    pairs[:, :m] = A[:, rows, columns].T
    return A, pairs, length


def padded(y, length):
    out = np.zeros(length, dtype=np.float32)
    out[: y.size] = y
    return out


def grown(pairs, y, p, seed, skips, limit, cut=np.inf, bounded=False):
    members, sizes = np.zeros((1, limit), dtype=np.intp), np.zeros(1, dtype=np.intp)
    values, curve = np.zeros((1, limit)), np.full((1, limit), np.nan)
    block = growth.Block(pairs, y, p, nonnegative=bounded)
    work = np.empty(block.work_size, dtype=np.float32)
    plan = growth.Plan(skip_first=skips[0], skip_second=skips[1], limit=limit, milestone=12, cut=cut)
    growth.grow(block, plan, np.array([seed]), work, members, values, curve, sizes)
    size = sizes[0]
    return members[0, :size], values[0, :size], curve[0, :size]


def gains_twin(A, y, members, values, bounded=False):
    """`kernels/growth.h: fq_gain` of every coordinate: what adding it saves, when the few members follow."""
    W, a = A[:, :, members] @ values, np.einsum("ijj->ij", A)
    r = W[:, members] @ values - y
    if len(members) > 3:  # a further one is small: its square does not matter
        gains = (r @ W) ** 2 / np.einsum("ij,ij->j", W, W)
        return np.where(r @ W < 0, gains, 0.0) if bounded else gains
    directions = W[:, members[values > 0] if bounded else members]
    span, _ = np.linalg.qr(directions[:, np.sum(directions**2, axis=0) > 1e-6 * (y @ y)])
    PW, Pa = W - span @ (span.T @ W), a - span @ (span.T @ a)
    WW, Wa, aa = (np.einsum("ij,ij->j", *pair) for pair in ((PW, PW), (PW, Pa), (Pa, Pa)))
    minimise = quartic.minimise_upwards if bounded else quartic.minimise
    return -minimise(4 * (r @ W), 4 * WW + 2 * (r @ a), 4 * Wa, aa)[1]


@pytest.mark.parametrize(("m", "p"), [(17, 5), (40, 12), (64, 30)])
@pytest.mark.parametrize("skips", [(0, 0), (1, 0), (0, 2)])
@pytest.mark.parametrize("bounded", [False, True])
def test_growth_reports_true_residuals_and_adds_the_largest_gain(m, p, skips, bounded):
    rng = np.random.default_rng(m)
    A, pairs, length = packed_block(m, p, rng)
    x = np.zeros(p)
    x[: p // 2] = rng.standard_normal(p // 2) + 1
    y = np.einsum("ijk,j,k->i", A, x, x) + 0.5 * rng.standard_normal(m)
    limit = min(6, p - 1)
    members, values, curve = grown(pairs, padded(y, length), p, 0, skips, limit, bounded=bounded)
    assert members[0] == 0
    assert values.min() >= 0 or not bounded
    assert len(set(members)) == members.size
    assert (np.diff(curve) <= 1e-4 * curve[:-1]).all()
    z = np.zeros(p)
    z[members] = values
    r = np.einsum("ijk,j,k->i", A, z, z) - y
    assert r @ r == pytest.approx(curve[-1], rel=1e-3)
    # Each addition, from the fit before it: the gain of the coordinate that was taken has the rank that was asked for.
    for size in range(1, members.size):
        before, value, _ = grown(pairs, padded(y, length), p, 0, skips, size, bounded=bounded)
        np.testing.assert_array_equal(before, members[:size])
        gains = gains_twin(A, y, before, value, bounded)
        gains[before] = -1
        rank = int(np.argsort(-gains).tolist().index(members[size]))
        assert rank == (skips[size - 1] if size <= 2 else 0)


@pytest.mark.parametrize(("m", "p", "size"), [(17, 6, 1), (20, 12, 3), (64, 30, 5)])
def test_the_best_gains_and_the_fit_with_one_more(m, p, size):
    rng = np.random.default_rng(m)
    A, pairs, length = packed_block(m, p, rng)
    x = np.zeros(p)
    x[: size + 1] = rng.uniform(0.5, 1, size + 1)
    y = np.einsum("ijk,j,k->i", A, x, x)
    block = growth.Block(pairs, padded(y, length), p)
    work = np.empty(block.work_size, dtype=np.float32)
    # Fitted to the first members, as the gains suppose.
    members = np.tile(np.arange(size), (2, 1))
    values = x[members] + 1e-3
    growth.extend(block, 0.0, work, members, values, np.empty(2))
    best, gains = np.zeros((2, 4), dtype=np.intp), np.zeros((2, 4), dtype=np.float32)
    growth.best_gains(block, work, members, values, best, gains)
    expected = gains_twin(A, y, members[1], values[1])
    expected[: members.shape[1]] = -1
    np.testing.assert_array_equal(best[1], np.argsort(-expected)[:4])
    np.testing.assert_allclose(gains[1], np.sort(expected)[::-1][:4], rtol=1e-3)
    # With the member that was missing, the values are those of x, wherever they were.
    longer, rss = np.append(members, [[size], [size]], axis=1), np.empty(2)
    values = np.append(values, [[np.nan], [np.nan]], axis=1)
    growth.extend(block, 0.0, work, longer, values, rss)
    np.testing.assert_allclose(np.abs(values[1]), x[: size + 1], rtol=1e-3)
    assert (rss < 1e-6 * (y @ y)).all()


@pytest.mark.parametrize("size", [2, 3, 7, 20])
def test_the_fit_with_no_value_below_zero(size):
    """On any support it ends where the descent of `numerics` does: at a point from which no allowed step goes down."""
    held = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        A, pairs, length = packed_block(48, size, rng)
        y = np.einsum("ijk,j,k->i", A, *[rng.standard_normal(size) + 0.5] * 2) + rng.standard_normal(48)
        block = growth.Block(pairs, padded(y, length), size, nonnegative=True)
        values, rss = np.abs(rng.standard_normal((1, size))), np.empty(1)
        work = np.empty(block.work_size, dtype=np.float32)
        for _ in range(4):  # a fit is twelve steps at most
            growth.extend(block, 0.0, work, np.arange(size)[None], values, rss)
        z = values[0]
        assert z.min() >= 0
        W = A @ z
        r = W @ z - y
        assert rss[0] == pytest.approx(r @ r, rel=1e-3)
        further = nonnegative.on_block(y, z, A)
        assert further.square > 0.98 * rss[0]
        held += np.count_nonzero(z == 0)
    assert held > 0


def test_only_positive_values_are_added():
    rng = np.random.default_rng(4)
    A, pairs, length = packed_block(64, 12, rng)
    x = np.zeros(12)
    x[:4] = 1.0, -0.9, 0.8, 0.5
    y = np.einsum("ijk,j,k->i", A, x, x)
    gains = {}
    for bounded in (False, True):
        block = growth.Block(pairs, padded(y, length), 12, nonnegative=bounded)
        work = np.empty(block.work_size, dtype=np.float32)
        best, gain = np.zeros((1, 11), dtype=np.intp), np.zeros((1, 11), dtype=np.float32)
        growth.best_gains(block, work, np.zeros((1, 1), dtype=np.intp), np.ones((1, 1)), best, gain)
        gains[bounded] = dict(zip(best[0].tolist(), gain[0].tolist(), strict=True))
        members, values = np.array([[0, 1]]), np.array([[1.0, np.nan]])
        growth.extend(block, 0.0, work, members, values, np.empty(1))
        assert (values[0, 1] >= 0) == bounded
    assert max(gains[False], key=gains[False].get) == 1
    assert gains[True][1] < 0.2 * gains[False][1]
    assert max(gains[True], key=gains[True].get) == 2


@pytest.mark.parametrize("size", [1, 5])
def test_pairs_are_added_by_what_both_save(size):
    rng = np.random.default_rng(size)
    m, p = 64, 20
    A, pairs, length = packed_block(m, p, rng)
    x = np.zeros(p)
    x[:size] = rng.uniform(0.5, 1, size)
    x[[8, 9]] = 0.2, 0.3
    y = np.einsum("ijk,j,k->i", A, x, x)
    block = growth.Block(pairs, padded(y, length), p, 2)
    work = np.empty(block.work_size, dtype=np.float32)
    members, values = np.arange(size)[None], x[None, :size].copy()
    best, gains = np.zeros((1, 3), dtype=np.intp), np.zeros((1, 3), dtype=np.float32)
    growth.best_gains(block, work, members, values, best, gains)
    W = A[:, :, members[0]] @ values[0]
    r = W[:, members[0]] @ values[0] - y
    if size <= 3:  # the members' values follow
        span, _ = np.linalg.qr(W[:, members[0]])
        off = W - span @ (span.T @ W)
    else:
        off = W
    expected = np.zeros(p // 2)
    for j in range((size + 1) // 2, p // 2):
        c, pair = r @ W[:, 2 * j : 2 * j + 2], off[:, 2 * j : 2 * j + 2]
        expected[j] = c @ np.linalg.solve(pair.T @ pair, c)
    order = np.argsort(-expected)[:3]
    np.testing.assert_array_equal(best[0], 2 * order)
    np.testing.assert_allclose(gains[0], expected[order], rtol=1e-3)
    longer, rss = np.append(members, [[8, 9]], axis=1), np.empty(1)
    values = np.append(values, [[np.nan, np.nan]], axis=1)
    growth.extend(block, 0.0, work, longer, values, rss)
    assert rss[0] < 1e-6 * (y @ y)


def test_growth_is_given_up_at_the_milestone():
    rng = np.random.default_rng(0)
    _, pairs, length = packed_block(60, 20, rng)
    y = padded(rng.standard_normal(60), length)
    assert grown(pairs, y, 20, 0, (0, 0), 16)[0].size == 16
    assert grown(pairs, y, 20, 0, (0, 0), 16, cut=0.0)[0].size <= 12


@pytest.mark.parametrize("bounded", [False, True])
def test_pruning_drops_what_the_data_do_not_need(bounded):
    rng = np.random.default_rng(1)
    m, p = 48, 15
    A, pairs, length = packed_block(m, p, rng)
    x = np.zeros(p)
    x[[2, 5, 9]] = [1.0, 2.0 if bounded else -2.0, 1.5]
    y = np.einsum("ijk,j,k->i", A, x, x) + 0.05 * rng.standard_normal(m)
    members = np.array([2, 5, 9, 11, 0], dtype=np.intp)
    values = x[members] + 1e-3
    block = growth.Block(pairs, padded(y, length), p, nonnegative=bounded)
    work = np.empty(block.work_size, dtype=np.float32)
    size, rss = growth.prune(block, m, 2 * np.log(p), work, members, values)
    assert set(members[:size]) == {2, 5, 9}
    z = np.zeros(p)
    z[members[:size]] = values[:size]
    r = np.einsum("ijk,j,k->i", A, z, z) - y
    assert rss == pytest.approx(r @ r, rel=1e-3)


def test_a_gibbs_sweep_draws_from_the_posterior():
    """One coordinate: the share of zeros, and the moments of the rest, against the density on a grid."""
    rng = np.random.default_rng(2)
    m, sweeps = 6, 40000
    a = 0.3 * rng.standard_normal(m)
    y = a * 1.2**2 + 0.3 * rng.standard_normal(m)
    length = growth.MULTIPLE
    pairs = np.zeros((1, length), dtype=np.float32)
    pairs[0, :m] = a
    beta, rho, norm2 = 1.5, 0.5, 1.0
    samples = np.empty(sweeps)
    z, work = np.array([0.5]), np.empty((2, length), dtype=np.float32)
    order = np.zeros((1, 1), dtype=np.intp)
    data = padded(y, length)
    for t in range(sweeps):  # a chain for each sweep: ρ starts anew
        uniform, normal = np.array([[rng.random()]]), np.array([[rng.standard_normal()]])
        gibbs.Chain(pairs, data, z, work, rho=rho, norm2=norm2).anneal(np.array([beta]), order, uniform, normal)
        samples[t] = z[0]
    grid = np.linspace(-6, 6, 4001)
    s2 = norm2 / rho
    misfit = ((np.outer(grid**2, a) - y) ** 2).sum(axis=1)
    slab = np.log(rho) - beta * misfit - grid**2 / (2 * s2) - 0.5 * np.log(2 * np.pi * s2) + np.log(grid[1] - grid[0])
    spike = np.log(1 - rho) - beta * (y @ y)
    total = np.exp(logsumexp(slab))
    nonzero = total / (total + np.exp(spike))
    assert np.mean(samples != 0) == pytest.approx(nonzero, abs=0.05)
    # Each mode is drawn from its Gaussian approximation.
    second = np.sum(grid**2 * np.exp(slab)) / total
    assert np.mean(samples[samples != 0] ** 2) == pytest.approx(second, rel=0.15)


def test_a_gibbs_sweep_draws_re_and_im_together():
    """One of two complex entries: the share of zeros against the density on a grid, the rest against its mode."""
    rng = np.random.default_rng(4)
    m, sweeps, beta, rho = 7, 20000, 0.8, 0.6
    H = rng.standard_normal((m, 2, 2)) + 1j * rng.standard_normal((m, 2, 2))
    H = (H + H.transpose(0, 2, 1).conj()) / 2
    fixed, s2 = 1.2 - 0.7j, 1.0 / (4 * rho)

    def measured(w):
        own = H[:, 0, 0].real * np.abs(w[..., None]) ** 2 + H[:, 1, 1].real * abs(fixed) ** 2
        return own + 2 * np.real(w.conj()[..., None] * H[:, 0, 1] * fixed)

    y = measured(np.array(0.5 + 0.3j)) + 0.4 * rng.standard_normal(m)
    view = np.zeros((m, 4, 4))  # Re and Im in turn
    view[:, ::2, ::2] = view[:, 1::2, 1::2] = H.real
    view[:, 1::2, ::2], view[:, ::2, 1::2] = H.imag, -H.imag
    rows, columns = np.tril_indices(4)
    length = growth.MULTIPLE
    pairs = np.zeros((rows.size, length), dtype=np.float32)
    pairs[:, :m] = view[:, rows, columns].T
    z, work, samples = np.array([0.0, 0.0, fixed.real, fixed.imag]), np.empty((5, length), np.float32), []
    order = np.zeros((1, 2), dtype=np.intp)  # the other entry stays
    for _ in range(sweeps):  # a chain for each sweep: ρ starts anew
        chain = gibbs.Chain(pairs, padded(y, length), z, work, rho=rho, norm2=1.0, turning=True)
        chain.anneal(np.array([beta]), order, rng.random((1, 2)), rng.standard_normal((1, 4)))
        samples.append(z[:2].copy())
    samples = np.array(samples)
    nonzero = samples.any(axis=1)
    assert (nonzero == samples.all(axis=1)).all()

    def cost(v):
        w = np.array(v[0] + 1j * v[1])
        return beta * np.sum((measured(w) - y) ** 2) + abs(w) ** 2 / (2 * s2)

    mode, step = minimize(cost, [0.5, 0.3]).x, 1e-3 * np.eye(2)
    curvature = np.array([
        [cost(mode + a + b) - cost(mode + a) - cost(mode + b) + cost(mode) for b in step] for a in step
    ]) * 1e6  # fmt: skip
    np.testing.assert_allclose(samples[nonzero].mean(axis=0), mode, atol=0.02)
    np.testing.assert_allclose(np.cov(samples[nonzero].T), np.linalg.inv(curvature), atol=0.005)
    axis = np.linspace(-3, 3, 301)
    w = axis[:, None] + 1j * axis
    slab = -beta * ((measured(w) - y) ** 2).sum(axis=-1) - np.abs(w) ** 2 / (2 * s2) + 2 * np.log(axis[1] - axis[0])
    slab = np.log(rho) - np.log(2 * np.pi * s2) + logsumexp(slab)
    spike = np.log(1 - rho) - beta * np.sum((measured(np.array(0j)) - y) ** 2)
    share = 1 / (1 + np.exp(spike - slab))
    assert 0.2 < share < 0.8
    assert nonzero.mean() == pytest.approx(share, abs=0.05)


def test_signals_of_few_values_are_drawn_from_their_distribution():
    """Two coordinates with three values: nine signals, each as often as exp(−β|r|²) says."""
    rng = np.random.default_rng(3)
    m, sweeps, beta = 5, 60000, 0.4
    A = rng.standard_normal((m, 2, 2))
    A = (A + A.transpose(0, 2, 1)) / 2
    values = np.array([-1.0, 0.5, 2.0])
    y = np.einsum("ijk,j,k->i", A, values[[0, 1]], values[[0, 1]]) + 0.5 * rng.standard_normal(m)
    length = growth.MULTIPLE
    pairs = np.zeros((3, length), dtype=np.float32)
    pairs[:, :m] = A[:, [0, 1, 1], [0, 0, 1]].T
    z, work = values[[2, 0]], np.empty((3, length), dtype=np.float32)
    chain = gibbs.ValuesChain(pairs, padded(y, length), values, z, work)
    seen = np.zeros((3, 3))
    for _ in range(sweeps):
        order = rng.permutation(2)[None].astype(np.intp)
        chain.anneal(np.array([beta]), order, rng.random((1, 2)), rng.random((1, 2)), enough=0.0)
        seen[tuple(np.searchsorted(values, z))] += 1
    misfit = np.array([[np.sum((A @ (u := np.array([a, b])) @ u - y) ** 2) for b in values] for a in values])
    expected = np.exp(-beta * (misfit - misfit.min()))
    np.testing.assert_allclose(seen / sweeps, expected / expected.sum(), atol=0.02)


coefficients = st.floats(-10, 10).filter(lambda c: c == 0 or abs(c) > 1e-3)


@given(c1=coefficients, c2=coefficients, c3=coefficients, c4=st.floats(1e-2, 10))
def test_a_quartic_has_its_least_value_above_zero_where_it_is_said(c1, c2, c3, c4):
    u, value = quartic.minimise_upwards(c1, c2, c3, c4)
    roots = np.roots([4 * c4, 3 * c3, 2 * c2, c1])
    candidates = roots[(np.abs(roots.imag) < 1e-6) & (roots.real > 0)].real
    best = min(((c1 + t * (c2 + t * (c3 + t * c4))) * t for t in candidates), default=0.0)
    assert u >= 0
    assert value <= min(best, 0.0) + 1e-6 * (abs(best) + 1e-6)
    assert u * (c1 + u * (c2 + u * (c3 + u * c4))) == pytest.approx(value, abs=1e-9 * (1 + abs(value)))


@given(c1=coefficients, c2=coefficients, c3=coefficients, c4=st.floats(1e-2, 10))
def test_a_quartic_has_its_least_value_where_it_is_said(c1, c2, c3, c4):
    u, value = quartic.minimise(c1, c2, c3, c4)
    roots = np.roots([4 * c4, 3 * c3, 2 * c2, c1])
    candidates = roots[np.abs(roots.imag) < 1e-6].real
    best = min(((c1 + t * (c2 + t * (c3 + t * c4))) * t for t in candidates), default=0.0)
    assert value <= best + 1e-6 * (abs(best) + 1e-6)
    assert quartic.minimise_one(c1, c2, c3, c4)[1] == pytest.approx(value, rel=1e-6, abs=1e-9)
    assert u * (c1 + u * (c2 + u * (c3 + u * c4))) == pytest.approx(value, abs=1e-9 * (1 + abs(value)))


def test_the_gain_of_a_coordinate_is_what_adding_it_saves():
    rng = np.random.default_rng(3)
    m, n = 12, 5
    r, W, diagonals = rng.standard_normal(m), rng.standard_normal((m, n)), rng.standard_normal((m, n))
    gains, values = quartic.gains(r, W, diagonals)
    for j in range(n):
        steps = np.linspace(-5, 5, 20001)
        left = ((r[:, None] - 2 * steps * W[:, [j]] - steps**2 * diagonals[:, [j]]) ** 2).sum(axis=0)
        assert gains[j] == pytest.approx(r @ r - left.min(), rel=1e-5, abs=1e-5)
        assert values[j] == pytest.approx(steps[left.argmin()], abs=1e-3)
