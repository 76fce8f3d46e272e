"""Names of a package that are imported when they are first asked for: an import loads only what is used."""

from __future__ import annotations

import sys
from collections.abc import Callable
from importlib import import_module
from typing import Any


def lazily(package: str, names: dict[str, str]) -> Callable[[str], Any]:
    """The `__getattr__` of a package, whose `names` by module are words; those of "" are modules of the package itself.

    Type checkers read the same names in the package's `__init__.pyi`.

    Examples
    --------
    >>> from fastquad.system.lazy import lazily
    >>> lazily("fastquad", {"solution": "Solution distance"})("distance").__module__
    'fastquad.solution'
    """
    places = {name: module for module, words in names.items() for name in words.split()}

    def find(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module = places[name]
        found = getattr(import_module(f"{package}.{module}"), name) if module else import_module(f"{package}.{name}")
        setattr(sys.modules[package], name, found)
        return found

    return find
