"""Messages say what happened, why, and what may help: nothing that was done already, or that cannot be done."""

import importlib.util
import itertools
import re
from pathlib import Path

import numpy as np
import pytest

import fastquad as fq
from fastquad import Status
from fastquad.engine.advice import BUDGETS, Call, advice
from fastquad.engine.entries import Entries
from fastquad.status import GO_ON, HELP, RAISE, noted

#: What an advice names, and the field of the call that says whether it was given.
GIVEN = {
    "`prior`": "prior",
    "`x0`": "x0",
    "if it is known (`noise`)": "noise",
    "`norm`": "norm",
    "outliers=True": "outliers",
}


def calls():
    for method, *given in itertools.product(["auto", "lm", "twf", "ppower"], *[[False, True]] * 7):
        yield Call(method, *given)


@pytest.mark.parametrize("status", list(Status))
def test_no_advice_was_followed_already(status):
    for call in calls():
        said = advice(status, call)
        assert "method='auto'" not in said or call.method != "auto"
        assert not [name for name, field in GIVEN.items() if name in said and getattr(call, field)], (call, said)
        assert "x0=solution.x" not in said or call.found  # a start of zero is refused
        assert "outliers=True" not in said or call.method in ("auto", "lm", "amp")


@pytest.mark.parametrize("status", list(Status))
def test_every_failure_has_a_way_on_in_every_call(status):
    said = [advice(status, call) for call in calls() if call.found]
    assert all(said) if not status.success else not any(said)
    assert all(re.fullmatch(r"(What may help|Raise|To go on).*\.", each) for each in said if each)


@pytest.fixture(scope="module")
def problem():
    return fq.problems.gaussian(m=60, n=30, k=3, rng=0)


@pytest.fixture(scope="module")
def hopeless():
    """y has nothing to do with A."""
    rng = np.random.default_rng(0)
    return rng.standard_normal((40, 30, 30)), rng.standard_normal(40)


@pytest.mark.parametrize(
    "options", [{}, {"method": "lm"}, {"outliers": True}, {"noise": 1e-3}, {"prior": fq.Sparse(k=3)}]
)
def test_a_failed_solve_recommends_what_was_not_used(hopeless, options):
    solution = fq.solve(*hopeless, **options)
    assert not solution.success
    last = solution.message[solution.message.index("What may help") :]
    assert ("method='auto'" in last) == ("method" in options)
    assert ("outliers=True" in last) <= ("outliers" not in options)
    assert ("if it is known (`noise`)" in last) <= ("noise" not in options)


@pytest.mark.parametrize(("option", "status"), [(name, status) for status, name in BUDGETS.items()])
def test_a_budget_that_ended_a_solve_is_named(problem, option, status):
    solution = fq.solve(problem.A, problem.y, method="twf", tol=0.0, **{option: {"max_time": 1e-9}.get(option, 3)})
    assert solution.status is status
    assert f"Raise `{option}`, or start from this answer with x0=solution.x." in solution.message


def test_a_prior_that_the_data_contradict_is_named(problem):
    for prior in (fq.Sparse(nonnegative=True), fq.Discrete([-1, 1]), fq.Sparse(support=[0, 1])):
        solution = fq.solve(problem.A, problem.y, prior=prior)
        assert solution.status is Status.EXACT
        assert "violates it: the data contradict `prior`" in solution.message
        assert fq.distance(solution.x, problem.x) < 1e-9


def test_values_that_the_data_contradict_are_named_and_no_small_error_is_stated():
    """Its posterior of two values ended as noise, with an error of a thousandth; and no search without it was made."""
    for seed in range(6):
        rng = np.random.default_rng(seed)
        for m in (12, 60):
            A, x = rng.standard_normal((m, 20, 20)), rng.standard_normal(20)
            solution = fq.solve(A, fq.measure(A, x), prior=fq.Discrete([-1, 1]))
            assert solution.success == (m == 60)
            assert solution.error is None or solution.error >= 0.25 or fq.distance(solution.x, x) < 1e-9
            assert m == 12 or "violates it: the data contradict `prior`" in solution.message


def test_a_prior_that_is_right_is_not_named(problem):
    for prior in (fq.Sparse(), fq.Sparse(k=3), fq.Sparse(support=np.flatnonzero(problem.x))):
        solution = fq.solve(problem.A, problem.y, prior=prior)
        assert solution.success
        assert "contradict" not in solution.message


class Trits(fq.Prior):
    """Values of −1, 0 and 1 with their exact posterior, and nothing else: no `nearest`, no `alphabet`."""

    def denoise(self, b, a):
        values = np.array([-1.0, 0.0, 1.0])
        p = b[:, None] * values - a * values**2 / 2
        p = np.exp(p - p.max(axis=1, keepdims=True))
        p /= p.sum(axis=1, keepdims=True)
        mean = p @ values
        return mean, p @ values**2 - mean**2


class Mistaken(fq.Prior):
    """A posterior that is no posterior: all of it at one signal."""

    def denoise(self, b, a):
        return np.ones(b.size), np.zeros(b.size)


@pytest.mark.parametrize("prior", [Trits(), Mistaken()])
def test_a_prior_of_ones_own_is_never_worse_than_none(prior):
    found = {False: 0, True: 0}
    for seed in range(5):
        rng = np.random.default_rng(seed)
        A, x = rng.standard_normal((60, 40, 40)), rng.choice([-1.0, 0.0, 1.0], 40)
        for told in found:
            solution = fq.solve(A, fq.measure(A, x), prior=prior if told else None)
            found[told] += solution.success and fq.distance(solution.x, x) < 1e-6
    assert found[True] >= found[False] >= 4


