"""Check the user's arguments: each function returns its argument in a standard form, or raises an error.

An error names the argument, what was expected and what came.
"""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from functools import cache, partial
from typing import Any

import numpy as np

from fastquad.typing import Float, Indices, Number


def check_numbers(array: Any, name: str, *, complex_too: bool = False) -> None:
    """Raise an error if an array does not hold real (or complex) numbers; booleans count as real."""
    if array.dtype.kind not in ("fiubc" if complex_too else "fiub"):
        raise TypeError(f"`{name}` must hold {'numbers' if complex_too else 'real numbers'}, got dtype {array.dtype}.")


# The devices of DLPack whose memory this machine's processor reads: its own, and what CUDA or ROCm pinned or manage.
_ON_HOST = frozenset({1, 3, 11, 13})


def on_host(value: Any, name: str) -> Any:
    """An array of PyTorch, JAX, CuPy, … as one of NumPy's, through DLPack and without a copy; anything else as it is.

    An error, with the way out, if it is on another device, or is no plain array of numbers that NumPy has.
    """
    kind = type(value)
    if isinstance(value, (np.ndarray, np.generic)) or not hasattr(kind, "__dlpack_device__"):
        return value
    library = kind.__module__.partition(".")[0]
    what = f"`{name}` is a {library} {kind.__name__}"
    if library == "torch":
        if str(value.layout) != "torch.strided":
            raise TypeError(f"{what} with layout {value.layout}: give {name}.to_dense().")
        if value.requires_grad:
            raise TypeError(f"{what} with requires_grad, and no gradient flows through fastquad: give {name}.detach().")
        value = value.resolve_conj().resolve_neg()
    if any(word in str(value.dtype) for word in ("bfloat16", "float8", "float4")):
        way_out = f"{name}.float()" if library == "torch" else f"{name}.astype('float32')"
        raise TypeError(f"{what} of dtype {value.dtype}, which NumPy does not have: give {way_out}.")
    if library == "torch" and value.device.type == "meta":
        raise TypeError(f"{what} on the device 'meta', which has a shape and no numbers: give one with numbers.")
    if value.__dlpack_device__()[0] not in _ON_HOST:
        way_out = {"torch": f"{name}.cpu()", "cupy": f"{name}.get()"}.get(library, f"numpy.asarray({name})")
        there = ", or fastquad.ArrayTensor(A), which computes where A is" if name == "A" else ""
        raise TypeError(f"{what} on the device {value.device}, not in this machine's memory: give {way_out}{there}.")
    try:
        return np.from_dlpack(value)
    except (BufferError, RuntimeError, TypeError, ValueError):  # what DLPack cannot say, such as old booleans
        return np.asarray(value)


def unmasked(value: Any, name: str) -> Any:
    """The value itself, on the host; an error if it is a masked array with masked entries."""
    value = on_host(value, name)
    if isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value):
        count = int(np.ma.getmaskarray(value).sum())
        raise ValueError(
            f"`{name}` must not be masked, got {count} masked entries: leave those measurements out of `A` and `y`."
        )
    return value


def real_array(value: Any, name: str, *, finite: bool = True) -> Float:
    """A C-contiguous float64 array of the shape of value, by default finite; integers and bools are converted."""
    value = unmasked(value, name)
    if isinstance(value, str | os.PathLike):
        read = "loadtxt" if str(value).endswith((".csv", ".txt")) else "load"
        raise TypeError(f"`{name}` must be an array, got the path {str(value)!r}: give numpy.{read}({str(value)!r}).")
    try:
        array = np.asarray(value)
    except ValueError:
        raise ValueError(f"`{name}` must be an array of numbers, got rows of different lengths.") from None
    check_numbers(array, name)
    converted = np.asarray(array, dtype=np.float64, order="C")
    if finite and not np.isfinite(converted).all():
        raise ValueError(f"`{name}` must be finite, got NaN or inf.")
    return converted


def array(value: Any, name: str, *, finite: bool = True) -> Number:
    """As `real_array`, but complex numbers are allowed, and stay complex."""
    value = unmasked(value, name)
    try:
        given = np.asarray(value)
    except ValueError:
        return real_array(value, name, finite=finite)  # it raises the error
    if given.dtype.kind != "c":
        return real_array(value, name, finite=finite)
    converted = np.asarray(given, dtype=np.complex128, order="C")
    if finite and not np.isfinite(converted).all():
        raise ValueError(f"`{name}` must be finite, got NaN or inf.")
    return converted


def data(y: Any, m: int) -> tuple[Float, bool]:
    """Measurements of one signal or of b as (b, m), and whether they came as a batch."""
    Y = real_array(y, "y")
    if Y.ndim not in (1, 2) or Y.shape[-1] != m or not Y.size:
        turned = "" if Y.ndim != 2 or Y.shape[0] != m else "; one row per signal: give y.T"
        turned = "; give y[:, 0]" if turned and Y.shape[1] == 1 else turned
        raise ValueError(f"`y` must have shape ({m},) or (b, {m}), got {Y.shape}{turned}.")
    batch = Y.ndim == 2
    Y = Y.reshape(-1, m)
    largest = np.abs(Y).max(axis=1)
    # Refuse sizes at which fourth powers of y, or of much smaller residuals, overflow or vanish.
    for extreme in largest[(largest > 0) & ((largest < 1e-100) | (largest > 1e100))]:
        raise ValueError(f"`y` must be of a size between 1e-100 and 1e100, or zero, got {extreme:.3g}: rescale it.")
    return Y, batch


