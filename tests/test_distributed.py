"""Measurements over the processes of a Dask cluster, and Dask arrays: the same answers, also when a worker is lost."""

import os
import signal
import subprocess
import sys
import threading

import naive
import numpy as np
import pytest
from test_contractions import Own, calls, relative_error

import fastquad as fq
from fastquad.measurements.chunked import ChunkedTensor
from fastquad.measurements.distributed import _parts

distributed = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")

# A socket of a worker that was killed is closed when it is collected; and two workers are many for a port to share.
pytestmark = [
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


@pytest.fixture(scope="module")
def client():
    """Three workers, each a process with one thread."""
    with (
        distributed.LocalCluster(
            n_workers=3, threads_per_worker=1, processes=True, dashboard_address=None, memory_limit=0
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


def make(kind, m, n, dtype, tmp_path):
    """What to distribute, and the array that it stands for."""
    A = np.random.default_rng([m, n]).standard_normal((m, n, n)).astype(dtype)
    packed = naive.sym(A).astype(dtype)
    if kind == "array":
        return A, A
    if kind == "file":
        np.save(tmp_path / "A.npy", A)
        return str(tmp_path / "A.npy"), A
    if kind == "packed":
        return fq.pack(A), packed
    if kind == "folder":
        fq.pack(A, tmp_path / "A.fq")
        return tmp_path / "A.fq", packed
    if kind == "opened":
        return fq.pack(A, tmp_path / "B.fq"), packed
    if kind == "dask":
        return da.from_array(A, chunks=(max(1, m // 7), -(-n // 2), n)), A
    if kind == "rank one":
        return fq.RankOneTensor(A[:, 0]), A[:, 0, :, None].astype(float) * A[:, 0, None, :]
    if kind == "gaussian":
        tensor = fq.GaussianTensor(m, n, seed=3)
        return tensor, tensor.matrices(0, m)
    return Own(A), A


KINDS = ["array", "file", "packed", "folder", "opened", "dask", "rank one", "gaussian", "user's own"]


@pytest.mark.parametrize(("m", "n", "dtype"), [(1, 5, "float64"), (9, 1, "float32"), (53, 17, "float32")])
@pytest.mark.parametrize("kind", KINDS)
def test_agrees_with_its_twin(kind, m, n, dtype, client, tmp_path):
    source, array = make(kind, m, n, dtype, tmp_path)
    A = fq.distribute(source, client)
    assert (A.m, A.n) == (m, n)
    for batch in (None, 1, 3):
        for name, *arguments in calls(m, n, batch):
            got, expected = getattr(A, name)(*arguments), getattr(naive, name)(array, *arguments)
            assert relative_error(got, expected) < 2e-13, (name, batch)
    np.testing.assert_allclose(A.matrices(m // 3, m), naive.sym(array)[m // 3 :], rtol=1e-14)
