"""Starts of AMP that are near x already: from the fit of another method, and from AMP on a block of A.

A block of the likeliest coordinates fits in memory, so many starts cost little there. What AMP explains of y on it is
biased by the choice of coordinates: it is no answer, but a good start.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from fastquad.engine.entries import Entries
from fastquad.engine.problem import Problem
from fastquad.engine.requests import Reread
from fastquad.engine.steps import Step
from fastquad.measurements.contractions import Block, Sweep
from fastquad.measurements.dense.raw import RawTensor
from fastquad.numerics.grouping import Groups
from fastquad.solvers.amp.ensemble import Ensemble, prepare
from fastquad.solvers.amp.run import Attempt, Walk, run
from fastquad.solvers.amp.starts import SparseStarts, denoiser
from fastquad.typing import Asks, Float, Indices

# The numbers of coordinates in the blocks.
SIZES = (50, 120)
# The largest number of sweeps on a block.
_SWEEPS = 30
# The total variance of a start's nonzeros, and that of its zeros, relative to |x|².
_UNSURE = 1e-3


def near(problem: Problem, ensemble: Ensemble, x: Float) -> Attempt:
    """An attempt from x, whose nonzeros are most of the signal."""
    support = np.flatnonzero(x)
    q = float(x @ x)
    # Clip the length: a fit may be far too long or too short, and only its direction counts.
    length = np.clip(q, 0.3 * ensemble.phi2, 1.1 * ensemble.phi2)
    z = x * np.sqrt(length / q)
    v = np.full(problem.n, _UNSURE * length / problem.n)
    v[support] = _UNSURE * length / support.size
    rho = float(np.clip(support.size / problem.n, 2 / problem.n, 1 - 1e-4))
    v[problem.known] = 0.0
    return Attempt(problem.completed(z), denoiser(problem, rho, 1.1 * ensemble.phi2), v=v)


def from_blocks(problem: Problem, entries: Entries, ensemble: Ensemble) -> Asks[list[Attempt]]:
    """Attempts from the best runs of AMP on blocks of the likeliest coordinates."""
    attempts: list[Attempt] = []
    if problem.fixed:  # a block would have to hold the known values
        return attempts
    order = np.argsort(-np.diagonal(ensemble.S0), kind="stable")
    for size in SIZES:
        if size >= problem.n or not 8 * problem.m * size**2 <= problem.memory // 16:
            continue
        members = np.sort(order[:size])
        if problem.groups is not None:
            members = problem.groups.whole(members)
        z = yield from _on_block(problem, entries, members)
        if z is not None:
            attempts.append(near(problem, ensemble, z))
    return attempts


def _on_block(problem: Problem, entries: Entries, members: Indices) -> Asks[Float | None]:
    """The estimate of the run that explains most of y with these coordinates alone, (n,)."""
    block = yield Block(members)
    groups = None if problem.groups is None else Groups(problem.groups.of[members])
    small = replace(problem, n=members.size, x0=None, prior=None, groups=groups)
    answers = _Answers(RawTensor(np.ascontiguousarray(block)))
    walks: list[Walk] = answers.finish(_every_start(small, entries))
    # Charge the passes over the block, although it is in memory.
    yield Reread(answers.passes * (members.size / problem.n) ** 2)
    settled = [walk for walk in walks if walk.settled and walk.swept is not None]
    if not settled:
        return None
    best = max(settled, key=lambda walk: walk.r2)
    z = np.zeros(problem.n)
    z[members] = np.where(best.weight > 0.1, best.z, 0.0)
    return z if z.any() else None


def _every_start(problem: Problem, entries: Entries) -> Asks[list[Walk]]:
    """AMP on a block from the starts of its first two batches, without hand-over."""
    ensemble = yield from prepare(problem, entries)
    starts = SparseStarts(problem, ensemble)
    walks = [Walk(problem, ensemble, attempt) for attempt in starts.batch(1) + starts.batch(2)]
    yield from run(walks, None, _SWEEPS)
    return walks


class _Answers:
    """Answers the requests of a generator from a small tensor, and counts the passes."""

    def __init__(self, A: RawTensor) -> None:
        self.A, self.passes = A, 0.0

    def finish(self, routine: Asks[list[Walk]]) -> list[Walk]:
        """Run a generator to its end; returns its result."""
        answer = None
        while True:
            try:
                item = routine.send(answer)
            except StopIteration as end:
                return end.value
            answer = None
            if not isinstance(item, Step):
                self.passes += item.cost(self.A) if isinstance(item, Sweep) else 1.0
                answer = item.answer(self.A, 1)
