r"""
Points from their distances
===========================

How many pairs of points have each distance is all that is known: where are the points? On a line this is the turnpike
problem, on a circle the beltway problem, and both are quadratic: with :math:`x_j = 1` where there is a point,
:math:`y_d = \sum_j x_j x_{j+d}`. Distances that are measured with an error, as in the literature on noisy distance
geometry, fall into the cells beside; a grid that is coarse against the error brings them back.
"""

import matplotlib.pyplot as plt
import numpy as np
import turnpike

import fastquad as fq

N, POINTS = 1000, 15
rng = np.random.default_rng(3)

# %%
# On a line, and on a circle.

figure, axes = plt.subplots(1, 2, figsize=(9, 3.8))
for ax, cyclic in zip(axes, (False, True), strict=True):
    hidden = np.sort(rng.choice(N, POINTS, replace=False))
    x = np.zeros(N)
    x[hidden] = 1.0
    y = np.rint(fq.measure(fq.ShiftTensor(N, cyclic=cyclic), x))
    points = turnpike.recover(y, N, cyclic=cyclic)
    assert points is not None
    assert turnpike.congruent(points, hidden, N, cyclic=cyclic)
    print("circle" if cyclic else "line", "found, moved or mirrored")
    if cyclic:
        for radius, places, color in ((1.0, hidden, "0.6"), (0.9, points, "C0")):
            ax.add_patch(plt.Circle((0, 0), radius, fill=False, color="0.85"))
            angle = 2 * np.pi * places / N
            ax.plot(radius * np.cos(angle), radius * np.sin(angle), "o", color=color, ms=5)
        ax.set_aspect("equal")
        ax.axis("off")
        ax.set_title("beltway: hidden outside, found inside", fontsize=10)
    else:
        ax.vlines(hidden, 0.6, 1.0, color="0.6")
        ax.vlines(points, 0.0, 0.4, color="C0")
        ax.set(xlabel="position", title="turnpike: found, moved or mirrored")
        ax.set_yticks([0.2, 0.8], ["found", "hidden"])
figure.tight_layout()

# %%
# With errors: points at multiples of 5, distances off by a standard deviation of half a unit, brought back to the cells
# of width 5. Above about a fifth of a cell some pairs fall into wrong cells, and the points are lost.

CELL = 5
for error in (0.5, 1.0, 2.0):
    found = 0
    for seed in range(3):
        rng = np.random.default_rng(seed)
        hidden = np.sort(rng.choice(N // CELL, 10, replace=False))
        i, j = np.triu_indices(10, 1)
        distances = CELL * np.abs(hidden[i] - hidden[j]) + error * rng.standard_normal(i.size)
        y = np.bincount(np.clip(np.rint(distances / CELL).astype(int), 0, None), minlength=N // CELL)[: N // CELL]
        y = y.astype(float)
        y[0] = 10
        points = turnpike.recover(y, N // CELL)
        found += points is not None and turnpike.congruent(points, hidden, N // CELL)
    print(f"standard deviation {error / CELL:.1f} of a cell: {found} of 3 found")
plt.show()
