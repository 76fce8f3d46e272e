r"""
A restriction map from the lengths of its pieces
================================================

An enzyme cuts DNA wherever it finds its site. Where the sites are is a *restriction map*. A *partial digest* stops the
enzyme early, so that every piece between two sites occurs: with the two ends, n points on a line give
:math:`n (n - 1)/2` lengths. Nobody knows which piece a length belongs to. To find the map from the list of lengths is
the turnpike problem.

`fastquad.points.line` takes the list. Lengths in base pairs are whole numbers, and the search on them is exhaustive.
The status is `PROVEN` if this is the only map, up to its mirror image, and `AMBIGUOUS` with every other map if it is
not.
"""

import time

import matplotlib.pyplot as plt
import numpy as np

import fastquad as fq


def lengths_of(sites):
    """The lengths of all pieces between two sites."""
    i, j = np.triu_indices(len(sites), 1)
    return np.abs(sites[j] - sites[i])


def draw(ax, sites, height, color):
    """A map as a bar with its sites."""
    ax.plot([sites.min(), sites.max()], [height, height], color="0.8", lw=6, solid_capstyle="butt", zorder=0)
    ax.vlines(sites, height - 0.18, height + 0.18, color=color, lw=1)


# %%
# A plasmid-sized piece of DNA, cut open: 48,502 base pairs, as the phage lambda has, and 40 sites in random places. All
# that is given is the list of 861 lengths, shuffled.

rng = np.random.default_rng(1)
sites = np.sort(np.concatenate([[0, 48_502], rng.choice(np.arange(1, 48_502), 40, replace=False)]))
lengths = rng.permutation(lengths_of(sites))
start = time.perf_counter()
solution = fq.points.line(lengths)
print(f"{solution.status.name} in {1e3 * (time.perf_counter() - start):.1f} ms. {solution.message}")
mirrored = np.sort(sites.max() - sites)
assert np.array_equal(solution.x, sites) or np.array_equal(solution.x, mirrored)

# %%
# Above the list as a gel shows it, one band for each length; below the map that was found, and the hidden one. A list
# of lengths does not tell left from right.

figure, (gel, maps) = plt.subplots(2, 1, figsize=(9, 3.6), height_ratios=(1, 2), sharex=True)
gel.vlines(lengths, 0, 1, color="C0", lw=0.4, alpha=0.6)
gel.set(yticks=[], ylabel="lengths")
draw(maps, sites, 1, "0.4")
draw(maps, solution.x, 0, "C1")
maps.set(yticks=[0, 1], yticklabels=["found", "hidden"], ylim=(-0.5, 1.5), xlabel="base pairs")
figure.tight_layout()

# %%
# Some maps cannot be told apart, whatever the method: A + B, every site of one set shifted by every site of another,
# has the same lengths as A − B. Both are found, and the status is no success.

A, B = np.array([0, 1_200, 3_100]), np.array([0, 9_000, 23_500, 40_000])
two = fq.points.line(lengths_of(np.add.outer(A, B).ravel()))
print(f"{two.status.name}: {two.message}")
assert len(two.rivals) == 1

figure, ax = plt.subplots(figsize=(9, 1.8))
draw(ax, two.x, 1, "C1")
draw(ax, two.rival, 0, "C3")
ax.set(yticks=[0, 1], yticklabels=["rival", "found"], ylim=(-0.5, 1.5), xlabel="base pairs")
figure.tight_layout()

# %%
# Lengths are measured with an error. With `noise`, the standard deviation of a length, the points are those that
# explain the list best; `stderr` says how well each is known. Least squares that knows which piece each length belongs
# to is shown for comparison.

print("error of a length   status      largest error of a site   of least squares with labels   standard error")
for sigma in (0.3, 1.0, 3.0):
    noisy = lengths_of(sites) + sigma * np.random.default_rng(0).standard_normal(len(lengths))
    found = fq.points.line(rng.permutation(noisy), noise=sigma)
    i, j = np.triu_indices(len(sites), 1)
    told = (np.bincount(j, noisy, len(sites)) - np.bincount(i, noisy, len(sites))) / len(sites)
    off = min(np.abs(found.x - each).max() for each in (sites, mirrored))
    best = np.abs(told - told[0] - sites).max()
    print(f"{sigma:6.1f} bp           {found.status.name:12s}{off:8.2f} bp {best:24.2f} bp {found.stderr[1]:24.2f} bp")
    assert found.status == "CONVERGED"

# %%
# A plasmid is a circle. Each pair of its sites has two arcs, which add up to the length of the circle, and no arc is
# the largest. The search begins with two sites and tries the arc with the fewest pairs of places.

circle = np.sort(rng.choice(5_386, 25, replace=False))
arcs = lengths_of(circle)
ring = fq.points.circle(np.concatenate([arcs, 5_386 - arcs]), length=5_386)
print(f"{ring.status.name}. {ring.message}")

figure, ax = plt.subplots(figsize=(3.6, 3.6))
gaps = np.diff(np.append(circle, circle[0] + 5_386))
for way in (gaps, gaps[::-1]):  # turned and reflected so that the hidden sites begin as those that were found
    for turn in range(len(way)):
        hidden = np.concatenate([[0], np.cumsum(np.roll(way, -turn))[:-1]])
        if np.array_equal(hidden, ring.x):
            aligned = hidden
for radius, points, color in ((1.0, aligned, "0.5"), (0.88, ring.x, "C1")):
    ax.add_patch(plt.Circle((0, 0), radius, fill=False, color="0.85"))
    angle = 2 * np.pi * points / 5_386
    ax.plot(radius * np.cos(angle), radius * np.sin(angle), "o", color=color, ms=5)
ax.set_aspect("equal")
ax.axis("off")
ax.set_title("hidden outside, found inside", fontsize=10)
plt.show()
