"""The experiments with a generative prior: figures 4 to 8.

Signals are MNIST test images that come with the package, divided by their norm; the decoder is the bundled one. A trial
draws A and ten images, which every method recovers in one batch. A is stored in float32.
"""

from __future__ import annotations

import base64
import time
from typing import Any

import numpy as np

from fastquad import datasets, decoders
from fastquad.api import solve
from fastquad.experiments.figures.common import BEST, STYLES, curve, grouped
from fastquad.experiments.result import Result, Row, Settings
from fastquad.experiments.statistics import mean_interval
from fastquad.measurements import pack
from fastquad.plot import new_figure
from fastquad.priors import Generative
from fastquad.priors.projection import levenberg_marquardt
from fastquad.typing import Float

SHAPE = (28, 28)

_COMMON: Settings = {
    "images": 10,
    "methods": ["PPower", "PGD1", "PGD", "LatentLM"],
    "restarts": 5,  # of the projection, by Adam
    "adam_steps": 100,
    "adam_rate": 0.1,
    "iterations": 10,
    "mu": 0.9,
    "dtype": "float32",
    "pictures": False,
}

FEW: Settings = _COMMON | {"m": [120], "sigma": [0.0], "pictures": True}
MANY: Settings = _COMMON | {"m": [400], "sigma": [0.0], "pictures": True}
BY_M: Settings = _COMMON | {"m": [10, 40, 80, 120, 150, 200, 250, 300, 350, 400], "sigma": [0.0]}
NOISY: Settings = _COMMON | {"m": [200], "sigma": [0.2], "pictures": True}
BY_SIGMA: Settings = _COMMON | {"m": [200], "sigma": [0.1, 0.2, 0.5, 1.0, 2.0]}


def cells(settings: Settings) -> list[Row]:
    return [{"m": m, "sigma": sigma} for m in settings["m"] for sigma in settings["sigma"]]


def trial(settings: Settings, cell: Row, number: int) -> list[Row]:
    """Ten images, recovered by each method; one draw of the noise is scaled to each level."""
    chosen, X = images(settings["images"], number)
    rng = np.random.default_rng([6, number])
    # Draw matrix by matrix: the first m do not depend on how many follow.
    A = pack(rng.standard_normal((cell["m"], X.shape[1], X.shape[1]), dtype=np.dtype(settings["dtype"])))
    Y = A.measure(np.ascontiguousarray(X.T)).T
    Y = Y + cell["sigma"] * np.random.default_rng([7, cell["m"], number]).standard_normal(Y.shape)
    prior = Generative(decoders.mnist())
    rows = _described(settings, number, chosen, X, X, method="true") if settings["pictures"] else []
    rows += _described(settings, number, chosen, X, nearest(prior, X), method=BEST)
    for method in settings["methods"]:
        start = time.thread_time()
        solution = solve(A, Y, prior=prior, norm=1.0, rng=number, **_options(method, settings, X))
        cpu = round(time.thread_time() - start, 4)
        passes = round(float(np.mean(solution.n_passes)), 3)
        rows += _described(settings, number, chosen, X, solution.x, method=method, passes=passes, batch_cpu=cpu)
    return rows


def summary(settings: Settings, trials: list[Row]) -> list[Row]:
    """The mean cosine similarity, over images and draws."""
    rows = []
    for (method, m, sigma), group in grouped(trials, "method", "m", "sigma"):
        if method == "true":
            continue
        cosines = np.array([row["cosine"] for row in group])
        low, high = mean_interval(cosines)
        rows.append(
            {"method": method, "m": m, "sigma": sigma, "draws": len({row["trial"] for row in group}),
             "images": len(cosines), "mean": cosines.mean(), "low": low, "high": min(high, 1.0), "min": cosines.min()}
        )  # fmt: skip
        if method != BEST:
            rows[-1]["mean_passes"] = float(np.mean([row["passes"] for row in group]))
            rows[-1]["mean_cpu"] = float(np.mean([row["batch_cpu"] for row in group])) / settings["images"]
    return rows


def images(count: int, number: int) -> tuple[np.ndarray, Float]:
    """Indices of bundled images, and the images themselves (count, 784) with norm one; the same for every figure."""
    bundled, _ = datasets.mnist_samples()
    chosen = np.random.default_rng([5, number]).choice(len(bundled), count, replace=False)
    X = bundled[chosen].reshape(count, -1).astype(np.float64)
    return chosen, X / np.linalg.norm(X, axis=1, keepdims=True)


