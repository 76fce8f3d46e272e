"""What A is: the contractions, then one file a kind."""

from __future__ import annotations

import os
from typing import Any

import numpy as np

from fastquad.measurements.base import Measurements
from fastquad.measurements.raw import RawTensor

__all__ = ["Measurements", "RawTensor", "as_measurements"]


def as_measurements(A: Any) -> Measurements:
    """A as measurements (being rewritten)."""
    if isinstance(A, Measurements):
        return A
    if isinstance(A, (str, os.PathLike)):
        A = np.load(A, mmap_mode="r")
    return RawTensor(np.ascontiguousarray(A))
