"""Decoders from files, and the one that comes with the package."""

from __future__ import annotations

import os
from collections.abc import Sequence
from functools import lru_cache
from importlib.resources import as_file, files

import numpy as np
from numpy.typing import DTypeLike

from fastquad.decoders.dense import Decoder
from fastquad.decoders.files import read


def load(
    path: str | os.PathLike[str], *, activations: Sequence[str] | None = None, dtype: DTypeLike = np.float64
) -> Decoder:
    """A decoder from a `.npz` or safetensors file.

    Reads what `Decoder.save` wrote, and any safetensors file of PyTorch `Linear` layers (`name.weight`, `name.bias`),
    which are taken in the order of the numbers in their names. Nothing in either format is ever executed.

    Parameters
    ----------
    path : path
    activations : sequence of str, optional
        One per layer, as for `Decoder`. Needed if the file does not name them, as is the case for a safetensors
        file that `Decoder.save` did not write.
    dtype : float32 or float64
        The precision of the computation, whatever that of the file.

    Raises
    ------
    ValueError
        If the file is truncated, corrupt or does not hold a decoder.

    Examples
    --------
    >>> import tempfile, pathlib
    >>> import fastquad as fq
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = pathlib.Path(folder) / "digits.safetensors"
    ...     fq.decoders.mnist().save(path, dtype="float32", origin="MNIST")
    ...     fq.decoders.load(path)
    Decoder(20-500-500-784, softplus, softplus, sigmoid, float64)
    """
    layers = read(path)
    if activations is None:
        activations = layers.activations
    if activations is None:
        raise ValueError(
            f"{os.fspath(path)!r} does not name its activations: give `activations`, one for each of its "
            f"{len(layers.weights)} layers."
        )
    return Decoder(layers.weights, layers.biases, activations, dtype=dtype)


@lru_cache(maxsize=4)
def mnist(dtype: DTypeLike = np.float64) -> Decoder:
    """The decoder of handwritten digits that comes with the package: 20 latent numbers to 28×28 pixels in (0, 1).

    It is the decoder half of a variational autoencoder, 20-500-500-784 with softplus and a sigmoid at the end, trained
    on the MNIST training set with Adam (rate 0.001, batches of 100, 25 epochs, seed 0) by
    `examples/train_mnist_decoder.py`. The weights are stored in float16, and with them the test ELBO is −100.60.

    Parameters
    ----------
    dtype : float32 or float64
        What it computes in.

    Examples
    --------
    >>> import numpy as np
    >>> import fastquad as fq
    >>> fq.decoders.mnist()(np.zeros(20)).shape
    (784,)
    """
    with as_file(files("fastquad") / "data" / "mnist_decoder.npz") as path:
        return load(path, dtype=dtype)
