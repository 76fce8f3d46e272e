"""Rerun the experiments of the paper's section V by one call: first the data, then a plot.

`reproduce("fig2", folder)` runs the trials of a figure in parallel processes of one thread each. Every finished trial
is saved, so a call that was stopped can be resumed, and more trials can be added later. The methods of this package are
shown beside the paper's, in the same axes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any

from fastquad import arguments
from fastquad.experiments.experiment import Experiment, run
from fastquad.experiments.figures import digits, levels, noise, phase, spectral
from fastquad.experiments.result import Result, Settings

__all__ = ["FIGURES", "Experiment", "Result", "reproduce"]


def _sparse(name: str, title: str, trials: int, quick: int, figure: ModuleType, seeds: str) -> Experiment:
    return Experiment(
        name, title, figure.SETTINGS, trials, quick, figure.cells, figure.trial, figure.summary, figure.draw, seeds
    )


def _digits(name: str, title: str, trials: int, quick: int, settings: Settings, draw: Callable[..., Any]) -> Experiment:
    seeds = "images: [5, trial]; A: [6, trial]; noise: [7, m, trial]"
    return Experiment(name, title, settings, trials, quick, digits.cells, digits.trial, digits.summary, draw, seeds)


#: The figures, by name.
FIGURES: dict[str, Experiment] = {
    experiment.name: experiment
    for experiment in (
        _sparse("fig1", "Distance of the spectral starts from x", 100, 10, spectral, "[1, trial]"),
        _sparse("fig2", "Success rates", 100, 2, phase, "[2, m, k, trial]"),
        _sparse("fig3", "Error under noise", 50, 5, noise, "[3, m, trial]"),
        _digits("fig4", "Digits from m = 120 measurements", 1, 1, digits.FEW, digits.pictures),
        _digits("fig5", "Digits from m = 400 measurements", 1, 1, digits.MANY, digits.pictures),
        _digits("fig6", "Digits: cosine similarity against m", 3, 1, digits.BY_M, digits.cosine_by_m),
        _digits("fig7", "Digits from m = 200 measurements with noise σ = 0.2", 1, 1, digits.NOISY, digits.pictures),
        _digits("fig8", "Digits: cosine similarity against the noise", 3, 1, digits.BY_SIGMA, digits.cosine_by_sigma),
        _sparse("noise", "Error against the level of the noise", 50, 3, levels, "[9, k, m, trial]"),
    )
}


def reproduce(
    figure: str,
    folder: str | os.PathLike[str],
    *,
    trials: int | None = None,
    quick: bool = False,
    settings: Mapping[str, Any] | None = None,
    workers: int | None = None,
    scheduler: str | None = None,
    progress: Callable[[int, int], object] | None = None,
) -> Result:
    """Run the experiment behind a figure of the paper, or its missing trials.

    Parameters
    ----------
    figure : {"fig1", ..., "fig8", "noise"}
        "noise" is not in the paper: the error against σ, with the Bayes optimum.
    folder : path
        For finished trials and for the tables (CSV, JSON); created if it does not exist. It must not hold trials with
        other settings.
    trials : int, optional
        The number of trials for each cell; default: as in the paper.
    quick : bool
        Fewer trials, for a first look; `trials` takes precedence.
    settings : dict, optional
        Settings of the experiment to replace, such as `{"n": 50}`; see `FIGURES["fig2"].settings`.
    workers : int, optional
        Processes, of one thread each; default: the number of threads that fastquad would use.
    scheduler : str, optional
        The address of a Dask scheduler, whose workers are used instead.
    progress : function, optional
        Called with (trials done, trials in all) at the start and after each.

    Returns
    -------
    Result
        With the table `rows`, the `trials`, and `draw(folder)`, which plots.

    Notes
    -----
    New processes are started fresh ("spawn"), so a script that calls this needs the guard
    `if __name__ == "__main__":`.

    Examples
    --------
    >>> import fastquad as fq
    >>> small = {"n": 20, "k": [2], "m": [40, 60], "methods": ["TWF", "AMP–LM"]}
    >>> result = fq.experiments.reproduce("fig2", "fig2", trials=10, settings=small)  # doctest: +SKIP
    >>> result.rows[0]["rate"]  # doctest: +SKIP
    1.0
    """
    experiment = FIGURES[arguments.choice(figure, "figure", FIGURES)]
    if settings:
        experiment = experiment.changed(settings)
    if trials is None:
        trials = experiment.quick_trials if quick else experiment.trials
    arguments.count(trials, "trials")
    if workers is not None:
        arguments.count(workers, "workers")
    if workers is not None and scheduler is not None:
        raise ValueError("`workers` and `scheduler` exclude each other: the cluster has workers of its own.")
    path = Path(folder)
    result = run(experiment, path, trials, workers=workers, scheduler=scheduler, progress=progress)
    result.save(path)
    return result
