r"""
A photograph from coded diffraction patterns
============================================

A camera far behind an object sees the intensities of its Fourier transform, and loses the phases. With a known mask of
random phases in front of the object, and a few such masks, the object can be found:
:math:`y_{li} = |(F D_l x)_i|^2`. :class:`fastquad.FourierTensor` has the masks and nothing else;
:func:`fastquad.solve` begins with vector approximate message passing, which needs fewer masks than gradient methods do,
and both it and the certificate work by fast Fourier transforms.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
import peers
from skimage import data, transform

import fastquad as fq


def photograph(side):
    """A part of scikit-image's photograph, as a signal of norm 1."""
    image = transform.resize(data.camera()[30:330, 60:360], (side, side), anti_aliasing=True)
    return image.ravel() / np.linalg.norm(image)


def masks(count, rng, side):
    """Masks of the four phases 1, i, −1 and −i."""
    return 1j ** rng.integers(0, 4, (count, side, side))


def compared(codes, x, rng, share=1.0):
    """fastquad and amplitude flow, with a share of the pixels of the last mask; their answers."""
    measured = np.ones(codes.shape, dtype=bool)
    measured[-1, round(share * codes.shape[1]) :] = False
    A = fq.FourierTensor(codes, measured=measured)
    y = fq.measure(A, x)
    solution = fq.solve(A, y, signal="real")
    began = time.perf_counter()
    forward, adjoint = peers.coded_diffraction(codes, measured)
    b = np.sqrt(y) / codes.shape[1]
    start = peers.spectral_amplitude_start(forward, adjoint, b, x.shape, rng, average=np.real)
    step = codes.size / measured.sum() / len(codes)
    flow, steps = peers.amplitude_flow(forward, adjoint, b, start, step=step, max_iter=2000, average=np.real)
    seconds = time.perf_counter() - began
    print(f"{codes.shape[1]}×{codes.shape[2]}, {measured.mean() * len(codes):.2g} masks: "
          f"fastquad {fq.distance(solution.x, x):.1e} ({solution.status.name}) in {solution.elapsed:.2f} s; "
          f"amplitude flow {fq.distance(flow, x):.1e} ({steps} steps) in {seconds:.2f} s")  # fmt: skip
    return solution.x, flow


# %%
# Four masks, and a photograph of 128×128 pixels: 65,536 intensities for 16,384 unknowns. A matrix of the vectors would
# take 17 GB. EXACT says that nothing but x, or −x, has these intensities; amplitude flow does not know.

rng = np.random.default_rng(0)
x = photograph(128)
four, _ = compared(masks(4, rng, 128), x, rng)

# %%
# Two masks, and one and a half: of the last mask only half of the pixels are measured.

small = photograph(64)
compared(masks(2, rng, 64), small, rng)
few, flow = compared(masks(2, rng, 64), small, rng, share=0.5)

# %%
# Photons are counted: with about a hundred in a pixel of the camera, the intensities have the standard deviation of
# their square root. The answer comes with its error.

A = fq.FourierTensor(masks(4, rng, 128))
exact = fq.measure(A, x)
photons = 100 / exact.mean()
counts = rng.poisson(photons * exact)
noisy = fq.solve(A, counts / photons, noise=np.sqrt(np.maximum(counts, 1)) / photons, signal="real")
print(f"Poisson: {noisy.status.name}, error {fq.distance(noisy.x, x):.3f}, estimated {noisy.error or np.nan:.3f}, "
      f"{noisy.elapsed:.1f} s")  # fmt: skip

# %%
# A complex object: its modulus is the photograph, its phase another one.

coins = transform.resize(data.coins()[:200, :200], (64, 64), anti_aliasing=True)
z = small * np.exp(2j * coins.ravel())
A = fq.FourierTensor(masks(4, rng, 64))
solved = fq.solve(A, fq.measure(A, z))
print(f"complex: {solved.status.name} by {solved.method}, distance up to a phase {fq.distance(solved.x, z):.1e}, "
      f"{solved.elapsed:.1f} s")  # fmt: skip

# %%


def shown(values):
    side = int(np.sqrt(values.size))
    return np.real(values * np.sign(np.sum(values))).reshape(side, side)


turned = solved.x * np.exp(1j * np.angle(np.vdot(solved.x, z)))
pattern = np.fft.fftshift(counts[: x.size].reshape(128, 128))
pictures = [
    ("the camera: photons behind one mask", np.sqrt(pattern)), ("4 masks, 100 photons a pixel", shown(noisy.x)),
    ("4 masks without noise", shown(four)), ("fastquad, 1.5 masks", shown(few)),
    ("amplitude flow, 1.5 masks", shown(flow)), ("the phase of a complex object", np.angle(turned).reshape(64, 64)),
]  # fmt: skip
figure, axes = plt.subplots(2, 3, figsize=(9, 6.4))
for ax, (title, picture) in zip(axes.ravel(), pictures, strict=True):
    ax.imshow(picture, cmap="gray")
    ax.set_title(title, fontsize=9)
    ax.axis("off")
figure.tight_layout()
plt.show()
