"""Points from their distances: exact ones against brute force and planted points, with noise, and every status."""

import gzip
import itertools
import json

import numpy as np
import pytest
from click.testing import CliRunner
from commands import assert_one_line_error

import fastquad as fq
from fastquad import cli
from fastquad.numerics import distances as exact


def line_of(points):
    i, j = np.triu_indices(len(points), 1)
    return np.abs(np.asarray(points)[j] - np.asarray(points)[i])


def circle_of(points, length):
    d = line_of(points)
    return np.concatenate([d, length - d])


def drawn(n, places, seed):
    return np.sort(np.random.default_rng(seed).choice(places, n, replace=False)).astype(float)


def shuffled(d, seed=0):
    return np.random.default_rng(seed).permutation(d)


def standard(x):
    """From 0, of the two mirror images the one with the smaller second gap, then the smaller first one."""
    gaps = [np.diff(np.sort(x)), np.diff(np.sort(x))[::-1]]
    best = min(gaps, key=lambda g: (g[1], g[0], *g[2:]))
    return np.concatenate([[0.0], np.cumsum(best)])


# -- exact, on a line ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "places", "seeds"), [(30, 1000, 10), (60, 10**4, 10), (100, 10**4, 5), (300, 10**6, 1)])
def test_planted_points_are_proven(n, places, seeds):
    for seed in range(seeds):
        points = drawn(n, places, seed)
        solution = fq.points.line(shuffled(line_of(points)))
        assert solution.status == "PROVEN"
        np.testing.assert_array_equal(solution.x, standard(points))
        assert (solution.error, solution.residual, len(solution.rivals)) == (0.0, 0.0, 0)
        assert solution.proof.kind == "enumeration"


def test_real_distances_are_equal_to_a_billionth():
    rng = np.random.default_rng(0)
    for _ in range(5):
        points = 7e5 * np.sort(rng.random(40))
        d = shuffled(line_of(points))
        d *= 1 + 1e-11 * rng.standard_normal(d.size)
        solution = fq.points.line(d)
        assert solution.status == "PROVEN"
        np.testing.assert_allclose(solution.x, standard(points), atol=1e-4)
        assert fq.points.line(d * (1 + 1e-6 * rng.standard_normal(d.size))).status == "STAGNATED"


def brute(d, n):
    """All sets of n whole points with these distances, in standard form."""
    found = set()
    for middle in itertools.combinations_with_replacement(range(int(d.max()) + 1), n - 2):
        points = np.sort([0, *middle, d.max()])
        if np.array_equal(np.sort(line_of(points)), np.sort(d)):
            found.add(tuple(standard(points)))
    return found


def test_a_line_agrees_with_brute_force():
    """All solutions, each once: with coincident points, symmetric sets and repeated distances."""
    rng = np.random.default_rng(1)
    several = 0
    cases = [np.sort(rng.integers(0, 9, 5)) for _ in range(60)]
    cases += [np.array([0, 1, 4, 10, 12, 17]), np.array([0, 1, 2, 6, 8, 11]), np.array([0, 1, 5, 6]), np.arange(6)]
    for points in cases:
        d = line_of(points).astype(float)
        if not d.any():
            continue
        solution = fq.points.line(shuffled(d))
        expected = brute(d, len(points))
        assert {tuple(solution.x), *map(tuple, solution.rivals)} == expected
        assert 1 + len(solution.rivals) == len(expected)
        assert solution.status == ("PROVEN" if len(expected) == 1 else "AMBIGUOUS")
        several += len(expected) > 1
    assert several >= 1


def test_homometric_sets_are_each_a_rival():
    """A + B and A − B have the same distances: k factors make 2^(k−1) sets up to the mirror image."""
    factors = [np.array([0, 1, 3]), np.array([0, 10, 40]), np.array([0, 200, 900]), np.array([0, 5000, 23000])]
    points = np.array([0])
    for factor in factors:
        points = np.add.outer(points, factor).ravel()
    solution = fq.points.line(line_of(points))
    assert solution.status == "AMBIGUOUS"
    assert not solution
    assert len(solution.rivals) == 7
    np.testing.assert_array_equal(solution.rival, solution.rivals[0])
    for rival in solution.rivals:
        np.testing.assert_array_equal(np.sort(line_of(rival)), np.sort(line_of(points)))


