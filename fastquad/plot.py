"""Pictures: how a solution converged, how near it came, what measurements see, and where methods succeed.

Needs matplotlib, imported late.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fastquad import arguments
from fastquad.batch import SolutionBatch
from fastquad.diagnosis import Diagnosis
from fastquad.solution import Solution, distance
from fastquad.typing import Float, Number

__all__ = ["convergence", "diagnosis", "phase_transition", "recovery"]

# Okabe and Ito's colours, which colour-blind readers tell apart; shapes differ as well.
_BLUE, _ORANGE = "#0072B2", "#D55E00"
_COLOURS = (_BLUE, _ORANGE, "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
# How many signals of a batch the legend names.
_IN_LEGEND = 6
# How many of the least redundant measurements are named.
_NAMED = 6
_LABELS = {"n_passes": "passes over A", "n_iter": "steps", "elapsed": "seconds"}


def convergence(solution: Any, *, against: str = "n_passes", ax: Any = None) -> Any:
    """Draw the relative residual after every step; and the distance to x if `solve` was given `x_true`.

    Parameters
    ----------
    solution : Solution, SolutionBatch, or dict of them by their labels
        One curve for each signal. The signals of a batch have a colour each, those of a dict one for each label.
        Methods are compared by `convergence({"auto": fq.solve(A, y), "twf": fq.solve(A, y, method="twf")})`.
    against : {"n_passes", "n_iter", "elapsed"}
        What goes along the horizontal axis.
    ax : matplotlib.axes.Axes, optional
        Where to draw; default: a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import fastquad as fq
    >>> problem = fq.problems.gaussian(m=60, n=30, k=3, rng=0)
    >>> solution = fq.solve(problem.A, problem.y, method="twf", x_true=problem.x)
    >>> fq.plot.convergence(solution).figure.savefig("convergence.png")  # doctest: +SKIP
    """
    labelled = solution if isinstance(solution, dict) else {"": solution}
    for each in labelled.values():
        _check_solution(each)
    arguments.choice(against, "against", _LABELS)
    if ax is None:
        ax = new_figure((6, 4)).subplots()
    for number, (label, each) in enumerate(labelled.items()):
        colours = (_BLUE, _ORANGE) if len(labelled) == 1 else (_COLOURS[number % len(_COLOURS)],) * 2
        signals = [each] if isinstance(each, Solution) else list(each)
        for signal, one in enumerate(signals):
            if len(labelled) == 1 and len(signals) > 1:
                colours, label = (_COLOURS[signal % len(_COLOURS)],) * 2, f"signal {signal}"
            told = signal == 0 or (len(labelled) == 1 and signal < _IN_LEGEND)
            _curves(ax, one.history, against, str(label) if told else None, colours)
    ax.set(xlabel=_LABELS[against], ylabel="relative, logarithmic", yscale="log")
    ax.grid(alpha=0.3)
    _legend(ax)
    return ax


def _curves(ax: Any, history: Any, against: str, label: str | None, colours: tuple[str, str]) -> None:
    """One signal's residuals, and its distances if they are known; without a label they are not in the legend."""
    steps = np.arange(1, len(history["residual"]) + 1) if against == "n_iter" else history[against]
    # A marker at each step, unless they are too many to be told apart.
    every = max(1, len(steps) // 25)
    for key, what, colour, style in (
        ("residual", "relative residual", colours[0], {"marker": "o"}),
        ("distance", "distance to x", colours[1], {"marker": "x", "linestyle": "--"}),
    ):
        if key in history:
            said = None if label is None else ", ".join(filter(None, [label, what]))
            ax.plot(steps, history[key], label=said, color=colour, markersize=4, markevery=every, **style)


def recovery(
    solution: Solution | SolutionBatch, x_true: ArrayLike | None = None, *, shape: tuple[int, int] | None = None
) -> Any:
    """Draw the answer, with bars of two standard errors if they are known; beside the true signal if that is given.

    Parameters
    ----------
    solution : Solution or SolutionBatch
    x_true : array of the shape of `solution.x`, (n,) or (b, n), optional
        The true signal. The answer is then drawn with the sign, or the phase, that brings it nearest.
    shape : (height, width), optional
        Signals are images of this shape: a row of the answers, below a row of the true ones. Without it each signal has
        an axis of its own, on which the coordinates that are zero are left out.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> import fastquad as fq
    >>> problem = fq.problems.gaussian(m=60, n=30, k=3, noise=0.1, rng=0)
    >>> solution = fq.solve(problem.A, problem.y)
    >>> fq.plot.recovery(solution, problem.x).savefig("recovery.png")  # doctest: +SKIP
    """
    _check_solution(solution)
    found = [solution] if isinstance(solution, Solution) else list(solution)
    X = None if x_true is None else np.atleast_2d(arguments.array(x_true, "x_true"))
    if X is not None and X.shape != np.atleast_2d(solution.x).shape:
        raise ValueError(f"`x_true` must have the shape of `solution.x`, {solution.x.shape}, got {X.shape}.")
    answers = [_Answer(each, None if X is None else X[i]) for i, each in enumerate(found)]
    complex_too = any(answer.complex for answer in answers)
    if shape is not None and not complex_too:
        return _shown_once(_images(answers, _checked_shape(shape, answers[0].x_hat.size)))
    height = 3.5 if complex_too else 2.5
    figure = new_figure((8, height * len(answers)))
    parts = _IN_COMPLEX_PLANE if complex_too else _AS_IT_IS
    axes = np.reshape(figure.subplots(len(parts) * len(answers)), (len(answers), len(parts)))
    for row, answer in zip(axes, answers, strict=True):
        for ax, (name, part) in zip(row, parts, strict=True):
            _coordinates(ax, answer, name, part)
        row[0].set_title(answer.title, loc="right", fontsize="medium")
        _legend(row[0])
        row[-1].set_xlabel("coordinate")
    return _shown_once(figure)


_AS_IT_IS = (("x", np.real),)
_IN_COMPLEX_PLANE = (("modulus", np.abs), ("phase", np.angle))


class _Answer:
    """An answer turned to the true signal, if that is known."""

    def __init__(self, solution: Solution, x: Number | None) -> None:
        self.x, self.x_hat, self.stderr = x, solution.x, solution.stderr
        self.complex = np.iscomplexobj(solution.x) or (x is not None and np.iscomplexobj(x))
        self.title = "" if solution.error is None else f"estimated error {solution.error:.1e}"
        if x is None:
            return
        conjugation = solution.gauge.startswith("phase and conjugation")
        if conjugation and distance(self.x_hat.conj(), x) < distance(self.x_hat, x):
            self.x_hat = self.x_hat.conj()
        inner = np.vdot(self.x_hat, x)
        turn = np.exp(1j * np.angle(inner)) if self.complex else np.where(inner < 0, -1.0, 1.0)
        self.x_hat = turn * self.x_hat
        self.distance = distance(self.x_hat, x)
        self.title = ", ".join(filter(None, [f"relative distance {self.distance:.1e}", self.title]))


def _coordinates(ax: Any, answer: _Answer, name: str, part: Any) -> None:
    """A part of the coordinates that are not zero: circles for the true ones, dots with bars for the answer."""
    x, x_hat = answer.x, answer.x_hat
    shown = np.flatnonzero(x_hat if x is None else (x != 0) | (x_hat != 0))
    if name == "phase":  # zero has none
        shown = shown[(x_hat[shown] != 0) & (True if x is None else x[shown] != 0)]
        ax.set_ylim(-3.5, 3.5)
    else:
        ax.axhline(0, color="0.7", linewidth=0.8)
    if x is not None:
        ax.plot(shown, part(x[shown]), "o", color=_BLUE, markerfacecolor="none", markersize=8, label="x")
    if answer.stderr is not None and name != "phase":
        label, bars = "recovered ± 2 standard errors", 2 * answer.stderr[shown]
        ax.errorbar(shown, part(x_hat[shown]), yerr=bars, fmt=".", color=_ORANGE, elinewidth=1, label=label)
    else:
        ax.plot(shown, part(x_hat[shown]), ".", color=_ORANGE, label="recovered")
    ax.set(xlim=(-1, x_hat.size), ylabel=name)


def _legend(ax: Any) -> None:
    """A legend above the axes, off the data."""
    count = len(ax.get_legend_handles_labels()[1])
    style = {"loc": "lower left", "bbox_to_anchor": (0, 1), "borderaxespad": 0.2, "frameon": False}
    ax.legend(ncols=min(count, 2), fontsize="medium" if count <= 2 else "small", **style)


def diagnosis(found: Diagnosis, *, ax: Any = None) -> Any:
    """Draw how redundant each measurement is, the least redundant first, on a logarithmic scale; critical ones marked.

    Parameters
    ----------
    found : Diagnosis
        What `fastquad.diagnose` returned. With its `labels` the least redundant measurements are named.
    ax : matplotlib.axes.Axes, optional
        Where to draw; default: a new figure.

    Returns
    -------
    matplotlib.axes.Axes

    Examples
    --------
    >>> import fastquad as fq
    >>> problem = fq.problems.gaussian(m=60, n=30, k=3, rng=0)
    >>> fq.plot.diagnosis(fq.diagnose(problem.A)).figure.savefig("diagnosis.png")  # doctest: +SKIP
    """
    if not isinstance(found, Diagnosis):
        raise TypeError(f"`found` must be what fastquad.diagnose returned, got {type(found).__name__}.")
    if ax is None:
        ax = new_figure((7, 4)).subplots()
    rows = found.to_rows()
    values = np.array([row["redundancy"] for row in rows])
    critical = np.array([row["critical"] for row in rows], dtype=bool)
    positive = values[~critical & (values > 0)]
    # Zero has no place on the scale: critical ones stand below all others.
    floor = float(positive.min(initial=1.0)) / 3
    places = np.arange(1, len(rows) + 1)
    ax.plot(places[~critical], np.maximum(values[~critical], floor), ".", color=_BLUE, label="redundancy")
    if critical.any():
        ax.plot(places[critical], np.full(critical.sum(), floor), "x", color=_ORANGE, label="critical")
    if found.labels is not None:
        named = "\n".join(f"{row['redundancy']:.2g}  {row['label']}" for row in rows[:_NAMED])
        ax.text(0.98, 0.04, f"the least redundant:\n{named}", transform=ax.transAxes, ha="right", fontsize="small")
    d = found.unseen.shape[1]
    unseen = "every direction of x is seen" if not d else f"{d} direction{'s' if d > 1 else ''} of x unseen"
    ax.set(xlabel="measurements, by redundancy", ylabel="redundancy 1 − h", yscale="log", title=unseen)
    ax.grid(alpha=0.3)
    ax.legend(loc="upper left")
    return ax


def phase_transition(result: Any) -> Any:
    """Draw where methods succeed: a map of the success rate over k and m for each.

    Parameters
    ----------
    result : fastquad.experiments.Result, or list of dict
        What `fastquad.experiments.reproduce("fig2", ...)` returns, or rows of your own with "method", "m", "k" and
        "rate", between 0 and 1. Cells without a row stay white. The line is where the rate crosses one half.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> import fastquad as fq
    >>> rows = [{"method": "TWF", "m": m, "k": k, "rate": float(m > 10 * k)} for m in (25, 50) for k in (2, 4)]
    >>> fq.plot.phase_transition(rows).savefig("phase.png")  # doctest: +SKIP
    """
    rows = _checked_rows(result)
    methods = list(dict.fromkeys(row["method"] for row in rows))
    k, m = (sorted({row[key] for row in rows}) for key in ("k", "m"))
    columns = min(2, len(methods))
    lines = -(-len(methods) // columns)
    figure = new_figure((0.6 + 0.36 * len(k) * columns + 1.2, 0.7 + (0.36 * len(m) + 0.5) * lines))
    panels = np.ravel(figure.subplots(lines, columns, sharex=True, sharey=True, squeeze=False))
    for ax, method in zip(panels, methods, strict=False):
        rates = np.full((len(m), len(k)), np.nan)
        for row in rows:
            if row["method"] == method:
                rates[m.index(row["m"]), k.index(row["k"])] = row["rate"]
        # Dark for failure, bright for success, in colours that are also ordered in grey and for colour-blind readers.
        image = ax.imshow(rates, origin="lower", aspect="auto", cmap="cividis", vmin=0.0, vmax=1.0)
        _label_cells(ax, rates)
        if min(rates.shape) > 1 and np.isfinite(rates).all() and rates.min() < 0.5 < rates.max():
            ax.contour(rates, levels=[0.5], colors="white", linewidths=1.5)
        ax.set(title=method)
        ax.set_xticks(range(len(k)), [str(value) for value in k])
        ax.set_yticks(range(len(m)), [str(value) for value in m])
    for place in range(len(methods), len(panels)):
        panels[place].remove()
        panels[place - columns].tick_params(labelbottom=True)  # now the lowest of its column
    figure.colorbar(image, ax=panels[: len(methods)].tolist(), label="success rate", shrink=0.8)
    figure.supxlabel("nonzeros k", fontsize="medium")
    figure.supylabel("measurements m", fontsize="medium")
    return _shown_once(figure)


def _label_cells(ax: Any, rates: Float) -> None:
    """The rate in per cent in each cell that is neither all nor nothing, legible on the line too."""
    from matplotlib.patheffects import withStroke

    for (row, column), rate in np.ndenumerate(rates):
        if 0 < rate < 1:
            outline = [withStroke(linewidth=2, foreground="white")]
            text = f"{100 * rate:.0f}"
            ax.text(column, row, text, ha="center", va="center", fontsize=7, path_effects=outline, zorder=3)


def _checked_rows(result: Any) -> list[dict[str, Any]]:
    rows = getattr(result, "rows", result)
    keys = {"method", "m", "k", "rate"}
    if not isinstance(rows, list) or not rows or not all(isinstance(row, dict) and keys <= row.keys() for row in rows):
        raise TypeError(
            '`result` must be what fastquad.experiments.reproduce("fig2", ...) returned, or a list of dicts with '
            "'method', 'm', 'k' and 'rate'."
        )
    return rows


def _images(answers: list[_Answer], shape: tuple[int, int]) -> Any:
    """The answers as images, below the true ones if these are known."""
    rows = ["recovered"] if answers[0].x is None else ["true", "recovered"]
    figure = new_figure((1.1 * len(answers) + 0.7, 1.3 * len(rows) + 0.3))
    axes = figure.subplots(len(rows), len(answers), squeeze=False)
    for column, answer in enumerate(answers):
        x = answer.x_hat if answer.x is None else answer.x
        scale = {"cmap": "gray", "vmin": min(0.0, float(x.min())), "vmax": float(x.max())}
        images = [answer.x_hat] if answer.x is None else [answer.x, answer.x_hat]
        for ax, image in zip(axes[:, column], images, strict=True):
            ax.imshow(image.reshape(shape), **scale)
            ax.set(xticks=[], yticks=[])
        if answer.x is not None:
            axes[-1, column].set_xlabel(f"{answer.distance:.2g}")
    for ax, name in zip(axes[:, 0], rows, strict=True):
        ax.set_ylabel(name)
    if answers[0].x is not None:
        figure.supxlabel("relative distance", fontsize="medium")
    return figure


def _check_solution(solution: Any) -> None:
    if not isinstance(solution, Solution | SolutionBatch):
        raise TypeError(f"`solution` must be what fastquad.solve returned, got {type(solution).__name__}.")


def _checked_shape(shape: tuple[int, int], n: int) -> tuple[int, int]:
    if len(shape) != 2 or shape[0] * shape[1] != n:
        raise ValueError(f"`shape` must be (height, width) with height × width = {n}, got {shape}.")
    return shape


def _shown_once(figure: Any) -> Any:
    """The figure. A notebook shows what a cell returns, and every open figure: it is closed there, not to be both."""
    import matplotlib.pyplot as plt

    if "inline" in plt.get_backend():
        plt.close(figure)
    return figure


def new_figure(size: tuple[float, float]) -> Any:
    """A figure of this size in inches; an error that says what to install if there is no matplotlib."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("fastquad.plot needs matplotlib: pip install 'fastquad[plots]'.") from None
    return plt.figure(figsize=size, layout="constrained")
