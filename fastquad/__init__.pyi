from fastquad import datasets as datasets
from fastquad import decoders, grids, noise, plot, points, problems, testing
from fastquad import experiments as experiments
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
from fastquad.priors import Discrete, Generative, PiecewiseConstant, Prior, Sparse
from fastquad.solution import Interrupted, Solution, distance
from fastquad.solution_files import load_solution
from fastquad.solvers.amp.amp import AMP
from fastquad.solvers.lm import LM
from fastquad.solvers.pursuit.solver import Pursuit
from fastquad.solvers.twf import TWF
from fastquad.status import Status
from fastquad.system.progress import set_progress
from fastquad.system.threads import set_num_threads

__version__: str

__all__ = [
    "AMP",
    "LM",
    "TWF",
    "AffineTensor",
    "ArrayTensor",
    "BilinearTensor",
    "ComputedTensor",
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
