"""How a signal is found: one file an algorithm, each opening with its derivation.

A method is imported when it is first asked for, so that a solve loads only what it uses.
"""

from __future__ import annotations

from importlib import import_module
from typing import Literal, cast

from fastquad import arguments
from fastquad.solvers.base import Solver

#: The methods by name.
Method = Literal["auto", "pursuit", "amp", "lm", "twf", "wf", "spf", "sgn", "latent", "pgd", "ppower"]

#: The name of each method, and where its class is.
METHODS: dict[str, str] = {
    "auto": "fastquad.solvers.plan:Auto",
    "pursuit": "fastquad.solvers.pursuit.solver:Pursuit",
    "amp": "fastquad.solvers.amp.amp:AMP",
    "lm": "fastquad.solvers.lm:LM",
    "twf": "fastquad.solvers.twf:TWF",
    "wf": "fastquad.solvers.twf:WF",
    "spf": "fastquad.solvers.spf:SPF",
    "sgn": "fastquad.solvers.sgn:SGN",
    "latent": "fastquad.solvers.latent.solver:LatentLM",
    "pgd": "fastquad.solvers.pgd:PGD",
    "ppower": "fastquad.solvers.ppower:PPower",
}

#: The public name of each class, and where it is.
CLASSES = {place.split(":")[1]: place for place in METHODS.values()}


def load(place: str) -> type[Solver]:
    """The class at "module:Class"."""
    module, name = place.split(":")
    return cast(type[Solver], getattr(import_module(module), name))


def by_name(name: str) -> type[Solver]:
    """The class of the method with this name."""
    return load(METHODS[arguments.choice(name, "method", METHODS)])
