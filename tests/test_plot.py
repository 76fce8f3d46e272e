"""Pictures: what they show, by the data in their axes."""

import sys

import numpy as np
import pytest

import fastquad as fq

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("agg")

from matplotlib import pyplot as plt  # noqa: E402


@pytest.fixture(autouse=True)
def _close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def problem():
    return fq.problems.gaussian(m=60, n=30, k=3, rng=0)


@pytest.fixture(scope="module")
def solution(problem):
    return fq.solve(problem.A, problem.y, method="twf", x_true=problem.x, max_iter=40)


def drawn(ax):
    return {line.get_label(): line.get_xydata() for line in ax.get_lines()}


@pytest.mark.parametrize("against", ["n_passes", "n_iter", "elapsed"])
def test_convergence_draws_the_history(solution, against):
    ax = fq.plot.convergence(solution, against=against)
    ax.figure.canvas.draw()
    along = np.arange(1, 41) if against == "n_iter" else solution.history[against]
    curves = drawn(ax)
    np.testing.assert_array_equal(curves["relative residual"], np.c_[along, solution.history["residual"]])
    np.testing.assert_array_equal(curves["distance to x"], np.c_[along, solution.history["distance"]])
    assert ax.get_yscale() == "log"


def test_convergence_on_given_axes_without_the_truth(problem):
    solution = fq.solve(problem.A, problem.y, method="twf", max_iter=5)
    ax = plt.figure().subplots()
    assert fq.plot.convergence(solution, ax=ax) is ax
    assert list(drawn(ax)) == ["relative residual"]


def test_convergence_of_a_batch_draws_a_curve_of_its_own_for_each_signal(problem):
    Y = np.stack([problem.y, 2 * problem.y])
    solutions = fq.solve(problem.A, Y, method="twf", max_iter=5)
    ax = fq.plot.convergence(solutions)
    curves = drawn(ax)
    for i, solution in enumerate(solutions):
        said = f"signal {i}, relative residual"
        np.testing.assert_array_equal(curves[said][:, 1], solution.history["residual"])
    assert len({line.get_color() for line in ax.get_lines()}) == 2


def off_the_data(ax):
    """Whether the legend is above the axes."""
    ax.figure.canvas.draw()
    return ax.get_legend().get_window_extent().y0 >= ax.get_window_extent().y1 - 1


def test_legends_are_off_the_data_and_titles_off_the_legends(problem, solution):
    for ax in (fq.plot.convergence(solution), fq.plot.recovery(solution, problem.x).axes[0]):
        assert off_the_data(ax)
        box, title = ax.get_legend().get_window_extent(), ax._right_title.get_window_extent()
        assert not title.overlaps(box) or not ax._right_title.get_text()


@pytest.mark.parametrize("known", [False, True])
def test_recovery_has_bars_of_two_standard_errors(known):
    problem = fq.problems.gaussian(m=80, n=30, k=3, noise=0.1, unit_norm=True, rng=0)
    solution = fq.solve(problem.A, problem.y)
    assert solution.stderr is not None
    (ax,) = fq.plot.recovery(solution, problem.x if known else None).axes
    ((_, _, (bars,)),) = ax.containers
    shown = np.flatnonzero((problem.x != 0) & known | (solution.x != 0))
    lengths = [segment[1, 1] - segment[0, 1] for segment in bars.get_segments()]
    np.testing.assert_allclose(lengths, 4 * solution.stderr[shown])
    assert ("x" in ax.get_legend_handles_labels()[1]) == known
    assert f"estimated error {solution.error:.1e}" in ax.get_title(loc="right")


def test_recovery_of_a_batch_and_of_images_without_the_truth(problem):
    X = np.stack([problem.x, 2 * problem.x])
    solution = fq.solve(problem.A, fq.measure(problem.A, X), method="lm")
    assert len(fq.plot.recovery(solution).axes) == 2
    figure = fq.plot.recovery(solution, shape=(5, 6))
    assert len(figure.axes) == 2
    np.testing.assert_array_equal(figure.axes[1].images[0].get_array(), solution.x[1].reshape(5, 6))
    z = np.exp(1j * np.arange(4.0))
    rng = np.random.default_rng(0)
    H = rng.standard_normal((30, 4, 4)) + 1j * rng.standard_normal((30, 4, 4))
    found = fq.solve((H + H.conj().transpose(0, 2, 1)), fq.measure(H + H.conj().transpose(0, 2, 1), z))
    assert [ax.get_ylabel() for ax in fq.plot.recovery(found).axes] == ["modulus", "phase"]


