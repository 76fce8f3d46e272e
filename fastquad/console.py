"""Input and output of the command `fastquad`: arrays in files and pipes, reports in JSON, one-line errors."""

from __future__ import annotations

import importlib.metadata
import io
import json
import logging
import math
import os
import platform
import re
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np

import fastquad as fq
from fastquad._kernels import packed
from fastquad.system import npy, threads
from fastquad.system.files import replacing

NOT_CONVERGED, BAD_INPUT, INTERRUPTED = 1, 2, 130


# -- words ------------------------------------------------------------------------------------------------------


def fail(message: str) -> None:
    """Print an error in one line, and exit."""
    click.echo(f"fastquad: {' '.join(in_options(message).split())}", err=True)
    sys.exit(BAD_INPUT)


def interrupted(way_on: str) -> int:
    """Print after Ctrl-C how to go on; returns the exit code."""
    click.echo(f"fastquad: interrupted; {way_on}", err=True)
    return INTERRUPTED


def in_options(message: str, **values: str) -> str:
    """A sentence of the library with the names of options: `max_iter` becomes --max-iter, x0=solution.x --x0 X."""
    context = click.get_current_context(silent=True)
    if context is None:
        return message
    options = {
        parameter.opts[-1].lstrip("-").replace("-", "_"): parameter
        for parameter in context.command.params
        if isinstance(parameter, click.Option)
    }
    if any(parameter.name == "tensor" for parameter in context.command.params):
        message = message.replace("`A`", "A").replace("`y`", "Y")

    def said(match: re.Match[str]) -> str:
        if match["name"] not in options:
            return match[0]
        value = match["value"] if "value" in match.re.groupindex else None
        return options[match["name"]].opts[-1] + (f" {values.get(match['name'], value)}" if value else "")

    message = re.sub(r"\b(?P<name>\w+)='?(?P<value>[\w.]+)'?", said, message)
    message = re.sub(r"`(?P<name>\w+)`", said, message)
    return re.sub(r"`(--[\w-]+|Y)`", r"\1", message)  # an option needs no quotes


def talkative(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --verbose and --quiet to a command."""
    verbose = click.option(
        "-v", "--verbose", count=True, expose_value=False, callback=_listen, help="Say more; twice: all."
    )
    quiet = click.option("-q", "--quiet", is_flag=True, expose_value=False, callback=_hush, help="No progress bar.")
    return verbose(quiet(command))


def _listen(context: click.Context, parameter: click.Parameter, times: int) -> None:
    """Print the library's log on stderr."""
    if times:
        logger = logging.getLogger("fastquad")
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("fastquad: %(message)s"))
        before = logger.level
        logger.addHandler(handler)
        logger.setLevel(logging.INFO if times == 1 else logging.DEBUG)

        def undo() -> None:
            logger.removeHandler(handler)
            logger.setLevel(before)

        context.call_on_close(undo)


def _hush(context: click.Context, parameter: click.Parameter, quiet: bool) -> None:
    if quiet:
        fq.set_progress(False)
        context.call_on_close(lambda: fq.set_progress(None))


# -- files ------------------------------------------------------------------------------------------------------


def load(path: str, name: str) -> np.ndarray:
    """The array in a .npy file, or on stdin."""
    try:
        content = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
    except FileNotFoundError:
        raise FileNotFoundError(f"`{name}`: there is no file {path!r}.") from None
    except OSError as error:
        raise OSError(error.errno, f"`{name}`: {path!r} cannot be read: {error.strerror}") from error
    return npy.array(content, name, path)


