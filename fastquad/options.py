"""The error for an option that `solve` does not have: what to give instead."""

from __future__ import annotations

import inspect
from collections.abc import Mapping

from fastquad import arguments
from fastquad.solvers import METHODS, load

#: Names of options in other libraries, and what they are called here.
_ELSEWHERE = (
    dict.fromkeys(("k", "sparsity", "n_nonzero_coefs"), "prior=fastquad.Sparse(k=...)")
    | dict.fromkeys(("seed", "random_state", "random_seed"), "rng=...")
    | dict.fromkeys(("n_jobs", "num_threads", "threads", "workers"), "n_threads=...")
    | dict.fromkeys(("maxiter", "max_iters", "n_iter", "iterations"), "max_iter=...")
    | dict.fromkeys(("sigma", "noise_std", "noise_level"), "noise=...")
    | dict.fromkeys(("init", "x_init", "start", "initial"), "x0=...")
    | dict.fromkeys(("solver", "algorithm"), "method=...")
    | {
        "support": "prior=fastquad.Sparse(support=...)",
        "decoder": "prior=fastquad.Generative(...)",
        "nonnegative": "prior=fastquad.Sparse(nonnegative=True)",
        "dtype": "fastquad.pack(A, dtype=...) as A",
        "progress": "fastquad.set_progress(...)",
    }
)


def unknown(option: str, parameters: Mapping[str, inspect.Parameter]) -> str:
    """The sentence about an option that is none of the parameters of `solve`."""
    if option in _ELSEWHERE:
        return f"solve() has no option `{option}`: give `{_ELSEWHERE[option]}`."
    known = [p.name for p in parameters.values() if p.kind is p.KEYWORD_ONLY]
    for name in METHODS:
        cls = load(METHODS[name])
        if option in inspect.signature(cls).parameters:
            place = "" if cls.__name__ in ("AMP", "LM", "TWF", "Pursuit") else "methods."
            example = f"method=fastquad.{place}{cls.__name__}({option}=...)"
            return f"solve() has no option `{option}`, which belongs to the method: `{example}`."
    return f"solve() has no option `{option}`{arguments.nearest(option, known)}"
