"""The command `fastquad`.

Results go to stdout, as JSON; progress goes to stderr, if that is a terminal. The exit code is 0 for success, 1 if a
solve did not converge, 2 for bad input, with an error in one line, and 130 after Ctrl-C.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
from click.shell_completion import CompletionItem

import fastquad as fq
from fastquad import console
from fastquad.console import INTERRUPTED, NOT_CONVERGED, talkative
from fastquad.noise import from_words
from fastquad.solvers import METHODS

# The errors of bad input, of files and of missing packages.
_EXPECTED = (ValueError, TypeError, OSError, ImportError, NotImplementedError, MemoryError)
_PRIORS: dict[str, Callable[[], fq.Prior]] = {
    "sparse": fq.Sparse,
    "nonnegative": functools.partial(fq.Sparse, nonnegative=True),
    "piecewise": fq.PiecewiseConstant,
    "zero-one": functools.partial(fq.Discrete, [0.0, 1.0]),
}
# A file name that the shell completes; the library checks whether the file exists.
_FILE = click.Path()
_N_THREADS = click.option("--n-threads", type=int, help="Default: FASTQUAD_NUM_THREADS, else all cores.")


class _Command(click.Command):
    """A command whose errors are one line, with the names of its options."""

    def invoke(self, context: click.Context) -> Any:
        try:
            return super().invoke(context)
        except _EXPECTED as error:
            console.fail(str(error) or type(error).__name__)


class _Commands(click.Group):
    """A group whose errors are one line without a traceback; the exit code is what the command returns."""

    command_class = _Command

    def main(self, *args: Any, **extra: Any) -> Any:
        extra["standalone_mode"] = False
        try:
            sys.exit(super().main(*args, **extra) or 0)
        except click.Abort:
            click.echo("fastquad: interrupted", err=True)
            sys.exit(INTERRUPTED)
        except click.ClickException as error:
            console.fail(error.format_message())


@click.group(cls=_Commands, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(fq.__version__)
@click.pass_context
def main(context: click.Context) -> None:
    """Recover a signal x, up to sign (complex x up to a phase), from quadratic measurements y_i = x^T A_i x.

    The exit code is 0 for success, 1 if a solve did not succeed, 2 for bad input, and 130 after Ctrl-C.

    This line makes bash complete commands, options and files (zsh and fish have their own):
    eval "$(_FASTQUAD_COMPLETE=bash_source fastquad)"
    """
    if context.invoked_subcommand is None:
        click.echo(context.get_help())


@main.command(options_metavar="-o X [OPTIONS]")
@click.argument("tensor", metavar="A", type=_FILE)
@click.argument("data", metavar="Y", type=click.Path(allow_dash=True))
@click.option(
    "-o", "--output", required=True, metavar="X", type=click.Path(allow_dash=True),
    help="The file for x, as .npy; - for stdout.",
)  # fmt: skip
@click.option("--method", default="auto", show_default=True, type=click.Choice(list(METHODS)))
@click.option("--prior", "kind", type=click.Choice(list(_PRIORS)), help="What you know of x.")
@click.option("--k", type=int, help="x has at most K nonzeros. The methods spf and sgn need it.")
@click.option(
    "--decoder", metavar="FILE", type=_FILE, help="x is an output of this decoder: a .npz file, or the word mnist."
)
@click.option(
    "--signal",
    type=click.Choice(["real", "complex"]),
    help="Whether x is real or complex. Default: complex if A or Y is.",
)
@click.option("--x0", "start", metavar="FILE", type=_FILE, help="An initial guess: a .npy file, such as an earlier x.")
@click.option(
    "--noise",
    metavar="NOISE",
    help="Standard deviation of the noise in Y, or a model: poisson, quantised:STEP, student:DOF, outliers.",
)
@click.option(
    "--outliers", is_flag=True, default=None, help="Some of Y may be wrong by any amount. The report names them."
)
@click.option("--norm", type=float, help="The norm of x, if you know it.")
@click.option("--tol", type=float, help="Relative residual below which a method has converged.")
@click.option("--max-iter", type=int, help="The largest number of steps.")
@click.option("--max-passes", type=float, help="The largest number of passes over A.")
@click.option("--max-time", type=float, help="Seconds after which no further step is begun.")
@click.option("--memory", metavar="SIZE", help="A budget such as 4GB. Default: half of what the process can get.")
@click.option(
    "--checkpoint",
    metavar="FILE",
    type=_FILE,
    help="Keep the progress in this file. After a kill, the same command resumes.",
)
@_N_THREADS
@click.option("--seed", type=int, help="For everything random. Default: a fixed seed.")
@talkative
def solve(
    tensor: str, data: str, output: str, kind: str | None, k: int | None, decoder: str | None, start: str | None,
    seed: int | None, **options: Any,
) -> int:  # fmt: skip
    """Find x from A and Y.

    A is a .npy file of shape (m, n, n), which is mapped and never loaded as a whole, or a packed folder. Y is a .npy
    file of shape (m,), or (b, m) for b signals; - reads it from stdin. The report is JSON on stdout. With -o - the
    report goes to stderr, and x to stdout. x is always written: the report and the exit code say whether the solve
    succeeded. Ctrl-C writes the best x so far.
    """
    y = console.load(data, "Y")
    x0 = None if start is None else console.load(start, "--x0")
    console.check_output(output)
    given = {name: value for name, value in options.items() if value is not None}
    if "noise" in given:
        given["noise"] = from_words(given["noise"])
    try:
        solution = fq.solve(tensor, y, prior=_prior(kind, k, decoder), x0=x0, rng=seed, **given)
    except KeyboardInterrupt as stopped:
        found = stopped.solution if isinstance(stopped, fq.Interrupted) else None
        return _interrupted(found, output, options["checkpoint"])
    console.save(solution.x, output)
    console.report(console.described(solution, output), err=output == "-")
    return 0 if np.all(solution.success) else NOT_CONVERGED


def _interrupted(found: fq.Solution | fq.types.SolutionBatch | None, output: str, checkpoint: str | None) -> int:
    """After Ctrl-C in a solve: write the best x so far, and say how to go on."""
    begun = found is not None and np.any(found.n_iter)
    if found is None or not begun:
        written = "there is no x yet"
    else:
        console.save(found.x, output)
        written = f"the best x so far, with the residual {np.max(found.residual):.1e}, is in {output}"
    way = "the same command goes on" if checkpoint else f"--x0 {output} goes on from there" if begun else ""
    return console.interrupted("; ".join(filter(None, [written, way])) + ".")


def _prior(kind: str | None, k: int | None, decoder: str | None) -> Any:
    """The prior that the options describe."""
    given = {"--prior": kind, "--k": k, "--decoder": decoder}
    named = [name for name, value in given.items() if value is not None]
    if len(named) > 1:
        raise ValueError(f"`{named[0]}` and `{named[1]}` exclude each other.")
    if decoder is not None:
        return fq.Generative(fq.decoders.mnist() if decoder == "mnist" else fq.decoders.load(decoder))
    if kind is not None:
        return _PRIORS[kind]()
    return None if k is None else fq.Sparse(k=k)


@main.command()
@click.argument("tensor", metavar="A", type=_FILE)
@click.option(
    "--x",
    "signal_file",
    metavar="FILE",
    type=_FILE,
    help="The signal at which to look, a .npy file. Default: a random one.",
)
@click.option("--noise", metavar="NOISE", help="Standard deviation of Y: a number, or a .npy file with m of them.")
@click.option("--signal", type=click.Choice(["real", "complex"]), help="Whether x is real or complex; default: as A.")
@click.option("--labels", "names", metavar="FILE", type=_FILE, help="Names of the measurements, one on each line.")
@click.option(
    "--plot", "picture", metavar="FILE", type=_FILE, help="Draw the redundancies into this file, .png or .svg."
)
@click.option("--table", is_flag=True, help="Print a table of the measurements in place of JSON.")
@_N_THREADS
def diagnose(
    tensor: str, signal_file: str | None, noise: str | None, signal: str | None, names: str | None,
    picture: str | None, table: bool, n_threads: int | None,
) -> int:  # fmt: skip
    """Show what the measurements A can see. No data are needed.

    A is a .npy file of shape (m, n, n), a packed folder, or sparse matrices below each other, as scipy.sparse.save_npz
    writes them. The report is JSON: how many directions of x are unseen, the critical measurements, and how redundant
    each of the others is. The exit code is 1 if something is unseen.
    """
    labels = None if names is None else Path(names).read_text(encoding="utf-8").splitlines()
    x = None if signal_file is None else console.load(signal_file, "--x")
    if picture is not None:
        console.check_output(picture)
    sigma: Any = noise
    if noise is not None:
        sigma = console.load(noise, "--noise") if noise.endswith(".npy") else from_words(noise)
    found = fq.diagnose(console.sparse(tensor), x, sigma, signal=signal, labels=labels, n_threads=n_threads)
    if picture is not None:
        fq.plot.diagnosis(found).figure.savefig(picture)
    if table:
        click.echo(console.table(found.to_rows()))
    else:
        console.report(found.to_dict())
    click.echo(f"fastquad: {found}", err=True)
    return NOT_CONVERGED if found.unseen.size else 0


@main.command()
@click.argument("data", metavar="FILE", type=click.Path(allow_dash=True))
@click.option("-o", "--output", metavar="X", type=_FILE, help="Where to write the positions, as .npy.")
@click.option("--length", type=float, help="The circumference of a circle. FILE then has both arcs of each pair.")
@click.option("--noise", type=float, help="Standard deviation of a distance; default: distances are exact.")
@click.option("--max-time", type=float, help="Seconds after which the search ends; default: 60.")
@click.option("--max-nodes", type=int, help="The largest number of placements to try.")
@talkative
def points(data: str, output: str | None, length: float | None, **options: Any) -> int:
    """Find points from their distances. They are on a line or a circle.

    FILE has a distance on each line, or a distance and the number of pairs that have it. A first line "0 n" may give
    the number of points. FILE may be compressed (.gz), or - for stdin. The report is JSON on stdout. It has the
    positions, and every other set of points with these distances.
    """
    distances = console.distances(data, circle=length is not None)
    if output is not None:
        console.check_output(output)
    given = {name: value for name, value in options.items() if value is not None}
    try:
        search = fq.points.line if length is None else functools.partial(fq.points.circle, length=length)
        found = search(distances, **given)
    except KeyboardInterrupt:
        return console.interrupted("--max-time ends the search with what was found.")
    if output is not None:
        console.save(found.x, output)
    console.report(console.described_points(found, output))
    return 0 if found.success else NOT_CONVERGED


@main.command()
@click.argument("tensor", metavar="A", type=_FILE)
@click.argument("path", metavar="PACKED", type=_FILE)
@click.option(
    "--dtype", type=click.Choice(["float16", "float32", "float64", "complex64", "complex128"]), help="Default: as in A."
)
@_N_THREADS
@talkative
def pack(tensor: str, path: str, dtype: str | None, n_threads: int | None) -> int:
    """Pack A: half the bytes, and read faster.

    A is a .npy file of shape (m, n, n). The symmetric parts of its matrices are written to the folder PACKED. If the
    command is interrupted or the disk is full, the same command resumes.
    """
    try:
        packed = fq.pack(tensor, path, dtype=dtype, n_threads=n_threads)
    except KeyboardInterrupt:
        return console.interrupted(f"what is packed is in {path}.partial: the same command goes on.")
    console.report(console.shape(packed) | {"path": path})
    return 0


@main.command()
@click.argument("tensor", metavar="[A]", required=False, type=_FILE)
@talkative
def info(tensor: str | None) -> None:
    """Describe A; without A, the machine that fastquad runs on.

    A packed folder is read and compared with its checksums.
    """
    if tensor is None:
        console.report(console.machine())
    elif Path(tensor).is_dir():
        console.report(console.shape(fq.open(tensor)) | {"verified": True})
    else:
        console.report(console.shape(fq.as_measurements(tensor)))


@main.command()
@click.option("-o", "--output", default="demo.png", show_default=True, type=_FILE, help="The file for the picture.")
@click.option(
    "--digits/--no-digits", default=True, help="Whether to recover handwritten digits too (300 MB of memory)."
)
@talkative
def demo(output: str, digits: bool) -> int:
    """Recover sparse signals and digits. The digits are drawn."""
    from fastquad import demo

    console.check_output(output)
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
    return 0 if demo.told_rightly(solution, x) else NOT_CONVERGED


def _figures(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """The figures that begin with these letters, for completion in the shell."""
    from fastquad.experiments import FIGURES

    helps = {name: experiment.title for name, experiment in FIGURES.items()} | {"all": "every figure"}
    return [CompletionItem(name, help=said) for name, said in helps.items() if name.startswith(incomplete)]


@main.command()
@click.argument("figures", nargs=-1, required=True, metavar="FIGURE...", shell_complete=_figures)
@click.option(
    "-o", "--output", default="reproduction", show_default=True, type=_FILE,
    help="A folder; each figure has one in it.",
)  # fmt: skip
@click.option("--trials", type=int, help="Trials for each cell. Default: as in the paper.")
@click.option("--quick", is_flag=True, help="Few trials: minutes in all.")
@click.option("--workers", type=int, help="Processes of one thread each. Default: one per core.")
@click.option("--scheduler", metavar="ADDRESS", help="A Dask scheduler, whose workers are used instead.")
@click.option("--set", "changes", multiple=True, metavar="NAME=VALUE", help="Replace a setting, such as n=50.")
@talkative
def reproduce(
    figures: tuple[str, ...], output: str, trials: int | None, quick: bool, workers: int | None,
    scheduler: str | None, changes: tuple[str, ...],
) -> int:  # fmt: skip
    """Rerun figures of the paper. FIGURE is fig1 to fig8, noise (which is not in the paper), or all.

    Finished trials are kept in the output folder. So the same command resumes where it was stopped, and more --trials
    are added to them. All figures take hours; --quick takes minutes. Each figure is a table (CSV, JSON) and a plot
    (PNG, SVG). The report is JSON.
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
        try:
            result = experiments.reproduce(
                name, folder, trials=trials, quick=quick, settings=settings, workers=workers, scheduler=scheduler
            )
        except KeyboardInterrupt:
            return console.interrupted(f"finished trials are in {folder}: the same command goes on.")
        pictures = result.draw(folder) if plots else []
        report[name] = {key: result.about[key] for key in ("trials", "cpu_seconds", "wall_seconds")}
        report[name]["files"] = [str(path) for path in (folder / f"{name}.csv", folder / f"{name}.json", *pictures)]
    if not plots:
        click.echo("fastquad: tables only, for there is no matplotlib: pip install 'fastquad[plots]'", err=True)
    console.report(report)
    return 0


