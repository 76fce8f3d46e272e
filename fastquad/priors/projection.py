"""The projection onto the range of a decoder, `P_G(v) = argmin_z ‖v − g(z)‖`, for many v and many starts in one batch.

There is no closed form, and `‖v − g(z)‖²` has local minima: each v is tried from several starts, and the nearest signal
is kept. Two ways to descend:

- Adam, 100 steps at rate 0.1 from random starts, as in the paper.
- Levenberg–Marquardt, fewer than ten steps from a start that is already good. Where g has norm one, `‖v − c g‖²` is
  minimised over c as well: the minimisers are the same, and with `J = c J_g` a step has the right length for a v of any
  norm. Left alone it would follow the noise in v far out, to where a decoder saturates; so it takes the most probable
  code where v is g(z) and Gaussian noise of variance τ², and z ~ N(0, I): `min ‖v − c g(z)‖² + τ²‖z‖²`.
"""

from __future__ import annotations

import numpy as np

from fastquad.decoders import BaseDecoder
from fastquad.measurements.base import Float
from fastquad.priors.least_squares import Indices, Normal, minimize, normal

# Of Adam: the decay of the two averages, and what keeps the quotient finite.
_MEAN_DECAY, _SQUARE_DECAY, _EPSILON = 0.9, 0.999, 1e-8
# The least part of v that a signal is taken to explain: where it explains none, the step would have no length.
_LEAST_SHARE = 0.1


def adam(g: BaseDecoder, V: Float, starts: Float, *, n_steps: int = 100, rate: float = 0.1) -> Float:
    """Codes of the signals nearest to the rows of V, by Adam.

    Parameters
    ----------
    g : decoder
    V : array of shape (b, n)
    starts : array of shape (b, r, k)
        r codes to start from, for each row.

    Returns
    -------
    Z : array of shape (b, k)
    """
    b, r, k = starts.shape
    targets = np.repeat(V.astype(g.dtype), r, axis=0)
    Z = starts.reshape(b * r, k).astype(g.dtype)
    mean, square = np.zeros_like(Z), np.zeros_like(Z)
    for step in range(1, n_steps + 1):
        values, pullback = g.vjp(Z)
        values -= targets
        gradient = pullback(values)
        mean += (1 - _MEAN_DECAY) * (gradient - mean)
        square += (1 - _SQUARE_DECAY) * (gradient * gradient - square)
        length = rate / (1 - _MEAN_DECAY**step)
        Z -= length * mean / (np.sqrt(square / (1 - _SQUARE_DECAY**step)) + _EPSILON)
    values = g.forward(Z) - targets
    return _best(Z, np.einsum("bn,bn->b", values, values), b)


def levenberg_marquardt(
    g: BaseDecoder, V: Float, starts: Float, *, noise: Float, unit: bool, max_steps: int = 12, tol: float = 1e-3
) -> Float:
    """Codes of the signals nearest to the rows of V, by Levenberg–Marquardt.

    Parameters
    ----------
    g : decoder
    V : array of shape (b, n)
    starts : array of shape (b, r, k)
    noise : array of shape (b,)
        The variance τ² of the noise in an entry of each row of V.
    unit : bool
        Whether the signals of g have norm one, so that only the direction of v counts.

    Returns
    -------
    Z : array of shape (b, k)
    """
    b, r, k = starts.shape
    targets = np.repeat(V.astype(g.dtype), r, axis=0)

    def evaluate(Z: Float, which: Indices) -> Normal:
        values, J = g.jacobian(Z.astype(g.dtype))
        v = targets[which]
        if not unit:
            return normal(values - v, J)
        share = np.einsum("bn,bn->b", values, v)
        share = np.maximum(share, _LEAST_SHARE * np.linalg.norm(v, axis=1))[:, None]
        return normal(share * values - v, share[:, :, None] * J)

    ridge = np.repeat(noise, r)[:, None]
    descents = minimize(evaluate, starts.reshape(b * r, k), ridge=ridge, max_steps=max_steps, tol=tol)
    return _best(descents.Z, descents.value, b)


def _best(Z: Float, cost: Float, b: int) -> Float:
    """Of the r codes of each of b rows, the one of least cost."""
    winners = cost.reshape(b, -1).argmin(axis=1)
    return Z.reshape(b, -1, Z.shape[1])[np.arange(b), winners].astype(np.float64)
