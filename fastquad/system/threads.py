"""Start threads, and limit those of BLAS: the only place that does either.

Work is cut into chunks, each of which writes memory that no other chunk writes. Where chunks make partial sums, their
bounds do not depend on the number of threads and the sums are added in a fixed order: so a result has the same bits for
any number of threads. Chunks are handed out as threads come free, because on a shared machine one thread may stall. The
calling thread works too, and sees Ctrl-C between two chunks.
"""

from __future__ import annotations

import itertools
import math
import operator
import os
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cache
from threading import Lock
from typing import Any, Generic, TypeVar

import numpy as np

from fastquad.system import cgroups

Result = TypeVar("Result")

#: The least number of bytes to read that is worth another thread: waking one takes as long as reading a megabyte or
#: two.
_BYTES_WORTH_A_THREAD = 6 << 20

_default: int | None = None
_pool: ThreadPoolExecutor | None = None
_pool_size = 0
_lock = Lock()
_blas_lock = Lock()


def set_num_threads(n: int | None) -> None:
    """Set how many threads fastquad uses if `n_threads` is not given; None goes back to the default.

    The default is the environment variable FASTQUAD_NUM_THREADS, else the cores that this process may use.

    >>> import fastquad as fq
    >>> fq.set_num_threads(1)
    >>> fq.set_num_threads(None)
    """
    global _default
    _default = None if n is None else _checked(n, "n")


def resolve(n_threads: int | None) -> int:
    """The number of threads to use for a call with this `n_threads`."""
    if n_threads is not None:
        return _checked(n_threads, "n_threads")
    if _default is not None:
        return _default
    setting = os.environ.get("FASTQUAD_NUM_THREADS")
    if setting:
        try:
            return _checked(int(setting), "FASTQUAD_NUM_THREADS")
        except ValueError:
            raise ValueError(f"`FASTQUAD_NUM_THREADS` must be a positive integer, got {setting!r}.") from None
    return cores()


def chunks(total: int, size: int) -> list[tuple[int, int]]:
    """(start, stop) of consecutive chunks of `size`, the last one shorter."""
    return [(start, min(total, start + size)) for start in range(0, total, max(1, size))]


