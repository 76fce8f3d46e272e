r"""
A map from its second moments
=============================

A cryo-electron microscope takes pictures of many copies of a molecule, each from an unknown side. Before anything is
known of the sides, the mean of products of Fourier coefficients over all pictures can be taken (Kam 1980). For each
degree l of spherical harmonics it leaves the products of the map's radial functions,

.. math::  C_l(s, t) = (2 l + 1) \sum_{u, v} x_u x_v\, j_l(s r_u)\, j_l(t r_v)\, P_l(\cos \angle(u, v)),

quadratic in the densities x of the voxels u. That determines a general map up to an orthogonal matrix for each l, which
are far too many to choose from. If the map is sparse, second moments may be enough (Bendory and others 2022 to 2026).

Here the solver gets exact moments of small artificial maps. So the example shows what the moments can tell, not what
pictures can: to estimate moments from noisy pictures is a project of its own.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from scipy.special import eval_legendre, spherical_jn

import fastquad as fq

SIDE, DEGREE, SHELLS = 5, 10, 10
rng = np.random.default_rng(0)


def voxels(side):
    """The voxels of a ball on a grid. Its centre is at no special place, so that no turn maps the grid to itself."""
    places = np.stack(np.meshgrid(*[np.arange(side) - (side - 1) / 2] * 3, indexing="ij"), axis=-1).reshape(-1, 3)
    return places[np.linalg.norm(places, axis=1) <= side / 2] + [0.21, 0.34, 0.13]


def moments(at, degree, shells):
    """The matrices of all C_l(s, t) with s <= t, (m, n, n), each of length one; those that vanish are left out."""
    radius = np.linalg.norm(at, axis=1)
    cosine = np.clip(at @ at.T / np.outer(radius, radius), -1, 1)
    matrices = []
    for l in range(degree + 1):
        waves, angles = spherical_jn(l, np.outer(shells, radius)), eval_legendre(l, cosine)
        for s in range(len(shells)):
            matrices += [np.outer(waves[s], waves[t]) * angles for t in range(s, len(shells))]
    matrices = np.array(matrices)
    matrices = (matrices + matrices.transpose(0, 2, 1)) / 2
    size = np.linalg.norm(matrices, axis=(1, 2))
    return matrices[size > 1e-9 * size.max()] / size[size > 1e-9 * size.max(), None, None]


def draw_map(at, k, rng):
    """A map with k voxels of density between 0.5 and 1.5."""
    x = np.zeros(len(at))
    x[rng.choice(len(at), k, replace=False)] = rng.uniform(0.5, 1.5, k)
    return x


def shell_correlation(at, one, other, radii, rng):
    """The Fourier shell correlation of two maps: how alike they are at each resolution."""
    out = []
    for radius in radii:
        direction = rng.standard_normal((200, 3))
        direction *= radius / np.linalg.norm(direction, axis=1, keepdims=True)
        a, b = (np.exp(-1j * direction @ at.T) @ x for x in (one, other))
        out.append(np.vdot(a, b).real / (np.linalg.norm(a) * np.linalg.norm(b)))
    return out


# %%
# Maps of 16 voxels out of 81, of density zero or more. The solver does not know which voxels they are.

at = voxels(SIDE)
A = moments(at, DEGREE, np.linspace(0.3, 1.2 * np.pi, SHELLS))
print(f"{len(A)} moments, {np.linalg.matrix_rank(A.reshape(len(A), -1))} of them independent, {len(at)} voxels.")
prior = fq.Sparse(nonnegative=True)
tried, found = 4, []
for seed in range(tried):
    truth = draw_map(at, 16, np.random.default_rng([16, seed]))
    y = fq.measure(A, truth)
    start = time.perf_counter()
    solution = fq.solve(A, y, prior=prior, max_time=7)
    far = fq.distance(solution.x, truth)
    print(f"{solution.status.name}, {far:.1e} away, {time.perf_counter() - start:.1f} s")
    # A success is right, and a search that ends without one says so.
    assert not solution.success or far < 1e-6
    if solution.success:
        found.append((truth, y, solution))
print(f"{len(found)} of {tried} maps were found.")

# %%
# EXACT means that the map fits all moments to rounding, that they determine each of its densities, and that no other
# map was found that fits. A map that was not found is AMBIGUOUS, STAGNATED or out of time. That is the limit: the
# landscape of second moments has many valleys, and half of the maps of this size are not found within seconds. A real
# map has thousands of voxels, and its search starts from a model of low resolution.

# %%
# What noise of the moments does to a map that was found: the search starts at the true one. The curves are the Fourier
# shell correlation with the true map. Where it falls below 0.5 the map is said to be resolved no further. The moments
# end at the dashed line: what is right of it is known from sparsity alone.

truth, y, solution = found[0] if found else (truth, y, solution)
radii = np.linspace(0.3, 2 * np.pi, 40)
figure, (maps, curve) = plt.subplots(1, 2, figsize=(10, 3.8), width_ratios=(1, 1.3))
for share in (0.0, 1e-3, 1e-2, 1e-1):
    sigma = share * np.sqrt(np.mean(y**2))
    x = truth
    if share:
        noisy = fq.solve(A, y + sigma * rng.standard_normal(len(y)), noise=sigma, x0=x, prior=prior, max_time=3)
        print(f"noise of {share:g}: {noisy.status.name}, {fq.distance(noisy.x, truth):.1e} away, error {noisy.error}")
        x = noisy.x
    x = x * np.sign(x.sum())
    curve.plot(radii, shell_correlation(at, x, truth, radii, np.random.default_rng(1)), label=f"noise {share:g}")
curve.axvline(1.2 * np.pi, color="0.5", ls="--", lw=1)
curve.axhline(0.5, color="0.8", lw=1, zorder=0)
curve.set(xlabel="frequency / rad per voxel", ylabel="shell correlation", ylim=(-0.1, 1.05))
curve.legend(frameon=False, loc="lower left")
there = np.flatnonzero(truth)
maps.scatter(truth, np.abs(solution.x), color="C1", s=18)
maps.plot([0, 1.6], [0, 1.6], color="0.8", lw=1, zorder=0)
maps.set(xlabel="density", ylabel="density found", title=f"{len(there)} of {len(at)} voxels are there", aspect="equal")
figure.tight_layout()
