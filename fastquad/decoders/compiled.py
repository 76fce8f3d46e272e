"""Adam through a fully connected network, compiled: thousands of small products with the same weights.

The weights are laid out once, for both directions, as the kernel reads them; activations and their derivatives are
computed together, in memory that is allocated once. Rows do not depend on each other, so each thread takes a chunk of
them through all steps, and the result is the same for any number of threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from fastquad._kernels import decoder as kernel
from fastquad.system import threads
from fastquad.typing import Float, Indices

# The codes of the activations in decoder.h.
KINDS = {"softplus": 0, "relu": 1, "tanh": 2, "sigmoid": 3, "identity": 4}
# The number of rows in a chunk: they share what is read of the weights, and their activations stay in the cache.
_ROWS = 17


class Schedule(NamedTuple):
    """The steps of Adam: for each its length ℓ and correction c, (steps,); for all, the shares p, q and ε."""

    lengths: Float
    corrections: Float
    mean_share: float
    square_share: float
    epsilon: float

    def part(self, start: int, stop: int) -> Schedule:
        """The steps from `start` to `stop`."""
        return self._replace(lengths=self.lengths[start:stop], corrections=self.corrections[start:stop])


class Descents(NamedTuple):
    """Where descents by Adam are: the codes, and the averages of the derivative and of its square, (rows, k) each."""

    Z: Float
    mean: Float
    square: Float

    def rows(self, which: Indices | slice) -> Descents:
        """Some of the descents: a view if `which` is a slice."""
        return Descents(self.Z[which], self.mean[which], self.square[which])


class Network:
    """The layers of a `Decoder` in float32, laid out for the kernel."""

    def __init__(self, weights: Sequence[Float], biases: Sequence[Float], activations: Sequence[str]) -> None:
        kinds = [KINDS[name] for name in activations]
        #: (inputs, outputs, activation) of each layer.
        self.shapes = np.array([(*W.shape, kind) for W, kind in zip(weights, kinds, strict=True)], dtype=np.intp)
        parts: list[Float] = []
        for W, b in zip(weights, biases, strict=True):
            parts += [panels(W), panels(W.T), panels(b[None])]
        self.parameters = np.concatenate(parts)

    @property
    def layers(self) -> kernel.Layers:
        """The layers as the kernel's own object, which cannot be pickled."""
        return kernel.Layers(self.parameters, self.shapes)

    def descend(self, at: Descents, targets: Float, schedule: Schedule, *, unit: bool, n_threads: int) -> None:
        """Adam in place; see the kernel of the same name. Codes, averages and targets (rows, n) are float32."""
        rows, steps = len(targets), schedule.lengths.size
        if not rows:
            return
        n_threads = threads.worthwhile(n_threads, rows * steps * self.parameters.nbytes // _ROWS)
        # Give every thread the same number of chunks, all of nearly the same size.
        n_chunks = min(rows, -(-rows // (_ROWS * n_threads)) * n_threads)
        edges = [rows * chunk // n_chunks for chunk in range(n_chunks + 1)]
        layers, adam = self.layers, kernel.Adam(*schedule)

        def task(start: int, stop: int) -> None:
            work = np.empty(layers.work_size(stop - start), dtype=np.float32)
            kernel.descend(layers, unit, adam, targets[start:stop], *at.rows(slice(start, stop)), work)

        threads.run(task, list(pairwise(edges)), n_threads)


def panels(W: Float) -> Float:
    """W (inputs, outputs) as consecutive panels of a few columns, the last one filled up with zeros."""
    inputs, outputs = W.shape
    width = kernel.PANEL_WIDTH
    full = np.zeros((inputs, -(-outputs // width) * width), dtype=np.float32)
    full[:, :outputs] = W
    return full.reshape(inputs, -1, width).transpose(1, 0, 2).ravel()
