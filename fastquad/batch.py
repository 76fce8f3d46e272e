"""The answers for signals that shared A, and tables of answers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import fields
from html import escape
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from fastquad.solution import Solution
from fastquad.status import Status
from fastquad.typing import Float, Indices, Number


class SolutionBatch(Sequence[Solution]):
    """The answers for b signals that shared A: `batch[i]` is the `Solution` of the i-th.

    Its attributes are those of `Solution`, for all signals: `x` has shape (b, n), numbers have shape (b,), the rest are
    lists of b.

    Examples
    --------
    >>> import fastquad as fq
    >>> batch = fq.problems.gaussian(m=60, n=30, k=3, n_signals=2, rng=0)
    >>> solutions = fq.solve(batch.A, batch.y)
    >>> len(solutions), solutions.x.shape, [solution.status.name for solution in solutions]
    (2, (2, 30), ['EXACT', 'EXACT'])
    """

    def __init__(self, solutions: Iterable[Solution]) -> None:
        self._solutions = list(solutions)

    @overload
    def __getitem__(self, index: int) -> Solution: ...
    @overload
    def __getitem__(self, index: slice) -> SolutionBatch: ...
    def __getitem__(self, index: int | slice) -> Solution | SolutionBatch:
        found = self._solutions[index]
        return found if isinstance(found, Solution) else SolutionBatch(found)

    def __len__(self) -> int:
        return len(self._solutions)

    def __eq__(self, other: object) -> bool:
        return self._solutions == other._solutions if isinstance(other, SolutionBatch) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __bool__(self) -> bool:
        """No one answer: some of a batch may be a success and others not."""
        raise TypeError("the truth of a batch is not defined: use `batch.success.all()` or `batch.success.any()`.")

    def to_rows(self) -> list[dict[str, Any]]:
        """`Solution.to_row` of each."""
        return [solution.to_row() for solution in self]

    def _repr_html_(self) -> str:
        """What a notebook shows."""
        return table(self._solutions)

    def to_dict(self) -> dict[str, Any]:
        """Every field as plain data: for each a list, with one entry per signal."""
        each = [solution.to_dict() for solution in self]
        return {name: [said[name] for said in each] for name in (field.name for field in fields(Solution))}

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write all of them as one `.npz` file, without pickle; `fastquad.load_solution` reads it."""
        from fastquad.solution_files import save_solutions

        save_solutions(self._solutions, path, batch=True)

    def __repr__(self) -> str:
        return f"SolutionBatch of {len(self)}, {int(self.success.sum())} of them a success"

    @property
    def x(self) -> Number:
        """The signals, (b, n)."""
        x = np.array([solution.x for solution in self])
        x.flags.writeable = False
        return x

    @property
    def status(self) -> list[Status]:
        """Why each solve stopped."""
        return [solution.status for solution in self]

    @property
    def success(self) -> NDArray[np.bool_]:
        """Whether each answer can be trusted, (b,)."""
        return np.array([solution.success for solution in self])

    @property
    def message(self) -> list[str]:
        """The sentences of each."""
        return [solution.message for solution in self]

    @property
    def method(self) -> list[str]:
        """The method that gave each."""
        return [solution.method for solution in self]

    @property
    def n_iter(self) -> Indices:
        """Steps of each, (b,)."""
        return np.array([solution.n_iter for solution in self])

    @property
    def n_passes(self) -> Float:
        """Passes over A that each shared in, (b,)."""
        return np.array([solution.n_passes for solution in self])

    @property
    def residual(self) -> Float:
        """Relative residuals, (b,)."""
        return np.array([solution.residual for solution in self])

    @property
    def support(self) -> list[Indices]:
        """The nonzeros of each."""
        return [solution.support for solution in self]

    @property
    def noise(self) -> list[float | None]:
        """The noise of each, if it is known."""
        return [solution.noise for solution in self]

    @property
    def stderr(self) -> list[Float | None]:
        """The standard errors of each."""
        return [solution.stderr for solution in self]

    @property
    def error(self) -> list[float | None]:
        """The estimated error of each."""
        return [solution.error for solution in self]

    @property
    def outliers(self) -> list[Indices | None]:
        """The measurements that contradict each."""
        return [solution.outliers for solution in self]

    @property
    def history(self) -> list[dict[str, Float]]:
        """The history of each."""
        return [solution.history for solution in self]

    @property
    def elapsed(self) -> Float:
        """Seconds of each, (b,)."""
        return np.array([solution.elapsed for solution in self])

    @property
    def rival(self) -> list[Number | None]:
        """Another signal that fits as well as each, if one was found."""
        return [solution.rival for solution in self]

    @property
    def proof(self) -> list[Any]:
        """The proof of each, if there is one."""
        return [solution.proof for solution in self]

    @property
    def noise_model(self) -> list[Any]:
        """The model of the noise of each."""
        return [solution.noise_model for solution in self]

    @property
    def gauge(self) -> list[str]:
        """What no measurement can determine of each."""
        return [solution.gauge for solution in self]


def table(solutions: list[Solution], below: str = "") -> str:
    """An HTML table with a row a solution, and a sentence below."""
    names = ("status", "method", "nonzeros", "residual", "noise", "error", "passes over A", "seconds")
    rows = []
    for solution in solutions:
        colour = "#1a7f37" if solution.success else "#9a6700"
        cells = [
            f'<b style="color:{colour}">{solution.status.name}</b>', escape(solution.method),
            f"{len(solution.support)} of {len(solution.x)}", f"{solution.residual:.1e}", _number(solution.noise),
            _number(solution.error), f"{solution.n_passes:.3g}", f"{solution.elapsed:.2g}",
        ]  # fmt: skip
        rows.append("<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>")
    text = f"<p>{escape(below)}</p>" if below else ""
    head = "".join(f"<th>{name}</th>" for name in names)
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table>{text}"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.2g}"