def _setting(change: str) -> tuple[str, Any]:
    """A setting's name, and its value as JSON or else as a word."""
    name, equals, value = change.partition("=")
    if not equals:
        raise ValueError(f"`--set` must be NAME=VALUE, got {change!r}.")
    try:
        return name, json.loads(value)
    except ValueError:
        return name, value


@main.command(context_settings={"ignore_unknown_options": True})
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[PYTEST OPTIONS]...")
def bench(arguments: tuple[str, ...]) -> int:
    """Run the benchmarks of the source tree. All of it takes ten minutes or more.

    Options go to pytest: `-k pass` takes some of the benchmarks, `--smoke` runs each on a small case only, and
    `--benchmark-autosave` keeps the times. `make bench` writes the table of the documentation.
    """
    root = Path(fq.__file__).resolve().parents[1]
    if not (root / "benchmarks").is_dir():
        raise click.ClickException("the benchmarks come with the source tree: run `make bench` there.")
    if importlib.util.find_spec("pytest_benchmark") is None:
        raise click.ClickException("the benchmarks need pytest-benchmark: pip install 'fastquad[bench]'.")
    if not arguments:
        click.echo(
            "fastquad: all benchmarks take ten minutes or more; --smoke runs each on a small case only.", err=True
        )
    command = [sys.executable, "-m", "pytest", "benchmarks/kernels", "--benchmark-only", *arguments]
    return subprocess.run(command, cwd=root, check=False).returncode
