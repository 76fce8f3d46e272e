"""What tests of tensors share: kinds to make, calls of every contraction, and whether two answers agree."""

import naive
import numpy as np

import fastquad as fq


class Own(fq.Measurements):
    """What a user would write: matrices, and nothing else."""

    def __init__(self, A):
        self.A, (self.m, self.n), self.dtype = A, A.shape[:2], A.dtype

    def matrices(self, start, stop):
        return naive.sym(self.A[start:stop])


def complex_normal(rng, *shape):
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


def calls(m, n, batch, seed=0, *, complex_signals=False):
    """A call of every contraction, with a dense and a sparse signal, for one signal or a batch."""
    rng = np.random.default_rng(seed)
    shape = () if batch is None else (batch,)
    x = complex_normal(rng, n, *shape) if complex_signals else rng.standard_normal((n, *shape))
    v, c = rng.random((n, *shape)), rng.standard_normal((m, *shape))
    sparse = np.zeros_like(x)
    sparse[rng.permutation(n)[: max(1, n // 8)]] = 1.5 - 0.5j if complex_signals else 1.5
    S, T = rng.permutation(n)[: max(1, n // 3)], rng.permutation(n)[: max(1, n // 2)]
    yield from [("products", x), ("products", sparse), ("measure", x), ("weighted_sum", c), ("sweep", x, v, c)]
    if batch is None:
        d, r = rng.random(m), rng.standard_normal(m)
        yield from [("along", x, 2 * x - sparse), ("gradient", x, r), ("gram", x, d, r), ("gram", x, np.ones(m), r)]
        yield ("gram", x, d - 0.5, r)
        yield from [("diagonals",), ("rows", S), ("block", S), ("block", S, T)]
    else:
        yield from [("compress", x), ("along", np.ascontiguousarray(x[:, 0]), x)]


def parts(answer):
    """The arrays of an answer; a sparse one made dense."""
    each = answer if isinstance(answer, tuple) else (answer,)
    return tuple(part.toarray() if hasattr(part, "toarray") else part for part in each)


def relative_error(got, expected):
    got, expected = parts(got), parts(expected)
    assert [(g.shape, g.dtype.kind) for g in got] == [(e.shape, e.dtype.kind) for e in expected]
    return max(np.abs(g - e).max(initial=0) / np.abs(e).max(initial=1e-30) for g, e in zip(got, expected, strict=True))


def assert_agrees(A, array):
    for batch in (None, 1, 2, 5):
        for name, *arguments in calls(A.m, A.n, batch):
            got, expected = getattr(A, name)(*arguments), getattr(naive, name)(array, *arguments)
            assert relative_error(got, expected) < 2e-13, (name, batch)
    np.testing.assert_allclose(A.matrices(A.m // 2, A.m), naive.sym(array)[A.m // 2 :], rtol=1e-13, atol=1e-13)
    assert fq.testing.check_gradient(A).ok
