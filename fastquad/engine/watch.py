"""The progress bar of a solve, with its passes, its best residual and its stage."""

from __future__ import annotations

from fastquad.engine.run import Run
from fastquad.system.progress import Bar


class Watch(Bar):
    """The bar of some runs; with a budget, it shows how much of it is used."""

    def __init__(self, runs: list[Run]) -> None:
        limits = runs[0].limits if runs else None
        label = f"solve ({runs[0].method})" if runs else "solve"
        if limits is not None and limits.max_passes is not None:
            super().__init__(label, limits.max_passes, " passes")
        elif limits is not None and limits.max_time is not None:
            super().__init__(label, limits.max_time, " s")
        elif limits is not None and limits.max_iter is not None:
            super().__init__(label, limits.max_iter, " steps")
        else:
            super().__init__(label, unit=" passes")

    def look(self, runs: list[Run]) -> None:
        """Show how far these runs are."""
        if not self.shown:
            return
        # Show the run that is furthest behind: the others wait for it.
        run = min(runs, key=lambda run: (run.solution is not None, run.n_iter))
        unit = self.unit
        self.reach(run.elapsed if unit == " s" else run.n_iter if unit == " steps" else run.n_passes, _notes(run, runs))


def _notes(run: Run, runs: list[Run]) -> str:
    done = sum(other.solution is not None for other in runs)
    said = [f"{done}/{len(runs)} signals"] if len(runs) > 1 else []
    if run.best is not None:
        said.append(f"residual {run.best.residual:.1e}")
    if run.stage:
        said.append(run.stage)
    return ", ".join(said)
