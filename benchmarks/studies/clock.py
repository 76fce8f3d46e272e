"""What a default solve costs by the clock, in passes over its packed tensor, beside the passes that it counts.

    python benchmarks/studies/clock.py [--cells 400,800,80 ...] [--dtypes float32 float64] [--threads 1 2] [--seeds 1]

A pass is the time of the products of a dense vector. The time is that of the second call in a process, exact and with
noise of 0.1; the peak is that of the resident memory during it, with the tensor, over the tensor. A solve should take
at most 1.6 times the passes that it counts (or 8, if it counts fewer), and 1.3 times the tensor's memory.

`--model` compares instead the cost model of the plan (`fastquad.engine.cost`) with the clock, stage by stage.
"""

import argparse
import os
import time

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import fastquad as fq
from fastquad.engine.cost import Allowance
from fastquad.measurements.dense.layout import LANES, pack_block
from fastquad.measurements.dense.packed import PackedTensor
from fastquad.solvers import plan

CELLS = ("400,800,80", "400,800,400", "420,840,84", "700,1400,140", "700,1400,700")
NOISES = (0.0, 0.1)
# What tells the time: on a machine that others use, the processor's.
clock = time.perf_counter


def gaussian(m, n, dtype, rng):
    """Packed matrices with standard normal entries, made a block at a time."""
    first = fq.pack(rng.standard_normal((LANES, n, n)), dtype=dtype).blocks
    blocks = np.empty((-(-m // LANES), *first.shape[1:]), dtype=dtype)
    blocks[0] = first[0]
    for start in range(1, len(blocks)):
        pack_block(rng.standard_normal((min(LANES, m - LANES * start), n, n)), blocks[start])
    return PackedTensor(blocks, m, n)


def resident(field):
    """A number of bytes from the status of this process: VmRSS, or VmHWM, the peak since it was reset."""
    with open("/proc/self/status") as status:
        return 1024 * next(int(line.split()[1]) for line in status if line.startswith(f"{field}:"))


def seconds_of_pass(A, rng, threads):
    """The least time of a few passes."""
    x, times = rng.standard_normal(A.n), []
    A.products(x, n_threads=threads)
    while len(times) < 3 or (sum(times) < 0.3 and len(times) < 20):
        begin = clock()
        A.products(x, n_threads=threads)
        times.append(clock() - begin)
    return min(times)


def solved(A, y, threads):
    """The second solve: its solution, its seconds and its peak of memory over the tensor's."""
    fq.solve(A, y, n_threads=threads)
    with open("/proc/self/clear_refs", "w") as peak:
        peak.write("5")
    before = resident("VmRSS")
    begin = clock()
    solution = fq.solve(A, y, n_threads=threads)
    seconds = clock() - begin
    return solution, seconds, 1 + (resident("VmHWM") - before) / A.nbytes


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cells", nargs="+", default=CELLS, help="n,m,k")
    parser.add_argument("--dtypes", nargs="+", default=["float32", "float64"])
    parser.add_argument("--threads", nargs="+", type=int, default=[1, 2])
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--busy", action="store_true", help="processor time, for a machine that others use; one thread")
    parser.add_argument(
        "--model", action="store_true", help="the cost of stages, by the model of the plan and the clock"
    )
    parser.add_argument("--profile", action="store_true", help="print where the time goes")
    options = parser.parse_args()
    if options.busy:
        global clock
        clock, options.threads = time.process_time, [1]
    print("n, m, k, type, threads, noise: ms a pass, counted, time in passes, ratio, peak; status, distance")
    for cell in options.cells:
        n, m, k = map(int, cell.split(","))
        for dtype in options.dtypes:
            for seed in range(options.seeds):
                rng = np.random.default_rng(seed)
                A = gaussian(m, n, dtype, rng)
                x = np.zeros(n)
                x[rng.choice(n, k, replace=False)] = rng.standard_normal(k)
                x /= np.linalg.norm(x)
                exact, errors = A.measure(x), rng.standard_normal(m)
                for threads in options.threads:
                    one = seconds_of_pass(A, rng, threads)
                    for noise in NOISES:
                        y = exact + noise * errors
                        if options.model:
                            print(f"{cell}, {dtype}, {noise:g}: {modelled(A, y, threads)}", flush=True)
                            continue
                        solution, seconds, peak = solved(A, y, threads)
                        taken = seconds / one
                        print(
                            f"{cell}, {dtype}, {threads}, {noise:g}: {1e3 * one:.1f}, {solution.n_passes:.1f}, "
                            f"{taken:.1f}, {taken / max(8, solution.n_passes):.2f}, {peak:.2f}; "
                            f"{solution.status.name}, {fq.distance(solution.x, x):.1e}",
                            flush=True,
                        )
                        if options.profile:
                            profile(A, y, threads)


def modelled(A, y, threads):
    """For each stage of a solve "name: ms of the model, ms of the clock"; what follows the last one is its."""
    stages = [["before", 0.0, clock()]]

    class Watched(Allowance):
        def spent_by(self, stage):
            price = self.price

            def added(request):
                cost = price(request)
                stages[-1][1] += cost
                return cost

            self.price = added
            stages[-1][2] = clock() - stages[-1][2]
            stages.append([getattr(stage, "__name__", ""), 0.0, clock()])
            return (yield from super().spent_by(stage))

    plan.Allowance, kept = Watched, plan.Allowance
    try:
        fq.solve(A, y, n_threads=threads)
    finally:
        plan.Allowance = kept
    stages[-1][2] = clock() - stages[-1][2]
    return "; ".join(f"{name}: {1e3 * model:.0f}, {1e3 * time:.0f}" for name, model, time in stages[1:])


def profile(A, y, threads):
    """Print the functions that take longest by themselves, and those that do with what they call."""
    import cProfile
    import pstats

    with cProfile.Profile() as run:
        fq.solve(A, y, n_threads=threads)
    for order, count in (("tottime", 18), ("cumtime", 45)):
        pstats.Stats(run).strip_dirs().sort_stats(order).print_stats(count)


if __name__ == "__main__":
    main()
