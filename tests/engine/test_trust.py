"""Success in noise and among outliers: what is claimed is right, to the error that is claimed."""

import importlib
import subprocess
import sys
import zlib
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import fastquad as fq
from fastquad.engine.driver import finish
from fastquad.engine.entries import Entries
from fastquad.engine.problem import Problem
from fastquad.engine.trust import residual
from fastquad.engine.trust.doubt import _met
from fastquad.engine.trust.local import noisy_measure
from fastquad.engine.trust.sound import of_rows, sound
from fastquad.engine.trust.structured import other_values_fit
from fastquad.measurements.contractions import Diagonals, FirstProducts, Products, WeightedSum
from fastquad.measurements.dense.kept import Kept
from fastquad.measurements.dense.layout import packed_rows
from fastquad.noise import as_noise
from fastquad.numerics.levenberg_marquardt import turned
from fastquad.solvers.amp.second import second_signal

ROOT = Path(__file__).parents[2]
N = 20


def signal(rng, k=N):
    x = np.zeros(N)
    x[rng.choice(N, k, replace=False)] = rng.uniform(0.5, 1.5, k) * rng.choice([-1, 1], k)
    return x / np.linalg.norm(x)


def noisy(rng, y, level):
    return y + level * np.sqrt(np.mean(y**2)) * rng.standard_normal(y.size)


def contaminated(rng, y, share, size=3.0):
    y, where = y.copy(), rng.choice(y.size, int(share * y.size), replace=False)
    y[where] += size * np.sqrt(np.mean(y**2)) * rng.standard_normal(where.size)
    return y


def mirrored(rng, m=80):
    A = rng.standard_normal((m, N, N))
    return A + A[:, ::-1, ::-1]


def reflected(rng, m=100):
    """Matrices with a twin that no sample of their entries shows: each is its own mirror image in a hyperplane."""
    v = rng.standard_normal(N)
    H = np.eye(N) - 2 * np.outer(v, v) / (v @ v)
    A = rng.standard_normal((m, N, N))
    A = A + A.transpose(0, 2, 1)
    return A + H @ A @ H


# -- outliers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("level", [0.0, 0.02])
@pytest.mark.parametrize("make", [mirrored, reflected])
def test_the_sound_measurements_alone_must_rule_out_a_twin(make, level):
    successes = 0
    for seed in range(4):
        rng = np.random.default_rng([1, seed])
        A, x = make(rng), signal(rng)
        y = contaminated(rng, noisy(rng, fq.measure(A, x), level), 0.05)
        solution = fq.solve(A, y, outliers=True, rng=0)
        # The twin of an x that hardly moves is no other signal, but its distance is part of the error.
        assert not solution.success or fq.distance(solution.x, x) < 2 * solution.error
        # matrices without a twin are solved, with as many outliers
        A = rng.standard_normal(A.shape)
        y = contaminated(rng, noisy(rng, fq.measure(A, x), level), 0.05)
        solution = fq.solve(A, y, outliers=True, rng=0)
        successes += solution.success and fq.distance(solution.x, x) < max(3 * solution.error, 1e-6)
    assert successes >= 3


def test_a_signal_that_most_measurements_contradict_is_no_success():
    # Two of five measurements are of a sparser signal, which is found first. One of eleven is not enough for that.
    successes = 0
    for seed in range(6):
        for of_another in (44, 10):
            rng = np.random.default_rng([12, seed])
            A, x, other = rng.standard_normal((110, N, N)), signal(rng, 9), signal(rng, 2)
            y = np.where(np.arange(110) < of_another, fq.measure(A, other), fq.measure(A, x))
            solution = fq.solve(A, noisy(rng, y, 1e-3), outliers=True, rng=0)
            assert not solution.success or fq.distance(solution.x, x) < 3 * solution.error
            successes += of_another == 10 and solution.success
    assert successes >= 5


@pytest.mark.parametrize("level", [0.0, 0.02])
def test_outliers_do_not_cost_a_success(level):
    rng = np.random.default_rng(2)
    A, x = rng.standard_normal((80, N, N)), signal(rng, 6)
    solution = fq.solve(A, contaminated(rng, noisy(rng, fq.measure(A, x), level), 0.1), outliers=True, rng=0)
    assert solution.status.name == ("CONVERGED" if level else "EXACT_FOR_MOST")
    assert fq.distance(solution.x, x) <= max(3 * level, 1e-15)  # without noise, to rounding


