"""Identify a solve by a few bytes: the digest of A, y, the method and its options.

Equal things have equal digests, in every process. A tensor is identified by its own means (the checksums of a folder,
the seed of an ensemble) or by a sample of its entries; a decoder by its signals for a few codes, a prior of one's own
by its posterior of a signal.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np

from fastquad.decoders import BaseDecoder
from fastquad.priors.base import Prior
from fastquad.typing import Float

# The repr of an object without one of its own has its address.
_ADDRESS: Any = object.__repr__


@dataclass(frozen=True)
class Sampled:
    """A prior, identified by what it does with an input that is always the same, because functions have no content."""

    prior: Prior
    n: int

    def values(self) -> list[Float]:
        """Its posterior of one signal, and the nearest signal of its kind."""
        if self.prior.kind != "denoiser":
            return []
        rng = np.random.default_rng(0)
        b, x = rng.standard_normal((2, self.n))
        posterior = self.prior.denoiser(self.n, 0.3, float(self.n)).denoise(b, 1.0)
        return [*map(np.asarray, posterior), np.asarray(self.prior.nearest(x))]


def digest(*values: Any) -> str:
    """Sixteen hexadecimal digits that stand for these values."""
    hashed = hashlib.blake2b(digest_size=8)
    for value in values:
        _feed(hashed, value)
    return hashed.hexdigest()


def _feed(hashed: Any, value: Any) -> None:
    """Add a value to a hash, with its type and shape, so that equal bytes of another kind differ."""
    if isinstance(value, np.generic):
        value = value.item()
    hashed.update(f"{type(value).__qualname__}:".encode())
    if isinstance(value, np.ndarray):
        hashed.update(f"{value.dtype.str}{value.shape}".encode())
        hashed.update(np.ascontiguousarray(value).reshape(-1).view(np.uint8).data)
    elif isinstance(value, Mapping):
        for key in sorted(value, key=str):
            _feed(hashed, key)
            _feed(hashed, value[key])
    elif isinstance(value, list | tuple):
        for entry in value:
            _feed(hashed, entry)
    elif isinstance(value, Sampled):
        _feed(hashed, value.prior)
        _feed(hashed, value.values())
    elif isinstance(value, BaseDecoder):
        codes = np.random.default_rng(0).standard_normal((4, value.n_latent))
        _feed(hashed, np.asarray(value(codes)))
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            if field.init:  # the others are caches
                _feed(hashed, getattr(value, field.name))
    elif callable(value):
        return  # known by its values: see `Sampled`, and `_identity` of measurements
    elif type(value).__repr__ is _ADDRESS:
        _feed(hashed, getattr(value, "__dict__", {}))
    else:
        hashed.update(f"{value!r};".encode())
