"""Recover a signal from quadratic measurements `y_i = x^T A_i x`."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fastquad import datasets as datasets
from fastquad import decoders, grids, noise, plot, points, problems, testing
from fastquad import methods as methods
from fastquad import types as types
from fastquad.api import measure, solve
from fastquad.diagnosis import diagnose
from fastquad.measurements import (
    AffineTensor,
    ArrayTensor,
    BilinearTensor,
    ComputedTensor,
    FourierTensor,
    GaussianTensor,
    LowRankTensor,
    Measurements,
    OperatorTensor,
    PairTensor,
    PauliTensor,
    RankOneTensor,
    ShiftTensor,
    SparseTensor,
    as_measurements,
    distribute,
    open,
    pack,
)
from fastquad.priors import Denoiser, Discrete, Generative, PiecewiseConstant, Prior, Sparse
from fastquad.solution import Interrupted, Solution, Status, distance
from fastquad.solution_files import load_solution
from fastquad.system.progress import set_progress
from fastquad.system.threads import set_num_threads

if TYPE_CHECKING:  # at run time each is imported when it is first asked for, below
    from fastquad import experiments as experiments
    from fastquad.solvers.amp.amp import AMP
    from fastquad.solvers.lm import LM
    from fastquad.solvers.pursuit.solver import Pursuit
    from fastquad.solvers.twf import TWF

__version__ = "0.1.0"

__all__ = [
    "AMP",
    "LM",
    "TWF",
    "AffineTensor",
    "ArrayTensor",
    "BilinearTensor",
    "ComputedTensor",
    "Denoiser",
    "Discrete",
    "FourierTensor",
    "GaussianTensor",
    "Generative",
    "Interrupted",
    "LowRankTensor",
    "Measurements",
    "OperatorTensor",
    "PairTensor",
    "PauliTensor",
    "PiecewiseConstant",
    "Prior",
    "Pursuit",
    "RankOneTensor",
    "ShiftTensor",
    "Solution",
    "Sparse",
    "SparseTensor",
    "Status",
    "as_measurements",
    "decoders",
    "diagnose",
    "distance",
    "distribute",
    "grids",
    "load_solution",
    "measure",
    "noise",
    "open",
    "pack",
    "plot",
    "points",
    "problems",
    "set_num_threads",
    "set_progress",
    "solve",
    "testing",
]
#: Further modules that may be used as attributes.
_MODULES = ["datasets", "experiments", "methods", "types"]
_LAZY = ("AMP", "LM", "TWF", "Pursuit")
#: Where names went that were here until 0.1; they can still be had here, with a warning, until 0.3.
_MOVED = (
    dict.fromkeys(("WF", "SPF", "SGN", "LatentLM", "PGD", "PPower", "Solver", "State", "spectral_init"), "methods")
    | dict.fromkeys(("RawTensor", "PackedTensor", "StreamedTensor", "DistributedTensor", "SolutionBatch"), "types")
    | dict.fromkeys(("check_gradient", "check_prior", "GradientCheck", "PriorCheck"), "testing")
)


if not TYPE_CHECKING:  # a type checker must see a name that does not exist

    def __getattr__(name: str) -> Any:
        """What is imported when it is first asked for, and names that have moved."""
        if name == "experiments":
            return import_module("fastquad.experiments")
        if name in _LAZY:
            return getattr(methods, name)
        if name in _MOVED:
            import warnings

            where = f"fastquad.{_MOVED[name]}"
            said = f"fastquad.{name} is now {where}.{name}; the old name goes in version 0.3."
            warnings.warn(said, DeprecationWarning, stacklevel=2)
            return getattr(import_module(where), name)
        raise AttributeError(f"module 'fastquad' has no attribute {name!r}")


def __dir__() -> list[str]:
    return [*__all__, *_MODULES]
