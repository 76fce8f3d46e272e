"""The command `fastquad`.

What a command finds goes to stdout, as JSON; progress goes to stderr, where that is a terminal. The exit code is 0 for
success, 1 where a solve did not converge, 2 for bad input, which is told in one line.
"""

from __future__ import annotations

import importlib.util
import io
import json
import math
import os
import platform
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

import click
import numpy as np

import fastquad as fq
from fastquad import parallel
from fastquad.solvers import METHODS

NOT_CONVERGED, BAD_INPUT, INTERRUPTED = 1, 2, 130
# What the library raises on bad input, and what files and missing packages raise.
_EXPECTED = (ValueError, TypeError, OSError, ImportError, NotImplementedError, MemoryError)


class _Commands(click.Group):
    """Errors in one line, without a traceback; the exit code is what the command returns."""

    def main(self, *args: Any, **extra: Any) -> Any:
        extra["standalone_mode"] = False
        try:
            sys.exit(super().main(*args, **extra) or 0)
        except click.Abort:
            click.echo("fastquad: interrupted", err=True)
            sys.exit(INTERRUPTED)
        except click.ClickException as error:
            _fail(error.format_message())
        except _EXPECTED as error:
            _fail(str(error) or type(error).__name__)


@click.group(cls=_Commands, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(package_name="fastquad")
@click.pass_context
def main(context: click.Context) -> None:
    """Recover a signal x, up to sign, from quadratic measurements y_i = x^T A_i x.

    Exit code: 0 success, 1 not converged, 2 bad input.
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@main.command()
@click.argument("tensor", metavar="A")
@click.argument("data", metavar="Y")
@click.option("-o", "--output", required=True, metavar="X", help="Where to write x, as .npy; - for stdout.")
@click.option("--method", default="auto", show_default=True, type=click.Choice(list(METHODS)))
@click.option("--k", type=int, help="Number of nonzeros, for the methods that have to be told (spf, sgn).")
@click.option("--decoder", metavar="FILE", help="x is in the range of this decoder: a .npz file, or mnist.")
@click.option("--noise", type=float, help="Standard deviation of the noise in y.")
@click.option("--norm", type=float, help="The norm of x, where it is known.")
@click.option("--tol", type=float, help="Relative residual at which a method has converged.")
@click.option("--max-iter", type=int, help="At most so many steps.")
@click.option("--max-passes", type=float, help="At most so many passes over A.")
@click.option("--max-time", type=float, help="No further step after so many seconds.")
@click.option("--memory", metavar="SIZE", help="A budget, such as 4GB; default: half of what can be had.")
@click.option("--checkpoint", metavar="FILE", help="Keep there what is done: killed, the same command goes on.")
@click.option("--n-threads", type=int, help="Default: FASTQUAD_NUM_THREADS, else all cores.")
@click.option("--seed", type=int, help="For everything random; a fixed one is used by default.")
def solve(
    tensor: str, data: str, output: str, k: int | None, decoder: str | None, seed: int | None, **options: Any
) -> int:
    """Find x from A and Y.

    A is a .npy file of shape (m, n, n), mapped and never loaded whole, or a packed folder. Y is a .npy file of shape
    (m,), or (b, m) for b signals; with - it is read from stdin. The report is JSON on stdout; with -o - it goes to
    stderr, and x to stdout. x is written whether or not it converged: the report and the exit code tell.
    """
    y = _load(data)
    _check_output(output)
    given = {name: value for name, value in options.items() if value is not None}
    solution = fq.solve(tensor, y, prior=_prior(k, decoder), rng=seed, verbose=int(sys.stderr.isatty()), **given)
    _save(solution.x, output)
    _report(_described(solution) | {"x": output}, err=output == "-")
    return 0 if np.all(solution.success) else NOT_CONVERGED


@main.command()
@click.argument("tensor", metavar="A")
@click.argument("path", metavar="PACKED")
@click.option("--dtype", type=click.Choice(["float32", "float64"]), help="Default: as in A.")
@click.option("--n-threads", type=int, help="Default: FASTQUAD_NUM_THREADS, else all cores.")
def pack(tensor: str, path: str, dtype: str | None, n_threads: int | None) -> None:
    """Pack A: half the bytes, and read faster.

    A is a .npy file of shape (m, n, n), of which the symmetric parts are kept, in the folder PACKED. Where the command
    is interrupted or the disk is full, the same command goes on.
    """
    packed = fq.pack(tensor, path, dtype=dtype, n_threads=n_threads)
    _report(_shape(packed) | {"path": path})


@main.command()
@click.argument("tensor", metavar="[A]", required=False)
def info(tensor: str | None) -> None:
    """Tell what A holds; without A, what fastquad runs on.

    A packed folder is read and compared with its checksums.
    """
    if tensor is None:
        names = ("fastquad", "numpy", "scipy", "numba", "matplotlib", "torch", "jax", "dask")
        _report(
            {
                "python": platform.python_version(),
                "machine": platform.machine(),
                "threads": parallel.resolve(None),
                "versions": {name: _version(name) for name in names},
            }
        )
        return
    if Path(tensor).is_dir():
        _report(_shape(fq.open(tensor)) | {"verified": True})
    else:
        _report(_shape(fq.as_measurements(tensor)))


@main.command()
@click.option("-o", "--output", default="demo.png", show_default=True, help="Where to put the picture.")
@click.option(
    "--digits/--no-digits", default=True, help="Whether to recover handwritten digits too (300 MB of memory)."
)
def demo(output: str, digits: bool) -> int:
    """Recover sparse signals and handwritten digits, and draw the digits."""
    from fastquad import demo

    _check_output(output)
    if not demo.sparse_signals(click.echo):
        click.echo("fastquad: a sparse signal was not recovered", err=True)
        return NOT_CONVERGED
    if not digits:
        return 0
    solution, x = demo.digits(click.echo)
    if importlib.util.find_spec("matplotlib") is None:
        click.echo("no picture, for there is no matplotlib: pip install 'fastquad[plots]'")
    else:
        fq.plot.recovery(solution, x, shape=(28, 28)).savefig(output, dpi=150)
        click.echo(f"picture: {output}")
    return 0 if np.all(solution.success) else NOT_CONVERGED


@main.command()
@click.argument("figures", nargs=-1, required=True, metavar="FIGURE...")
@click.option("-o", "--output", default="reproduction", show_default=True, help="A folder; each figure has one in it.")
@click.option("--trials", type=int, help="For each cell; default: as in the paper.")
@click.option("--quick", is_flag=True, help="Few trials: minutes in all.")
@click.option("--workers", type=int, help="Processes, of one thread each; default: one a core.")
@click.option("--scheduler", metavar="ADDRESS", help="A Dask scheduler, whose workers are used instead.")
@click.option("--set", "changes", multiple=True, metavar="NAME=VALUE", help="Replace a setting, such as n=50.")
def reproduce(
    figures: tuple[str, ...], output: str, trials: int | None, quick: bool, workers: int | None,
    scheduler: str | None, changes: tuple[str, ...],
) -> None:  # fmt: skip
    """Rerun figures of the paper: fig1 to fig8, or all.

    Finished trials are kept in the output folder, so the same command goes on where it was stopped, and with more
    --trials adds to what is there. Each figure is a table (CSV, JSON) and a plot (PNG, SVG); the report is JSON.
    """
    from fastquad import experiments

    names = list(experiments.FIGURES) if "all" in figures else list(dict.fromkeys(figures))
    for name in names:
        if name not in experiments.FIGURES:
            raise ValueError(f"there is no figure {name!r}: choose from {', '.join(experiments.FIGURES)}, all.")
    settings = dict(_setting(change) for change in changes)
    plots = importlib.util.find_spec("matplotlib") is not None
    report = {}
    for name in names:
        folder = Path(output, name)
        with _progress(name) as progress:
            result = experiments.reproduce(
                name, folder, trials=trials, quick=quick, settings=settings, workers=workers, scheduler=scheduler,
                progress=progress,
            )  # fmt: skip
        pictures = result.draw(folder) if plots else []
        report[name] = {key: result.about[key] for key in ("trials", "cpu_seconds", "wall_seconds")}
        report[name]["files"] = [str(path) for path in (folder / f"{name}.csv", folder / f"{name}.json", *pictures)]
    if not plots:
        click.echo("fastquad: tables only, for there is no matplotlib: pip install 'fastquad[plots]'", err=True)
    _report(report)


@main.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[PYTEST OPTIONS]...")
def bench(arguments: tuple[str, ...]) -> int:
    """Run the benchmarks of the source tree."""
    root = Path(fq.__file__).resolve().parents[1]
    if not (root / "benchmarks").is_dir():
        raise click.ClickException("the benchmarks come with the source tree: run `make bench` there.")
    if importlib.util.find_spec("pytest_benchmark") is None:
        raise click.ClickException("the benchmarks need pytest-benchmark: pip install 'fastquad[bench]'.")
    command = [sys.executable, "-m", "pytest", "benchmarks", "--benchmark-only", *arguments]
    return subprocess.run(command, cwd=root, check=False).returncode


def _setting(change: str) -> tuple[str, Any]:
    """A setting's name, and its value as JSON or else as a word."""
    name, equals, value = change.partition("=")
    if not equals:
        raise ValueError(f"`--set` must be NAME=VALUE, got {change!r}.")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


@contextmanager
def _progress(label: str) -> Iterator[Callable[[int, int], None] | None]:
    """A bar on stderr with the time that is left, where that is a terminal; else None."""
    if not sys.stderr.isatty():
        yield None
        return
    with click.progressbar(length=1, label=label, file=sys.stderr, show_pos=True) as bar:
        before = None

        def advance(done: int, total: int) -> None:
            nonlocal before
            if before is None:
                # What was on disk before is left out: the time left is reckoned from the speed of this run.
                before, bar.length = done, max(1, total - done)
            bar.update(bar.length - bar.pos if done == total else done - before - bar.pos)

        yield advance


# -- files and reports ------------------------------------------------------------------------------------------


def _fail(message: str) -> None:
    click.echo(f"fastquad: {' '.join(message.split())}", err=True)
    sys.exit(BAD_INPUT)


def _load(path: str) -> np.ndarray:
    """The array in a .npy file, or on stdin."""
    try:
        # Through memory, for a pipe cannot seek, which numpy.load wants to.
        content = sys.stdin.buffer.read() if path == "-" else Path(path).read_bytes()
        array = np.load(io.BytesIO(content), allow_pickle=False)
    except FileNotFoundError:
        raise FileNotFoundError(f"`Y`: there is no file {path!r}.") from None
    except (ValueError, EOFError, OSError) as error:
        raise ValueError(f"`Y`: {path!r} cannot be read as a .npy array: {error}") from error
    if not isinstance(array, np.ndarray):
        raise ValueError(f"`Y`: {path!r} must hold one array (.npy), not an archive of them (.npz).")
    return array


def _check_output(path: str) -> None:
    """Say that the answer cannot be written before the work is done, not after."""
    folder = Path(path).absolute().parent
    if path != "-" and (Path(path).is_dir() or not folder.is_dir() or not os.access(folder, os.W_OK)):
        raise ValueError(f"`--output`: {path!r} cannot be written.")


def _save(x: np.ndarray, path: str) -> None:
    """x as .npy under exactly this name, or on stdout; a reader never sees a part of it."""
    if path == "-":
        # Made in memory first: numpy.save wants to know its position in the file, and a pipe has none.
        buffer = io.BytesIO()
        np.save(buffer, x)
        sys.stdout.buffer.write(buffer.getvalue())
        sys.stdout.buffer.flush()
        return
    beside = Path(f"{path}.part")
    with beside.open("wb") as stream:
        np.save(stream, x)
    beside.replace(path)


def _prior(k: int | None, decoder: str | None) -> Any:
    if decoder is None:
        return None if k is None else fq.Sparse(k=k)
    if k is not None:
        raise ValueError("`--k` and `--decoder` exclude each other.")
    return fq.Generative(fq.decoders.mnist() if decoder == "mnist" else fq.decoders.load(decoder))


def _described(solution: fq.Solution) -> dict[str, Any]:
    """The solution without its arrays; for a batch, lists."""
    batch = solution.x.ndim == 2
    report = {"n": solution.x.shape[-1], "success": bool(np.all(solution.success))}
    report["status"] = [s.name.lower() for s in solution.status] if batch else solution.status.name.lower()
    report["nonzeros"] = [len(s) for s in solution.support] if batch else len(solution.support)
    for name in ("message", "method", "n_iter", "n_passes", "residual", "noise", "elapsed"):
        value = getattr(solution, name)
        report[name] = value.tolist() if isinstance(value, np.ndarray) else value
    return report


def _shape(measurements: fq.Measurements) -> dict[str, Any]:
    return {
        "kind": type(measurements).__name__,
        "m": measurements.m,
        "n": measurements.n,
        "dtype": str(measurements.dtype),
        "bytes": measurements.nbytes,
    }


def _report(report: dict[str, Any], *, err: bool = False) -> None:
    click.echo(json.dumps(_finite(report), indent=2, ensure_ascii=False, allow_nan=False), err=err)


def _finite(value: Any) -> Any:
    """With null for NaN and inf, which JSON does not have."""
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list):
        return [_finite(entry) for entry in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None
