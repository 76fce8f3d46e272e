"""The methods as objects, for those with options of their own: `fq.solve(A, y, method=fq.methods.SPF(k=10))`.

`fq.TWF`, `fq.LM`, `fq.AMP` and `fq.Pursuit` are the same classes. Each is imported when it is first asked for.
"""

from typing import TYPE_CHECKING, Any

from fastquad.api import spectral_init
from fastquad.engine.steps import State
from fastquad.solvers import CLASSES, load
from fastquad.solvers.base import Solver

if TYPE_CHECKING:  # at run time each is imported when it is first asked for, below
    from fastquad.solvers.amp.amp import AMP
    from fastquad.solvers.latent.solver import LatentLM
    from fastquad.solvers.lm import LM
    from fastquad.solvers.pgd import PGD
    from fastquad.solvers.ppower import PPower
    from fastquad.solvers.pursuit.solver import Pursuit
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
    "LatentLM",
    "PPower",
    "Pursuit",
    "Solver",
    "State",
    "spectral_init",
]


if not TYPE_CHECKING:  # a type checker must see a name that does not exist

    def __getattr__(name: str) -> Any:
        """A solver class, imported when it is first asked for."""
        if name in __all__ and name in CLASSES:
            return load(CLASSES[name])
        raise AttributeError(f"module 'fastquad.methods' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
