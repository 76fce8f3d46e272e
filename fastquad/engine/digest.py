"""Identify a solve by a few bytes: the digest of A, y, the method and its options.

Equal things have equal digests, in every process. A tensor is identified by its own means (the checksums of a folder,
the seed of an ensemble) or by a sample of its entries; a decoder by its signals for a few codes.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np

from fastquad.decoders import BaseDecoder


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
    elif isinstance(value, BaseDecoder):
        codes = np.random.default_rng(0).standard_normal((4, value.n_latent))
        _feed(hashed, np.asarray(value(codes)))
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            if field.init:  # the others are caches
                _feed(hashed, getattr(value, field.name))
    elif callable(value):
        hashed.update(f"{getattr(value, '__module__', '')}.{getattr(value, '__qualname__', '')}".encode())
    else:
        hashed.update(f"{value!r};".encode())
