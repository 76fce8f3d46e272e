"""The campaign against false successes: hostile problems of every class, and one table of what became of them.

    python -m benchmarks.studies.campaign [COUNT] [--seed N] [--jobs N] [--only CLASS] [--show]

COUNT problems are dealt to the classes of `problems` in turn. A problem is reproduced by its class, seed and number,
which `--show` prints for each wrong success and each refusal. Some start from the truth, as a budget or a user may;
some are noisy, with the level given or not.

wrong      an error; or called a success and further from the signal than 1e-3 and twice its `error` (at most .25);
           with noise, than 5 times the error of least squares on the true support (at least .05, at most .25) and 3
           times `error` (at most .5)
refused    right and determined, but not called a success: right is 1e-3 in exact data, and in noise twice the error of
           least squares on the true support, where that is below 0.25
beyond     a success further off than 3 times its `error` (at least 1e-3), wrong or not
"""

from __future__ import annotations

import argparse
import json
import sys
import time
import zlib
from collections import defaultdict
from multiprocessing import Pool
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import fastquad as fq
from benchmarks.studies.campaign import (
    everyday,
    held_out,
    held_out_2,
    hidden_twins,
    kinds,
    knowledge,
    mismatch,
    proofs,
    structures,
    subsystems,
)
from benchmarks.studies.campaign.problems import CLASSES, Array, Case

#: Modules that register their classes.
_MODULES = (structures, kinds, knowledge, mismatch, subsystems, hidden_twins, everyday, proofs, held_out, held_out_2)
_BY_NAME = (*hidden_twins.BY_NAME, *held_out.NAMES, *held_out_2.NAMES)
# A budget that does not depend on what else the machine does; the time is for what hangs.
_MAX_PASSES, _MAX_SECONDS = 300, 30.0
#: How often a problem is posed in which way.
_VARIANTS = {"plain": 0.7, "from the truth": 0.14, "level given": 0.08, "level unknown": 0.08}


class Trial(NamedTuple):
    """What became of one problem."""

    name: str
    seed: int
    number: int
    variant: str
    status: str
    success: bool
    distance: float
    wrong: bool
    refused: bool
    seconds: float
    error: float = 0.0
    exact: bool = True
    beyond: bool = False
    #: Whether it could have been refused: right, and determined.
    fair: bool = False


def run(job: tuple[str, int, int]) -> Trial:
    """Make a problem, solve it, and compare."""
    name, seed, number = job
    rng = np.random.default_rng([seed, zlib.crc32(name.encode()), number])
    case = CLASSES[name](rng)
    variant, options = _variant(case, rng)
    y = measured(case)
    sigma = options.pop("sigma", 0.0) * float(np.sqrt(np.mean(y**2)))
    noise = sigma * rng.standard_normal(y.size) + (0.0 if case.added is None else case.added)
    if variant == "level given":
        options["noise"] = sigma or None
    begin = time.perf_counter()
    try:
        solution = fq.solve(
            case.form(case.A), y + noise, max_passes=_MAX_PASSES, max_time=_MAX_SECONDS, rng=number, **options
        )
    except Exception as error:  # an error on data like these is a wrong answer as well
        return Trial(name, seed, number, variant, f"{type(error).__name__}: {error}", False, np.inf, True, False, 0.0)
    seconds = time.perf_counter() - begin
    far = _distance(solution.x, case)
    claimed = solution.error or 0.0
    exact = not noise.any()
    limit = max(1e-3, min(2 * claimed, 0.25))
    near = 1e-3
    if not exact:
        error = _least_squares_error(case, float(np.sqrt(np.mean(noise**2))))
        limit = max(float(np.clip(5 * error, 0.05, 0.25)), min(3 * claimed, 0.5))
        near = 2 * error if error < 0.25 else 0.0
    success = bool(solution.success)
    wrong, beyond = success and not far <= limit, success and not far <= max(3 * claimed, 1e-3)
    fair = bool(case.determined and far < near)
    status = solution.status.name
    return Trial(
        name, seed, number, variant, status, success, far, wrong, fair and not success, seconds, claimed, exact,
        beyond, fair,
    )  # fmt: skip


def measured(case: Case) -> Array:
    """y without noise, in double precision."""
    A = case.A.astype(np.complex128 if np.iscomplexobj(case.A) else np.float64)
    y = np.einsum("ijk,j,k->i", A, case.x.conj(), case.x, optimize=True).real
    return y if case.linear is None else y + case.linear @ case.x


def _distance(found: Array, case: Case) -> float:
    if case.linear is None:
        return float(fq.distance(found, case.x))
    return float(np.linalg.norm(found - case.x) / np.linalg.norm(case.x))