@pytest.mark.parametrize("complex_too", [False, True])
def test_amplitudes_are_hinted_at(complex_too):
    """Given in place of intensities they are no quadratic measurements: what is found does not fit."""
    rng = np.random.default_rng(0)
    a, x = rng.standard_normal((60, 15)), rng.standard_normal(15)
    if complex_too:
        a, x = a + 1j * rng.standard_normal(a.shape), x + 1j * rng.standard_normal(x.shape)
    A = fq.RankOneTensor(a)
    solution = fq.solve(A, np.sqrt(A.measure(x)))
    assert not solution.success
    assert "the squares of y, if y are amplitudes |a_i^* x|" in solution.message
    assert fq.solve(A, A.measure(x)).success
    assert "amplitudes" not in advice(Status.STAGNATED, Call(intensities=False))


def test_sentences_on_entries_are_whole():
    """They were joined to "have a common mean, which was removed and are not independent"."""
    for centred, independent in itertools.product([False, True], repeat=2):
        said = Entries(centred=centred, constant=not independent).describe()
        assert len(re.findall(r"The entries of A [^.]*\.", said)) == (not centred) + (not independent)


def test_a_prior_is_told_what_amp_does_with_it():
    check = fq.testing.check_prior(Trits(), n=20)
    assert check.ok
    assert any("`rounds`" in remark for remark in check.remarks)
    assert fq.testing.check_prior(fq.Discrete([-1, 0, 1]), n=20).remarks == []


@pytest.mark.parametrize(("n", "m"), [(20, 120), (20, 200)])
def test_amplitudes_are_recognised_whatever_the_status(n, m):
    """They were named only by NOISY and STAGNATED; with exact intensities that x fits they are no advice."""
    rng = np.random.default_rng(0)
    a, x = rng.standard_normal((m, n)), rng.standard_normal(n)
    solution = fq.solve(fq.RankOneTensor(a), np.abs(a @ x))
    assert not solution.success
    assert "the squares of y" in solution.message


def test_matrices_that_are_zero_are_named():
    solution = fq.solve(np.zeros((20, 10, 10)), np.ones(20))
    assert "20 matrices of A are zero although y is not. No x explains these: leave them out." in solution.message
    assert "without `noise`" not in solution.message  # none was given: equal rows were merged


@pytest.mark.parametrize(("noise", "there"), [(None, True), (1.0, False)])
def test_exact_data_are_no_advice_where_a_level_is_given(hopeless, noise, there):
    assert ("noise=0" in fq.solve(*hopeless, noise=noise).message) is there


COLLECTOR = Path(__file__).parent.parent / "docs" / "_ext" / "messages.py"
#: Notes that name an option which may help, and why it was not given there.
MAY_RECOMMEND = {
    "The search was a short one: for a longer one give `max_passes`{exact}.": "`persistent` is false without it",
    "Some measurements are far off the others: they may be outliers, which outliers=True allows for.": "`_weighs`",
    ", or noise=0 if y is exact": "`noise.given`",
    "Another signal fits {fits} of {m} measurements to rounding: outliers=True may find it.": "`missed`, `outliers`",
}
#: Options that a user may give to be helped.
OPTIONS = re.compile(r"\b(?:give|pass|try|raise|use) `?(?:noise|prior|x0|norm|max_\w+)`?|outliers=True|noise=0", re.I)
#: Words of the house, and ways to say things that stumble.
STUMBLES = re.compile(
    r"\bis (?:told|asked|said)\b|may be anything|\bmay be had\b|\bcan be had\b|\b(?:number|row|one) a \w+\b"
)


@pytest.fixture(scope="module")
def sentences():
    if not COLLECTOR.exists():
        pytest.skip("the collector comes with the sources")
    spec = importlib.util.spec_from_file_location("messages", COLLECTOR)
    collector = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(collector)
    return collector.sentences()


def test_notes_recommend_nothing_that_may_have_been_given(sentences):
    """What may help is for `advice`, which knows the call."""
    others = [said for path, said in sentences if path not in ("engine/advice.py", "points.py")]
    assert [said for said in others if OPTIONS.search(said) and said not in MAY_RECOMMEND] == []
    assert set(MAY_RECOMMEND) <= set(others)


def test_the_table_has_all_sentences_and_they_are_plain(sentences):
    said = [text for _, text in sentences]
    assert len(said) > 80
    assert {status.sentence for status in Status if len(status.sentence.split()) > 4} <= set(said)
    assert [text for text in said if STUMBLES.search(text)] == []
    assert [part for text in said for part in re.split(r"[.:;] ", text) if len(part.split()) > 30] == []


@pytest.mark.parametrize("what", ["rank one", "repeated", "complex"])
@pytest.mark.parametrize("options", [{}, {"max_passes": 2}])
def test_what_may_help_comes_last(what, options):
    """Also behind what the reductions add."""
    rng = np.random.default_rng(0)
    a = rng.standard_normal((40, 20)) + (1j * rng.standard_normal((40, 20)) if what == "complex" else 0)
    A = a[:, :, None] * a[:, None].conj()
    A = np.repeat(A[:10], 4, axis=0) if what == "repeated" else A
    solution = fq.solve(A, rng.standard_normal(40), **options)
    assert not solution.success
    last = max(solution.message.rfind(start) for start in (HELP, RAISE, GO_ON))
    assert last > 0
    assert ". " not in solution.message[last:]


def test_a_note_comes_before_what_may_help():
    assert noted("Stagnated. What may help: a; b.", "It is so.") == "Stagnated. It is so. What may help: a; b."
    assert noted("Exact.", "It is so.") == "Exact. It is so."
    assert noted("Exact.", "") == "Exact."
