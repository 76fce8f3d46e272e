"""Progress bars, for work that takes longer than two seconds; they disappear when it is done.

Bars are drawn on a terminal and in a notebook, and nowhere else: not in a log file or a batch job, and not for a thread
beside the main one. They are tqdm's, which is imported when the first one is shown.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

#: Seconds of work before a bar appears.
PATIENCE = 2.0
#: Seconds between two drawings.
_INTERVAL = 0.1

_choice: bool | None = None


def set_progress(show: bool | None) -> None:
    """Show progress bars always, or never; None goes back to the default.

    By default a bar appears for whatever takes longer than two seconds, on a terminal and in a notebook, and nowhere
    else. The environment variable FASTQUAD_PROGRESS (0 or 1) overrides this default as well.

    Parameters
    ----------
    show : bool or None

    Examples
    --------
    >>> import fastquad as fq
    >>> fq.set_progress(False)
    >>> fq.set_progress(None)
    """
    global _choice
    if show is not None and not isinstance(show, bool):
        raise TypeError(f"`show` must be True, False or None, got {show!r}.")
    _choice = show


def wanted() -> bool:
    """Whether to draw bars for this thread."""
    if threading.current_thread() is not threading.main_thread():
        return False
    if _choice is not None:
        return _choice
    setting = os.environ.get("FASTQUAD_PROGRESS", "")
    if setting in ("0", "1"):
        return setting == "1"
    return _in_notebook() or (sys.stderr is not None and sys.stderr.isatty())


@contextmanager
def never() -> Iterator[None]:
    """No bars within this block."""
    global _choice
    before, _choice = _choice, False
    try:
        yield
    finally:
        _choice = before


class Bar:
    """How far some work has got; a context manager.

    Parameters
    ----------
    label : str
        What is done, such as "packing".
    total : float, optional
        How much there is to do: with it the bar tells the time that is left.
    unit : str
        Of `total`; "B" is written with prefixes, as in 3.2GB.
    done : float
        How much was done before; it does not count towards the speed.
    at_once : bool
        Show the bar now, for work that is known to be long.
    """

    def __init__(
        self, label: str, total: float | None = None, unit: str = "it", done: float = 0.0, *, at_once: bool = False
    ) -> None:
        self._settings: dict[str, Any] = {"desc": label, "total": total, "unit": unit, "initial": done}
        self.unit = unit
        self._done = done
        self._notes = ""
        self._started = self._drawn = time.perf_counter()
        self._bar: Any = None
        self._lock = threading.Lock()
        # Only one thread draws; others may advance the bar.
        self._drawer = threading.get_ident() if wanted() else None
        if at_once and self._drawer is not None:
            self._draw()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._bar is not None:
            # A budget that was not needed is no failure: in a notebook the bar would stay, in red.
            self._bar.total = None
            self._bar.close()

    @property
    def shown(self) -> bool:
        """Whether the bar may be drawn; if not, callers need not make `notes`."""
        return self._drawer is not None

    def advance(self, amount: float = 1.0, notes: str | None = None) -> None:
        """Add to what is done; an amount of 0 only redraws."""
        if self._drawer is None:
            return
        with self._lock:
            self._done += amount
        if notes is not None:
            self._notes = notes
        now = time.perf_counter()
        due = self._drawn + (_INTERVAL if self._bar is not None else PATIENCE)
        if now >= due and threading.get_ident() == self._drawer:
            self._draw()

    def reach(self, done: float, notes: str | None = None) -> None:
        """Set how much is done in all."""
        self.advance(done - self._done, notes)

    def _draw(self) -> None:
        self._drawn = time.perf_counter()
        if self._bar is None:
            self._bar = _tqdm()(**self._settings, **_form(self._settings), leave=False, dynamic_ncols=True)
            # The clock began with the work, not with the bar.
            self._bar.start_t -= self._drawn - self._started
        self._bar.set_postfix_str(self._notes, refresh=False)
        self._bar.n = self._done
        self._bar.refresh()


def write(line: str) -> None:
    """Print a line on stderr, above the bars."""
    if "tqdm" not in sys.modules:
        print(line, file=sys.stderr)
        return
    from tqdm import tqdm

    tqdm.write(line, file=sys.stderr)


def _form(settings: dict[str, Any]) -> dict[str, Any]:
    """How amounts are written."""
    if settings["unit"] == "B":
        return {"unit_scale": True, "unit_divisor": 1000}
    if settings["total"] is None:
        return {"bar_format": "{desc}: {n:.4g}{unit} [{elapsed}{postfix}]"}
    return {
        "bar_format": "{desc}: {percentage:3.0f}%|{bar}| {n:.4g}/{total:.4g}{unit} [{elapsed}<{remaining}{postfix}]"
    }


def _tqdm() -> Any:
    """tqdm's class for this place."""
    if _in_notebook() and importlib.util.find_spec("ipywidgets") is not None:
        from tqdm.notebook import tqdm as widget

        return widget
    from tqdm import tqdm

    return tqdm


def _in_notebook() -> bool:
    """Whether a Jupyter kernel runs this process."""
    if "ipykernel" not in sys.modules:
        return False
    from IPython import get_ipython

    shell = get_ipython()
    return shell is not None and type(shell).__name__ == "ZMQInteractiveShell"
