"""Recover a signal from quadratic measurements `y_i = x^T A_i x`."""

from fastquad.measurements import Measurements, RawTensor, as_measurements
from fastquad.parallel import set_num_threads
from fastquad.solution import Solution, Status

__all__ = ["Measurements", "RawTensor", "Solution", "Status", "as_measurements", "set_num_threads"]
