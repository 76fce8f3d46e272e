"""Rows in units of their own, and for measurements that were made more than once.

A row A_i with its y_i and its σ_i may be said in any unit. Where σ is told for each measurement, rows are divided by
it, and the noise of all is 1. Only if the rows are then of very different size, as a few precise measurements among
many others are, they are divided by their own size ‖Ã_i‖ instead, because AMP needs rows of one size, and keep a σ_i
each.

Rows that are equal measure the same number. Their mean says all that they say of x, and their spread tells the noise
without knowing x. So each is kept once: methods that assume independent rows then apply, and equal rows do not count as
evidence twice.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from fastquad.measurements.base import Measurements
from fastquad.measurements.chosen import ChosenRows
from fastquad.noise import Gaussian, Noise, as_noise
from fastquad.reductions import EQUAL, Given, Reduction, corners, next_to_another
from fastquad.solution import Solution
from fastquad.status import noted
from fastquad.typing import Float, Indices

# Rows whose sizes differ by no more than this factor are of one size: entries of a Gaussian A scatter them by 1 + 2/n,
# and AMP loses less than 2 % of x's accuracy. (A guess.)
_ONE_SIZE = 2.0


class Said(NamedTuple):
    """What is solved: some of the user's rows, each in a unit, and its data and noise.

    The data are sums of the user's, (m,), each with its `share`, over the measurements of a group `of` (m,).
    """

    A: ChosenRows
    Y: Float
    noise: Noise
    of: Indices
    share: Float
    passes: float
    sentence: str


class Rows(Reduction):
    """Rows in any units, and equal ones."""

    def problem(self, given: Given) -> Given | None:
        self.model = as_noise(given.noise, given.A.m)
        said = _said(given.A, given.data(), self.model)
        if said is None:
            return None
        self.said = said
        return given.with_data(said.A, said.Y, noise=said.noise)

    def solution(self, found: Solution, i: int) -> Solution:
        """The solution as of the rows as they were said."""
        said, model = self.said, self.model
        proof, noise, learnt = found.proof, found.noise, found.noise_model
        if proof is not None and proof.weights is not None:
            proof = replace(proof, weights=proof.weights[said.of] * said.share)
        if noise is not None:
            there = model if model.given else learnt
            noise = there.level(np.zeros(said.of.size)) if there is not None else noise
        history = dict(found.history) | {"n_passes": found.history["n_passes"] + said.passes}
        return replace(
            found, proof=proof, noise=noise, noise_model=model if model.given else learnt, history=history,
            n_passes=found.n_passes + said.passes, message=noted(found.message, said.sentence),
        )  # fmt: skip


def _said(A: Measurements, Y: Float, model: Noise) -> Said | None:
    """The problem as it is solved; None if that is as it is."""
    of, rows, by, empty, passes = _groups(A)
    share: Float = 1 / by
    noise, sentence = model, ""
    if rows.size < A.m:
        lost = int(np.count_nonzero(empty & Y.any(axis=0)))
        pooled = model.pooled(Y, of, by)
        if pooled is None:
            of = rows = np.arange(A.m)
            share = np.ones(A.m)
        else:
            Y, share, noise = pooled
            sentence = f"Equal measurements were merged into their mean: {rows.size} of {A.m} are different."
            if lost:
                sentence += f" {lost} matrices of A are zero although y is not. No x explains these: leave them out."
    unit: Float = np.ones(rows.size)
    if noise.each_level is not None:
        unit, noise, read = _units(A, rows, noise, noise.each_level)
        passes += read
    if rows.size == A.m and (unit == unit[0]).all():
        return None
    return Said(ChosenRows(A, rows, unit), Y * unit, noise, of, share * unit[of], passes, sentence)


def _units(A: Measurements, rows: Indices, noise: Noise, sigma: Float) -> tuple[Float, Noise, float]:
    """What each row is multiplied with, the noise that it then has, and the passes that this took."""
    size = A._frobenius(1)[rows]
    seen = size > 0
    ratio = (size / sigma)[seen]
    if ratio.size and float(ratio.max()) <= _ONE_SIZE * float(ratio.min()):
        return 1 / sigma, Gaussian(1.0), 1.0
    typical = float(np.median(size[seen])) if ratio.size else 1.0
    unit = np.where(seen, typical / np.where(seen, size, 1.0), 1.0)
    return unit, noise.scaled(unit), 1.0


def _groups(A: Measurements) -> tuple[Indices, Indices, Float, Any, float]:
    """The group of each row, (m,), the first row of each group, the ratio of each row to that one, (m,), whether each
    row is zero, (m,), and the passes taken.

    A few entries of each row tell most of them apart; of those that are equal there, products with a random vector.
    """
    everything = np.arange(A.m)
    if not next_to_another(corners(A))[0].any():
        return everything, everything, np.ones(A.m), np.zeros(A.m, dtype=bool), 0.0
    W = A._apply(np.random.default_rng(0).standard_normal(A.n), 1)
    same, order = next_to_another(W)
    of = np.empty(A.m, dtype=np.intp)
    of[order] = np.cumsum(np.append(0, ~same))
    _, first, of = np.unique(of, return_index=True, return_inverse=True)
    rank = np.argsort(np.argsort(first, kind="stable"), kind="stable")
    of, rows = rank[of.reshape(-1)], np.sort(first)
    size = np.abs(W).max(axis=1)
    by = np.where(size > 0, size / np.where(size > 0, size[rows][of], 1.0), 1.0)
    return of, rows, np.where(np.abs(by - 1) <= EQUAL, 1.0, by), size == 0, 1.0
