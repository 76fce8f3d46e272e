"""What the studies of ordinary data share: the optimum, a file of trials, and a comparison of two trees.

A problem is a model of its free numbers: it gives what is measured, and its Jacobian. So the optimum, nonlinear least
squares from the truth on the true support, is found in the same way for every kind of A.
"""

from __future__ import annotations

import csv
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Array = NDArray[Any]
ROOT = Path(__file__).parents[2]
#: v -> (z, J): what is measured without noise, (m,), and its derivative, (m, f).
Model = Callable[[Array], tuple[Array, Array]]


# -- the optimum --------------------------------------------------------------------------------------------------


def real_coordinates(x: Array) -> Array:
    """x as real numbers: a complex x becomes its real parts and then its imaginary parts."""
    return np.concatenate([x.real, x.imag]) if np.iscomplexobj(x) else x


def model_of_arrays(A: Array, support: Array) -> Model:
    """The model of stored matrices (m, n, n) on a support of s coordinates: s real numbers, or 2 s."""
    B = A[:, support[:, None], support]
    B = (B + B.conj().transpose(0, 2, 1)) / 2
    s = len(support)

    def values(v: Array) -> tuple[Array, Array]:
        x = v[:s] + 1j * v[s:] if v.size == 2 * s else v
        W = B @ x
        J = np.concatenate([W.real, W.imag], axis=1) if v.size == 2 * s else W.real
        return (W @ x.conj()).real, 2 * J

    return values


def model_of_factors(a: Array, weights: Array, support: Array) -> Model:
    """The model of y_i = Σ_r w_ir |a_ir^H x|², a (m, R, n), for real x and a."""
    a = a[:, :, support]

    def values(v: Array) -> tuple[Array, Array]:
        p = a @ v
        return np.sum(weights * p**2, axis=1), 2 * np.einsum("ir,irj->ij", weights * p, a)

    return values


def least_squares(model: Model, v: Array, y: Array, sigma: Array | float = 1.0) -> Array:
    """The nearest bottom of Σ (z_i(v) − y_i)²/σ_i² from v, by Levenberg–Marquardt."""
    z, J = model(v)
    cost, damping = float(np.sum(((z - y) / sigma) ** 2)), 1e-3
    for _ in range(60):
        weighted = J / np.reshape(sigma, (-1, 1))
        scale = float(np.sum(weighted**2)) / v.size
        # the damped step by a factorisation of J itself: small noise needs its full precision
        rows = np.vstack([weighted, np.sqrt(damping * scale) * np.eye(v.size)])
        step = np.linalg.lstsq(rows, np.concatenate([(y - z) / sigma, np.zeros(v.size)]), rcond=None)[0]
        z_new, J_new = model(v + step)
        cost_new = float(np.sum(((z_new - y) / sigma) ** 2))
        small = np.linalg.norm(step) <= 1e-13 * np.linalg.norm(v)
        if cost_new <= cost or small:
            v, z, J, cost, damping = v + step, z_new, J_new, cost_new, damping / 30
        else:
            damping = max(10 * damping, 1e-12)
        if small or damping > 1e12:
            break
    return v


def standard_errors(model: Model, v: Array, sigma: Array | float, gauge: int = 0) -> Array | None:
    """The standard errors of v, (f,), up to `gauge` directions that nothing measures; None if others are open."""
    J = model(v)[1] / np.reshape(sigma, (-1, 1))
    _, values, V = np.linalg.svd(J, full_matrices=False)
    free = v.size - gauge
    if len(J) < free or values[free - 1] <= 1e-11 * values[0]:
        return None
    return np.asarray(np.sqrt(np.sum((V[:free].T / values[:free]) ** 2, axis=1)))


class Answer(NamedTuple):
    """What a solve said, in numbers."""

    status: str
    success: bool
    dist: float
    error: float
    seconds: float
    passes: float
    message: str = ""


def solved(solve: Callable[[], Any], distance: Callable[[Array], float]) -> Answer:
    """Solve, and compare; an exception is a status of its own."""
    begin = time.perf_counter()
    try:
        solution = solve()
    except Exception as error:  # data like these must not raise
        return Answer(type(error).__name__, False, np.inf, np.nan, 0.0, 0.0, str(error))
    seconds = time.perf_counter() - begin
    stated = np.nan if solution.error is None else float(solution.error)
    return Answer(
        solution.status.name, bool(solution.success), distance(solution.x), stated, seconds,
        float(solution.n_passes), solution.message,
    )  # fmt: skip


def is_wrong(answer: Answer, exact: bool) -> bool:
    """Whether a success is further off than it says, as the contract has it."""
    stated = 0.0 if np.isnan(answer.error) else answer.error
    limit = min(max(3 * stated, 1e-6 if exact else 1e-3), 0.75)
    return answer.success and not answer.dist <= limit


# -- files --------------------------------------------------------------------------------------------------------


def read(path: Path) -> list[dict[str, str]]:
    """The rows of a CSV file."""
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def written(path: Path | None, rows: Iterable[Mapping[str, Any]]) -> Iterator[dict[str, str]]:
    """The rows, each appended to the file as soon as it is there."""
    for row in rows:
        plain = {name: f"{value:.6g}" if isinstance(value, float) else str(value) for name, value in row.items()}
        if path is not None:
            fresh = not path.exists()
            with path.open("a", newline="") as file:
                writer = csv.DictWriter(file, list(plain))
                if fresh:
                    writer.writeheader()
                writer.writerow(plain)
        yield plain


def number(row: Mapping[str, str], name: str) -> float:
    """A field as a number: True is 1."""
    text = row[name]
    return float(text == "True") if text in ("True", "False") else float(text or "nan")


def column(rows: Sequence[Mapping[str, str]], name: str) -> Array:
    return np.array([number(row, name) for row in rows])


def in_tree(tree: Path, module: str, given: Sequence[str]) -> int:
    """Run this study, as it stands here, with the package of another tree: its exit code."""
    code = (
        f"import sys; sys.path.insert(0, {str(tree)!r}); import fastquad; sys.path.insert(0, {str(ROOT)!r}); "
        f"from importlib import import_module; sys.exit(import_module({module!r}).main({list(given)!r}))"
    )
    return subprocess.run([sys.executable, "-c", code]).returncode


def without(arguments: Sequence[str], option: str) -> list[str]:
    """The arguments of a command without an option and its value."""
    if option not in arguments:
        return list(arguments)
    at = list(arguments).index(option)
    return [*arguments[:at], *arguments[at + 2 :]]


def paired(rows: Sequence[dict[str, str]], other: Sequence[dict[str, str]], key: Sequence[str]) -> list[Any]:
    """The rows of both files that are the same problem: pairs of (there, here)."""
    there = {tuple(row[name] for name in key): row for row in other}
    return [(there[at], row) for row in rows if (at := tuple(row[name] for name in key)) in there]
