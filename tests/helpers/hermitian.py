"""Complex measurements of every kind, and the matrices that they stand for."""

import naive
import numpy as np
from tensors import Own, calls, relative_error

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


def agrees(tensor, H, tolerance, batches=(None, 1, 3)):
    for batch in batches:
        for name, *arguments in calls(tensor.m, tensor.n, batch, complex_signals=True):
            expected = getattr(naive, name)(H, *arguments)
            assert relative_error(getattr(tensor, name)(*arguments), expected) < tolerance, (name, batch)
