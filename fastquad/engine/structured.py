"""The certificate of an answer of which the prior says more than which coordinates are nonzero.

one of a few values   (`Prior.alphabet`) another signal of these values must not fit. No direction is open, so that the
                      measurements may be fewer than the coordinates: what can happen is a coincidence. There are V^n
                      signals, and each wrong one fits a measurement to 30 bits with a chance of 2^−30, or of the
                      coincidences that the entries of A allow: m times their bits must exceed n log2 V + 20.
sparse elsewhere      (`Prior.sparse_form`) `x = C z` with a sparse z, such as the steps of a piecewise constant
                      signal: the certificate of those holds for `C^T Ã_i C`.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from fastquad.engine.answer import Answer
from fastquad.engine.certificate import Certificate, certify
from fastquad.engine.entries import Entries, sample_entries
from fastquad.engine.problem import Problem
from fastquad.engine.rivals import Measure, names
from fastquad.engine.twins import Twins
from fastquad.measurements.contractions import Compress, Diagonals, Products, Rows
from fastquad.measurements.dense.raw import RawTensor
from fastquad.numerics.quartic import minimise
from fastquad.priors.base import Prior
from fastquad.solution import Status
from fastquad.typing import Asks, Float

# An answer is wrong with a chance of less than 2 to the minus this.
_SPARE_BITS = 20
# The bits of a measurement that a relative residual of 1e-9 shows.
_BITS = 30.0
# Coordinates that may have another value than the prior says, each for so many measurements; and the evidence to spare.
_CHANGED, _EACH, _SPARE_EVIDENCE = 3, 8, 12.0
# All columns are looked at one by one up to this many operations, and this share of the memory.
_OPERATIONS, _SHARE = 2e10, 4


def certify_structured(problem: Problem, x: Float, entries: Entries | None) -> Asks[Certificate | None]:
    """The certificate by what the prior rules out; None where it knows nothing but coordinates."""
    prior = problem.prior
    if prior is None:
        return None
    if prior.alphabet is not None:
        return (yield from _certify_values(problem, prior, prior.alphabet, x, entries))
    m, n = problem.m, problem.n
    every = float(m) * n**3 <= _OPERATIONS and 8 * m * n * n <= problem.memory // _SHARE
    form = prior.sparse_form(x, every)
    return None if form is None else (yield from _certify_in_columns(problem, *form, every, entries))


def _certify_values(
    problem: Problem, prior: Prior, values: Float, x: Float, entries: Entries | None
) -> Asks[Certificate]:
    """Whether x, of a few values, is the only signal of these values that fits."""
    x = prior.nearest(x)
    answer = yield from Answer.read(problem, x, None)
    diagonals = yield Diagonals()
    measure = Measure(1e-3, 30.0, math.sqrt(problem.m) / 1e-3, noisy=False)
    # That directions are open is no doubt here; what counts is another signal of these values.
    tests = Twins(answer, diagonals, answer.rounding(diagonals), measure, entries)
    doubt = _one_changed(answer, tests, values) or (yield from tests.symmetry()) or (yield from tests.relabelling())
    if doubt:
        return Certificate(x, answer.residual, Status.AMBIGUOUS, doubt, twin=tests.twin)
    entries = entries or (yield from sample_entries(problem))
    # Signals that differ in one coordinate differ in as many entries of their outer products as x has nonzeros.
    bits = min(_BITS, entries.coincidence(max(2, int(np.count_nonzero(x)))))
    if problem.m * bits < problem.n * math.log2(values.size) + _SPARE_BITS:
        doubt = (
            f"There are {values.size}^{problem.n} signals of these values, and {problem.m} measurements are too "
            "few to tell them apart: another may fit by chance."
        )
        return Certificate(x, answer.residual, Status.AMBIGUOUS, doubt)
    counted = f"None of the other signals of these {values.size} values fits."
    return Certificate(x, answer.residual, Status.EXACT, counted)


def _one_changed(answer: Answer, tests: Twins, values: Float) -> str:
    """Whether a coordinate can take another value."""
    x = answer.x
    for value in values:
        change = value - x
        moved = 2 * answer.W * change + tests.diagonals * change**2
        same = np.sqrt(np.mean((moved / tests.delta[:, None]) ** 2, axis=0)) < 1
        free = np.flatnonzero(same & (change != 0))
        # The only nonzero coordinate may change its sign: that is −x.
        free = free[[bool(np.any(np.delete(x, j)) or value != -x[j]) for j in free]] if free.size else free
        if free.size:
            return f"The measurements do not tell the value of {names(free)}."
    return ""


def other_values_fit(problem: Problem, x: Float) -> Asks[bool]:
    """Whether what x leaves of y is no noise, but a few coordinates that have none of the prior's values.

    Coordinates are changed one after the other, by what lowers |r|² most, and together. Noise leaves them no more than
    `m ln |r|²` falls by 2 ln n + ln m each, and something to spare.
    """
    m, n, x = problem.m, problem.n, x.copy()
    W = yield Products(x)
    diagonals = yield Diagonals()
    r = W @ x - problem.y
    before = float(r @ r)
    chosen: list[int] = []
    rows: list[Float] = []
    for count in range(1, min(_CHANGED, m // _EACH) + 1):
        change, gain = minimise(
            4 * r @ W, 4 * np.einsum("ij,ij->j", W, W) + 2 * r @ diagonals, 4 * np.einsum("ij,ij->j", W, diagonals),
            np.einsum("ij,ij->j", diagonals, diagonals),
        )  # fmt: skip
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
        if m * math.log(before / square) > count * (2 * math.log(n) + math.log(m)) + _SPARE_EVIDENCE:
            return True
    return False


def _certify_in_columns(
    problem: Problem, C: Float, z: Float, every: bool, entries: Entries | None
) -> Asks[Certificate]:
    """The certificate of `x = C z`: that of the sparse signal z, among the columns that are looked at."""
    block = yield Compress(C)
    tensor = RawTensor(np.ascontiguousarray(block, dtype=np.float64))
    inner = replace(problem, n=z.size, prior=None, x0=None, fixed={})
    found = _answered(tensor, certify(inner, z))
    if found.status is Status.EXACT and not every and entries is not None and not entries.independent:
        found = found._replace(status=Status.AMBIGUOUS, doubt="A is not random, and too large to look for rivals.")
    found = found._replace(x=C @ found.x, twin=None if found.twin is None else C @ found.twin)
    return found if found.status is not Status.EXACT else (yield from _moved(problem, found, entries))


def _moved(problem: Problem, found: Certificate, entries: Entries | None) -> Asks[Certificate]:
    """The certificate, unless a twin under a symmetry of A, as x reversed, is told by as few numbers, or one more.

    In other columns than those of x such a twin is no neighbour of it.
    """
    prior = problem.prior
    assert prior is not None
    answer = yield from Answer.read(problem, found.x, None)
    diagonals = yield Diagonals()
    measure = Measure(1e-3, 30.0, math.sqrt(problem.m) / 1e-3, noisy=False)
    for name in ("relabelling", "symmetry"):
        tests = Twins(answer, diagonals, answer.rounding(diagonals), measure, entries)
        doubt = yield from getattr(tests, name)()
        if doubt and tests.twin is not None and prior.freedom(tests.twin) <= prior.freedom(found.x) + 1:
            return found._replace(status=Status.AMBIGUOUS, doubt=doubt, twin=tests.twin)
    return found


def _answered(tensor: RawTensor, routine: Asks[Certificate]) -> Certificate:
    """What a routine returns, its questions answered from a tensor in memory."""
    answer = None
    while True:
        try:
            request = routine.send(answer)
        except StopIteration as end:
            return end.value
        answer = request.answer(tensor, 1)