def test_whole_numbers_are_told_apart_however_large():
    points = np.array([0, 3, 10**12, 10**12 + 7, 3 * 10**12 + 1], dtype=float)
    solution = fq.points.line(line_of(points))
    assert solution.status == "PROVEN"
    np.testing.assert_array_equal(solution.x, standard(points))


def test_values_too_near_to_tell_apart_prove_nothing():
    """Two distances that differ by twice the tolerance: which one a pair has is a choice, so nothing is proven."""
    points = np.array([0.0, 0.2, 0.2 + 2.5e-9, 0.55, 1.0])
    solution = fq.points.line(line_of(points))
    assert solution.status in ("UNDECIDED", "AMBIGUOUS")


@pytest.mark.parametrize(("points", "x"), [([0, 5], [0, 5]), ([3, 3, 3], [0, 0, 0]), ([0, 1, 3], [0, 2, 3])])
def test_few_points(points, x):
    solution = fq.points.line(line_of(points))
    assert solution.status == "PROVEN"
    np.testing.assert_array_equal(solution.x, x)


# -- exact, on a circle -------------------------------------------------------------------------------------------


def test_thirty_of_a_thousand_on_a_circle():
    for seed in range(20):
        points = drawn(30, 1000, seed)
        solution = fq.points.circle(shuffled(circle_of(points, 1000)), 1000)
        assert solution.status == "PROVEN"
        np.testing.assert_array_equal(solution.x, exact.circle_form(points, 1000.0))


def test_a_hundred_real_points_on_a_circle():
    points = np.sort(np.random.default_rng(0).random(100)) * 2.5
    solution = fq.points.circle(shuffled(circle_of(points, 2.5)), 2.5)
    assert solution.status == "PROVEN"
    np.testing.assert_allclose(solution.x, exact.circle_form(points, 2.5), atol=1e-8)


def brute_circle(arcs, n, length):
    found = set()
    for others in itertools.combinations_with_replacement(range(length), n - 1):
        points = np.array([0, *others], dtype=float)
        if np.array_equal(np.sort(circle_of(points, length)), arcs):
            found.add(tuple(exact.circle_form(points, float(length))))
    return found


def test_a_circle_agrees_with_brute_force():
    rng = np.random.default_rng(2)
    several = 0
    cases = [(rng.integers(0, length, 5), length) for length in (9, 12, 13) for _ in range(12)]
    cases += [(np.array([0, 1, 3, 4]), 8), (np.array([0, 4, 8]), 12), (np.array([0, 1, 4, 7]), 8)]
    for points, length in cases:
        arcs = np.sort(circle_of(np.mod(points, length).astype(float), length))
        if points.max() == points.min():
            continue
        # Two that coincide have the arcs 0 and the whole length.
        solution = fq.points.circle(shuffled(arcs), length)
        expected = brute_circle(arcs, len(points), length)
        assert {tuple(solution.x), *map(tuple, solution.rivals)} == expected
        assert 1 + len(solution.rivals) == len(expected)
        assert solution.status == ("PROVEN" if len(expected) == 1 else "AMBIGUOUS")
        several += len(expected) > 1
    assert several >= 2


# -- budgets ------------------------------------------------------------------------------------------------------


def test_a_budget_ends_in_a_status():
    d = line_of(drawn(40, 100_000, 0))
    out = fq.points.line(d, max_nodes=20)
    assert (out.status, out.success) == ("MAX_ITER", False)
    assert "max_nodes" in out.message
    assert 0 < len(out.x) < 40
    assert out.n_iter <= 20
    found = fq.points.line(d, max_nodes=60)
    assert (found.status, len(found.x), found.proof) == ("UNDECIDED", 40, None)
    assert "`max_nodes` ended the search for others" in found.message
    assert fq.points.line(line_of(drawn(200, 10**6, 0)), max_time=0.0).status == "MAX_TIME"
    assert fq.points.circle(circle_of(drawn(40, 1000, 0), 1000), 1000, max_time=0.0).status == "MAX_TIME"


