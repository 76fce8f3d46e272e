"""One process with two threads against two Dask workers with one each, on the same tensor in the same run.

    python benchmarks/studies/cluster.py [--gigabytes 4] [--n 1000] [--repeat 5] [--only passes]

A Gaussian tensor, packed in float32. For full passes and for whole solves by the default call, the median of the times
and their ratio. `latency` is a pass over a tensor of next to nothing. The workers are processes on this machine, with
which the client talks over its loopback device.
"""

import argparse
import os
import time

# Two cores for each side.
for name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "FASTQUAD_NUM_THREADS"):
    os.environ.setdefault(name, "2")

import numpy as np  # noqa: E402

import fastquad as fq  # noqa: E402


def median_time(function, repeat):
    function()
    times = []
    for _ in range(repeat):
        start = time.perf_counter()
        function()
        times.append(time.perf_counter() - start)
    return float(np.median(times))


def report(name, here, there):
    print(f"| {name} | {1e3 * here:.0f} | {1e3 * there:.0f} | {there / here:.2f} |", flush=True)


def passes(A, D, repeat):
    """The contractions that read all of A."""
    rng = np.random.default_rng(0)
    x, v, w = rng.standard_normal(A.n), rng.random(A.n), rng.standard_normal(A.m)
    contractions = {
        "products": lambda tensor: tensor.products(x),
        "weighted sum": lambda tensor: tensor.weighted_sum(w),
        "sweep": lambda tensor: tensor.sweep(x, v, w),
    }
    for name, contraction in contractions.items():
        report(name, *(median_time(lambda: contraction(tensor), repeat) for tensor in (A, D)))  # noqa: B023


def solves(A, D, repeat):
    """Default calls, alternately here and there."""
    rng = np.random.default_rng(1)
    for k in (A.n // 100, A.n):
        x = np.zeros(A.n)
        x[rng.permutation(A.n)[:k]] = rng.standard_normal(k)
        y = A.measure(x)
        times = {id(A): [], id(D): []}
        for _ in range(repeat):
            for tensor in (A, D):
                start = time.perf_counter()
                solution = fq.solve(tensor, y)
                times[id(tensor)].append(time.perf_counter() - start)
                assert solution.success, solution.message
                assert fq.distance(solution.x, x) < 1e-6
        name = f"solve, {k} nonzeros ({solution.method}, {solution.n_passes:.1f} passes)"
        report(name, *(float(np.median(times[id(tensor)])) for tensor in (A, D)))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gigabytes", type=float, default=4.0)
    parser.add_argument("--n", type=int, default=1000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--only", choices=("passes", "solves"), help="this part alone")
    options = parser.parse_args()
    from distributed import Client, LocalCluster

    n = options.n
    m = max(8, round(options.gigabytes * 1e9 / (2 * n * (n + 1))))
    A = fq.pack(fq.GaussianTensor(m, n, seed=0), dtype="float32")
    print(f"m = {m}, n = {n}: {A.nbytes / 1e9:.2f} GB\n")
    with (
        LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster,
        Client(cluster) as client,
    ):
        tiny = fq.distribute(np.ones((16, 2, 2)), client)
        latency = median_time(lambda: tiny.products(np.ones(2)), 50)
        start = time.perf_counter()
        D = fq.distribute(A, client)
        print(f"distribute: {time.perf_counter() - start:.1f} s; latency: {1e3 * latency:.1f} ms\n")
        print("| | 2 threads, ms | 2 workers, ms | ratio |\n| --- | --- | --- | --- |")
        if options.only != "solves":
            passes(A, D, options.repeat)
        if options.only != "passes":
            solves(A, D, max(2, options.repeat // 2))


if __name__ == "__main__":
    main()
