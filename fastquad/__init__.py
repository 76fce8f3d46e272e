"""Recover a signal from quadratic measurements `y_i = x^T A_i x`."""

from typing import Any

from fastquad import problems
from fastquad.front_door import measure, solve, spectral_init
from fastquad.measurements import Measurements, RawTensor, as_measurements
from fastquad.parallel import set_num_threads
from fastquad.priors import Sparse
from fastquad.solution import Solution, Status, distance

__all__ = [
    "Measurements",
    "RawTensor",
    "Solution",
    "Sparse",
    "Status",
    "as_measurements",
    "distance",
    "measure",
    "problems",
    "set_num_threads",
    "solve",
    "spectral_init",
]


def __getattr__(name: str) -> Any:
    """The solver classes, each imported when it is first asked for."""
    from fastquad.solvers import CLASSES, load

    if name in CLASSES:
        return load(CLASSES[name])
    raise AttributeError(f"module 'fastquad' has no attribute {name!r}")
