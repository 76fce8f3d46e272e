"""The certificate of an answer: that no other signal, up to its gauge, has the same measurements.

`certify` takes an x that fits to rounding. It first removes the coordinates that are only rounding, so that its x has
true zeros. Then it tries to find another signal that fits as well, with what is known of A at little cost. With `W[i] =
Ã_i x`, the support S of x with s coordinates, and δ_i the tolerance of equation i (its residual, and at least its
rounding), the questions are, in this order,

    jacobian      does a direction on S change the measurements by less than δ?
    unseen        does the value of a coordinate outside of S change nothing?
    span          do the measurements amount to no more independent equations than there are unknowns?
    candidates    does one of the signals of `SOURCES` fit as well?
    flat          does no matrix see a change of x that makes another signal as sparse?
    refutation    does a descent from another start end at another signal, if such descents are quick?
    chance        do the measurements take so few values that another signal may fit by chance?

A continuous family of signals shows in the first three, finite ones in the others. Each test has a cheap form that
proves independence if it is clear, as for random entries; the exact form is used only if that proves nothing.

Under noise (`fastquad.engine.trust.doubt`) δ is the noise, and the same questions are whether the data distinguish x
from clearly different signals: a tenth of its norm away, and three times the error that the method expects.

Every doubt with a witness is AMBIGUOUS; without one it is only what is not ruled out, and the status UNDECIDED.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from fastquad.engine.entries import Entries, sample_entries
from fastquad.engine.problem import Problem
from fastquad.engine.trust import candidates
from fastquad.engine.trust import tolerances as tol
from fastquad.engine.trust.answer import Answer, Known
from fastquad.engine.trust.evidence import bits_of, log_choices, product_bits, short_of
from fastquad.engine.trust.local import exact_measure
from fastquad.engine.trust.search import (
    Candidate,
    Search,
    along_free,
    searched_everywhere,
)
from fastquad.engine.trust.subsystem import subsystem
from fastquad.measurements.contractions import Block, Diagonals, FirstProducts
from fastquad.status import Status
from fastquad.typing import Asks, Float

__all__ = ["SOURCES", "Certificate", "Known", "certify"]


class Certificate(NamedTuple):
    """What is proven about an answer.

    `x` is the answer without the coordinates that are only rounding, `status` EXACT, UNDECIDED, AMBIGUOUS or
    UNDETERMINED, `doubt` the reason against it, `error` the relative error caused by rounding, if it is more than that
    of doubles, and `twin` another signal that fits as well: AMBIGUOUS is not said without one.
    """

    x: Float
    residual: float
    status: Status
    doubt: str = ""
    error: float = 0.0
    twin: Float | None = None


def _convolved(case: Search) -> Asks[Iterable[Candidate]]:
    """Other factors of a convolution: it is a product of two polynomials, and a root of one may be one of the other."""
    if not case.problem.bilinear:
        return ()
    if case.entries is None:
        case.entries = yield from sample_entries(case.problem)
    if "repeated" in case.entries.symmetries:
        case.suspicion = (
            "Some products of the two vectors are only measured together, as in a convolution, so other pairs of "
            "vectors give the same data."
        )
    return ()


#: Where other signals are looked for, in this order, and the classes of the campaign that need it.
SOURCES = (
    _convolved,
    candidates.lines,  # laplacians, constant signal
    candidates.mirrored,  # affine weak linear
    candidates.cancelling,  # symmetry off the support
    candidates.moved,  # toeplitz, mirror, complex of real matrices
    candidates.linear,  # two blocks, commuting, householder, invariant subspace
    candidates.linear_anywhere,  # reflection off the support, involution
    candidates.weak,  # banded: a few rows of sparse matrices show no map
    candidates.relabelled,  # exchangeable pair, toeplitz permuted, swapped labels
    subsystem,  # square subsystem, subsystem in a basis
)


def certify(
    problem: Problem, x: Float, known: Known | None = None, entries: Entries | None = None
) -> Asks[Certificate]:
    """Clean an x that fits to rounding, and look for another signal that fits as well."""
    if searched_everywhere(problem, entries):
        # All of it will be needed: with it no part is read twice.
        block, known = (yield Block(np.arange(problem.n))), known or Known()
        if known.W is None:
            W = block @ x
            known = Known(W, W @ x - problem.y)
        known = known._replace(block=block)
    answer = yield from Answer.read(problem, x, known)
    yield from answer.clean()
    x, residual = answer.x, answer.residual
    if answer.unknowns > problem.m:
        return Certificate(x, residual, Status.UNDETERMINED, twin=(yield from along_free(problem, x)))
    if problem.entries == 1 and problem.m > 1:  # one nonzero measurement determines |x|
        return Certificate(x, residual, Status.EXACT)
    diagonals = yield Diagonals()
    case = Search(answer, diagonals, answer.rounding(diagonals), exact_measure(problem.m), entries)
    shown = answer.outside.size > 0 and (yield from _shown_by_few(case))
    if answer.outside.size and not shown:
        yield from answer.complete()
    doubt = case.jacobian() or case.unseen()
    if doubt:
        yield from case.witness()
    else:
        doubt = "" if shown else case.span()
        doubt = doubt or (yield from _another(case)) or (yield from _by_chance(case))
    if doubt:  # a signal that fits as well shows it, or it is only what is not ruled out
        status = Status.UNDECIDED if case.twin is None else Status.AMBIGUOUS
        return Certificate(x, residual, status, doubt, twin=case.twin)
    return Certificate(x, residual, Status.EXACT, error=case.error() if residual > 1e-12 else 0.0)


def _another(case: Search) -> Asks[str]:
    """Why another signal, not near x, fits as well as an exact answer."""
    answer, problem = case.answer, case.problem
    doubt = yield from case.rivals(SOURCES)
    hidden = case.overdetermined and not case.seen_everywhere
    if not doubt and answer.outside.size and (problem.m <= answer.allowed.size or hidden):
        from fastquad.engine.trust.flat import another_on_flat

        doubt, case.twin = yield from another_on_flat(problem, answer.x)
    if case.twin is None:
        doubt = (yield from case.refuted()) or doubt
    return doubt


def _shown_by_few(case: Search) -> Asks[bool]:
    """Whether the first few measurements show that no zero coordinate can be another one's, or have any value.

    What tells signals apart in a few measurements does so in all of them. So if W has been read on the support
    alone, its rows for a few measurements replace those for all.
    """
    answer, problem = case.answer, case.problem
    few = answer.s + tol.SPARE_ROWS
    if answer.whole or few >= problem.m:
        return False
    shown = _on_first(case, (yield FirstProducts(answer.x, few)))
    if shown.jacobian() or shown.unseen() or shown.spanned().size:
        return False
    if problem.m > answer.allowed.size - answer.gauge.count:
        # A vector that is measured neither alone nor with x is not measured with the largest part of x, either.
        size = answer.gauge.norms(answer.x, np.arange(problem.n))
        largest = np.argsort(-size, kind="stable")[: 2 * answer.gauge.width]
        z = np.zeros(problem.n)
        z[largest] = answer.x[largest]
        if not case.sees_all(z, (yield FirstProducts(z, answer.allowed.size + tol.SPARE_ROWS))):
            return False
    yield from answer.look_at(answer.outside[: answer.s + 2])
    return not case.span()


def _on_first(case: Search, W: Float) -> Search:
    """The questions about x with its products in the first few measurements."""
    few, x = len(W), case.answer.x
    part = Answer(case.problem, x, W, W @ x - case.problem.y[:few])
    return Search(part, case.diagonals[:few], case.delta[:few], case.measure, None)


def _by_chance(case: Search) -> Asks[str]:
    """Whether chance could explain that x fits, because the measurements can take few values.

    Another signal on the support must match every measurement to spare, each of which says as much as it could have
    taken values. One on other coordinates must match as many, and if the entries of A take few values its products
    may be those of x: that says less.
    """
    problem, answer, width = case.problem, case.answer, case.gauge.width
    n, s = case.gauge.count_of(answer.S)
    n = n if case.gauge.count else answer.allowed.size
    if case.entries is None:
        case.entries = yield from sample_entries(problem)
    bits = bits_of(problem.y, answer.residual)
    if math.isfinite(case.entries.bits) and s < n:
        # Relative signs are in the products with the others; of one coordinate alone there is but its square.
        V = answer.columns - answer.z * case.diagonals[:, answer.S] if s > 1 else answer.columns
        V = np.sqrt(np.sum(V.reshape(problem.m, -1, width) ** 2, axis=2)) if width > 1 else V
        bits = np.minimum(bits, product_bits(V))
    return short_of(bits, answer.unknowns, width, log_choices(n, s))