def test_a_worst_case_ends_within_its_budget():
    """A middle that looks the same from both sides hides on which side points near the ends are (after Zhang, 1994)."""
    n = 40
    length, near = 24 * n, np.arange(1, n + 1)
    outer = np.where(near > n // 2, near, length - near)
    d = line_of(np.sort(np.concatenate([[0, length], length // 2 + np.arange(-n, n + 1), outer])))
    # 123 points: to place them is 121 nodes, to see all else about 8,000.
    found = fq.points.line(d, max_nodes=100)
    assert (found.status, found.n_iter <= 100) == ("MAX_ITER", True)
    found = fq.points.line(d, max_nodes=4000)
    assert found.status in ("UNDECIDED", "MAX_ITER")
    assert fq.points.line(d).status == "PROVEN"


def test_no_points_have_these_distances():
    d = line_of(drawn(20, 1000, 0))
    d[3] += 1
    solution = fq.points.line(d)
    assert (solution.status, solution.success, solution.error) == ("STAGNATED", False, None)
    assert "`noise`" in solution.message


# -- noise --------------------------------------------------------------------------------------------------------


def labelled(points, d):
    """Least squares told which pair each distance has, from 0."""
    i, j = np.triu_indices(points.size, 1)
    x = (np.bincount(j, d, points.size) - np.bincount(i, d, points.size)) / points.size
    return x - x[0]


@pytest.mark.parametrize("sigma", [1e-6, 1e-5])
def test_noise_on_a_line_against_least_squares_with_labels(sigma):
    for seed in range(2):
        rng = np.random.default_rng(seed)
        points = np.sort(rng.random(60))
        points = (points - points[0]) / (points[-1] - points[0])
        d = line_of(points) + sigma * rng.standard_normal(1770)
        solution = fq.points.line(shuffled(d), noise=sigma)
        assert solution.status == "CONVERGED"
        best = labelled(points, d)
        off = min(np.abs(solution.x - best).max(), np.abs(solution.x - (best[-1] - best)[::-1]).max())
        assert off < 3 * sigma * np.sqrt(2 / 60)
        assert solution.noise == sigma
        np.testing.assert_allclose(solution.stderr[1:], sigma * np.sqrt(2 / 60), rtol=0.1)


def test_noise_on_a_circle():
    rng = np.random.default_rng(0)
    points = np.sort(rng.random(30))
    arcs = circle_of(points, 1.0)
    solution = fq.points.circle(arcs + 1e-6 * rng.standard_normal(arcs.size), 1.0, noise=1e-6)
    assert solution.status == "CONVERGED"
    np.testing.assert_allclose(solution.x, exact.circle_form(points, 1.0), atol=3e-6)


def test_the_wrong_distances_are_no_success():
    rng = np.random.default_rng(0)
    solution = fq.points.line(rng.random(45), noise=1e-5)
    assert solution.status == "STAGNATED"
    assert solution.stderr is None


def test_few_points_in_noise_are_undecided_or_have_a_rival():
    solution = fq.points.line([1.0, 2.02, 2.97], noise=0.1)
    assert solution.status in ("UNDECIDED", "AMBIGUOUS")
    assert not solution.success


# -- input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("call", "error", "said"), [
    (lambda: fq.points.line([1, 2]), ValueError, r"`distances` must be those of all n \(n − 1\)/2 pairs"),
    (lambda: fq.points.line([]), ValueError, "`distances` must be a list of at least one"),
    (lambda: fq.points.line([[1.0]]), ValueError, "got shape"),
    (lambda: fq.points.line([1, 2, -3]), ValueError, "`distances` must not be negative, got -3"),
    (lambda: fq.points.line([1, np.nan, 3]), ValueError, "`distances` must be finite"),
    (lambda: fq.points.line(["a"]), TypeError, "`distances` must hold real numbers"),
    (lambda: fq.points.line([1], noise=-1), ValueError, "`noise`"),
    (lambda: fq.points.line([1], noise=fq.noise.Gaussian()), ValueError, r"or fastquad.noise.Gaussian\(sigma\), got"),
    (lambda: fq.points.line([1], noise=fq.noise.Poisson()), ValueError, "`noise` must be the standard deviation"),
    (lambda: fq.points.line([1], max_time=-1), ValueError, "`max_time`"),
    (lambda: fq.points.circle([1, 3, 4], 10), ValueError, "give both arcs of each pair"),
    (lambda: fq.points.circle([1, 9, 3, 7, 4, 6], 11), ValueError, "mean sum of two arcs is 10"),
    (lambda: fq.points.circle([1, 9], 0), ValueError, "`length` must be a positive number"),
])  # fmt: skip
def test_bad_input_is_named(call, error, said):
    with pytest.raises(error, match=said):
        call()


def test_distances_are_not_written_to_and_their_order_does_not_matter():
    d = line_of(drawn(20, 1000, 3))
    d.flags.writeable = False
    one, other = fq.points.line(d), fq.points.line(d[::-1].copy())
    np.testing.assert_array_equal(one.x, other.x)
    assert one.n_iter == other.n_iter


def test_a_solution_is_saved_and_described(tmp_path):
    solution = fq.points.line([1, 1, 2, 2, 3, 4, 5, 5, 6, 6, 7, 8, 9, 10, 11])
    assert repr(solution).startswith("Points(AMBIGUOUS: 6 points")
    solution.save(tmp_path / "points.npz")
    again = fq.load_solution(tmp_path / "points.npz")
    np.testing.assert_array_equal(again.x, solution.x)
    np.testing.assert_array_equal(again.history["rivals"], solution.rivals)


# -- the default method -------------------------------------------------------------------------------------------


def counted(n, places, cyclic, seed, most=1):
    rng = np.random.default_rng(seed)
    x = np.zeros(places)
    x[rng.choice(places, n, replace=False)] = rng.integers(1, most + 1, n)
    return x


def same_up_to_motion(x, other, cyclic):
    period = x.size if cyclic else 2 * x.size
    spectrum = np.fft.rfft(other, period)
    return any(
        np.fft.irfft(spectrum * np.fft.rfft(each, period).conj(), period).max() > np.sum(x**2) - 0.5
        for each in (x, x[::-1])
    )


@pytest.mark.parametrize("cyclic", [False, True])
@pytest.mark.parametrize(("n", "places", "most"), [(1, 7, 1), (2, 9, 1), (10, 101, 1), (30, 1000, 1), (12, 500, 3)])
def test_the_default_method_searches_where_a_shifts(n, places, most, cyclic):
    for seed in range(3):
        x = counted(n, places, cyclic, seed, most)
        A = fq.ShiftTensor(places, cyclic=cyclic)
        solution = fq.solve(A, A.measure(x), prior=fq.Discrete(np.arange(most + 1)))
        assert (solution.status, solution.method) == ("PROVEN", "points")
        assert same_up_to_motion(x, solution.x, cyclic)
        assert solution.error == 0.0


def test_a_million_places_take_no_matrix():
    """m×n numbers would be 8 TB, a block of 16 coordinates 2 GB."""
    x = counted(60, 10**6, False, 0)
    A = fq.ShiftTensor(10**6)
    solution = fq.solve(A, A.measure(x), prior=fq.Discrete([0, 1]), memory="1GB")
    assert solution.status == "PROVEN"
    assert same_up_to_motion(x, solution.x, False)
    assert solution.n_passes < 1


def test_two_sets_with_the_same_counts_are_ambiguous():
    x = np.zeros(15)
    x[[0, 1, 2, 6, 8, 11]] = 1.0
    A = fq.ShiftTensor(15)
    solution = fq.solve(A, A.measure(x), prior=fq.Discrete([0, 1]))
    assert solution.status == "AMBIGUOUS"
    np.testing.assert_allclose(A.measure(solution.rival), A.measure(x), atol=1e-9)
    assert not same_up_to_motion(solution.x, solution.rival, False)


def test_the_order_of_lags_does_not_matter():
    x = counted(12, 200, True, 0)
    A = fq.ShiftTensor(200, cyclic=True, lags=np.random.default_rng(0).permutation(101))
    assert fq.solve(A, A.measure(x), prior=fq.Discrete([0, 1])).status == "PROVEN"


@pytest.mark.parametrize("what", ["a lag is missing", "no counts", "no prior", "other values"])
def test_other_problems_are_left_to_other_stages(what):
    x = counted(4, 12, False, 0)
    A = fq.ShiftTensor(12, lags=np.arange(11)) if what == "a lag is missing" else fq.ShiftTensor(12)
    y = A.measure(x) + (0.01 if what == "no counts" else 0.0)
    prior = {"no prior": None, "other values": fq.Discrete([0.0, 1.5])}.get(what, fq.Discrete([0, 1]))
    solution = fq.solve(A, y, prior=prior, max_time=5)
    assert solution.method != "points"
    assert solution.status != "PROVEN"


def test_more_points_in_one_place_than_the_prior_says_are_no_answer():
    x = np.zeros(30)
    x[[1, 5, 17]] = [2.0, 1.0, 1.0]
    A = fq.ShiftTensor(30)
    solution = fq.solve(A, A.measure(x), prior=fq.Discrete([0, 1]))
    assert not solution.success
    assert "more of them are in one place than `prior` allows" in solution.message


def test_a_budget_of_time_ends_the_stage():
    """So many points that every arc occurs often: the search would take for ever."""
    x = counted(200, 500, True, 0)
    A = fq.ShiftTensor(500, cyclic=True)
    solution = fq.solve(A, A.measure(x), prior=fq.Discrete([0, 1]), max_time=0.5)
    assert solution.status in ("MAX_TIME", "UNDECIDED")
    assert solution.elapsed < 10


# -- the command --------------------------------------------------------------------------------------------------


def command(*arguments, **options):
    return CliRunner().invoke(cli.main, ["points", *map(str, arguments)], **options)


def test_the_command_reads_lists_of_distances(tmp_path):
    points = drawn(12, 500, 0)
    values, counts = np.unique(line_of(points), return_counts=True)
    tables = {
        "plain.txt": "\n".join(map(str, shuffled(line_of(points)))),
        "counts.txt": "0 12\n" + "\n".join(f"{v} {c}" for v, c in zip(values, counts, strict=True)),
    }
    for name, text in tables.items():
        (tmp_path / name).write_text(text)
        with gzip.open(tmp_path / f"{name}.gz", "wt") as stream:
            stream.write(text)
        for path in (tmp_path / name, tmp_path / f"{name}.gz"):
            done = command(path, "-o", tmp_path / "x")
            assert done.exit_code == 0
            report = json.loads(done.stdout)
            assert (report["status"], report["n"], report["x"]) == ("proven", 12, str(tmp_path / "x"))
            np.testing.assert_array_equal(np.load(tmp_path / "x"), standard(points))


def test_the_command_lists_rivals_and_points_that_coincide():
    two = command("-", input="\n".join(map(str, [1, 1, 2, 2, 3, 4, 5, 5, 6, 6, 7, 8, 9, 10, 11])))
    assert two.exit_code == 1
    report = json.loads(two.stdout)
    assert (report["status"], len(report["rivals"]), len(report["x"])) == ("ambiguous", 1, 6)
    # Two pairs at 0, a column of counts without the number of points: 0, 0, 5, 5.
    assert json.loads(command("-", input="0 2\n5 4\n").stdout)["x"] == [0, 0, 5, 5]


def test_the_command_on_a_circle_and_in_noise():
    done = command("-", "--length", 10, input="1\n9\n3\n7\n4\n6\n")
    assert json.loads(done.stdout)["x"] == [0, 1, 4]
    rng = np.random.default_rng(0)
    d = line_of(np.sort(rng.random(30))) + 1e-6 * rng.standard_normal(435)
    report = json.loads(command("-", "--noise", 1e-6, input="\n".join(map(str, d))).stdout)
    assert (report["status"], len(report["stderr"])) == ("converged", 30)


@pytest.mark.parametrize(("arguments", "text", "said"), [
    (["missing.txt"], None, "there is no file 'missing.txt'"),
    (["-"], "a\n", "must have numbers"),
    (["-"], "", "one or two numbers"),
    (["-"], "1 2 3\n", "one or two numbers in each line, got 3"),
    (["-"], "1 0.5\n", "how many pairs"),
    (["-"], "1\n2\n", "n (n − 1)/2"),
    (["-", "--length", "11"], "1\n9\n3\n7\n4\n6\n", "--length must be the sum of the two arcs"),
    (["-", "-o", "nowhere/x"], "1\n", "cannot be written"),
])  # fmt: skip
def test_bad_input_of_the_command_is_one_line(arguments, text, said):
    assert_one_line_error(command(*arguments, input=text), said)
