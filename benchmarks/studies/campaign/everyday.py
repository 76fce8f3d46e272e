"""Ordinary problems, as `benchmarks.studies.ordinary` draws them: what is right there must be called a success."""

from __future__ import annotations

import fastquad as fq
from benchmarks.studies import ordinary
from benchmarks.studies.campaign.problems import Array, Case, Generator, hostile


def _drawn(rng: Generator) -> Case:
    A, x, level, told = ordinary.drawn(rng)
    return Case(A, x, True, plain=True, sigma=level or None, told=told)


@hostile
def everyday(rng: Generator) -> Case:
    return _drawn(rng)


@hostile
def everyday_packed(rng: Generator) -> Case:
    return _drawn(rng)._replace(form=fq.pack)


@hostile
def everyday_in_another_order(rng: Generator) -> Case:
    """As a view with its last axis first, which no kernel reads as it is."""

    def turned(A: Array) -> Array:
        return A.transpose(2, 0, 1).copy().transpose(1, 2, 0)

    return _drawn(rng)._replace(form=turned)
