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

import math

import numpy as np

from fastquad.decoders import BaseDecoder
from fastquad.measurements.base import Float
from fastquad.priors.least_squares import Indices, Normal, minimize, normal

# Of Adam: the decay of the two averages, and what keeps the quotient finite.
_MEAN_DECAY, _SQUARE_DECAY, _EPSILON = 0.9, 0.999, 1e-8
# Of a race: after this share of the steps it goes on with that share of the starts, at least one.
_RACE = ((0.2, 0.6), (0.4, 0.4), (0.6, 0.01))
# The least part of v that a signal is taken to explain: where it explains none, the step would have no length.
_LEAST_SHARE = 0.1


def adam(g: BaseDecoder, V: Float, starts: Float, *, n_steps: int = 100, rate: float = 0.1, race: bool = True) -> Float:
    """Codes of the signals nearest to the rows of V, by Adam.

    Parameters
    ----------
    g : decoder
    V : array of shape (b, n)
    starts : array of shape (b, r, k)
        r codes to start from, for each row.
    race : bool
        Whether the starts that are behind drop out: of five, three go on after a fifth of the steps, two after
        another and one after the third. That is half the work, and the signal is as near to within a percent.

    Returns
    -------
    Z : array of shape (b, k)
    """
    b, r, k = starts.shape
    targets = np.repeat(V.astype(g.dtype), r, axis=0)
    Z = starts.reshape(b * r, k).astype(g.dtype)
    mean, square = np.zeros_like(Z), np.zeros_like(Z)
    # After how many steps how many starts go on.
    laps = {round(lap * n_steps): math.ceil(share * r) for lap, share in _RACE}
    for step in range(1, n_steps + 1):
        values, pullback = g.vjp(Z)
        gradient = pullback(values - targets)
        mean += (1 - _MEAN_DECAY) * (gradient - mean)
        square += (1 - _SQUARE_DECAY) * (gradient * gradient - square)
        length = rate / (1 - _MEAN_DECAY**step)
        Z -= length * mean / (np.sqrt(square / (1 - _SQUARE_DECAY**step)) + _EPSILON)
        if race and len(Z) > b and step in laps:
            going_on = _best(_distances(g, Z, targets), b, laps[step])
            Z, mean, square, targets = Z[going_on], mean[going_on], square[going_on], targets[going_on]
    return Z[_best(_distances(g, Z, targets), b, 1)].astype(np.float64)


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
    return descents.Z[_best(descents.value, b, 1)]


def _distances(g: BaseDecoder, Z: Float, targets: Float) -> Float:
    difference = g.forward(Z) - targets
    return np.einsum("bn,bn->b", difference, difference)


def _best(cost: Float, b: int, size: int) -> Indices:
    """The positions of the `size` least costs of each of b rows, which have equally many."""
    order = np.argsort(cost.reshape(b, -1), axis=1)[:, :size]
    return (order + np.arange(b)[:, None] * (len(cost) // b)).ravel()