def signals(x: Any, name: str, b: int, n: int) -> Float | None:
    """One signal for all, or one for each of b, as a new (b, n) array."""
    if x is None:
        return None
    X = real_array(x, name)
    if X.shape not in ((n,), (b, n)):
        raise ValueError(f"`{name}` must have shape ({n},) or ({b}, {n}), got {X.shape}.")
    return np.broadcast_to(X, (b, n)).copy()


def norms(norm: Any, b: int) -> list[float | None]:
    """One norm for all, or one for each of b."""
    if norm is None:
        return [None] * b
    values = real_array(norm, "norm")
    if values.shape not in ((), (b,)):
        raise ValueError(f"`norm` must be a number or have shape ({b},), got shape {values.shape}.")
    if not (values > 0).all():
        raise ValueError(f"`norm` must be positive, got {values.min()}.")
    return list(map(float, np.broadcast_to(values, (b,))))


def noise(value: Any, m: int) -> float | Float | None:
    """The standard deviation of the noise: one for all measurements, or one each."""
    if value is None or np.ndim(value) == 0:
        return None if value is None else number(value, "noise")
    sigmas = real_array(value, "noise")
    if sigmas.shape != (m,):
        raise ValueError(f"`noise` must be a number or have shape ({m},), got {sigmas.shape}.")
    if sigmas.min() < 0:
        raise ValueError(f"`noise` must not be negative, got {sigmas.min()}.")
    return sigmas


def number(value: Any, name: str, *, positive: bool = False, finite: bool = True) -> float:
    """A number, at least (or above) 0."""
    what = "a positive number" if positive else "a number, at least 0"
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, float, np.integer, np.floating)):
        raise TypeError(f"`{name}` must be {what}, got {value!r}.")
    if math.isnan(value) or value < 0 or (positive and value == 0) or (finite and math.isinf(value)):
        raise ValueError(f"`{name}` must be {what}, got {value!r}.")
    return float(value)


def count(value: Any, name: str) -> int:
    """A positive integer."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, (int, np.integer)):
        raise TypeError(f"`{name}` must be a positive integer, got {value!r}.")
    if value < 1:
        raise ValueError(f"`{name}` must be a positive integer, got {value!r}.")
    return int(value)


def choice(value: Any, name: str, choices: Iterable[str]) -> str:
    """One of a few words."""
    choices = list(choices)
    if not isinstance(value, str) or value not in choices:
        expected = f"one of {', '.join(map(repr, choices))}" if len(choices) > 2 else " or ".join(map(repr, choices))
        near = get_close_matches(value.lower(), choices, n=1) if isinstance(value, str) else []
        raise ValueError(f"`{name}` must be {expected}, got {value!r}{f'; did you mean {near[0]!r}?' if near else '.'}")
    return value


def text(value: Any, name: str) -> str:
    """A string."""
    if not isinstance(value, str):
        raise TypeError(f"`{name}` must be a string, got {type(value).__name__}.")
    return value


def indices(value: Any, name: str) -> Indices:
    """Distinct indices, in ascending order; at least one."""
    array = np.asarray(value)
    if array.ndim != 1 or not array.size or not np.issubdtype(array.dtype, np.integer):
        raise ValueError(f"`{name}` must be a non-empty list of integers, got {array.dtype} of shape {array.shape}.")
    if array.min() < 0:
        raise ValueError(f"`{name}` must not be negative, got {array.min()}.")
    return np.unique(array).astype(np.intp)


def generator(rng: Any, *, default: int | None) -> np.random.Generator:
    """The given random generator, or one from a seed; else from the seed `default`, or from the system's entropy."""
    if rng is None:
        return np.random.default_rng(default)
    if isinstance(rng, np.random.Generator):
        return rng
    if isinstance(rng, (bool, np.bool_)) or not isinstance(rng, (int, np.integer)):
        raise TypeError(f"`rng` must be a seed or a numpy.random.Generator, got {type(rng).__name__}.")
    if rng < 0:
        raise ValueError(f"`rng` must not be negative, got {rng}.")
    return np.random.default_rng(rng)


def generators(rng: Any, b: int) -> list[Callable[[], np.random.Generator]]:
    """One random generator for each of b signals, made at the first call; without a seed, those of the seed 0."""
    if rng is not None:
        return [partial(np.random.default_rng, made) for made in generator(rng, default=0).spawn(b)]
    # Make what `spawn` would give, without making the generator that it spawns from.
    return [cache(partial(_spawned, i)) for i in range(b)]


def _spawned(i: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(0, spawn_key=(i,))))


def nearest(name: str, known: Iterable[str]) -> str:
    """The end of a sentence that refuses an unknown name: the nearest known one, or all of them."""
    known = list(known)
    near = get_close_matches(name, known, n=1)
    if near:
        return f"; did you mean `{near[0]}`?"
    return f"; it has {', '.join(f'`{other}`' for other in known)}." if known else "; it has none."
