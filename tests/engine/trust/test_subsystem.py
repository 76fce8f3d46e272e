"""Coordinates that have no measurement to spare, although all together have many."""

import re

import numpy as np
import pytest

import fastquad as fq
from fastquad import Status


def problem(extra, *, complex_=False, seed=0):
    """Three coordinates that are in as many matrices as they have unknowns, and `extra` more."""
    rng = np.random.default_rng(seed)
    n, few = 12, [2, 5, 9]
    A = rng.standard_normal((60, n, n)) + (1j * rng.standard_normal((60, n, n)) if complex_ else 0)
    A = (A + A.transpose(0, 2, 1).conj()) / 2
    others = 60 - (2 if complex_ else 1) * len(few) - extra
    A[:others, few, :] = A[:others, :, few] = 0
    x = rng.standard_normal(n) + (1j * rng.standard_normal(n) if complex_ else 0)
    return A, np.einsum("ijk,j,k->i", A, x.conj(), x).real, x


@pytest.mark.parametrize("complex_", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_as_many_measurements_as_unknowns_leave_other_values(complex_, seed):
    A, y, x = problem(0, complex_=complex_, seed=seed)
    solution = fq.solve(A, y, x0=x)
    assert solution.residual < 1e-9
    assert solution.status is Status.AMBIGUOUS


def test_the_message_shows_the_other_values():
    """Beyond the sentence of its status it names the three coordinates, and no others; none where all are seen."""
    for extra in (0, 57):
        A, y, x = problem(extra)
        solution = fq.solve(A, y, x0=x)
        said = solution.message.replace(solution.status.sentence, "")
        numbers = [int(number) for number in re.findall(r"(?<![\d.e-])\d+(?![\d.]*\d)", said)]
        named = set(numbers) >= {2, 5, 9} and not set(numbers) & {0, 1, 4, 6, 7, 8, 10, 11}
        assert named == (extra == 0), solution.message
        assert solution.success == (extra == 57)


@pytest.mark.parametrize("complex_", [False, True])
@pytest.mark.parametrize("seed", range(4))
def test_one_more_determines_them(complex_, seed):
    A, y, x = problem(1, complex_=complex_, seed=seed)
    solution = fq.solve(A, y, x0=x)
    assert solution.status is Status.EXACT
    assert fq.distance(solution.x, x) < 1e-9


def test_linear_equations_have_one_solution():
    """Without entries among these coordinates nothing is quadratic in them."""
    A, _, x = problem(0)
    few = np.array([2, 5, 9])
    A[:, few[:, None], few] = 0
    solution = fq.solve(A, np.einsum("ijk,j,k->i", A, x, x), x0=x)
    assert solution.status is Status.EXACT
    assert fq.distance(solution.x, x) < 1e-9


def test_noise_may_move_what_few_measurements_see():
    A, y, x = problem(1)
    rng = np.random.default_rng(1)
    scale = np.sqrt(np.mean(y**2))
    loud = fq.solve(A, y + 0.1 * scale * rng.standard_normal(60), x0=x)
    assert not loud.success
    quiet = fq.solve(A, y + 1e-4 * scale * rng.standard_normal(60), x0=x)
    assert quiet.success
    assert fq.distance(quiet.x, x) < 3 * quiet.error
