"""The picture of real problems that the README and the front page show, from three examples of the gallery.

python benchmarks/studies/world_picture.py docs/figures/real_problems.png
"""

import runpy
import sys
from pathlib import Path

import matplotlib as mpl

mpl.use("agg")
import matplotlib.pyplot as plt
import numpy as np

EXAMPLES = Path(__file__).parents[2] / "examples"


def example(name):
    """What an example has computed."""
    sys.path.insert(0, str(EXAMPLES))
    found = runpy.run_path(str(EXAMPLES / f"plot_{name}.py"))
    plt.close("all")
    return found


def image(ax, values, title, cmap="gray"):
    """One picture without axes."""
    side = int(np.sqrt(values.size))
    ax.imshow(values.reshape(side, side), cmap=cmap, vmin=0)
    ax.set(xticks=[], yticks=[])
    ax.set_title(title, fontsize=9)


def main(path):
    plate, photo, grid = example("coherent_imaging"), example("coded_diffraction"), example("power_grid")
    figure = plt.figure(figsize=(10, 5.2), layout="constrained", facecolor="white")
    top, bottom = figure.subfigures(2, 1, height_ratios=[1, 1.05])
    optics, camera = top.subfigures(1, 2, wspace=0.06)
    optics.suptitle("Holes below the diffraction limit", fontsize=11)
    left, middle, right = optics.subplots(1, 3)
    image(left, plate["y"], "what the camera sees", "magma")
    image(middle, plate["noisy"].x, "found, 0.1 % noise", "magma")
    image(right, plate["x"], "true", "magma")
    camera.suptitle("A photograph from Fourier intensities", fontsize=11)
    left, middle, right = camera.subplots(1, 3)
    pattern = photo["counts"].reshape(4, 128, 128)[0]
    image(left, np.log1p(np.fft.fftshift(pattern)).ravel(), "one of 4 patterns")
    image(middle, photo["shown"](photo["noisy"].x).ravel(), "found, ~100 photons each")
    image(right, photo["shown"](photo["x"]).ravel(), "true")
    ax = bottom.subplots()
    truth = grid["grid"].V
    ax.plot(np.abs(grid["fooled"] - truth), "x", color="C3", ms=4, label="weighted least squares")
    ax.plot(np.abs(grid["V"] - truth), ".", color="C0", label="fastquad, which names the broken meter")
    ax.plot(np.abs(grid["solution"].stderr), "-", color="0.6", lw=1, label="its standard error")
    ax.set(xlabel="bus", ylabel="error of the voltage", yscale="log", xlim=(-2, 119), ylim=(2.5e-5, 2e-3))
    ax.set_title("State of the IEEE grid of 118 buses from 1,098 noisy meters, one of them broken", fontsize=11)
    ax.legend(frameon=True, fontsize=8, ncols=3, loc="lower center", framealpha=0.9)
    figure.savefig(path, dpi=130, facecolor="white", metadata={"Software": None})


if __name__ == "__main__":
    main(sys.argv[1])
