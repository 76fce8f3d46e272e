"""Complex measurements of every kind, and the matrices that they stand for."""

import naive
import numpy as np
from tensors import Own

import fastquad as fq
from fastquad.measurements.dense.complex import ComplexTensor


def array(m, n, dtype="complex128", seed=0):
    rng = np.random.default_rng([seed, m, n])
    return (rng.standard_normal((m, n, n)) + 1j * rng.standard_normal((m, n, n))).astype(dtype)


def make(kind, m, n, dtype="complex128"):
    """Measurements of a kind, and the matrices that they stand for."""
    A = array(m, n, dtype)
    if kind.startswith("both"):
        tensor, H = ComplexTensor(A, both=True), naive.both(A)
    else:
        tensor, H = (Own(A) if kind == "user's own" else fq.as_measurements(A)), A
    return (fq.pack(tensor) if "packed" in kind else tensor), H


def complex_normal(rng, *shape):
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


def calls(m, n, batch, seed=0):
    """A call of every contraction, with a dense and a sparse signal, for one signal or a batch."""
    rng = np.random.default_rng(seed)
    shape = () if batch is None else (batch,)
    x, v, c = complex_normal(rng, n, *shape), rng.random((n, *shape)), rng.standard_normal((m, *shape))
    sparse = np.zeros_like(x)
    sparse[rng.permutation(n)[: max(1, n // 8)]] = 1.5 - 0.5j
    S, T = rng.permutation(n)[: max(1, n // 3)], rng.permutation(n)[: max(1, n // 2)]
    yield from [("products", x), ("products", sparse), ("measure", x), ("weighted_sum", c), ("sweep", x, v, c)]
    if batch is None:
        yield from [("diagonals",), ("rows", S), ("block", S), ("block", S, T)]
    else:
        yield ("compress", x)


def relative_error(got, expected):
    got, expected = (part if isinstance(part, tuple) else (part,) for part in (got, expected))
    assert [g.shape for g in got] == [e.shape for e in expected]
    assert [g.dtype.kind for g in got] == [e.dtype.kind for e in expected]
    return max(np.abs(g - e).max(initial=0) / np.abs(e).max(initial=1e-30) for g, e in zip(got, expected, strict=True))


def agrees(tensor, H, tolerance, batches=(None, 1, 3)):
    for batch in batches:
        for name, *arguments in calls(tensor.m, tensor.n, batch):
            expected = getattr(naive, name)(H, *arguments)
            assert relative_error(getattr(tensor, name)(*arguments), expected) < tolerance, (name, batch)
