"""Recover a signal from quadratic measurements `y_i = x^T A_i x`."""

from importlib import import_module
from typing import Any

from fastquad.system.lazy import lazily

__version__ = "0.1.0"

_PLACES = {
    "": "decoders grids noise plot points problems testing",
    "api": "measure solve",
    "diagnosis": "diagnose",
    "measurements": "AffineTensor ArrayTensor BilinearTensor ComputedTensor FourierTensor GaussianTensor LowRankTensor "
    "Measurements OperatorTensor PairTensor PauliTensor RankOneTensor ShiftTensor SparseTensor as_measurements "
    "distribute open pack",
    "methods": "AMP LM TWF Pursuit",
    "priors": "Denoiser Discrete Generative PiecewiseConstant Prior Sparse",
    "solution": "Interrupted Solution distance",
    "solution_files": "load_solution",
    "status": "Status",
    "system.progress": "set_progress",
    "system.threads": "set_num_threads",
}
__all__ = sorted(name for names in _PLACES.values() for name in names.split())
#: Further modules that may be used as attributes.
_MODULES = ["datasets", "experiments", "methods", "types"]
#: Where names went that were here until 0.1; they can still be had here, with a warning, until 0.3.
_MOVED = (
    dict.fromkeys(("WF", "SPF", "SGN", "LatentLM", "PGD", "PPower", "Solver", "State", "spectral_init"), "methods")
    | dict.fromkeys(("RawTensor", "PackedTensor", "StreamedTensor", "DistributedTensor", "SolutionBatch"), "types")
    | dict.fromkeys(("check_gradient", "check_prior", "GradientCheck", "PriorCheck"), "testing")
)


_find = lazily(__name__, _PLACES | {"": f"{_PLACES['']} {' '.join(_MODULES)}"})


def __getattr__(name: str) -> Any:
    """What is imported when it is first asked for, and names that have moved."""
    if name not in _MOVED:
        return _find(name)
    import warnings

    where = f"fastquad.{_MOVED[name]}"
    said = f"fastquad.{name} is now {where}.{name}; the old name will be removed in version 0.3."
    warnings.warn(said, DeprecationWarning, stacklevel=2)
    return getattr(import_module(where), name)


def __dir__() -> list[str]:
    return [*__all__, *_MODULES]