def test_recovery_turns_the_sign_and_leaves_out_zeros(problem, solution):
    for x in (problem.x, -problem.x):
        figure = fq.plot.recovery(solution, x)
        figure.canvas.draw()
        (ax,) = figure.axes
        points = drawn(ax)
        assert set(np.flatnonzero(x)) <= set(points["x"][:, 0])
        assert points["x"][:, 1] @ points["recovered"][:, 1] > 0
        assert len(points["x"]) == np.count_nonzero((x != 0) | (solution.x != 0))


def test_recovery_of_images(problem):
    X = np.stack([problem.x, -problem.x])
    solution = fq.solve(problem.A, fq.measure(problem.A, X), method="lm")
    figure = fq.plot.recovery(solution, X, shape=(5, 6))
    figure.canvas.draw()
    above, below = figure.axes[:2], figure.axes[2:]
    for true, recovered, x in zip(above, below, X, strict=True):
        np.testing.assert_array_equal(true.images[0].get_array(), x.reshape(5, 6))
        np.testing.assert_allclose(recovered.images[0].get_array(), x.reshape(5, 6), atol=1e-10)


def test_recovery_of_a_batch_has_an_axis_a_signal(problem):
    X = np.stack([problem.x, -problem.x])
    solution = fq.solve(problem.A, fq.measure(problem.A, X), method="lm")
    assert len(fq.plot.recovery(solution, X).axes) == 2


RATES = [
    {"method": method, "m": m, "k": k, "rate": 0.25 * (m == 40) + 0.5 * (k == 3)}
    for method in ("TWF", "WF", "SPF")
    for k in (5, 3)
    for m in (20, 40, 60)
]


def test_phase_transition_draws_a_map_for_each_method():
    figure = fq.plot.phase_transition(RATES)
    figure.canvas.draw()
    maps = {ax.get_title(): ax for ax in figure.axes if ax.get_title()}
    assert list(maps) == ["TWF", "WF", "SPF"]
    for ax in maps.values():
        # Rows are m, from below, and columns k.
        np.testing.assert_array_equal(ax.images[0].get_array(), [[0.5, 0], [0.75, 0.25], [0.5, 0]])
        assert sorted(text.get_text() for text in ax.texts) == ["25", "50", "50", "75"]
    for method in ("WF", "SPF"):  # the lowest of their columns
        assert [label.get_text() for label in maps[method].get_xticklabels()] == ["3", "5"]
    for method in ("TWF", "SPF"):
        assert [label.get_text() for label in maps[method].get_yticklabels()] == ["20", "40", "60"]


def test_phase_transition_leaves_missing_cells_white():
    figure = fq.plot.phase_transition(RATES[:5])
    figure.canvas.draw()
    assert np.ma.count_masked(np.ma.masked_invalid(figure.axes[0].images[0].get_array())) == 1


@pytest.mark.parametrize("rows", [[], [1], [{"m": 1}], "rows", None])
def test_phase_transition_of_something_else(rows):
    with pytest.raises(TypeError, match="`result` must be"):
        fq.plot.phase_transition(rows)


def test_errors(problem, solution):
    with pytest.raises(TypeError, match=r"`solution` must be what fastquad\.solve returned, got ndarray"):
        fq.plot.convergence(problem.x)
    with pytest.raises(ValueError, match="`against`"):
        fq.plot.convergence(solution, against="time")
    with pytest.raises(ValueError, match="shape"):
        fq.plot.recovery(solution, problem.x[:-1])
    with pytest.raises(ValueError, match=r"`shape` must be .* = 30, got \(4, 4\)"):
        fq.plot.recovery(solution, problem.x, shape=(4, 4))


def test_without_matplotlib_the_error_says_what_to_install(solution, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"fastquad\[plots\]"):
        fq.plot.convergence(solution)


def test_recovery_of_a_complex_signal_shows_modulus_and_phase():
    problem = fq.problems.gaussian(m=100, n=20, k=4, dtype=complex, rng=0)
    solution = fq.solve(problem.A, problem.y)
    figure = fq.plot.recovery(solution, problem.x)
    assert [ax.get_ylabel() for ax in figure.axes] == ["modulus", "phase"]
    for ax in figure.axes:
        true, found = (line for line in ax.lines if line.get_label() in ("x", "recovered"))
        np.testing.assert_allclose(found.get_ydata(), true.get_ydata(), atol=1e-6)