def worthwhile(n_threads: int, nbytes: int) -> int:
    """How many threads to use for reading `nbytes`: one with little to read is not worth waking."""
    return max(1, min(n_threads, nbytes // _BYTES_WORTH_A_THREAD))


def run(task: Callable[..., object], arguments: list[tuple[Any, ...]], n_threads: int) -> None:
    """Call `task(*a)` for each a in arguments, on up to n_threads threads; the first error is raised."""
    helpers = min(n_threads, len(arguments)) - 1
    if helpers <= 0:
        for a in arguments:
            task(*a)
        return
    turn = itertools.count()
    stopped = False

    def work() -> None:
        nonlocal stopped
        # next() of a count is atomic, so each chunk is taken once.
        while not stopped and (i := next(turn)) < len(arguments):
            try:
                task(*arguments[i])
            except BaseException:
                stopped = True
                raise

    futures = _submitted(work, helpers)
    try:
        work()
    finally:
        stopped = True
        # Cancel helpers that have not begun: nothing is left for them, and they may be queued behind other work.
        for future in futures:
            if not future.cancel():
                future.result()


def ahead(
    task: Callable[..., Result], arguments: Iterable[tuple[Any, ...]], depth: int = 1, n_threads: int = 1
) -> Iterator[Result]:
    """Yield `task(*a)` for each a in turn, computing up to `depth` results ahead on separate threads.

    The next results are made while one is used, so tasks may write to depth + 1 buffers in rotation.
    """
    waiting: deque[_Job[Result]] = deque()
    pool = ThreadPoolExecutor(n_threads, thread_name_prefix="fastquad-ahead")
    try:
        for a in arguments:
            job = _Job(task, a)
            waiting.append(job)
            try:
                pool.submit(job)
            except RuntimeError:
                # The system gives no more threads: do the job here, unless a running thread has begun it.
                job()
            if len(waiting) > depth:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()
    finally:
        pool.shutdown(cancel_futures=True)


class _Job(Generic[Result]):
    """A call that is made once, by whichever thread comes first, and whose result others wait for."""

    def __init__(self, task: Callable[..., Result], arguments: tuple[Any, ...]) -> None:
        self.task, self.arguments = task, arguments
        self._turn = itertools.count()
        self._future: Future[Result] = Future()

    def __call__(self) -> None:
        if next(self._turn):  # atomic; 0 for the first caller
            return
        try:
            self._future.set_result(self.task(*self.arguments))
        except BaseException as error:
            self._future.set_exception(error)

    def result(self) -> Result:
        return self._future.result()


@contextmanager
def single_threaded_blas() -> Iterator[None]:
    """Run BLAS on one thread within this block.

    On small matrices its threads spend more time waiting for each other than computing, and after each call they keep
    their cores busy for a while. The setting belongs to the process: if several Python threads are in here, only the
    first one changes it and restores it.
    """
    lock = _blas_lock
    if not lock.acquire(blocking=False):
        yield
        return
    # Where there is one thread already nothing is set: that takes a tenth of the time of threadpoolctl's own context.
    before = [(library, library.num_threads) for library in _blas().lib_controllers]
    more = [(library, count) for library, count in before if count not in (1, None)]
    try:
        for library, _ in more:
            library.set_num_threads(1)
        yield
    finally:
        for library, count in more:
            library.set_num_threads(count)
        lock.release()


def blas_libraries() -> list[dict[str, Any]]:
    """What threadpoolctl tells of the BLAS libraries of this process."""
    return _blas().info()


@cache
def _blas() -> Any:
    """The BLAS libraries of this process, looked up once because it takes a millisecond."""
    import scipy.linalg  # noqa: F401  (it brings a BLAS library of its own)
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController().select(user_api="blas")


def _checked(n: Any, name: str) -> int:
    try:
        value = 0 if isinstance(n, (bool, np.bool_)) else operator.index(n)
    except TypeError:
        value = 0
    if value < 1:
        raise ValueError(f"`{name}` must be a positive integer, got {n!r}.")
    return value


def cores() -> int:
    """The number of cores that this process may use, by its affinity and the quota of its container or job."""
    try:
        bound = len(os.sched_getaffinity(0))
    except AttributeError:  # not on this platform
        bound = os.cpu_count() or 1
    return min(bound, _quota())


@cache
def _quota() -> int:
    """The tightest quota of the control groups around this process, in cores, rounded up.

    Looked up once: it is set when a container is started.
    """
    shares = [_share(folder, version) for folder, version in cgroups.groups("cpu")]
    return max(1, math.ceil(min(shares, default=math.inf))) if any(map(math.isfinite, shares)) else sys.maxsize


def _share(folder: str, version: int) -> float:
    """The cores that one group may use; inf where it has no quota."""
    if version == 2:
        try:
            quota, period = map(int, cgroups.content(f"{folder}/cpu.max").split())
        except (OSError, ValueError):  # "max 100000"
            return math.inf
    else:
        quota, period = (cgroups.number(folder, f"cpu.cfs_{name}_us") or -1 for name in ("quota", "period"))
    return quota / period if quota > 0 and period > 0 else math.inf


def _submitted(work: Callable[[], None], count: int) -> list[Future[None]]:
    """Hand out the work to `count` threads, or to fewer if the system gives no more."""
    futures: list[Future[None]] = []
    pool = _get_pool(count)
    try:
        for _ in range(count):
            futures.append(pool.submit(work))
    except RuntimeError:
        # "can't start new thread": the work stays in this pool's queue, so let the next call make a new pool.
        _forget(pool)
    return futures


def _get_pool(size: int) -> ThreadPoolExecutor:
    """A pool of at least `size` threads, kept for the life of the process."""
    global _pool, _pool_size
    with _lock:
        if _pool is None or _pool_size < size:
            # A smaller pool may still work for another thread; it ends by itself when that is done.
            _pool, _pool_size = ThreadPoolExecutor(size, thread_name_prefix="fastquad"), size
        return _pool


def _forget(pool: ThreadPoolExecutor) -> None:
    global _pool, _pool_size
    with _lock:
        if _pool is pool:
            _pool, _pool_size = None, 0


def _forget_pool() -> None:
    """Drop the pool after a fork: the threads of the parent do not exist in the child."""
    global _pool, _pool_size, _lock, _blas_lock
    _pool, _pool_size, _lock, _blas_lock = None, 0, Lock(), Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_pool)
