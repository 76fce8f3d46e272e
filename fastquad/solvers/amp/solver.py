"""Approximate message passing (AMP) with a spike-and-slab prior, handed over to Levenberg–Marquardt.

For independent, centred entries of A with variance σ² the matrix `S = X + A*(r)/(mσ²)`, r the residual of the current
estimate X of xx^T, behaves like xx^T plus symmetric Gaussian noise whose off-diagonal entries have the variance
`D = |r|²/(2 m² σ²)`. So each sweep over A is followed by the estimation of a spike in noise, which needs S alone:

    b = (S z − (Σv) z_old)/D,   a = |z|²/D          what S says of x: b ≈ a x + sqrt(a) N(0, I), memory term removed
    z, v, π = mean, variance and P(x_j ≠ 0) under ρ N(0, s2) + (1−ρ) δ_0;   EM for ρ and s2

and the next sweep puts `X = zz^T + diag(v)` in, with an Onsager term that removes the memory of the last residual:

    r ← y − A(X) + β r,   β = min(1, 2|z|² Σv mσ²/|r|²),      S ← X + A*(r)/(mσ²).

k is never used: EM learns it. As soon as the residual shows that the estimate has turned towards x, the support is
handed over to Levenberg–Marquardt, which converges quadratically and proves the answer (or fails quickly).

Tensors with a common mean are centred without another pass: `A_i − Ā` and `y_i − ȳ` obey the same equations.
"""

from __future__ import annotations

from typing import ClassVar

from fastquad import arguments
from fastquad.engine.entries import sample_entries
from fastquad.engine.problem import Problem
from fastquad.engine.steps import Steps
from fastquad.solvers.amp.ensemble import MATRICES, affordable
from fastquad.solvers.amp.guided import guided
from fastquad.solvers.amp.guided import steps as guided_steps
from fastquad.solvers.amp.search import SWEEPS, Search
from fastquad.solvers.amp.starts import BATCHES
from fastquad.solvers.base import Solver, options
from fastquad.solvers.parts.descent import GrowingBlock
from fastquad.solvers.parts.finish import finished

# The batches after which runs that have not settled go on.
_GO_ON = (1, 3, 4, 5, 6)


@options
class AMP(Solver):
    """Approximate message passing with a spike-and-slab denoiser, handed over to Levenberg–Marquardt.

    Right for m of about n/2 and more, whatever k, which need not be known: about ten passes over A where gradient
    methods need thousands. It assumes independent entries of A; their scale and mean are estimated. It ends with the
    first answer that fits to a relative residual of 1e-9, or, where the data are noisy, with the posterior mean of the
    first run whose predictions are far better than chance.

    Parameters
    ----------
    n_attempts : int
        The number of starts and settings to try: the first 18 differ in their starts, the next 12 in their settings.
        They run in batches, which share their passes over A.
    max_sweeps : int
        The largest number of sweeps, of a pass each, in one batch.

    Examples
    --------
    >>> import fastquad as fq
    >>> problem = fq.problems.gaussian(m=75, n=60, k=30, rng=0)
    >>> solution = fq.solve(problem.A, problem.y, method=fq.AMP())
    >>> solution.status.name, bool(solution.n_passes < 30)
    ('EXACT', True)
    """

    name: ClassVar[str] = "amp"
    priors: ClassVar[tuple[str, ...]] = ("sparse", "denoiser")
    uses: ClassVar[frozenset[str]] = frozenset({"nonnegative", "groups", "partial"})
    n_attempts: int = 30
    max_sweeps: int = 60

    def __post_init__(self) -> None:
        arguments.count(self.n_attempts, "n_attempts")
        arguments.count(self.max_sweeps, "max_sweeps")

    def steps(self, problem: Problem) -> Steps:
        if guided(problem):
            return (yield from guided_steps(problem))
        if not affordable(problem):
            needed = 16 * MATRICES * problem.n**2
            raise MemoryError(
                f"`memory` must be at least {needed / 1e9:.3g} GB for AMP with n = {problem.n}, got "
                f"{problem.memory / 1e9:.3g} GB: use method='pursuit', which needs no n×n matrix."
            )
        entries = yield from sample_entries(problem)
        search = yield from Search.begin(problem, entries, GrowingBlock.within(problem))
        outcome = yield from self._search(search)
        return (yield from finished(problem, entries, outcome, search.hand_over.cache))

    def _search(self, search: Search) -> Steps:
        """The outcome of the attempts."""
        left = self.n_attempts
        for number in range(1, len(BATCHES) + 1):
            attempts = search.starts.batch(number)[:left]
            left -= len(attempts)
            outcome = (yield from search.batch(attempts, min(SWEEPS, self.max_sweeps))) if attempts else None
            if outcome is None and number in _GO_ON:
                outcome = yield from search.go_on(self.max_sweeps)
            if outcome is not None:
                return outcome
        return search.verdict(last=True) or search.give_up()
