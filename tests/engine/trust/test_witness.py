"""A doubt has a witness: where another signal is said to fit, it is there, it fits, and it is another one."""

import importlib
import zlib
from pathlib import Path

import numpy as np
import pytest

import fastquad as fq

ROOT = Path(__file__).parents[3]
SEED = 601
# 1e-3 in exact data, and in noise what 20 to 1 of evidence allows beside what x itself leaves.
APART, AS_WELL = 1e-3, 1.5


def problems(campaign, name, count):
    """Problems of a class with their truth, y and options."""
    for number in range(count):
        rng = np.random.default_rng([SEED, zlib.crc32(name.encode()), number])
        case = campaign.CLASSES[name](rng)
        variant, options = campaign._variant(case, rng)
        y = campaign.measured(case)
        sigma = options.pop("sigma", 0.0) * float(np.sqrt(np.mean(y**2)))
        y = y + sigma * rng.standard_normal(y.size) + (0.0 if case.added is None else case.added)
        if variant == "level given":
            options["noise"] = sigma or None
        yield case, y, options, number


def misfit(campaign, case, y, x):
    return float(np.linalg.norm(campaign.measured(case._replace(x=x)) - y) / np.linalg.norm(y))


@pytest.mark.skipif(not (ROOT / "benchmarks").is_dir(), reason="the campaign comes with the sources")
@pytest.mark.parametrize("part", range(8))
def test_a_doubt_has_a_witness(part, monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    campaign = importlib.import_module("benchmarks.studies.campaign.__main__")
    doubted = 0
    for name in list(campaign.CLASSES)[part::8]:
        for case, y, options, number in problems(campaign, name, 1):
            solution = fq.solve(case.form(case.A), y, max_passes=300, max_time=30, rng=number, **options)
            if solution.status is fq.Status.UNDECIDED:
                # What is missing is said, beyond the sentence of the status itself.
                assert len(solution.message) > len(solution.status.sentence) + 40, (name, number)
            if solution.status not in (fq.Status.AMBIGUOUS, fq.Status.UNDETERMINED):
                continue
            doubted += 1
            assert solution.rival is not None, (name, number)
            left, own = (misfit(campaign, case, y, x) for x in (solution.rival, solution.x))
            assert left < max(1e-6, AS_WELL * own), (name, number)
            apart = np.linalg.norm(solution.rival - solution.x) / np.linalg.norm(solution.x)
            assert apart > APART, (name, number)
            if case.linear is None:
                assert fq.distance(solution.rival, solution.x) > APART, (name, number)
    assert doubted > 2
