r"""
Faces from eighty numbers
=========================

Images larger than the paper's: 64×64 pixels, so that A has :math:`80 \times 4096^2` entries. It is never stored: the
entries of :class:`fastquad.GaussianTensor` are made when they are needed. What is known of the images is a decoder,
here trained in a second on scikit-image's small set of faces: their mean, and the 30 directions in which they differ
most. Faces that it was not trained on are recovered from 80 measurements :math:`y_i = x^\top A_i x` with an error of
1.2 to 1.4 times the least that this decoder allows, and five of them share two passes over A.
"""

import time

import matplotlib.pyplot as plt
import numpy as np
from skimage import data, transform

import fastquad as fq

SIDE, LATENT, M, HELD_OUT = 64, 30, 80, 4

# %%
# A hundred faces of 25×25 pixels, brought to 64×64, and their mirror images. Four persons are left out.


def faces(side):
    """The faces, (100, side²), between 0 and 1."""
    return np.stack([transform.resize(face, (side, side), order=3).ravel() for face in data.lfw_subset()[:100]])


def train(images, n_latent):
    """A decoder with one linear layer: latent numbers are those of a standard normal vector."""
    side = int(np.sqrt(images.shape[1]))
    mirrored = images.reshape(-1, side, side)[:, :, ::-1].reshape(images.shape)
    both = np.concatenate([images, mirrored])
    mean = both.mean(axis=0)
    _, values, directions = np.linalg.svd(both - mean, full_matrices=False)
    weights = directions[:n_latent] * (values[:n_latent, None] / np.sqrt(len(both)))
    return fq.decoders.Decoder([weights], [mean], ["identity"])


images = faces(SIDE)
decoder = train(images[HELD_OUT:], LATENT)

# %%
# The measurements of the four faces, and of a fifth image that the decoder can show exactly.

truth = np.vstack([images[:HELD_OUT], decoder(np.random.default_rng(1).standard_normal(LATENT))])
A = fq.GaussianTensor(M, SIDE * SIDE, seed=0)
stored = M * A.n * (A.n + 1) // 2 * 4
print(f"{A}; stored, packed in single precision, it would take {stored / 1e9:.1f} GB")
y = fq.measure(A, truth)

began = time.perf_counter()
solutions = fq.solve(A, y, prior=fq.Generative(decoder))
print(f"{len(truth)} images in {time.perf_counter() - began:.1f} s")

# %%
# The best that any method could do is the image of the decoder that is nearest to the face.


def nearest(x):
    """The multiple of a decoder's image that is nearest to x."""
    basis = np.linalg.qr(np.vstack([decoder.weights[0], decoder.biases[0]]).T)[0]
    return basis @ (basis.T @ x)


for name, x, solution in zip(["face 1", "face 2", "face 3", "face 4", "in range"], truth, solutions, strict=True):
    best = fq.distance(nearest(x), x)
    print(f"{name}: {solution.status.name}, error {fq.distance(solution.x, x):.3f} (estimated "
          f"{np.nan if solution.error is None else solution.error:.3f}), the decoder's own {best:.3f}, "
          f"{solution.n_passes:.1f} passes")  # fmt: skip

# %%


def shown(x, like):
    return (x * np.sign(x @ like)).reshape(SIDE, SIDE)


figure, axes = plt.subplots(3, HELD_OUT + 1, figsize=(8.5, 5.4))
for column, x in enumerate(truth):
    for row, picture in enumerate((x, nearest(x), shown(solutions[column].x, x))):
        axes[row, column].imshow(picture.reshape(SIDE, SIDE), cmap="gray", vmin=0, vmax=1)
        axes[row, column].set(xticks=[], yticks=[])
for row, label in enumerate(("4,096 pixels", "best of the decoder", f"from {M} numbers")):
    axes[row, 0].set_ylabel(label)
axes[0, -1].set_title("in range", fontsize=10)
figure.tight_layout()
plt.show()