def test_tests_of_some_rows_see_only_those():
    rng = np.random.default_rng(3)
    A, rows = rng.standard_normal((9, 4, 4)), np.array([0, 2, 7])
    A = A + A.transpose(0, 2, 1)
    tensor, x, w = fq.as_measurements(A), rng.standard_normal(4), rng.standard_normal((3, 2))

    def tests():
        return (yield Products(x)), (yield Diagonals()), (yield WeightedSum(w)), (yield FirstProducts(x, 2))

    routine, answer = of_rows(tests(), rows, 9), None
    while True:
        try:
            answer = routine.send(answer).answer(tensor, 1)
        except StopIteration as end:
            W, diagonals, total, first = end.value
            break
    np.testing.assert_allclose(W, A[rows] @ x, rtol=1e-12)
    np.testing.assert_array_equal(diagonals, np.einsum("ijj->ij", A[rows]))
    np.testing.assert_allclose(total, np.tensordot(w.T, A[rows], 1), rtol=1e-12)
    np.testing.assert_allclose(first, A[rows[:2]] @ x, rtol=1e-12)


def test_the_problem_of_some_rows_has_their_data():
    y, noise = np.arange(9.0), np.arange(1.0, 10.0)
    model, rng = as_noise(noise, 9, True), np.random.default_rng(0)
    problem = Problem(9, 4, y, np.dtype(float), None, None, None, model, 1e-8, lambda: rng, 1 << 30)
    rows = np.array([1, 3, 8])
    part, entries = sound(problem, Entries(block=np.ones((9, 2, 2))), rows)
    assert part.m == 3
    assert not part.outliers
    assert entries.block.shape == (3, 2, 2)
    np.testing.assert_array_equal(part.y, y[rows])
    np.testing.assert_array_equal(part.noise.sigma, noise[rows])


# -- noise ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [1, 4, 5, 6])
def test_a_coordinate_that_nothing_is_coupled_to_may_hide_in_the_noise(seed):
    # Nothing but its square shows the last coordinate, about as large as the noise. Of 93 problems 57 were a success
    # with an `error` of a fiftieth of the distance when it was not allowed for.
    rng = np.random.default_rng(seed)
    A, x = rng.standard_normal((14, 16, 16)), np.zeros(16)
    A[:, -1, :-1] = A[:, :-1, -1] = 0
    A[:, -1, -1] *= 0.1
    x[:4], x[-1] = (0.5, -0.7, 0.4, 0.3), 0.1
    solution = fq.solve(A, noisy(rng, fq.measure(A, x), 0.001), rng=0)
    assert 0.09 < fq.distance(solution.x, x) < 1.5 * solution.error < 0.3


@pytest.mark.parametrize("seed", [8, 33, 144])
def test_the_error_allows_for_small_coordinates_where_the_number_of_large_ones_is_told(seed):
    # Of 200 problems 11 were a success, and 3 errors off, when a method without an error of its own left them out.
    rng = np.random.default_rng(seed)
    n, m = 26, 15
    x = rng.choice([-1, 1], n) * np.arange(1, n + 1) ** -1.6
    x /= np.linalg.norm(x)
    A = rng.standard_normal((m, n, n))
    solution = fq.solve(A, noisy(rng, fq.measure(A, x), 0.001), method="sgn", prior=fq.Sparse(k=4), rng=0)
    assert fq.distance(solution.x, x) < (3 if solution.success else 6) * solution.error < 1.0


def test_the_error_allows_for_small_coordinates_that_look_like_noise():
    # Sizes that decay evenly over scales, fewer measurements than unknowns, and no noise at all: what is not found is
    # taken for noise, and belongs to the error.
    claims = 0
    for seed in range(24):
        rng = np.random.default_rng([5, seed])
        n, m, k = 60, 40, 30
        x = np.zeros(n)
        x[rng.choice(n, k, replace=False)] = 0.8 ** np.arange(k) * rng.choice([-1, 1], k)
        A = rng.standard_normal((m, n, n))
        solution = fq.solve(A, fq.measure(A, x), rng=0)
        if solution.success and solution.error:
            claims += 1
            assert fq.distance(solution.x, x) < 2 * solution.error
    assert claims >= 8


@pytest.mark.parametrize("seed", [1, 3, 9])
def test_a_negative_coordinate_of_a_signal_that_is_said_to_have_none(seed):
    # A third of such problems ended as a success or a doubt 0.07 to 0.14 away when nobody asked.
    rng = np.random.default_rng(seed)
    n, m = 30, 36
    A = rng.standard_normal((m, n, n))
    x = np.abs(rng.standard_normal(n)) * (rng.random(n) < 0.5)
    x[3] = -0.3
    x /= np.linalg.norm(x)
    solution = fq.solve(A, noisy(rng, fq.measure(A, x), 0.003), prior=fq.Sparse(nonnegative=True), rng=0)
    assert fq.distance(solution.x, x) < 0.01


