"""Is the support clean, and is the error of a generative prior right?

    python benchmarks/studies/trust.py support [COUNT]          exact problems: are the nonzeros those of the signal?
    python benchmarks/studies/trust.py digits FOLDER [COUNT]    MNIST images that no one has seen: distance and `error`

Problems and images are told apart by their number alone, so that both are reproduced.
"""

from __future__ import annotations

import argparse
from typing import Any

import numpy as np

import fastquad as fq

_SHAPES = (
    (100, 5, 60), (100, 10, 75), (100, 20, 75), (100, 50, 125),
    (60, 20, 100), (40, 40, 100), (60, 3, 30), (80, 30, 160),
)  # fmt: skip


def support(count: int, first: int) -> None:
    """Gaussian, Rademacher, uniform and float32 matrices; a fifth of the coefficients are 1e-6."""
    reached = right = success = 0
    for i in range(first, first + count):
        rng = np.random.default_rng([77, i])
        n, k, m = _SHAPES[i % len(_SHAPES)]
        A = (rng.standard_normal, rng.standard_normal, rng.random, rng.standard_normal)[i % 4]((m, n, n))
        A = np.sign(A) if i % 4 == 1 else A.astype(np.float32) if i % 4 == 3 else A
        values = (rng.uniform(0.5, 1.5, k), np.ones(k), rng.standard_normal(k), 0.7 ** np.arange(k))[i // 4 % 4]
        values = np.where(np.abs(values) < 1e-4, 0.1, values) * rng.choice([-1, 1], k)
        if i % 4 < 3 and k >= 5:
            values[: k // 5] = 1e-6
        x = np.zeros(n)
        x[rng.choice(n, k, replace=False)] = values
        y = np.einsum("ijk,j,k->i", A.astype(np.float64), x, x, optimize=True)
        solution = fq.solve(A, y, rng=i, max_time=5)
        if fq.distance(solution.x, x) < (1e-5 if A.dtype == np.float32 else 1e-9):
            reached += 1
            right += np.array_equal(solution.support, np.flatnonzero(x))
            success += solution.success
    print(f"{count} problems, {reached} solved; support right in {right}, called a success {success}")


def digits(folder: str, count: int, first: int) -> None:
    """Images of the test set at m = 20, 40, 80, 120, in turn."""
    data: Any = fq.datasets.mnist(folder)
    train = data.train_images.reshape(-1, 784).astype(np.float32)
    train /= np.linalg.norm(train, axis=1, keepdims=True)
    prior = fq.Generative(fq.decoders.mnist())

    def digit(x: Any) -> int:
        """The digit of most of the five nearest training images."""
        nearest = np.argsort(-(train @ (x / np.linalg.norm(x)).astype(np.float32)))[:5]
        return int(np.bincount(data.train_labels[nearest], minlength=10).argmax())

    rows = []
    for i in range(first, first + count):
        m = (20, 40, 80, 120)[i % 4]
        x = data.test_images[i].reshape(784) / np.linalg.norm(data.test_images[i])
        A = np.random.default_rng(i).standard_normal((m, 784, 784), dtype=np.float32)
        solution = fq.solve(A, fq.measure(A, x), prior=prior, rng=i)
        turned = solution.x * np.sign(solution.x.sum())
        # The neighbours of a few images have another label than the image itself.
        same = digit(turned) in (data.test_labels[i], digit(x))
        rows.append((m, solution.success, fq.distance(solution.x, x), solution.error, same))
    table = np.array(rows, dtype=float)
    for m in (20, 40, 80, 120):
        part = table[table[:, 0] == m]
        good = part[part[:, 1] == 1]
        within = np.count_nonzero(good[:, 2] <= 1.5 * good[:, 3])
        far, other = np.count_nonzero(good[:, 2] > 0.5), np.count_nonzero(good[:, 4] == 0)
        refused = np.count_nonzero((part[:, 1] == 0) & (part[:, 2] < 0.4))
        print(
            f"m = {m:3}: {len(part)} images, {len(good)} successes, {within} within 1.5 error, {far} further than .5,"
        )
        print(f"         {other} at another digit; nearer than .4 and no success: {refused}")


def main() -> None:
    """Run one of the two."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("what", choices=("support", "digits"))
    parser.add_argument("rest", nargs="*")
    parser.add_argument("--first", type=int, default=5000, help="the number of the first problem or image")
    given = parser.parse_args()
    if given.what == "support":
        support(int(given.rest[0]) if given.rest else 200, given.first)
    else:
        digits(given.rest[0], int(given.rest[1]) if len(given.rest) > 1 else 40, given.first)


if __name__ == "__main__":
    main()
