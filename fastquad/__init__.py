"""Recover a signal from quadratic measurements `y_i = x^T A_i x`."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fastquad import datasets, decoders, noise, plot, points, problems, testing
from fastquad.api import measure, solve, spectral_init
from fastquad.engine.steps import State
from fastquad.measurements import (
    AffineTensor,
    ArrayTensor,
    BilinearTensor,
    ComputedTensor,
    DistributedTensor,
    FourierTensor,
    GaussianTensor,
    LowRankTensor,
    Measurements,
    OperatorTensor,
    PackedTensor,
    PairTensor,
    PauliTensor,
    RankOneTensor,
    RawTensor,
    ShiftTensor,
    SparseTensor,
    StreamedTensor,
    as_measurements,
    distribute,
    open,
    pack,
)
from fastquad.priors import Discrete, Generative, PiecewiseConstant, Prior, Sparse
from fastquad.solution import Solution, SolutionBatch, Status, distance
from fastquad.solution_files import load_solution
from fastquad.solvers.base import Solver
from fastquad.system.progress import set_progress
from fastquad.system.threads import set_num_threads
from fastquad.testing import GradientCheck, PriorCheck, check_gradient, check_prior

if TYPE_CHECKING:  # at run time each is imported when it is first asked for, below
    from fastquad import experiments
    from fastquad.solvers.amp.amp import AMP
    from fastquad.solvers.latent.solver import LatentLM
    from fastquad.solvers.lm import LM
    from fastquad.solvers.pgd import PGD
    from fastquad.solvers.ppower import PPower
    from fastquad.solvers.pursuit.solver import Pursuit
    from fastquad.solvers.sgn import SGN
    from fastquad.solvers.spf import SPF
    from fastquad.solvers.twf import TWF, WF

__version__ = "0.1.0"

__all__ = [
    "AMP",
    "LM",
    "PGD",
    "SGN",
    "SPF",
    "TWF",
    "WF",
    "AffineTensor",
    "ArrayTensor",
    "BilinearTensor",
    "ComputedTensor",
    "Discrete",
    "DistributedTensor",
    "FourierTensor",
    "GaussianTensor",
    "Generative",
    "GradientCheck",
    "LatentLM",
    "LowRankTensor",
    "Measurements",
    "OperatorTensor",
    "PPower",
    "PackedTensor",
    "PairTensor",
    "PauliTensor",
    "PiecewiseConstant",
    "Prior",
    "PriorCheck",
    "Pursuit",
    "RankOneTensor",
    "RawTensor",
    "ShiftTensor",
    "Solution",
    "SolutionBatch",
    "Solver",
    "Sparse",
    "SparseTensor",
    "State",
    "Status",
    "StreamedTensor",
    "as_measurements",
    "check_gradient",
    "check_prior",
    "datasets",
    "decoders",
    "distance",
    "distribute",
    "experiments",
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
    "spectral_init",
    "testing",
]


if not TYPE_CHECKING:  # a type checker must see a name that does not exist

    def __getattr__(name: str) -> Any:
        """The solver classes and the experiments, each imported when it is first asked for."""
        from fastquad.solvers import CLASSES, load

        if name == "experiments":
            return import_module("fastquad.experiments")
        if name in CLASSES:
            return load(CLASSES[name])
        raise AttributeError(f"module 'fastquad' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
