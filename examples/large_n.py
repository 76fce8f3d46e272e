"""Solve a large problem as a batch job: make or open a tensor, solve, one line of JSON on stdout.

    python large_n.py --tensor A.fq --data y.npy --output x.npy --checkpoint solve.ck --memory "4 GB"

solves for a tensor of yours: a packed folder, or a `.npy` file. Without `--tensor` the tensor is a `GaussianTensor`, of
any size, for it is never stored, and the data are those of a signal with k nonzeros:

    python large_n.py -m 2000 -n 20000 -k 10

With `--store A.fq` it is packed into a folder first, in float32, and solved from there.

Everything can be interrupted. The same command goes on: with a folder that is half packed from its last section, with
`--checkpoint` from the last step of the solve, and after the end it gives the same line again. So a job that a
scheduler kills at its time limit is simply submitted again, or put back into the queue, as this one for Slurm:

    #!/bin/bash
    #SBATCH --cpus-per-task=8 --mem=8G --time=01:00:00
    #SBATCH --requeue --open-mode=append --output=large_n.jsonl --error=large_n.log
    export FASTQUAD_NUM_THREADS=$SLURM_CPUS_PER_TASK
    srun python large_n.py --tensor A.fq --data y.npy --output x.npy --checkpoint solve.ck --memory "6 GB"

The budget `--memory` is for the solve; leave a gigabyte or two of the job's memory for the rest. A bar of progress is
drawn on stderr where that is a terminal. The exit code is 0 for success, 1 where the solve did not converge, 2 for bad
input.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import fastquad as fq


def main(arguments: list[str] | None = None) -> int:
    """Do what the command line says; the exit code."""
    options = parser().parse_args(arguments)
    try:
        A, y, x_true = problem(options)
        solution = solve(A, y, options)
        if options.output is not None:
            save(solution.x, options.output)
    except (ValueError, TypeError, OSError, MemoryError) as error:
        print(f"large_n: {' '.join(str(error).split())}", file=sys.stderr)
        return 2
    print(json.dumps(report(A, solution, x_true)), flush=True)
    return 0 if solution.success else 1


def parser() -> argparse.ArgumentParser:
    """The command line."""
    words = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    words.add_argument("--tensor", type=Path, help="a packed folder, or a .npy file of shape (m, n, n)")
    words.add_argument("--data", type=Path, help="a .npy file of shape (m,): the measurements, with --tensor")
    words.add_argument("-m", type=int, default=2000, help="measurements of a tensor that is made")
    words.add_argument("-n", type=int, default=20_000, help="unknowns")
    words.add_argument("-k", type=int, default=10, help="nonzeros of the signal")
    words.add_argument("--seed", type=int, default=0, help="of the tensor and the signal")
    words.add_argument("--store", type=Path, help="pack the tensor that is made into this folder, unless it is there")
    words.add_argument("--method", default="auto")
    words.add_argument("--memory", help='a budget for the solve, such as "4 GB"')
    words.add_argument("--checkpoint", type=Path, help="a file to go on from")
    words.add_argument("--max-passes", type=float, help="the largest number of passes over A")
    words.add_argument("--max-time", type=float, help="the largest number of seconds for this call")
    words.add_argument("--output", type=Path, help="where to put x, as .npy")
    return words


def problem(options: argparse.Namespace) -> tuple[Any, np.ndarray, np.ndarray | None]:
    """A, y, and the signal where it is known."""
    if options.tensor is not None:
        if options.data is None:
            raise ValueError("`--data` must be given with `--tensor`.")
        return options.tensor, np.load(options.data, allow_pickle=False), None
    A = fq.GaussianTensor(options.m, options.n, seed=options.seed)
    rng = np.random.default_rng(options.seed)
    x = np.zeros(options.n)
    x[rng.choice(options.n, options.k, replace=False)] = rng.standard_normal(options.k)
    # A sparse signal makes only its own rows of A.
    y = fq.measure(A, x)
    if options.store is None:
        return A, y, x
    if not options.store.exists():
        fq.pack(A, options.store, dtype="float32")
    return options.store, y, x


def solve(A: Any, y: np.ndarray, options: argparse.Namespace) -> fq.Solution:
    """The solve, with a bar where there is somebody to see it."""
    bar = Bar() if sys.stderr.isatty() else None
    solution = fq.solve(
        A, y, method=options.method, memory=options.memory, checkpoint=options.checkpoint,
        max_passes=options.max_passes, max_time=options.max_time, callback=bar,
    )  # fmt: skip
    if bar is not None:
        bar.close()
    return solution


class Bar:
    """Progress in one line: how far the residual has fallen, on the way from 1 to 1e-9."""

    def __init__(self, width: int = 30) -> None:
        self.width, self.start, self.drawn = width, time.monotonic(), 0.0

    def __call__(self, state: Any) -> None:
        now = time.monotonic()
        if now - self.drawn < 0.1:
            return
        self.drawn = now
        share = min(1.0, max(0.0, -math.log10(max(state.residual, 1e-300)) / 9))
        full = round(share * self.width)
        said = (
            f"step {state.n_iter}, {state.n_passes:.3g} passes, residual {state.residual:.1e}, {now - self.start:.0f} s"
        )
        print(f"\r[{'#' * full}{'.' * (self.width - full)}] {said}  ", end="", file=sys.stderr, flush=True)

    def close(self) -> None:
        """End the line."""
        print(file=sys.stderr)


def save(x: np.ndarray, path: Path) -> None:
    """x under this name; a reader never sees a part of it."""
    beside = path.with_name(path.name + ".part")
    with beside.open("wb") as stream:
        np.save(stream, x)
    beside.replace(path)


def report(A: Any, solution: fq.Solution, x_true: np.ndarray | None) -> dict[str, Any]:
    """What is worth a line in a log."""
    said = {
        "tensor": str(A),
        "status": solution.status.name.lower(),
        "success": bool(solution.success),
        "method": solution.method,
        "n_iter": solution.n_iter,
        "n_passes": solution.n_passes,
        "residual": solution.residual if math.isfinite(solution.residual) else None,
        "nonzeros": len(solution.support),
        "seconds": solution.elapsed,
        "message": solution.message,
    }
    if x_true is not None:
        said["distance"] = float(fq.distance(solution.x, x_true))
    return said


if __name__ == "__main__":
    sys.exit(main())
