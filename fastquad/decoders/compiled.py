"""Adam through a fully connected network, compiled: thousands of small products with the same weights.

The weights are laid out once, for both directions, as the kernel reads them; activations and their derivatives are made
in one go, and nothing is allocated on the way. Rows do not depend on each other, so threads take some each, for all
steps, and the result is the same for any number of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from fastquad._kernels import decoder as kernel
from fastquad.system import threads
from fastquad.typing import Float

# The numbers of the activations in decoder.h.
KINDS = {"softplus": 0, "relu": 1, "tanh": 2, "sigmoid": 3, "identity": 4}
# So many rows share what is read of the weights in a step, and their activations stay in the cache.
_ROWS = 17


class Plan(NamedTuple):
    """Steps of Adam: for each its length ℓ and correction c, (steps, 2); and of all (p, q, ε)."""

    schedule: Float
    shares: Float


class Network:
    """The layers of a `Decoder`, in float32, as the kernel wants them."""

    def __init__(self, weights: Sequence[Float], biases: Sequence[Float], activations: Sequence[str]) -> None:
        kinds = [KINDS[name] for name in activations]
        self.layers = np.array([(*W.shape, kind) for W, kind in zip(weights, kinds, strict=True)], dtype=np.intp)
        parts: list[Float] = []
        for W, b in zip(weights, biases, strict=True):
            parts += [panels(W), panels(W.T), panels(b[None])]
        self.parameters = np.concatenate(parts)

    def descend(self, state: Float, targets: Float, plan: Plan, *, unit: bool, n_threads: int) -> None:
        """Adam in place; see the kernel of the same name. state (rows, 3, k) and targets (rows, n) are float32."""
        rows, steps = len(targets), len(plan.schedule)
        if not rows:
            return
        n_threads = threads.worthwhile(n_threads, rows * steps * self.parameters.nbytes // _ROWS)
        # As many chunks for each thread as for the others, all of nearly the same size.
        n_chunks = min(rows, -(-rows // (_ROWS * n_threads)) * n_threads)
        edges = [rows * chunk // n_chunks for chunk in range(n_chunks + 1)]

        def task(start: int, stop: int) -> None:
            work = np.empty(kernel.work_size(self.layers, stop - start), dtype=np.float32)
            mine = state[start:stop], targets[start:stop]
            kernel.descend(self.parameters, self.layers, unit, *mine, plan.schedule, plan.shares, work)

        threads.run(task, list(pairwise(edges)), n_threads)


def panels(W: Float) -> Float:
    """W (inputs, outputs) as panels of a few columns, one after the other, the last one filled up with zeros."""
    inputs, outputs = W.shape
    width = kernel.PANEL_WIDTH
    full = np.zeros((inputs, -(-outputs // width) * width), dtype=np.float32)
    full[:, :outputs] = W
    return full.reshape(inputs, -1, width).transpose(1, 0, 2).ravel()