@pytest.mark.parametrize("value", [0.75, 1.0])
def test_a_value_beside_those_that_are_told_is_no_noise(value):
    rng = np.random.default_rng(4)
    m = 60
    A, x = rng.standard_normal((m, N, N)), rng.choice([-1.0, 1.0], N)
    x[5] = value
    problem = Problem(
        m, N, noisy(rng, fq.measure(A, x), 0.01), A.dtype, None, None, None, as_noise(None, m), 1e-8, rng, 1 << 30
    )
    found = finish(fq.as_measurements(A), other_values_fit(problem, np.sign(x)))
    assert found is (value != 1.0)


def test_the_error_of_few_nonzeros_is_that_of_the_noise():
    # Nothing is near the least size that is found, so that nothing is expected below it.
    rng = np.random.default_rng(6)
    A, x = rng.standard_normal((60, 100, 100)), np.zeros(100)
    x[[3, 14, 50]] = 0.6, -0.5, 0.6
    solution = fq.solve(A, fq.measure(A, x) + 0.02 * rng.standard_normal(60), rng=0)
    assert solution.success
    assert solution.error < 0.01


def test_mistaken_entries_do_not_hide_a_symmetry():
    for seed in range(4):
        rng = np.random.default_rng([7, seed])
        A, x = mirrored(rng), signal(rng, 6)
        wrong = A * (1 + 3e-3 * rng.standard_normal(A.shape))
        assert not fq.solve(wrong, fq.measure(A, x), rng=0).success


def test_a_symmetry_of_the_sure_coordinates_is_enough():
    # One coordinate outside of the support does to the others what one inside does. What noise adds to x elsewhere is
    # not part of the symmetry.
    for seed in (11, 18, 35, 39, 57, 60, 94, 100):
        rng = np.random.default_rng([8, seed])
        A, x = rng.standard_normal((60, N, N)), signal(rng, 7)
        A = A + A.transpose(0, 2, 1)
        (j, *others), k = np.flatnonzero(x), int(np.flatnonzero(x == 0)[0])
        A[:, k, others] = A[:, others, k] = A[:, j, others]
        A[:, k, k] = A[:, j, j]
        assert not fq.solve(A, noisy(rng, fq.measure(A, x), 0.25), rng=0).success


def test_few_equations_to_spare_prove_nothing_in_noise():
    # Of 13 equations for 10 unknowns many signals leave no more than the noise.
    # Of 60, most are solved.
    successes = {13: 0, 60: 0}
    for seed in range(40):
        for m in (13, 60) if seed < 12 else (13,):
            rng = np.random.default_rng([9, seed])
            x = np.abs(rng.standard_normal(10)) / 3
            A = fq.RankOneTensor(rng.standard_normal((m, 10)))
            y = fq.measure(A, x)
            level = 0.04 * float(np.sqrt(np.mean(y**2)))
            solution = fq.solve(A, y + level * rng.standard_normal(m), noise=level, rng=0)
            assert not solution.success or fq.distance(solution.x, x) < 3 * solution.error
            successes[m] += solution.success
    assert successes[60] >= 10


def test_complex_measurements_that_depend_on_each_other_show_that_the_rest_is_no_noise():
    # 48 combinations of 16 matrices, and no noise: what a wrong x leaves of y agrees with their dependence.
    # Where the 48 combine as many matrices, x is found.
    successes = {16: 0, 48: 0}
    for seed in (19, 36, 80, 85, 99):
        for matrices in successes:
            rng = np.random.default_rng([13, seed])
            n = 8
            A = rng.standard_normal((matrices, n, n)) + 1j * rng.standard_normal((matrices, n, n))
            A = np.tensordot(rng.standard_normal((48, matrices)), A + A.conj().transpose(0, 2, 1), 1)
            x = np.where(np.arange(n) < 5, rng.standard_normal(n) + 1j * rng.standard_normal(n), 0)
            solution = fq.solve(A, fq.measure(A, x), rng=0)
            assert not solution.success or fq.distance(solution.x, x) < 1e-3
            successes[matrices] += solution.success
    assert successes[48] >= 4


# -- other valleys and other signals ----------------------------------------------------------------------------------


