"""Points on a line from the distances between them (the turnpike problem), and on a circle (the beltway problem).

    python examples/turnpike.py [--points 20] [--length 1000] [--seed 0]

Points lie at integers 0, 1, …, length − 1; what is given is how many pairs of them have each distance. That is the
autocorrelation of the signal with a 1 at each point, `y_d = Σ_j x_j x_{j+d}`, a quadratic system that
`fastquad.ShiftTensor` holds without storing a matrix.

Distances do not tell where the first point is, nor left from right (on a circle: the rotation and the sense). So two
points can be put down at once: on a line those of the largest distance D, at 0 and D, on a circle two of any distance
D. Another point can lie at p only if both |p| and |p − D| are among the distances. That leaves few candidates, and the
default method of `fastquad.solve` finds the points among them. Its status is `AMBIGUOUS`, as it should be: the mirror
image fits as well.
"""

import argparse
import time

import numpy as np

import fastquad as fq


def recover(y, n, *, cyclic=False):
    """The points, from the counts y of pairs at each distance; one of them is at 0. None where they are not found."""

    def pairs_at(distance):
        distance = np.abs(distance)
        return y[np.minimum(distance, n - distance) if cyclic else distance]

    distances = 1 + np.flatnonzero(y[1:])
    # The largest distance; on a circle the one with the fewest pairs, which leaves the fewest candidates.
    D = distances[np.argmin(y[distances])] if cyclic else distances[-1]
    places = np.arange(n if cyclic else D + 1)
    candidates = places[(pairs_at(places) > 0) & (pairs_at(places - D) > 0)]

    gaps = np.abs(candidates[:, None] - candidates)
    lags = np.unique(np.minimum(gaps, n - gaps) if cyclic else gaps)
    A = fq.ShiftTensor(n, cyclic=cyclic, lags=lags)
    solution = fq.solve(A.block(candidates), y[lags], max_time=30)
    print(f"  {len(candidates)} candidates, {len(lags)} distances: {solution.method}, {solution.status.name.lower()}")
    points = candidates[np.abs(solution.x) > 0.5]
    x = np.zeros(n)
    x[points] = 1.0
    # What counts: whether these points have these distances.
    return points if np.array_equal(np.rint(fq.measure(fq.ShiftTensor(n, cyclic=cyclic), x)), y) else None


def congruent(points, others, n, *, cyclic=False):
    """Whether two sets of points are the same up to a motion and a reflection."""

    def forms(points):
        points = np.sort(points)
        starts = points if cyclic else points[:1]
        return {tuple(np.sort((points - start) % n)) for start in starts}

    return bool(forms(points) & (forms(others) | forms(n - 1 - np.asarray(others))))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--points", type=int, default=20)
    parser.add_argument("--length", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    rng = np.random.default_rng(options.seed)
    n, ok = options.length, True
    for name, cyclic in (("line", False), ("circle", True)):
        hidden = np.sort(rng.choice(n, options.points, replace=False))
        x = np.zeros(n)
        x[hidden] = 1.0
        y = np.rint(fq.measure(fq.ShiftTensor(n, cyclic=cyclic), x))
        print(f"{options.points} points on a {name} of length {n}")
        start = time.perf_counter()
        points = recover(y, n, cyclic=cyclic)
        seconds = time.perf_counter() - start
        if points is None:
            print(f"  not found in {seconds:.1f} s")
        else:
            same = congruent(points, hidden, n, cyclic=cyclic)
            relation = "the hidden ones, moved or reflected" if same else "others than the hidden ones"
            print(f"  found in {seconds:.2f} s: {relation}; they have the same distances")
        ok &= points is not None
    return 0 if ok else 1


if __name__ == "__main__":
    raise SystemExit(main())