def nearest(prior: Generative, X: Float) -> Float:
    """The signals of the decoder nearest to the rows of X.

    `Generative.project` assumes noisy vectors and keeps codes small; this continues from its answers with a hundredth
    of that ridge.
    """
    starts = np.stack([prior.project(X, method="lm"), prior.project(X, method="adam", restarts=20)], axis=1)
    codes = levenberg_marquardt(prior.range, X, starts, noise=np.full(len(X), 1e-6), unit=True)
    return prior.signal(codes)


def picture(text: str) -> Float:
    """The image in a row's "pixels"."""
    return np.frombuffer(base64.b64decode(text), dtype="<f2").astype(np.float64).reshape(SHAPE)


def _described(settings: Settings, number: int, chosen: np.ndarray, X: Float, X_hat: Float, **values: Any) -> list[Row]:
    """A row for each image: its similarity, and its pixels if the figure shows it."""
    norms = np.linalg.norm(X_hat, axis=1)
    cosines = np.einsum("bn,bn->b", X, X_hat) / np.where(norms > 0, norms, 1.0)
    rows = [values | {"image": int(i), "cosine": float(c)} for i, c in zip(chosen, cosines, strict=True)]
    if settings["pictures"] and number == 0:
        for row, x_hat in zip(rows, X_hat, strict=True):
            row["pixels"] = base64.b64encode(x_hat.astype("<f2").tobytes()).decode()
    return rows


def _options(method: str, settings: Settings, X: Float) -> dict[str, Any]:
    """The options of `solve` for a method; those of the paper's methods are the paper's."""
    from fastquad.solvers.latent.solver import LatentLM
    from fastquad.solvers.pgd import PGD
    from fastquad.solvers.ppower import PPower

    if method == "LatentLM":
        return {"method": LatentLM()}
    projection: Any = {
        "restarts": settings["restarts"], "n_steps": settings["adam_steps"], "rate": settings["adam_rate"],
        "race": False,  # run all restarts to the end, as in the paper
    }  # fmt: skip
    if method == "PPower":
        return {"method": PPower(**projection)}
    # Count one step more than the paper, because the start is a step here; `min_step=0` prevents an early stop.
    options: dict[str, Any] = {
        "method": PGD(step=settings["mu"], min_step=0.0, **projection),
        "max_iter": settings["iterations"] + 1,
    }
    if method == "PGD1":
        options["x0"] = np.full(X.shape, X.shape[1] ** -0.5)
    return options


def cosine_by_m(result: Result) -> Any:
    """Cosine similarity against m."""
    return _cosine(result, "m", "measurements m")


def cosine_by_sigma(result: Result) -> Any:
    """Cosine similarity against the noise."""
    figure = _cosine(result, "sigma", "noise σ")
    ax = figure.axes[0]
    values = result.experiment.settings["sigma"]
    if min(values) > 0:
        ax.set_xscale("log")
        ax.set_xticks(values, [f"{value:g}" for value in values])
        ax.minorticks_off()
    return figure


def pictures(result: Result) -> Any:
    """The true images, and below them those that each method recovered."""
    rows = [row for row in result.trials if "pixels" in row]
    groups = {method: group for (method,), group in grouped(rows, "method")}
    methods = ["true", *result.experiment.settings["methods"], BEST]
    count = len(groups["true"])
    figure = new_figure((0.85 * count + 1.1, 0.95 * len(methods) + 0.5))
    axes = figure.subplots(len(methods), count, squeeze=False)
    for line, method in zip(axes, methods, strict=True):
        for ax, true, row in zip(line, groups["true"], groups[method], strict=True):
            image = picture(true["pixels"])
            ax.imshow(picture(row["pixels"]), cmap="gray", vmin=0.0, vmax=float(image.max()))
            ax.set(xticks=[], yticks=[])
            if method != "true":
                ax.set_xlabel(f"{row['cosine']:.3f}", fontsize="x-small", labelpad=1)
        name = method.replace(" in ", "\nin ")
        line[0].set_ylabel(name, rotation=0, ha="right", va="center", fontsize="small")
    figure.suptitle(f"{result.experiment.title}; cosine similarity below each", fontsize="medium")
    return figure


def _cosine(result: Result, along: str, label: str) -> Any:
    figure = new_figure((6.5, 4.2))
    ax = figure.subplots()
    for (method,), group in grouped(result.rows, "method"):
        curve(ax, group, along, STYLES[method], method)
    ax.set(xlabel=label, ylabel="mean cosine similarity", ylim=(None, 1.0))
    images, draws = result.rows[0]["images"], result.rows[0]["draws"]
    about = f"{images} images, {draws} draw{'s' if draws > 1 else ''} of A; 95% bands"
    ax.set_title(f"{result.experiment.title}\n{about}", fontsize="medium")
    ax.grid(alpha=0.3)
    ax.legend(loc="lower right" if along == "m" else "lower left")
    return figure