def met(descents):
    """What a search meets in the ends of descents, each the evidence that it gains and its distance from x."""
    ends = ((gain, np.array([away])) for gain, away in descents)
    case = SimpleNamespace(
        measure=noisy_measure(0.002), errors_of_x=0.001, back=0, deeper=None, twin=None, shown=lambda: "another",
        away=lambda x: float(x[0]), rival=lambda x: x[0] > 0.5,
    )  # fmt: skip
    doubt, blur = _met(case, ends, near=0.1, better=0.01)
    return doubt, blur, case.back


def test_a_challenge_ends_early_only_if_a_dozen_descents_come_back():
    back, lost = (0.0, 0.0), (-50.0, 1.3)
    assert met([back] * 12 + [(-1.0, 1.0)])[::2] == ("", 12)
    assert met([back] * 11 + [lost] * 5 + [(-1.0, 1.0)])[0] == "another"
    assert met([back] * 2 + [lost] * 60)[::2] == ("", 2)
    assert met([back] + [lost] * 60)[::2] == ("", 1)


def test_a_challenge_tells_what_is_far_likelier_from_what_is_as_likely():
    assert "far likelier" in met([(5.0, 0.05)])[0]
    assert met([(5.0, 0.005)] + [(-50.0, 1.3)] * 9)[::2] == ("", 1)
    assert "far likelier" in met([(90.0, 0.005)])[0]  # noise would not explain that
    assert met([(0.5, 0.05)] * 8) == ("", 0.05, 8)  # no other signal, but x is known no better than this


@pytest.mark.parametrize("n", [8, 40, 160])
def test_no_second_signal_is_seen_in_noise(n):
    rng = np.random.default_rng(n)
    z = rng.standard_normal(n)
    shares = []
    for _ in range(100):
        G = rng.standard_normal((n, n))
        shares.append(second_signal(np.outer(z, z) + 0.3 * (G + G.T) / np.sqrt(2), 0.3**2, z))
    assert not any(shares)


@pytest.mark.parametrize("turning", [False, True])
def test_a_second_signal_is_seen_with_its_power(turning):
    rng = np.random.default_rng(0)
    n = 100
    z, u = rng.standard_normal((2, n))
    z, u = z / np.linalg.norm(z), np.sqrt(0.2) * u / np.linalg.norm(u)
    G = rng.standard_normal((n, n))
    S = np.outer(z, z) + np.outer(u, u) + 0.01 * (G + G.T) / np.sqrt(2)
    if turning:
        i_z = turned(z)
        S += np.outer(i_z, i_z)  # zz^* as a real matrix
    assert second_signal(S, 1e-4, z, turning) == pytest.approx(0.2, rel=0.15)


def test_two_signals_at_once_are_no_success():
    rng = np.random.default_rng(0)
    A = rng.standard_normal((160, 40, 40))
    x, u = rng.standard_normal((2, 40)) / np.sqrt(40)
    solution = fq.solve(A, fq.measure(A, x) + 0.6 * fq.measure(A, u))
    assert not solution.success
    assert "another signal" in solution.message
    # A weak one takes a small part of the error.
    solution = fq.solve(A, fq.measure(A, x) + 0.02 * fq.measure(A, u))
    assert solution.success
    assert fq.distance(solution.x, x) < solution.error < 0.1


@pytest.mark.parametrize("kind", ["gaussian", "rank one", "complex"])
def test_a_second_signal_shows_where_two_leave_nothing(kind):
    """Where n is small, the spectrum of S does not tell it from noise."""
    wrong = alone = 0
    for seed in range(12):
        rng = np.random.default_rng(seed)
        m, n = 40, 8
        x, u = rng.standard_normal((2, n)) + (1j * rng.standard_normal((2, n)) if kind == "complex" else 0)
        A = rng.standard_normal((m, n, n)) + (1j * rng.standard_normal((m, n, n)) if kind == "complex" else 0)
        if kind == "rank one":
            A = A[:, 0, :, None] * A[:, 0, None, :]
        A = (A + A.conj().transpose(0, 2, 1)) / 2
        solution = fq.solve(A, fq.measure(A, x) + 0.5 * fq.measure(A, u))
        wrong += solution.success and fq.distance(solution.x, x) > 3 * solution.error
        assert not solution.success or "another signal" in solution.message
        alone += fq.solve(A, fq.measure(A, x)).success
    assert wrong == 0
    assert alone >= 11


