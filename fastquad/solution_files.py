"""Save and load solutions: one `.npz` file of plain arrays and a text in JSON. Nothing that is read is executed.

about        the fields that are numbers and words, one object of JSON per signal
0.x, 0.support, 0.history.residual, …     the arrays of the first signal, and so on
"""

from __future__ import annotations

import io
import json
import os
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from fastquad.batch import SolutionBatch
from fastquad.noise import from_dict
from fastquad.solution import Proof, Solution
from fastquad.status import Status
from fastquad.system.files import replacing

_FORMAT = "fastquad solution"
# The version that is written; files of all versions up to it are read.
_VERSION = 2
_ARRAYS = ("x", "support", "stderr", "outliers", "rival")
# What became of statuses of older versions.
_RETIRED = {"ISOLATED": Status.UNDECIDED}


def save_solutions(solutions: list[Solution], path: str | os.PathLike[str], *, batch: bool) -> None:
    """Write solutions under exactly this name; a reader never sees a part of them."""
    arrays: dict[str, Any] = {}
    about = []
    for number, solution in enumerate(solutions):
        said = {name: value for name, value in solution.to_dict().items() if name not in (*_ARRAYS, "history")}
        about.append(said)
        for name in _ARRAYS:
            if getattr(solution, name) is not None:
                arrays[f"{number}.{name}"] = getattr(solution, name)
        for name, values in solution.history.items():
            arrays[f"{number}.history.{name}"] = values
    text = json.dumps({"format": _FORMAT, "version": _VERSION, "batch": batch, "solutions": about})
    buffer = io.BytesIO()
    np.savez_compressed(buffer, about=np.array(text), **arrays)
    with replacing(Path(path).expanduser(), "path") as stream:
        stream.write(buffer.getvalue())


def load_solution(path: str | os.PathLike[str]) -> Solution | Any:
    """Read what `Solution.save` or `SolutionBatch.save` wrote.

    Parameters
    ----------
    path : str or path

    Returns
    -------
    Solution or SolutionBatch
        To type checkers a Solution, or anything: only the file knows which.

    Examples
    --------
    >>> import os, tempfile
    >>> import fastquad as fq
    >>> problem = fq.problems.gaussian(m=60, n=30, k=3, rng=0)
    >>> solution = fq.solve(problem.A, problem.y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "solution.npz")
    ...     solution.save(path)
    ...     fq.load_solution(path) == solution
    True
    """
    path = Path(path).expanduser()
    try:
        with path.open("rb") as stream:
            content = np.load(stream, allow_pickle=False)
            if not isinstance(content, np.lib.npyio.NpzFile):
                raise ValueError("it holds one array")
            arrays = {name: content[name] for name in content.files}
        said = json.loads(str(arrays["about"]))
        if said["format"] != _FORMAT:
            raise ValueError(f"it says {said['format']!r}")
        if said["version"] > _VERSION:
            raise ValueError(f"it has version {said['version']}, and this fastquad reads versions up to {_VERSION}")
        found = [_solution(number, about, arrays) for number, about in enumerate(said["solutions"])]
        return SolutionBatch(found) if said["batch"] else found[0]
    except FileNotFoundError:
        raise FileNotFoundError(f"`path`: there is no file {str(path)!r}.") from None
    except (ValueError, KeyError, TypeError, IndexError, EOFError, AttributeError, zipfile.BadZipFile) as error:
        raise ValueError(f"`path`: {str(path)!r} is not a solution that fastquad saved: {error}") from error


def _solution(number: int, about: dict[str, Any], arrays: dict[str, Any]) -> Solution:
    start = f"{number}.history."
    history = {name.removeprefix(start): array for name, array in arrays.items() if name.startswith(start)}
    given: dict[str, Any] = {name: arrays.get(f"{number}.{name}") for name in _ARRAYS}
    name = about["status"]
    status = _RETIRED[name] if name in _RETIRED else Status[name]
    model, proof = about.get("noise_model"), about.get("proof")
    about = {
        **about,
        "noise_model": None if model is None else from_dict(model),
        "proof": None if proof is None else Proof.from_dict(proof),
    }
    return Solution(**{**about, "status": status, "success": status.success}, **given, history=history)
