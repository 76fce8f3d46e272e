"""Run trials in parallel, each in a process with one thread, on this machine or on the workers of a Dask cluster."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from itertools import islice
from multiprocessing.connection import wait as wait_for
from typing import Any

from fastquad.experiments.records import Record, now
from fastquad.system import threads

# The variables that keep BLAS and fastquad on one thread: the trials themselves run in parallel.
_ONE_THREAD = ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "FASTQUAD_NUM_THREADS")
# Trials draw no bars: they share the terminal of the process that started them.
_QUIET = {"FASTQUAD_PROGRESS": "0"}
#: Seconds after which `run` yields None if no trial has finished.
_HEARTBEAT = 0.5

#: The work of one trial: a function, its settings, its cell and the number of the trial.
Unit = tuple[Callable[..., list[dict[str, Any]]], dict[str, Any], dict[str, Any], int]


def perform(unit: Unit) -> Record:
    """Run one trial; returns its rows, its wall-clock time and its processor time."""
    trial, settings, cell, number = unit
    wall, cpu = time.perf_counter(), time.thread_time()
    rows = trial(settings, cell, number)
    return {
        "cell": cell,
        "trial": number,
        "rows": rows,
        "cpu": round(time.thread_time() - cpu, 4),
        "wall": round(time.perf_counter() - wall, 4),
        "finished": now(),
    }


def run(
    units: list[Unit], *, workers: int | None = None, scheduler: str | None = None
) -> Generator[Record | None, None, None]:
    """Yield the records of the units as they finish, and None after every half second without one."""
    if scheduler is not None:
        return _on_dask(units, scheduler)
    n = threads.resolve(None) if workers is None else workers
    return _in_processes(units, min(n, len(units)))


def _in_processes(units: list[Unit], n: int) -> Generator[Record | None, None, None]:
    if not units:
        return
    others = set(multiprocessing.active_children())
    # Start a fresh interpreter for each process: nothing of this one is inherited, above all no threads.
    context = multiprocessing.get_context("spawn")
    with _environment(dict.fromkeys(_ONE_THREAD, "1") | _QUIET):
        pool = ProcessPoolExecutor(n, mp_context=context, initializer=_begin)
        try:
            yield from _as_finished(pool, units, in_flight=2 * n)
            pool.shutdown()
        except BrokenProcessPool:
            raise MemoryError(
                "a worker was killed, perhaps for lack of memory: the same call goes on, with fewer `workers`."
            ) from None
        finally:
            # After an error or Ctrl-C, stop unfinished trials without waiting: they are run again next time.
            for process in set(multiprocessing.active_children()) - others:
                process.terminate()
            pool.shutdown(cancel_futures=True)


def _as_finished(
    pool: ProcessPoolExecutor, units: Iterable[Unit], in_flight: int
) -> Generator[Record | None, None, None]:
    """Hand out the units in order, no more than `in_flight` at a time."""
    remaining = iter(units)
    waiting: set[Future[Record]] = {pool.submit(perform, unit) for unit in islice(remaining, in_flight)}
    while waiting:
        done, waiting = wait(waiting, _HEARTBEAT, return_when=FIRST_COMPLETED)
        if not done:
            yield None
        waiting |= {pool.submit(perform, unit) for unit in islice(remaining, len(done))}
        for future in done:
            yield future.result()


def _begin() -> None:
    """Prepare a new worker: ignore Ctrl-C, which the parent handles, and end if the parent is killed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()


def _end_with(sentinel: int) -> None:
    wait_for([sentinel])
    os._exit(1)


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    """Set environment variables within this block; new processes inherit them."""
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _on_dask(units: list[Unit], address: str) -> Generator[Record | None, None, None]:
    with connect(address) as client:
        from distributed import as_completed

        # Not pure: Dask must run every trial, and run one again if its worker is lost.
        futures = client.map(_perform_on_one_thread, units, pure=False)
        try:
            for future in as_completed(futures):
                yield future.result()
                future.release()
        finally:
            client.cancel(futures)


def connect(address: str) -> Any:
    """A client of the Dask scheduler at this address; an error in one line if none answers."""
    try:
        from distributed import Client
    except ImportError:
        raise ImportError("`scheduler` needs Dask: pip install 'fastquad[dask]'.") from None
    try:
        return Client(address, timeout=10, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ValueError(f"`scheduler`: no Dask scheduler answers at {address!r} ({error}).") from None


def _perform_on_one_thread(unit: Unit) -> Record:
    threads.set_num_threads(1)
    return perform(unit)