def _variant(case: Case, rng: np.random.Generator) -> tuple[str, dict[str, Any]]:
    """How the problem is posed, and the options of `solve`."""
    told = dict(case.options)
    if case.sigma is not None:
        return "level given" if case.told else "level unknown", {**told, "sigma": case.sigma}
    kind = "plain" if case.plain else rng.choice(list(_VARIANTS), p=list(_VARIANTS.values()))
    if kind == "from the truth":
        near = case.x + 1e-3 * rng.standard_normal(case.x.size) * (case.x != 0)
        method = "auto" if case.linear is not None else str(rng.choice(["auto", "lm", "twf", "sgn"]))
        if np.iscomplexobj(case.x) and method == "sgn":
            method = "lm"
        known = {"prior": fq.Sparse(k=int(np.count_nonzero(case.x)))} if method == "sgn" else {}
        return str(kind), {"x0": near, "method": method, **known}
    if kind in ("level given", "level unknown"):
        return str(kind), {**told, "sigma": 10.0 ** rng.uniform(-3, -0.5)}
    if case.plain or case.linear is not None or np.iscomplexobj(case.x):
        return str(kind), told
    return str(kind), {"method": str(rng.choice(["auto", "amp", "lm", "pursuit"], p=[0.85, 0.05, 0.05, 0.05]))}


def _least_squares_error(case: Case, sigma: float) -> float:
    """The relative error of least squares on the true support; inf where that is not determined."""
    x, support = case.x, np.flatnonzero(case.x)
    A = case.A.astype(np.complex128 if np.iscomplexobj(case.A) else np.float64)
    J = A[:, support] @ x + (A[:, :, support].conj().transpose(0, 2, 1) @ x)
    if case.linear is not None:
        J = J + case.linear[:, support]
    gauge = 0
    if np.iscomplexobj(J):
        J, gauge = np.concatenate([J.real, J.imag], axis=1), 1
    values = np.linalg.svd(J, compute_uv=False)[: J.shape[1] - gauge]
    if len(J) < J.shape[1] - gauge or values[-1] <= 1e-12 * values[0]:
        return float("inf")
    return sigma * float(np.sqrt(np.sum(values**-2.0))) / float(np.linalg.norm(x))


def table(trials: list[Trial]) -> str:
    """One line a class."""
    by_class = defaultdict(list)
    for trial in trials:
        by_class[trial.name].append(trial)
    lines = [
        f"{'class':26}{'problems':>9}{'right':>8}{'success':>9}{'wrong':>7}{'beyond':>8}{'refused, exact':>16}{'of':>7}"
        f"{'in noise':>10}{'of':>7}{'ms':>8}"
    ]
    rows = [(name, by_class[name]) for name in CLASSES if by_class[name]] + [("all", trials)]
    for name, group in rows:
        exact, noisy = [t for t in group if t.exact], [t for t in group if not t.exact]
        lines.append(
            f"{name:26}{len(group):9}{sum(t.fair or t.distance < 1e-3 for t in group):8}"
            f"{sum(t.success for t in group):9}{sum(t.wrong for t in group):7}{sum(t.beyond for t in group):8}"
            f"{sum(t.refused for t in exact):16}{sum(t.fair for t in exact):7}{sum(t.refused for t in noisy):10}"
            f"{sum(t.fair for t in noisy):7}{1e3 * np.median([t.seconds for t in group]):8.1f}"
        )
    return "\n".join(lines)


def main() -> int:
    """Run the campaign; the exit code tells whether a success was wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("count", type=int, nargs="?", default=1000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--only", help="one class, or several with commas between them")
    parser.add_argument(
        "--held-out",
        type=int,
        nargs="?",
        const=1,
        choices=(1, 2),
        help="the first or second set that no test was made for",
    )
    parser.add_argument("--show", action="store_true", help="list what was wrong or refused")
    parser.add_argument("--save", help="a file for the trials, one per line")
    given = parser.parse_args()
    sets = {1: held_out.NAMES, 2: held_out_2.NAMES}
    told = list(sets[given.held_out]) if given.held_out else given.only.split(",") if given.only else None
    names = told or [name for name in CLASSES if name not in _BY_NAME]
    jobs = [(names[i % len(names)], given.seed, i // len(names)) for i in range(given.count)]
    with Pool(given.jobs) as pool:
        trials = list(pool.imap(run, jobs, chunksize=8))
    print(table(trials))
    if given.save:
        Path(given.save).write_text("\n".join(json.dumps(trial._asdict()) for trial in trials))
    for trial in trials:
        if given.show and (trial.wrong or trial.refused):
            what = "WRONG" if trial.wrong else "refused"
            print(f"{what:8}{trial.name:26}{trial.number:6} {trial.variant:15}{trial.status:14}{trial.distance:9.2g}")
    return int(any(trial.wrong for trial in trials))


if __name__ == "__main__":
    sys.exit(main())
