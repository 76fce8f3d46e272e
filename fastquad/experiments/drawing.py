"""The plots of the figures, from their tables. Colours are Okabe and Ito's; shapes and line styles differ as well."""

from __future__ import annotations

from typing import Any

import numpy as np

from fastquad.experiments.digits import BEST, picture
from fastquad.experiments.experiment import Result
from fastquad.experiments.sparse import grouped
from fastquad.plot import new_figure, phase_transition

# Told apart by colour-blind readers, and in grey by their shapes.
_STYLES: dict[str, dict[str, Any]] = {
    "SI": {"color": "#E69F00"},
    "SI-S": {"color": "#0072B2"},
    "TWF": {"color": "#E69F00", "marker": "s", "linestyle": "--"},
    "AMP–LM": {"color": "#0072B2", "marker": "o", "linestyle": "-"},
    "least squares": {"color": "#000000", "marker": "", "linestyle": ":"},
    "PPower": {"color": "#009E73", "marker": "v", "linestyle": "-."},
    "PGD1": {"color": "#56B4E9", "marker": "D", "linestyle": (0, (5, 1))},
    "PGD": {"color": "#E69F00", "marker": "s", "linestyle": "--"},
    "LatentLM": {"color": "#0072B2", "marker": "o", "linestyle": "-"},
    BEST: {"color": "#000000", "marker": "", "linestyle": ":"},
}


def spectral(result: Result) -> Any:
    """Box plots of the distance of both starts, for each m."""
    figure = new_figure((7.5, 4.2))
    ax = figure.subplots()
    places = {m: place for place, m in enumerate(dict.fromkeys(row["m"] for row in result.trials))}
    for offset, start in ((-0.2, "SI"), (0.2, "SI-S")):
        groups = grouped([row for row in result.trials if row["start"] == start], "m")
        boxes = [[row["distance"] for row in rows] for _, rows in groups]
        drawn = ax.boxplot(
            boxes, positions=[place + offset for place in places.values()], widths=0.34, patch_artist=True,
            medianprops={"color": "black"}, flierprops={"marker": ".", "markersize": 3, "alpha": 0.5},
            manage_ticks=False,
        )  # fmt: skip
        for box in drawn["boxes"]:
            box.set(facecolor=_STYLES[start]["color"], alpha=0.75, hatch="//" if start == "SI" else None)
        drawn["boxes"][0].set_label({"SI": "SI, all coordinates", "SI-S": "SI-S, estimated support"}[start])
    settings = result.experiment.settings
    ax.set_xticks(list(places.values()), [str(m) for m in places])
    ax.set(xlabel="measurements m", ylabel="relative distance to x", ylim=(0, None), title=_title(result, settings))
    ax.grid(axis="y", alpha=0.3)
    ax.legend()
    return figure


def phase(result: Result) -> Any:
    """The success rate of each method as a map."""
    figure = phase_transition(result)
    settings = {"n": result.experiment.settings["n"]}
    figure.suptitle(_title(result, settings), fontsize="medium")
    return figure


def noise(result: Result) -> Any:
    """Error against m, both logarithmic, one panel for each level of noise."""
    sigmas = list(dict.fromkeys(row["sigma"] for row in result.rows))
    columns = min(2, len(sigmas))
    rows = -(-len(sigmas) // columns)
    figure = new_figure((4.0 * columns + 0.5, 3.1 * rows + 0.6))
    panels = np.ravel(figure.subplots(rows, columns, sharex=True, sharey=True, squeeze=False))
    for ax, sigma in zip(panels, sigmas, strict=False):
        ax.set(title=f"σ = {sigma:g}", xscale="log", yscale="log")
        for (method,), group in grouped([row for row in result.rows if row["sigma"] == sigma], "method"):
            slope = group[0]["slope"]
            label = f"{method}, slope {slope:.2f}".replace("-", "−") if np.isfinite(slope) else method
            _curve(ax, group, "m", _STYLES[method], label)
        ax.set_xticks(result.experiment.settings["m"], [str(m) for m in result.experiment.settings["m"]])
        ax.minorticks_off()
        ax.grid(alpha=0.3)
        ax.legend(fontsize="small")
    for place in range(len(sigmas), len(panels)):
        panels[place].remove()
        panels[place - columns].tick_params(labelbottom=True)  # now the lowest of its column
    figure.supxlabel("measurements m", fontsize="medium")
    figure.supylabel("mean relative error", fontsize="medium")
    figure.suptitle(_title(result, result.experiment.settings), fontsize="medium")
    return figure


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
    """The true images, and below them what each method made of their measurements."""
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
        _curve(ax, group, along, _STYLES[method], method)
    ax.set(xlabel=label, ylabel="mean cosine similarity", ylim=(None, 1.0))
    images, draws = result.rows[0]["images"], result.rows[0]["draws"]
    about = f"{images} images, {draws} draw{'s' if draws > 1 else ''} of A; 95% bands"
    ax.set_title(f"{result.experiment.title}\n{about}", fontsize="medium")
    ax.grid(alpha=0.3)
    ax.legend(loc="lower right" if along == "m" else "lower left")
    return figure


def _curve(ax: Any, group: list[dict[str, Any]], along: str, style: dict[str, Any], label: str) -> None:
    """The mean, in a band of its confidence interval."""
    x, mean, low, high = (np.array([row[key] for row in group], dtype=float) for key in (along, "mean", "low", "high"))
    ax.plot(x, mean, label=label, markersize=5, **style)
    if np.isfinite(low).all():
        if ax.get_yscale() == "log":
            low = np.maximum(low, 0.3 * mean)  # where it reaches below zero, which such an axis does not
        ax.fill_between(x, low, high, color=style["color"], alpha=0.18, linewidth=0)


def _title(result: Result, settings: dict[str, Any]) -> str:
    trials = [row["trials"] for row in result.rows]
    count = f"{min(trials)}" if min(trials) == max(trials) else f"{min(trials)} to {max(trials)}"
    sizes = ", ".join(f"{name} = {settings[name]}" for name in ("n", "k") if name in settings)
    return f"{result.experiment.title}: {sizes}, {count} trials"
