"""Pictures: how a solution converged, how near it came, what measurements see, and where methods succeed.

Needs matplotlib, imported late.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from fastquad import arguments
from fastquad.diagnosis import Diagnosis
from fastquad.solution import Solution, SolutionBatch, distance
from fastquad.typing import Float, Number

__all__ = ["convergence", "diagnosis", "phase_transition", "recovery"]

# Okabe and Ito's colours, which colour-blind readers tell apart; shapes differ as well.
_BLUE, _ORANGE = "#0072B2", "#D55E00"
_COLOURS = (_BLUE, _ORANGE, "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
# How many of the least redundant measurements are named.
_NAMED = 6
_LABELS = {"n_passes": "passes over A", "n_iter": "steps", "elapsed": "seconds"}


def convergence(solution: Any, *, against: str = "n_passes", ax: Any = None) -> Any:
    """Draw the relative residual after every step; and the distance to x where `solve` was given `x_true`.

    Parameters
    ----------
    solution : Solution, SolutionBatch, or dict of them by their labels
        Of one signal, or of several: one curve each, with their labels in a colour each. Methods are compared by
        `convergence({"auto": fq.solve(A, y), "twf": fq.solve(A, y, method="twf")})`.
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
        for signal, one in enumerate([each] if isinstance(each, Solution) else each):
            _curves(ax, one.history, against, None if signal else str(label), colours)
    ax.set(xlabel=_LABELS[against], ylabel="relative, logarithmic", yscale="log")
    ax.grid(alpha=0.3)
    ax.legend()
    return ax


def _curves(ax: Any, history: Any, against: str, label: str | None, colours: tuple[str, str]) -> None:
    """One signal's residuals, and its distances where they are known; without a label they are not in the legend."""
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


def recovery(solution: Solution | SolutionBatch, x_true: ArrayLike, *, shape: tuple[int, int] | None = None) -> Any:
    """Draw the answer beside the signal, with the sign that is nearer.

    Parameters
    ----------
    solution : Solution or SolutionBatch
    x_true : array of the shape of `solution.x`, (n,) or (b, n)
    shape : (height, width), optional
        Signals are images of this shape: two rows, the true ones above the recovered ones. Without it each signal has
        an axis of its own, on which the coordinates that are zero in both are left out.

    Returns
    -------
    matplotlib.figure.Figure

    Examples
    --------
    >>> import fastquad as fq
    >>> problem = fq.problems.gaussian(m=60, n=30, k=3, rng=0)
    >>> solution = fq.solve(problem.A, problem.y)
    >>> fq.plot.recovery(solution, problem.x).savefig("recovery.png")  # doctest: +SKIP
    """
    _check_solution(solution)
    distances = np.atleast_1d(distance(solution.x, x_true))
    X = np.atleast_2d(arguments.array(x_true, "x_true"))
    X_hat = np.atleast_2d(solution.x)
    if np.iscomplexobj(X) or np.iscomplexobj(X_hat):
        return _shown_once(_complex_recovery(X, X_hat, distances))
    X_hat = np.where(np.einsum("bn,bn->b", X_hat, X) < 0, -1.0, 1.0)[:, None] * X_hat
    if shape is not None:
        return _shown_once(_images(X, X_hat, distances, _checked_shape(shape, X.shape[1])))
    figure = new_figure((8, 2.5 * len(X)))
    for ax, x, x_hat, d in zip(np.ravel(figure.subplots(len(X))), X, X_hat, distances, strict=True):
        shown = np.flatnonzero((x != 0) | (x_hat != 0))
        ax.axhline(0, color="0.7", linewidth=0.8)
        ax.plot(shown, x[shown], "o", color=_BLUE, markerfacecolor="none", label="x")
        ax.plot(shown, x_hat[shown], "x", color=_ORANGE, label="recovered")
        ax.set(xlabel="coordinate", xlim=(-1, len(x)), title=f"relative distance {d:.1e}")
        ax.legend()
    return _shown_once(figure)


def _complex_recovery(X: Number, X_hat: Number, distances: Float) -> Any:
    """Moduli and phases of each signal, turned to the phase of the true one; the phase where both are not zero."""
    inner = np.einsum("bn,bn->b", X_hat.conj(), X)
    X_hat = np.exp(1j * np.angle(inner))[:, None] * X_hat
    figure = new_figure((8, 3.5 * len(X)))
    axes = np.reshape(figure.subplots(2 * len(X)), (len(X), 2))
    for (modulus, phase), x, x_hat, d in zip(axes, X, X_hat, distances, strict=True):
        shown = np.flatnonzero((x != 0) | (x_hat != 0))
        both = np.flatnonzero((x != 0) & (x_hat != 0))
        for ax, part, of, where in ((modulus, np.abs, "modulus", shown), (phase, np.angle, "phase", both)):
            ax.plot(where, part(x[where]), "o", color=_BLUE, markerfacecolor="none", label="x")
            ax.plot(where, part(x_hat[where]), "x", color=_ORANGE, label="recovered")
            ax.set(ylabel=of, xlim=(-1, len(x)))
        modulus.set(title=f"relative distance {d:.1e}")
        modulus.legend()
        phase.set(xlabel="coordinate", ylim=(-np.pi, np.pi))
    return figure


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


def _images(X: Float, X_hat: Float, distances: Float, shape: tuple[int, int]) -> Any:
    """The rows of X as images, above those of X_hat."""
    figure = new_figure((1.1 * len(X) + 0.7, 2.9))
    axes = figure.subplots(2, len(X), squeeze=False)
    for column, (x, x_hat, d) in enumerate(zip(X, X_hat, distances, strict=True)):
        scale = {"cmap": "gray", "vmin": min(0.0, float(x.min())), "vmax": float(x.max())}
        for ax, image in zip(axes[:, column], (x, x_hat), strict=True):
            ax.imshow(image.reshape(shape), **scale)
            ax.set(xticks=[], yticks=[])
        axes[1, column].set_xlabel(f"{d:.2g}")
    axes[0, 0].set_ylabel("true")
    axes[1, 0].set_ylabel("recovered")
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
    """A figure of this size in inches; an error that says what to install where there is no matplotlib."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError("fastquad.plot needs matplotlib: pip install 'fastquad[plots]'.") from None
    return plt.figure(figsize=size, layout="constrained")
