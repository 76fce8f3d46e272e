"""The currency of the plan: what requests cost by the model, and how a stage is left that takes more than its share."""

import numpy as np
import pytest

import fastquad as fq
from fastquad.engine.cost import Allowance, seconds
from fastquad.engine.requests import Spent, Work, answered_by
from fastquad.engine.steps import Note
from fastquad.measurements.contractions import Block, Cells, Products


def test_a_request_costs_by_where_a_lies_and_what_it_touches(tmp_path):
    A = fq.pack(fq.GaussianTensor(600, 150, 0))
    fq.pack(A, tmp_path / "A.fq")
    on_disk = fq.open(tmp_path / "A.fq", memory="18 MB")
    dense, some = Products(np.ones(150)), np.arange(10)
    assert A.medium == "memory"
    assert on_disk.medium == "disk"
    assert seconds(on_disk, dense) > 2 * seconds(A, dense)
    assert fq.GaussianTensor(16, 40, 0).medium == "computed"
    # Gathered bytes cost more than those of a pass, but these are few.
    assert seconds(A, dense) > seconds(A, Cells(some, 10)) - seconds(A, Cells(some[:0], 0))
    assert seconds(A, Block(some)) > seconds(A, Cells(some, 10))
    assert seconds(A, Spent(1e9)) == seconds(A, Work(lambda n_threads: (), (), 1e9)) == 0.1


@pytest.mark.parametrize(("given", "asked"), [(2.5, 2), (10.0, 4)])
def test_a_stage_is_left_before_it_overruns_what_it_was_given(given, asked):
    seen = []

    def stage():
        for _ in range(4):
            yield Note("free")
            seen.append((yield Spent(1.0)))
        return "found"

    allowance = Allowance(lambda request: 1.0, given)
    spent = allowance.spent_by(stage())
    found = answered_by(lambda item: "answer" if isinstance(item, Spent) else None, spent)
    assert seen == ["answer"] * asked
    assert allowance.over == (asked < 4)
    assert found == (None if asked < 4 else "found")


@pytest.mark.parametrize("m", [79, 80, 81, 119])
def test_where_pursuit_takes_less_time_it_comes_first_on_both_sides_of_a_ratio(m):
    problem = fq.problems.gaussian(m=m, n=240, k=4, rng=0)
    solution = fq.solve(fq.pack(problem.A), problem.y)
    assert solution.status == "EXACT"
    assert solution.method == "pursuit"
    assert solution.n_passes < 1
