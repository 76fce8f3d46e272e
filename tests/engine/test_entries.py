"""What a sample says of A's entries."""

import math

import numpy as np
import pytest

import fastquad as fq
from fastquad.engine import entries as ensemble
from fastquad.engine.driver import finish
from fastquad.engine.problem import Problem
from fastquad.noise import Gaussian


def entries_of(A):
    m, n, _ = A.shape
    problem = Problem(
        m=m, n=n, y=np.arange(1.0, m + 1), dtype=A.dtype, prior=None, x0=None, norm=None, noise=Gaussian(),
        tol=1e-8,
        random=lambda: np.random.default_rng(0), memory=1 << 30,
    )  # fmt: skip
    return finish(fq.as_measurements(A), ensemble.sample_entries(problem))


@pytest.mark.parametrize("scale", [1e-40, 1.0, 1e40])
def test_gaussian_entries_have_nothing_special_at_any_scale(scale):
    entries = entries_of(scale * fq.problems.gaussian(m=80, n=30, rng=0).A)
    assert entries.centred
    assert entries.independent
    assert entries.symmetries == ()
    assert entries.bits == math.inf
    assert entries.gain * scale**2 == pytest.approx(1, rel=0.1)
    assert entries.describe() == ""


@pytest.mark.parametrize("mean", [1.0, 1e3, 1e5])
def test_a_common_mean_is_seen(mean):
    A = mean + fq.problems.gaussian(m=80, n=30, rng=0).A
    assert not entries_of(A).centred


def test_dependence_is_seen():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((80, 30, 30))
    one_factor = A[:, :1, :1] * np.ones((30, 30)) + 0.5 * A
    common_size = rng.exponential(size=(80, 1, 1)) * A
    vectors = rng.standard_normal((80, 30))
    rank_one = vectors[:, :, None] * vectors[:, None, :]
    for dependent in (one_factor, common_size, rank_one, np.ones((80, 30, 30))):
        entries = entries_of(dependent)
        assert not entries.independent
        assert "not independent" in entries.describe()


def test_full_rank_is_told_by_determinants_as_by_singular_values():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((64, 8, 8))
    low = A[:, :, :7] @ A[:, :7, :]
    for blocks in (A, low, 1e60 * A, 1e-60 * A, 1e60 * low, np.concatenate([A[:40], low[40:]])):
        some = blocks[::8]
        assert ensemble._full_rank(blocks) == ((np.linalg.matrix_rank(some) == 8).mean() > 0.5)


def test_bits_of_few_values():
    coins = np.random.default_rng(0).integers(0, 2, (32, 32)).astype(float)
    assert ensemble._bits(coins) == pytest.approx(1, abs=0.05)
    assert ensemble._bits(np.arange(9.0).reshape(3, 3)) == math.inf
    assert ensemble._bits(np.zeros((3, 3))) == 0
    # Once in half a million pairs is chance.
    once = np.arange(1024.0)
    once[0] = once[1]
    assert ensemble._bits(once) == math.inf
