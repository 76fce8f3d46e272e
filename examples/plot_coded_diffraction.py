r"""
A photograph from coded diffraction patterns
============================================

A camera far behind an object sees the intensities of its Fourier transform, and loses the phases. With a known mask of
random phases in front of the object, and a few such masks, the object can be found:
:math:`y_{li} = |(F D_l x)_i|^2`. Each measurement is of rank one, and :func:`fastquad.solve` begins with vector
approximate message passing, which needs fewer masks than gradient methods do.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
import peers
from skimage import data, transform

import fastquad as fq

SIDE = 20
image = transform.resize(data.camera()[30:330, 60:360], (SIDE, SIDE), anti_aliasing=True)
x = image.ravel() / np.linalg.norm(image)


def masks(count, rng, side=SIDE):
    """Masks of the four phases 1, i, −1 and −i."""
    return 1j ** rng.integers(0, 4, (count, side, side))


def diffraction(codes, share=1.0):
    """The vectors a_i with a_i^* x = (F D_l x)_i, and the same as two functions; of the last mask a share of pixels."""
    side = codes.shape[1]
    n = side * side
    count = codes.size - round((1 - share) * n)
    fourier = np.fft.fft2(np.eye(n).reshape(n, side, side)).reshape(n, n).T / side
    rows = np.concatenate([fourier * code.ravel() for code in codes])[:count]

    def forward(z):
        return np.fft.fft2(codes * z.reshape(side, side)).ravel()[:count] / side

    def adjoint(w):
        w = np.concatenate([w, np.zeros(codes.size - count)])
        return np.sum(codes.conj() * np.fft.ifft2(w.reshape(codes.shape)) * side, axis=0).ravel()

    return rows.conj(), forward, adjoint


# %%
# Four masks, two, and one and a half: of the last mask only half of the pixels are measured. Amplitude flow by fast
# Fourier transforms never forms a vector, and is far quicker than fastquad, which has all of them in memory; fastquad
# needs fewer masks, and adds the status, which says that no other object fits.

rng = np.random.default_rng(0)
found = {}
for count in (4, 2, 1.5):
    vectors, forward, adjoint = diffraction(masks(int(np.ceil(count)), rng), count % 1 or 1.0)
    A = fq.RankOneTensor(vectors)
    y = fq.measure(A, x)
    began = time.perf_counter()
    solution = fq.solve(A, y, signal="real")
    seconds = time.perf_counter() - began
    began = time.perf_counter()
    b = np.sqrt(y)
    start = peers.spectral_amplitude_start(forward, adjoint, b, x.shape, rng, average=np.real)
    flow, steps = peers.amplitude_flow(forward, adjoint, b, start, step=1 / count, max_iter=2000, average=np.real)
    found[count] = solution.x, flow
    print(f"{count} masks: fastquad {fq.distance(solution.x, x):.1e} ({solution.status.name}) in {seconds:.2f} s; "
          f"amplitude flow {fq.distance(flow, x):.1e} ({steps} steps) {time.perf_counter() - began:.2f} s")  # fmt: skip

# %%
# Photons are counted: with about a hundred in a pixel of the camera, the intensities have the standard deviation of
# their square root. The answer comes with its error.

vectors, forward, adjoint = diffraction(masks(4, rng))
A = fq.RankOneTensor(vectors)
exact = fq.measure(A, x)
photons = 100 / exact.mean()
counts = rng.poisson(photons * exact)
noisy = fq.solve(A, counts / photons, noise=np.sqrt(np.maximum(counts, 1)) / photons, signal="real")
print(f"Poisson: {noisy.status.name}, error {fq.distance(noisy.x, x):.3f}, estimated {noisy.error or np.nan:.3f}")

# %%
# A complex object, of half as many pixels a side: its modulus is the photograph, its phase another one.

small = transform.resize(image, (12, 12), anti_aliasing=True)
phase = transform.resize(data.coins()[:200, :200], (12, 12), anti_aliasing=True)
z = (small * np.exp(2j * phase)).ravel()
vectors, *_ = diffraction(masks(4, rng, 12))
A = fq.RankOneTensor(vectors)
solved = fq.solve(A, fq.measure(A, z))
print(f"complex: {solved.status.name} by {solved.method}, distance up to a phase {fq.distance(solved.x, z):.1e}")

# %%


def shown(values, side=SIDE):
    return np.real(values * np.sign(np.sum(values))).reshape(side, side)


turned = solved.x * np.exp(1j * np.angle(np.vdot(solved.x, z)))
pictures = [
    ("the photograph", shown(x)), ("fastquad, 1.5 masks", shown(found[1.5][0])),
    ("amplitude flow, 1.5 masks", shown(found[1.5][1])), ("100 photons a pixel", shown(noisy.x)),
    ("complex: modulus", np.abs(turned).reshape(12, 12)), ("complex: phase", np.angle(turned).reshape(12, 12)),
]  # fmt: skip
figure, axes = plt.subplots(2, 3, figsize=(9, 6.4))
for ax, (title, picture) in zip(axes.ravel(), pictures, strict=True):
    ax.imshow(picture, cmap="gray")
    ax.set_title(title, fontsize=10)
    ax.axis("off")
figure.tight_layout()
plt.show()
