"""The tests of an answer on some of the measurements, where the others may be anything.

Outliers say nothing about x, so the sound measurements alone must distinguish it from other signals. The tests need not
know: they get a problem of these measurements, and of each answer that they ask for, these rows.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from fastquad.engine.entries import Entries
from fastquad.engine.problem import Problem
from fastquad.engine.requests import Request, routed
from fastquad.engine.steps import Outcome, Verdict
from fastquad.engine.trust.certificate import certify
from fastquad.measurements.contractions import Block, Cells, FirstProducts, Matrices, WeightedSum
from fastquad.measurements.dense.layout import packed_rows
from fastquad.status import Status
from fastquad.typing import Asks, Float, Indices, T


def sound(problem: Problem, entries: Entries | None, rows: Indices) -> tuple[Problem, Entries | None]:
    """The problem of these measurements, without outliers, and what the sample of entries shows of them."""
    if entries is not None and entries.block is not None:
        entries = replace(entries, block=entries.block[rows])
    return replace(problem, m=rows.size, y=problem.y[rows], noise=problem.noise.sound.rows(rows)), entries


def of_rows(tests: Asks[T], rows: Indices, m: int) -> Asks[T]:
    """The result of tests of these rows, of m: their requests are made for all, and answered with their own part."""

    def ask(request: Request) -> Asks[Any]:
        if isinstance(request, WeightedSum):
            return (yield WeightedSum(_spread(request.w, rows, m)))
        if isinstance(request, FirstProducts):
            some = rows[: request.count]
            return (yield FirstProducts(request.x, int(some[-1]) + 1))[some]
        if isinstance(request, Cells):  # of all coordinates
            return packed_rows((yield Block(request.members))[rows])
        if isinstance(request, Matrices):
            parts: list[Float] = []
            for row in rows[request.first : request.last]:
                parts.append((yield Matrices(int(row), int(row) + 1)))
            return np.concatenate(parts)
        return (yield request)[rows]

    return (yield from routed(tests, ask))


def _spread(w: Float, rows: Indices, m: int) -> Float:
    """Weights of these rows as weights of all m: zero elsewhere."""
    spread = np.zeros((m, *w.shape[1:]))
    spread[rows] = w
    return spread


def judge_most(problem: Problem, outcome: Outcome) -> Asks[Verdict]:
    """The verdict on an answer that fits most measurements to rounding: these alone must rule out every other one."""
    assert outcome.outliers is not None
    rows = np.delete(np.arange(problem.m), outcome.outliers)
    part, entries = sound(problem, outcome.entries, rows)
    found = yield from of_rows(certify(part, outcome.x, None, entries), rows, problem.m)
    if found.status is Status.EXACT:
        return Verdict(Status.EXACT_FOR_MOST, replace(outcome, x=found.x))
    note = f"It fits {rows.size} of {problem.m} measurements to rounding. {found.doubt}".strip()
    return Verdict(found.status, replace(outcome, x=found.x, note=note, error=None, rival=found.twin))
