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
from fastquad.decoders.compiled import Plan
from fastquad.numerics.least_squares import Normal, minimize, normal
from fastquad.system import threads
from fastquad.typing import Float, Indices

# Of Adam: the decay of the two averages, and what keeps the quotient finite.
_MEAN_DECAY, _SQUARE_DECAY, _EPSILON = 0.9, 0.999, 1e-8
# Of a race: after this share of the steps it goes on with that share of the starts, at least one.
_RACE = ((0.2, 0.6), (0.4, 0.4), (0.6, 0.01))
# The least part of v that a signal is taken to explain: where it explains none, the step would have no length.
_LEAST_SHARE = 0.1


def adam(
    g: BaseDecoder,
    V: Float,
    starts: Float,
    *,
    plan: Plan | None = None,
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
    plan : optional
        Default 100 steps at rate 0.1.
    race : bool
        Whether the starts that are behind drop out: of five, three go on after a fifth of the steps, two after
        another and one after the third. That is half the work, and the signal is as near to within a percent.
    n_threads : int, optional
        Where the decoder is compiled.

    Returns
    -------
    Z : array of shape (b, k)
    """
    b, r, k = starts.shape
    targets = np.repeat(V.astype(g.dtype), r, axis=0)
    state = np.zeros((b * r, 3, k), dtype=g.dtype)
    state[:, 0] = starts.reshape(b * r, k)
    plan = plan or make_plan()
    n_steps = len(plan.schedule)
    # After how many steps how many starts go on.
    laps = {round(lap * n_steps): math.ceil(share * r) for lap, share in _RACE} if race and r > 1 else {}
    done = 0
    for stop in sorted({*laps, n_steps}):
        _descend(g, state, targets, Plan(plan.schedule[done:stop], plan.shares), n_threads)
        going_on = _best(_distances(g, state[:, 0], targets), b, laps[stop] if stop in laps else len(state) // b)
        state, targets, done = state[going_on], targets[going_on], stop
    return state[:: len(state) // b, 0].astype(np.float64)


def make_plan(n_steps: int = 100, rate: float = 0.1) -> Plan:
    """The steps of Adam as it is defined: both averages start at zero, for which the lengths make up."""
    step = np.arange(1, n_steps + 1)
    schedule = np.stack([rate / (1 - _MEAN_DECAY**step), 1 / (1 - _SQUARE_DECAY**step)], axis=1)
    return Plan(schedule, np.array([1 - _MEAN_DECAY, 1 - _SQUARE_DECAY, _EPSILON]))


def _descend(g: BaseDecoder, state: Float, targets: Float, plan: Plan, n_threads: int | None) -> None:
    """Adam in place: state[s] has the rows z, and the averages of the derivative and of its square."""
    compiled = g.compiled()
    if compiled is None:
        return descend(g, state, targets, plan)
    compiled.network.descend(state, targets, plan, unit=compiled.unit, n_threads=threads.resolve(n_threads))


def descend(g: BaseDecoder, state: Float, targets: Float, plan: Plan) -> None:
    """The same for any decoder."""
    Z, mean, square = state.transpose(1, 0, 2)
    p, q, epsilon = plan.shares.tolist()
    for length, correction in plan.schedule.tolist():
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
