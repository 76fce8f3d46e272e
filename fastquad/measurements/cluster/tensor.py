"""Measurements distributed over the workers of a Dask cluster.

Each worker keeps a part, a range of consecutive measurements, and runs the kernels of its kind on it. A contraction is
one round trip: each part gets a task with the signal, and the answers are merged in the order of the parts, never in
the order of arrival. Sums over measurements, an (n, n) matrix for each part, are added on the workers, eight at a time,
before they come back: so at most eight cross the client's network, whatever the number of workers.

A part is a future. If its worker is lost, Dask makes it again on another one, by reading the file or computing the
chunks of the Dask array again. What was sent from this process's memory is sent again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import CancelledError
from typing import Any

import numpy as np

from fastquad.measurements.base import Measurements
from fastquad.measurements.cluster.parts import PartedTensor
from fastquad.measurements.cluster.worker import contract_part, shape_of
from fastquad.measurements.contractions import Answer, Contraction, Gradient, Gram, Sweep, WeightedSum, merged

#: The number of sums that are added in one task, and the most that come back to the client.
_FAN_IN = 8
#: The size in bytes above which a request is sent to each worker once, ahead of the tasks, and not with each task.
_LARGE = 1 << 20
#: How often a contraction is tried, if workers are lost with what it needs.
_ATTEMPTS = 5

Bounds = list[tuple[int, int]]
Send = Callable[[int, list[str] | None], Any]


class DistributedTensor(PartedTensor):
    """Measurements over the workers of a Dask cluster; made by `fastquad.distribute`.

    `client` is Dask's. The workers use the threads that Dask gave them, whatever `n_threads` says.

    Examples
    --------
    >>> import dask.distributed, fastquad as fq  # doctest: +SKIP
    >>> client = dask.distributed.Client("tcp://scheduler:8786")  # doctest: +SKIP
    >>> A = fq.distribute("A.fq", client)  # doctest: +SKIP
    >>> fq.solve(A, y).success  # doctest: +SKIP
    True
    """

    def __init__(self, client: Any, like: Measurements, bounds: Bounds, send: Send) -> None:
        self.client = client
        self.m, self.n, self.dtype = like.m, like.n, like.dtype
        self._like, self._bounds, self._send = like, bounds, send
        self._direct = reaches_workers(client)
        #: The worker that was given each part. Tasks keep to it while it lives, so that no part is copied to another.
        self._homes = [self._worker(part) for part in range(len(bounds))]
        self._futures = [send(part, home) for part, home in enumerate(self._homes)]
        shapes = self._gather(lambda: client.map(shape_of, self._futures, pure=False))
        if shapes != [(stop - start, self.n) for start, stop in bounds]:
            raise ValueError(f"`A` changed while it was distributed: its parts have the shapes {shapes}.")

    def _about(self) -> tuple[str]:
        return (f"parts={len(self._bounds)}",)

    def _ask(self, requests: dict[int, Contraction], n_threads: int) -> Iterable[Answer]:
        def submit() -> list[Any]:
            sent: Sequence[Any] = list(requests.values())
            # Send a large request that all parts share once to each worker, ahead of the tasks.
            if len({id(request) for request in sent}) == 1 and _size(sent[0]) > _LARGE:
                sent = [self.client.scatter(sent[0], broadcast=True, hash=False)] * len(sent)
            tasks = [self._submit(part, request) for part, request in zip(requests, sent, strict=True)]
            while summed and len(tasks) > _FAN_IN:
                groups = [tasks[i : i + _FAN_IN] for i in range(0, len(tasks), _FAN_IN)]
                tasks = self.client.map(merged, groups, pure=False)
            return tasks

        summed = all(isinstance(request, WeightedSum | Sweep | Gradient | Gram) for request in requests.values())
        return self._gather(submit)

    def _submit(self, part: int, request: Any) -> Any:
        """The task of a request on the worker that has the part."""
        home = self._homes[part]
        where = {"workers": home, "allow_other_workers": True} if home else {}
        return self.client.submit(contract_part, self._futures[part], request, pure=False, **where)

    # -- when a worker is lost --------------------------------------------------------------------------------------

    def _gather(self, submit: Callable[[], list[Any]]) -> list[Any]:
        """The results of the tasks, which are submitted again if something that they need was lost."""
        for _ in range(_ATTEMPTS - 1):
            try:
                return self.client.gather(submit(), direct=self._direct)
            except CancelledError:
                # Dask can repeat tasks, but not what was sent from this process's memory.
                self._send_again()
        return self.client.gather(submit(), direct=self._direct)

    def _send_again(self) -> None:
        for part, future in enumerate(self._futures):
            if future.status in ("cancelled", "lost"):
                self._homes[part] = self._worker(part)
                self._futures[part] = self._send(part, self._homes[part])

    def _worker(self, part: int) -> list[str] | None:
        """The worker that should get a part, if there is a choice."""
        workers = sorted(self.client.nthreads())
        return [workers[part % len(workers)]] if workers else None


def _size(request: Contraction) -> int:
    """Bytes of the arrays that a request carries."""
    return sum(part.nbytes for part in request.arguments() if isinstance(part, np.ndarray))


def reaches_workers(client: Any) -> bool:
    """Whether data may go between client and workers without passing through the scheduler."""
    if client.direct_to_workers is not None:
        return bool(client.direct_to_workers)
    return client.scheduler.address.startswith(("tcp://127.0.0.1", "inproc://"))
