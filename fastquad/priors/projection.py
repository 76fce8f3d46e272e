"""The projection onto the range of a decoder, `P_G(v) = argmin_z ‖v − g(z)‖`, for many v and many starts in one batch.

There is no closed form, and `‖v − g(z)‖²` has local minima: each v is tried from several starts, and the nearest signal
is kept. Two ways to descend:

- Adam, 100 steps at rate 0.1 from random starts, as in the paper.
- Levenberg–Marquardt, fewer than ten steps from a start that is already good. If g has norm one, `‖v − c g‖²` is
  minimised over c as well: the minimisers are the same, and with `J = c J_g` a step has the right length for a v of any
  norm. Left alone it would follow the noise in v far out, to where a decoder saturates; so it takes the most probable
  code if v is g(z) and Gaussian noise of variance τ², and z ~ N(0, I): `min ‖v − c g(z)‖² + τ²‖z‖²`.
"""

from __future__ import annotations

import math

import numpy as np

from fastquad.decoders import BaseDecoder
from fastquad.decoders.compiled import Descents, Schedule
from fastquad.numerics.least_squares import Normal, minimize, normal
from fastquad.system import threads
from fastquad.typing import Float, Indices

# Adam's decay of the average derivative in a step.
_MEAN_DECAY = 0.9
# Adam's decay of the average square of the derivative in a step.
_SQUARE_DECAY = 0.999
# Keeps Adam's quotient finite.
_EPSILON = 1e-8
# A race: after the first share of the steps, the second share of the starts goes on, at least one.
_RACE = ((0.2, 0.6), (0.4, 0.4), (0.6, 0.01))
# The least part of v that a signal is taken to explain: if it explains none, the step would have no length.
_LEAST_SHARE = 0.1


def adam(
    g: BaseDecoder,
    V: Float,
    starts: Float,
    *,
    schedule: Schedule | None = None,
    race: bool = True,
    n_threads: int | None = None,
) -> Float:
    """Codes of the signals nearest to the rows of V, by Adam.

    Parameters
    ----------
    g : decoder
    V : array of shape (b, n)
    starts : array of shape (b, r, k)
        r codes to start from, for each row.
    schedule : optional
        Default 100 steps at rate 0.1.
    race : bool
        Whether the starts that are behind drop out: of five, three go on after a fifth of the steps, two after
        another and one after the third. That is half the work, and the signal is as near to within a percent.
    n_threads : int, optional
        For a decoder that is compiled.

    Returns
    -------
    Z : array of shape (b, k)
    """
    b, r, k = starts.shape
    targets = np.repeat(V.astype(g.dtype), r, axis=0)
    at = descents(starts.reshape(b * r, k), g)
    schedule = schedule or make_schedule()
    n_steps = schedule.lengths.size
    # After how many steps how many starts go on.
    laps = {round(lap * n_steps): math.ceil(share * r) for lap, share in _RACE} if race and r > 1 else {}
    done = 0
    for stop in sorted({*laps, n_steps}):
        _descend(g, at, targets, schedule.part(done, stop), n_threads)
        going_on = _best(_distances(g, at.Z, targets), b, laps[stop] if stop in laps else len(at.Z) // b)
        at, targets, done = at.rows(going_on), targets[going_on], stop
    return at.Z[:: len(at.Z) // b].astype(np.float64)


def descents(Z: Float, g: BaseDecoder) -> Descents:
    """Descents that start at these codes, both averages at zero."""
    return Descents(np.array(Z, dtype=g.dtype), np.zeros(Z.shape, dtype=g.dtype), np.zeros(Z.shape, dtype=g.dtype))


def make_schedule(n_steps: int = 100, rate: float = 0.1) -> Schedule:
    """The steps of Adam as it is defined: lengths and corrections make up for averages that start at zero."""
    step = np.arange(1, n_steps + 1)
    lengths, corrections = rate / (1 - _MEAN_DECAY**step), 1 / (1 - _SQUARE_DECAY**step)
    return Schedule(lengths, corrections, 1 - _MEAN_DECAY, 1 - _SQUARE_DECAY, _EPSILON)


def _descend(g: BaseDecoder, at: Descents, targets: Float, schedule: Schedule, n_threads: int | None) -> None:
    """Adam in place, compiled if the decoder is."""
    compiled = g.compiled()
    if compiled is None:
        return descend(g, at, targets, schedule)
    compiled.network.descend(at, targets, schedule, unit=compiled.unit, n_threads=threads.resolve(n_threads))


def descend(g: BaseDecoder, at: Descents, targets: Float, schedule: Schedule) -> None:
    """Adam in place for any decoder: the twin of the compiled one."""
    Z, mean, square = at
    p, q, epsilon = schedule.mean_share, schedule.square_share, schedule.epsilon
    for length, correction in zip(schedule.lengths.tolist(), schedule.corrections.tolist(), strict=True):
        values, pullback = g.vjp(Z)
        gradient = pullback(values - targets)
        mean += p * (gradient - mean)
        square += q * (gradient * gradient - square)
        Z -= length * mean / (np.sqrt(correction * square) + epsilon)


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
    distances: Float = np.einsum("bn,bn->b", difference, difference)
    return distances


def _best(cost: Float, b: int, size: int) -> Indices:
    """The positions of the `size` least costs of each of b rows, which have equally many."""
    order = np.argsort(cost.reshape(b, -1), axis=1)[:, :size]
    return (order + np.arange(b)[:, None] * (len(cost) // b)).ravel()
