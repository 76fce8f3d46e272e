"""Recover a signal from quadratic measurements `y_i = x^T A_i x`."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from fastquad import datasets, decoders, plot, problems
from fastquad.front_door import measure, solve, spectral_init
from fastquad.gradient import GradientCheck, check_gradient
from fastquad.measurements import (
    ComputedTensor,
    DistributedTensor,
    GaussianTensor,
    LowRankTensor,
    Measurements,
    PackedTensor,
    RankOneTensor,
    RawTensor,
    ShiftTensor,
    StreamedTensor,
    as_measurements,
    distribute,
    open,
    pack,
)
from fastquad.parallel import set_num_threads
from fastquad.priors import Generative, Sparse
from fastquad.solution import Solution, Status, distance

if TYPE_CHECKING:  # at run time each is imported when it is first asked for, below
    from fastquad import experiments
    from fastquad.solvers.amp import AMP
    from fastquad.solvers.latent import LatentLM
    from fastquad.solvers.lm import LM
    from fastquad.solvers.pgd import PGD
    from fastquad.solvers.ppower import PPower
    from fastquad.solvers.pursuit import Pursuit
    from fastquad.solvers.sgn import SGN
    from fastquad.solvers.spf import SPF
    from fastquad.solvers.twf import TWF, WF

__all__ = [
    "AMP",
    "LM",
    "PGD",
    "SGN",
    "SPF",
    "TWF",
    "WF",
    "ComputedTensor",
    "DistributedTensor",
    "GaussianTensor",
    "Generative",
    "GradientCheck",
    "LatentLM",
    "LowRankTensor",
    "Measurements",
    "PPower",
    "PackedTensor",
    "Pursuit",
    "RankOneTensor",
    "RawTensor",
    "ShiftTensor",
    "Solution",
    "Sparse",
    "Status",
    "StreamedTensor",
    "as_measurements",
    "check_gradient",
    "datasets",
    "decoders",
    "distance",
    "distribute",
    "experiments",
    "measure",
    "open",
    "pack",
    "plot",
    "problems",
    "set_num_threads",
    "solve",
    "spectral_init",
]


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
