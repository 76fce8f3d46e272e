"""What a batch of signals takes, `solve(A, Y)`, beside a loop of solves.

    python benchmarks/studies/batches.py [--cells 100,200,20,64 ...] [--threads 1 2] [--turns 3] [--busy]

Packed float64, exact and with noise of 0.1. Loop and batch take turns after a call that is not timed: the ratio is the
median over the turns of the loop's time over the batch's.
"""

import argparse
import os
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import fastquad as fq

CELLS = ("30,90,30,500", "100,200,20,64", "100,200,100,64", "300,600,60,16")
NOISES = (0.0, 0.1)


def turn(A, Y, threads, clock):
    """The seconds of a loop and of a batch, and the share of signals that end with the same status."""
    begin = clock()
    alone = [fq.solve(A, y, n_threads=threads) for y in Y]
    between = clock()
    together = fq.solve(A, Y, n_threads=threads)
    end = clock()
    alike = [one.status == other.status for one, other in zip(alone, together, strict=True)]
    return between - begin, end - between, float(np.mean(alike))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", nargs="+", default=CELLS, help="n,m,k,b")
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--busy", action="store_true", help="processor time, for a machine that others use; one thread")
    options = parser.parse_args()
    clock = time.process_time if options.busy else time.perf_counter
    print(
        "n, m, k, b, threads, noise: loop over batch, least and most; ms a signal in the batch; share of equal statuses"
    )
    for cell in options.cells:
        n, m, k, b = map(int, cell.split(","))
        problem = fq.problems.gaussian(m=m, n=n, k=k, n_signals=b, rng=0)
        A, errors = fq.pack(problem.A), np.random.default_rng(1).standard_normal((b, m))
        sizes = np.linalg.norm(problem.x, axis=1, keepdims=True) ** 2
        for threads in [1] if options.busy else options.threads:
            for noise in NOISES:
                Y = problem.y + noise * sizes * errors
                fq.solve(A, Y[:2], n_threads=threads)
                turns = [turn(A, Y, threads, clock) for _ in range(options.turns)]
                ratios = [loop / batch for loop, batch, _ in turns]
                print(
                    f"{cell}, {threads}, {noise:g}: {np.median(ratios):.2f}, {min(ratios):.2f} to {max(ratios):.2f}; "
                    f"{1e3 * np.median([batch for _, batch, _ in turns]) / b:.2f}; {turns[-1][2]:.2f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