def test_noise_is_not_taken_for_a_second_signal():
    rng = np.random.default_rng(3)
    seen = 0
    for _ in range(60):
        n = int(rng.integers(5, 20))
        m = int(rng.uniform(2, 6) * n)
        A, x = rng.standard_normal((m, n, n)), rng.standard_normal(n)
        A, r = (A + A.transpose(0, 2, 1)) / 2, rng.standard_normal(m)
        kept = Kept.of(m, np.arange(n), packed_rows(A))
        seen += residual.second_signal((A @ x) @ x - 0.1 * r, x, kept, 0.1 * r, turning=False) > 0
    assert seen == 0


# -- the campaign ---------------------------------------------------------------------------------------------------

#: Problems that were wrong successes once: class, seed and number.
ONCE_WRONG = [
    ("hankel", 960, 12), ("outliers told", 960, 13), ("weak coupling", 960, 26), ("decaying signal", 960, 1),
    ("ill scaled coordinates", 3001, 10), ("outliers told", 3001, 13), ("symmetry off the support", 3001, 19),
    ("mistaken matrices", 3001, 25), ("rank one tensor", 3001, 46), ("mistaken matrices", 3001, 52),
    ("low rank", 3001, 57), ("mistaken matrices", 3001, 103), ("two signals", 3002, 14), ("householder", 3002, 35),
    ("complex low span", 3003, 8), ("half precision structures", 3003, 33),
    ("complex multiplication", 30010, 1), ("decaying signal", 40001, 3), ("householder", 60001, 2),
    ("local degeneracy", 50001, 2), ("start at a twin", 50015, 2), ("hankel", 81014, 0), ("few in noise", 82004, 1),
    ("weak coupling", 82025, 0), ("weak second signal", 82031, 1), ("saturated", 82034, 2),
    ("complex blocks", 82046, 0),
    ("half precision structures", 82051, 1), ("nearly structured", 82065, 0), ("tiny n", 82075, 0),
    ("ill scaled rows", 82077, 3), ("laplacians", 83002, 2), ("complex outliers", 84001, 1),
    ("two signals", 85004, 0), ("mistaken matrices", 85021, 0), ("mistaken matrices", 85027, 0),
    ("mistaken matrices", 85031, 0), ("saturated", 86004, 2), ("tiny n", 86039, 0), ("householder", 86048, 0),
    ("weak second signal", 86058, 0), ("second signal in noise", 5151, 112), ("complex second signal", 5152, 15),
    ("complex blocks", 87006, 3), ("householder", 87035, 2),
    ("half precision structures", 87049, 2), ("banded", 501, 0), ("tree of couplings", 501, 2),
    ("banded", 98001, 4), ("banded", 98010, 11),
    ("planted twin", 7, 9), ("complex planted twin", 7, 3), ("a turned pair", 94001, 15), ("a turned pair", 94003, 39),
]  # fmt: skip


@pytest.mark.skipif(not (ROOT / "benchmarks").is_dir(), reason="the campaign comes with the sources")
@pytest.mark.parametrize("problem", ONCE_WRONG, ids=lambda problem: f"{problem[0]} {problem[2]}")
def test_what_was_wrong_once_is_not_again(problem, monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    campaign = importlib.import_module("benchmarks.studies.campaign.__main__")
    name, seed, number = problem
    assert not campaign.run((name, seed, number)).wrong


# -- witnesses ------------------------------------------------------------------------------------------------------

# 1e-3 in exact data, and in noise what 20 to 1 of evidence allows beside what x itself leaves.
APART, AS_WELL = 1e-3, 1.5


def problems(campaign, name, count):
    """Problems of a class with their truth, y and options."""
    for number in range(count):
        rng = np.random.default_rng([601, zlib.crc32(name.encode()), number])
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
    for name in [each for each in campaign.CLASSES if each not in campaign.held_out.NAMES][part::8]:
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


# -- kernels --------------------------------------------------------------------------------------------------------


def test_pruning_ends_where_the_products_overflow():
    # In a process of its own: no alarm interrupts a kernel that hangs.
    code = """
import numpy as np
from fastquad._kernels import growth
pairs = np.random.default_rng(0).standard_normal((10, 16)).astype(np.float32)
block = growth.Block(pairs, np.ones(16, dtype=np.float32), 4, 1)
work = np.empty(block.work_size, dtype=np.float32)
growth.prune(block, 16, 3.0, work, np.arange(3, dtype=np.intp), np.full(3, 1e25))
"""
    subprocess.run([sys.executable, "-c", code], timeout=60, check=True)
