"""The certificate of an answer if the prior knows more than which coordinates are nonzero.

one of a few values   (`Prior.alphabet`) another signal of these values must not fit. No direction is open, so that the
                      measurements may be fewer than the coordinates: what can happen is a coincidence. There are V^n
                      signals, and each wrong one fits a measurement with a chance of 2^−30, or of one in the
                      values that it takes: together they must say n log2 V + 20 bits.
sparse elsewhere      (`Prior.sparse_form`) `x = C z` with a sparse z, such as the steps of a piecewise constant
                      signal: the certificate of those holds for `C^T Ã_i C`.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from fastquad.engine.entries import Entries
from fastquad.engine.problem import Problem
from fastquad.engine.requests import answered_by
from fastquad.engine.trust import tolerances as tol
from fastquad.engine.trust.answer import Answer
from fastquad.engine.trust.candidates import cancelling, linear, linear_anywhere, moved, relabelled, weak
from fastquad.engine.trust.certificate import Certificate, certify
from fastquad.engine.trust.evidence import bits_of
from fastquad.engine.trust.flat import another_on_flat
from fastquad.engine.trust.gauge import names
from fastquad.engine.trust.local import exact_measure
from fastquad.engine.trust.search import Search
from fastquad.measurements.contractions import Compress, Diagonals, Products, Rows
from fastquad.measurements.dense.raw import RawTensor
from fastquad.numerics.quartic import minimise, minimise_upwards
from fastquad.priors.base import Prior
from fastquad.status import Status
from fastquad.typing import Asks, Float

# The signals that symmetries of A make of x.
_SYMMETRIES = (linear, linear_anywhere, weak, cancelling, moved, relabelled)


def certify_structured(problem: Problem, prior: Prior, x: Float, entries: Entries | None) -> Asks[Certificate | None]:
    """The certificate that uses what the prior rules out; None if it only knows coordinates."""
    if prior.alphabet is not None:
        return (yield from _certify_values(problem, prior, prior.alphabet, x, entries))
    m, n = problem.m, problem.n
    every = m * n**2 <= tol.BLOCK_BYTES and n <= 4 * tol.SMALL_N and 8 * m * n * n <= problem.memory // 4
    form = prior.sparse_form(x, every)
    if form is None or 8 * m * form[1].size ** 2 > min(tol.BLOCK_BYTES, problem.memory // 8):
        return None
    return (yield from _certify_in_columns(problem, *form, every, entries))


def _certify_values(
    problem: Problem, prior: Prior, values: Float, x: Float, entries: Entries | None
) -> Asks[Certificate]:
    """Whether x, of a few values, is the only signal of these values that fits."""
    x = prior.nearest(x)
    answer = yield from Answer.read(problem, x, None)
    diagonals = yield Diagonals()
    # Ignore undetermined directions: only another signal of these values counts.
    tests = Search(answer, diagonals, answer.rounding(diagonals), exact_measure(problem.m), entries)
    doubt = _one_changed(answer, tests, values) or (yield from tests.rivals(_SYMMETRIES))
    if not doubt:
        doubt, tests.twin = yield from another_on_flat(problem, x, values)
    if doubt:
        status = Status.UNDECIDED if tests.twin is None else Status.AMBIGUOUS
        return Certificate(x, answer.residual, status, doubt, twin=tests.twin)
    bits, needed = float(bits_of(problem.y, answer.residual).sum()), problem.n * math.log2(values.size) + tol.SPARE_BITS
    if bits < needed:
        doubt = (
            f"There are {values.size}^{problem.n} signals of these values. To tell them apart takes {needed:.0f} bits, "
            f"and the measurements give {bits:.0f}: another signal may fit by chance."
        )
        return Certificate(x, answer.residual, Status.UNDECIDED, doubt)
    counted = f"None of the other signals of these {values.size} values fits."
    return Certificate(x, answer.residual, Status.EXACT, counted)


def _one_changed(answer: Answer, tests: Search, values: Float) -> str:
    """Whether a coordinate can take another value."""
    x = answer.x
    for value in values:
        change = value - x
        moved = 2 * answer.W * change + tests.diagonals * change**2
        same = np.sqrt(np.mean((moved / tests.delta[:, None]) ** 2, axis=0)) < 1
        free = np.flatnonzero(same & (change != 0))
        # Do not count −x, if x has a single nonzero coordinate.
        free = free[[bool(np.any(np.delete(x, j)) or value != -x[j]) for j in free]] if free.size else free
        if free.size:
            tests.twin = np.where(np.arange(x.size) == free[0], value, x)
            return f"The measurements do not determine the value of {names(free)}."
    return ""


def other_values_fit(problem: Problem, x: Float, *, below: bool = False) -> Asks[bool]:
    """Whether the residual of x is not noise, but comes from a few coordinates that have none of the prior's values.

    Coordinates are changed one after the other, those that lower |r|² most first, and then fitted together. It is noise
    unless `m ln |r|²` falls by more than 2 ln n + ln m for each, and something to spare. With `below`, x >= 0, and only
    its zeros are changed, to values below zero.
    """
    m, n, x = problem.m, problem.n, x.copy()
    W = yield Products(x)
    diagonals = yield Diagonals()
    r = W @ x - problem.y
    before = float(r @ r)
    chosen: list[int] = []
    rows: list[Float] = []
    for count in range(1, min(tol.SETTLING, m // tol.SPARE_ROWS) + 1):
        WW, Wa, aa = (np.einsum("ij,ij->j", *pair) for pair in ((W, W), (W, diagonals), (diagonals, diagonals)))
        c1, c2, c3 = 4 * r @ W, 4 * WW + 2 * r @ diagonals, 4 * Wa
        if below:
            down, gain = minimise_upwards(-c1, c2, -c3, aa)
            change, gain = -down, np.where(x == 0, gain, 0.0)
        else:
            change, gain = minimise(c1, c2, c3, aa)
        gain[chosen] = 0.0
        chosen.append(int(np.argmin(gain)))
        rows.append((yield Rows(np.array(chosen[-1:])))[:, 0])
        step = np.zeros(count)
        step[-1] = change[chosen[-1]]
        for _ in range(4):
            x[chosen] += step
            W = W + np.tensordot(step, np.stack(rows), axes=1)
            r = W @ x - problem.y
            step = -0.5 * np.linalg.lstsq(W[:, chosen], r, rcond=None)[0]
        square = max(float(r @ r), 1e-300)
        if m * math.log(before / square) > count * (2 * math.log(n) + math.log(m)) + 2 * tol.SPARE_NATS:
            return True
    return False


def _certify_in_columns(
    problem: Problem, C: Float, z: Float, every: bool, entries: Entries | None
) -> Asks[Certificate]:
    """The certificate of `x = C z`: that of the sparse signal z, among the columns C."""
    block = yield Compress(C)
    tensor = RawTensor(np.ascontiguousarray(block, dtype=np.float64))
    inner = replace(problem, n=z.size, prior=None, x0=None, fixed={})
    found = answered_by(lambda request: request.answer(tensor, 1), certify(inner, z))
    if found.status is Status.EXACT and not every and entries is not None and not entries.independent:
        found = found._replace(
            status=Status.UNDECIDED, doubt="A is not random, and it is too large for a search for other signals."
        )
    found = found._replace(x=C @ found.x, twin=None if found.twin is None else C @ found.twin)
    return found if found.status is not Status.EXACT else (yield from _moved(problem, found, entries))


def _moved(problem: Problem, found: Certificate, entries: Entries | None) -> Asks[Certificate]:
    """The certificate, unless a symmetry of A gives a twin, such as x reversed, with at most one more free parameter.

    Such a twin may need other columns than x, so the certificate in C does not find it.
    """
    prior = problem.prior
    assert prior is not None
    answer = yield from Answer.read(problem, found.x, None)
    diagonals = yield Diagonals()
    for source in _SYMMETRIES:
        tests = Search(answer, diagonals, answer.rounding(diagonals), exact_measure(problem.m), entries)
        doubt = yield from tests.rivals([source])
        if doubt and tests.twin is not None and prior.freedom(tests.twin) <= prior.freedom(found.x) + 1:
            return found._replace(status=Status.AMBIGUOUS, doubt=doubt, twin=tests.twin)
    return found