def distances(path: str, *, circle: bool) -> np.ndarray:
    """The distances in a text of one per line, or of "distance count" lines, the first of which may be "0 n"."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # of an empty file
            table = np.loadtxt(sys.stdin if path == "-" else path, ndmin=2, dtype=np.float64)
    except FileNotFoundError:
        raise FileNotFoundError(f"`FILE`: there is no file {path!r}.") from None
    except ValueError as error:
        raise ValueError(f"`FILE`: {path!r} must have numbers, a distance in each line: {error}") from error
    if not table.size or table.shape[1] > 2:
        raise ValueError(f"`FILE`: {path!r} must have one or two numbers in each line, got {table.shape[1]}.")
    if table.shape[1] == 1:
        return table[:, 0]
    value, count = table.T
    if (count != np.rint(count)).any() or count.min() < 0:
        raise ValueError(
            f"`FILE`: {path!r} must have how many pairs have a distance as the second number of each line."
        )
    # The number of points agrees with the number of the other distances, which that of pairs that coincide does not.
    n, others = int(count[0]), int(count[1:].sum())
    if value[0] == 0 and others == (n * (n - 1) if circle else n * (n - 1) // 2):
        value, count = value[1:], count[1:]
    return np.repeat(value, count.astype(np.intp))


def check_output(path: str) -> None:
    """Raise an error before the work if the answer cannot be written after it."""
    folder = Path(path).absolute().parent
    if path != "-" and (Path(path).is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK)):
        raise ValueError(f"`--output`: {path!r} cannot be written.")


def save(x: np.ndarray, path: str) -> None:
    """Write x as .npy under exactly this name, or to stdout; a reader never sees a part of it."""
    # Write to memory first: numpy.save asks for its position in the file, and a pipe has none.
    buffer = io.BytesIO()
    np.save(buffer, x)
    if path == "-":
        sys.stdout.buffer.write(buffer.getvalue())
        sys.stdout.buffer.flush()
        return
    with replacing(path, "--output") as stream:
        stream.write(buffer.getvalue())


# -- reports ----------------------------------------------------------------------------------------------------


def report(found: dict[str, Any], *, err: bool = False) -> None:
    """Print a report as JSON."""
    click.echo(json.dumps(_finite(found), indent=2, ensure_ascii=False, allow_nan=False), err=err)


def described(solution: fq.Solution | fq.types.SolutionBatch, output: str) -> dict[str, Any]:
    """The solution without its arrays; for a batch, lists."""
    each = [_described(one, output) for one in ([solution] if isinstance(solution, fq.Solution) else solution)]
    said = each[0] if isinstance(solution, fq.Solution) else {name: [one[name] for one in each] for name in each[0]}
    return {"n": solution.x.shape[-1], **said, "success": bool(np.all(solution.success)), "x": output}


def described_points(solution: fq.points.Points, output: str | None) -> dict[str, Any]:
    """What was found, with the positions, or the file that has them."""
    stderr = None if solution.stderr is None else solution.stderr.tolist()
    return {
        "n": len(solution.x),
        "success": solution.success,
        "status": solution.status.name.lower(),
        "message": in_options(solution.message),
        "method": solution.method,
        "n_iter": solution.n_iter,
        "residual": solution.residual,
        "noise": solution.noise,
        "error": solution.error,
        "elapsed": solution.elapsed,
        "x": solution.x.tolist() if output is None else output,
        "stderr": stderr,
        "rivals": solution.rivals.tolist(),
    }


def _described(solution: fq.Solution, output: str) -> dict[str, Any]:
    return {
        "success": solution.success,
        "status": solution.status.name.lower(),
        "nonzeros": len(solution.support),
        "message": in_options(solution.message, x0=output),
        "method": solution.method,
        "n_iter": solution.n_iter,
        "n_passes": solution.n_passes,
        "residual": solution.residual,
        "noise": solution.noise,
        "error": solution.error,
        "outliers": None if solution.outliers is None else solution.outliers.tolist(),
        "elapsed": solution.elapsed,
    }


def sparse(path: str) -> Any:
    """Sparse matrices below each other, if the file holds such; else its path."""
    if not path.endswith(".npz"):
        return path
    from scipy.sparse import load_npz

    return load_npz(path)


def table(rows: list[dict[str, Any]]) -> str:
    """Rows with the same keys as lines of text, in columns."""
    if not rows:
        return ""
    cells = [list(rows[0])] + [[_cell(value) for value in row.values()] for row in rows]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    return "\n".join("  ".join(map(str.ljust, line, widths)).rstrip() for line in cells)


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def shape(measurements: fq.Measurements) -> dict[str, Any]:
    """The kind, shape and size of a tensor."""
    return {
        "kind": type(measurements).__name__,
        "m": measurements.m,
        "n": measurements.n,
        "dtype": str(measurements.dtype),
        "bytes": measurements.nbytes,
    }


def machine() -> dict[str, Any]:
    """The machine, SIMD level, threads, BLAS libraries and versions that fastquad runs on."""
    names = ("fastquad", "numpy", "scipy", "numba", "matplotlib", "torch", "jax", "dask")
    return {
        "python": platform.python_version(),
        "system": platform.system(),
        "machine": platform.machine(),
        "simd": packed.simd,
        "threads": threads.resolve(None),
        "blas": [
            {name: library.get(name) for name in ("internal_api", "version", "architecture", "num_threads")}
            for library in threads.blas_libraries()
        ],
        "versions": {name: _version(name) for name in names},
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _finite(value: Any) -> Any:
    """The value with null for NaN and inf, which JSON does not have."""
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
