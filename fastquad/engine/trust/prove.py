"""When a proof is asked for, and what it says of an answer; `fastquad.engine.trust.proof` finds it.

A proof needs a base that is positive definite: the norm of x, matrices that look semidefinite, or so many measurements
that xx^* is known linearly. Where none of these is at hand nothing is read for it but the diagonals.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from fastquad.engine.problem import Problem
from fastquad.engine.steps import EXACT_RESIDUAL
from fastquad.engine.trust import tolerances as tol
from fastquad.engine.trust.answer import Answer, Known
from fastquad.engine.trust.certificate import Certificate
from fastquad.engine.trust.search import odds
from fastquad.measurements.contractions import Diagonals, Frobenius, Products
from fastquad.solution import Proof
from fastquad.status import Status
from fastquad.typing import Asks, Float


class Ground(NamedTuple):
    """What is found: x, cleaned, with its residual; a proof, or a rival, and a sentence."""

    x: Float
    residual: float
    proof: Proof | None = None
    rival: Float | None = None
    note: str = ""

    @property
    def error(self) -> float:
        """The error of x where it is more than rounding: what the certificate alone leaves open."""
        return self.proof.radius if self.proof is not None and self.proof.radius > tol.ROUNDING else 0.0

    def weighed(self, found: Certificate) -> Certificate:
        """The proof; or what was found without one, with a rival, which doubts an answer even if nothing else does."""
        if self.proof is not None:
            return Certificate(self.x, self.residual, Status.PROVEN, self.note, error=self.error)
        if self.rival is None:
            return found._replace(doubt=f"{found.doubt} {self.note}".strip())
        if found.status is Status.UNDETERMINED or (found.status is Status.AMBIGUOUS and found.doubt):
            return found._replace(twin=self.rival)
        return Certificate(self.x, self.residual, Status.AMBIGUOUS, self.note, twin=self.rival)


def prove(problem: Problem, x: Float, known: Known | None) -> Asks[Ground | None]:
    """Prove that an x that fits to rounding is the only signal that does; None where no proof is asked for."""
    asked = yield from _weights(problem, x, known)
    if asked is None:
        return None
    clean = yield from _cleaned(problem, x, asked.W)
    # What a descent knows of its end is that of the step before.
    W = asked.W if asked.read and clean is x else (yield Products(clean))
    from fastquad.engine.trust.proof import Case, another_by, dual

    case = Case(problem, clean, W, (yield Frobenius()))
    if not case.residual < EXACT_RESIDUAL:
        return None
    note = case.another_norm()
    if note:
        return Ground(case.x, case.residual, note=note)
    point, proof = yield from dual(case, asked.weights, _lifts(problem))
    if proof is not None:
        margin, radius = f"{proof.margin:.2g}", f"{proof.radius:.1g}"
        how = "a dual certificate" if proof.kind == "dual" else "by lifting, a dual certificate"
        said = f"The proof is {how} with the margin {margin}: every signal that fits is within {radius} of x."
        return Ground(case.x, case.residual, proof, note=said)
    if point is None or point.S.size * len(case.y) > tol.STRUCTURED_ENTRIES:
        return None
    rival = yield from another_by(case, point)
    if rival is not None:
        answer = Answer(problem, clean, W, W @ clean - problem.y)
        rival = None if (yield from odds(answer, rival)) < -tol.SURE else rival
    said = "" if rival is None else f"Another signal, {case.away(rival):.2g} away, has the same measurements."
    return Ground(case.x, case.residual, rival=rival, note=said)


def certified_radius(problem: Problem, x: Float) -> Asks[Proof | None]:
    """The certificate of an x in noise: how far a signal may be that leaves no more of y than the noise does.

    It is asked for where the norm is given. Its radius holds for every signal z with `‖A(z) − y‖` up to that of the
    noise that x shows, in units of the matrices.
    """
    if problem.norm is None or not _asked(problem):
        return None
    from fastquad.engine.trust.proof import Case, dual

    case = Case(problem, x, (yield Products(x)), (yield Frobenius()), noisy=True)
    return (yield from dual(case, None, lifts=False))[1]


class _Asked(NamedTuple):
    """The products of x, whether they were read for the proof, and the weights of B; None where the norm is known."""

    W: Float
    read: bool
    weights: Float | None


def _weights(problem: Problem, x: Float, known: Known | None) -> Asks[_Asked | None]:
    """What B may be made of; None where no proof is asked for."""
    if not _asked(problem):
        return None
    whole, diagonals = None, None
    if problem.norm is None:
        diagonals = yield Diagonals()
        whole = (diagonals >= 0).all(axis=1) | (diagonals <= 0).all(axis=1)
        if not whole.any() and not _lifts(problem):
            return None
    told = known.W if known is not None else None
    W: Float = (yield Products(x)) if told is None else told
    if whole is None or diagonals is None:
        return _Asked(W, told is None, None)
    weights = _semidefinite(problem, W, diagonals, whole)
    return None if weights is None and not _lifts(problem) else _Asked(W, told is None, weights)


def _asked(problem: Problem) -> bool:
    """Whether a proof is likely enough to ask for it."""
    prior = problem.prior
    told = problem.support is not None or problem.fixed or problem.bilinear or problem.outliers
    if told or (prior is not None and prior.decoded):
        return False
    m, n = problem.m, problem.n
    small = n <= tol.SMALL_N // 2 and problem.norm is not None
    likely = m > (tol.PROOF_POSSIBLE if small else tol.PROOF_LIKELY) * problem.unknowns or _lifts(problem)
    affordable = 64 * (m + n) * n <= problem.memory
    largest = 4 * tol.SMALL_N if problem.norm is None else 16 * tol.SMALL_N
    return likely and affordable and problem.entries > 1 and n <= largest


def _lifts(problem: Problem) -> bool:
    """Whether there are as many measurements as numbers in a symmetric matrix, and these are few."""
    n = problem.entries
    numbers = n * n if problem.turning else n * (n + 1) // 2
    return numbers <= min(problem.m, tol.SMALL_N) and problem.gauge != "phase and conjugation"


def _semidefinite(problem: Problem, W: Float, diagonals: Float, whole: NDArray[np.bool_]) -> Float | None:
    """The sign of each measurement that may be of a semidefinite matrix, (m,), else 0; None if a coordinate has none.

    `whole` says of which the diagonal has one sign, and of a positive one `‖Ã x‖² <= λ_max x^T Ã x <= tr(Ã) x^T Ã x`.
    """
    trace = diagonals.sum(axis=1)
    with np.errstate(over="ignore", invalid="ignore"):
        shorter = np.einsum("ij,ij->i", W, W) <= (1 + 1e-6) * trace * problem.y
    weights = np.where(shorter & whole, np.sign(trace), 0.0)
    return weights if diagonals[weights != 0].any(axis=0).all() else None


def _cleaned(problem: Problem, x: Float, W: Float) -> Asks[Float]:
    """x without the coordinates that are only rounding; x itself if there are none."""
    answer = Answer(problem, x, W, W @ x - problem.y)
    yield from answer.clean()
    return answer.x
