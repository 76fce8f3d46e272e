"""Names for the types that every room uses."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")

#: Real numbers, in single or double precision.
Float = NDArray[np.floating]
#: Real numbers, or complex ones where the matrices are Hermitian.
Number = NDArray[Any]
#: Indices of coordinates or of measurements.
Indices = NDArray[np.intp]
#: A generator that asks for contractions of A, is sent the answers, and returns a T.
Asks = Generator[Any, Any, T]
