"""Measurements over the processes of a Dask cluster, and Dask arrays: the same answers, also when a worker is lost."""

import contextlib
import os
import signal
import subprocess
import sys
import threading

import naive
import numpy as np
import pytest
from tensors import Own, calls, relative_error

import fastquad as fq
import fastquad.measurements.cluster.placement as placement
import fastquad.measurements.cluster.tensor as module
from fastquad.measurements.cluster.chunked import ChunkedTensor

distributed = pytest.importorskip("distributed")
da = pytest.importorskip("dask.array")


@contextlib.contextmanager
def workers(count):
    """The client of a few workers, each a process with one thread."""
    with (
        distributed.LocalCluster(
            n_workers=count, threads_per_worker=1, processes=True, dashboard_address=":0", memory_limit=0
        ) as cluster,
        distributed.Client(cluster, set_as_default=False) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def client():
    """Three workers."""
    with workers(3) as client:
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
    if kind == "computed":
        tensor = fq.ComputedTensor(lambda i, j, k: float(i) + j * k, m, n, symmetric=True)
        return tensor, tensor.matrices(0, m)
    if kind == "low rank":
        tensor = fq.LowRankTensor(A[:, :1], [0.5])
        return tensor, tensor.matrices(0, m)
    if kind == "shifts":
        tensor = fq.ShiftTensor(max(m, n), lags=np.arange(m))
        return tensor, tensor.matrices(0, m)
    return Own(A), A


KINDS = [
    "array", "file", "packed", "folder", "opened", "dask", "rank one", "low rank", "gaussian", "computed", "shifts",
    "user's own",
]  # fmt: skip


@pytest.mark.parametrize(("m", "n", "dtype"), [(1, 5, "float64"), (9, 1, "float32"), (53, 17, "float32")])
@pytest.mark.parametrize("kind", KINDS)
def test_agrees_with_its_twin(kind, m, n, dtype, client, tmp_path):
    source, array = make(kind, m, n, dtype, tmp_path)
    A = fq.distribute(source, client)
    n = array.shape[1]
    assert (A.m, A.n) == (m, n)
    for batch in (None, 3):
        for name, *arguments in calls(m, n, batch):
            got, expected = getattr(A, name)(*arguments), getattr(naive, name)(array, *arguments)
            assert relative_error(got, expected) < 2e-13, (name, batch)
    np.testing.assert_allclose(A.matrices(m // 3, m), naive.sym(array)[m // 3 :], rtol=1e-14, atol=1e-15)


@pytest.mark.parametrize("kind", ["array", "dask", "packed"])
def test_sent_in_pieces_and_packed_by_the_workers(kind, client, tmp_path, monkeypatch):
    monkeypatch.setattr(placement, "_PIECE_BYTES", 5000)
    source, array = make(kind, 53, 17, "float64", tmp_path)
    x = np.random.default_rng(0).standard_normal(17)
    for options in ({}, {"packed": True}, {"packed": True, "dtype": "float32"}):
        A = fq.distribute(source, client, **options)
        dtype = options.get("dtype", "float64")
        assert A.dtype == dtype
        assert A.nbytes == (fq.pack(array, dtype=dtype) if options or kind == "packed" else source).nbytes
        expected = naive.products(naive.sym(array).astype(dtype), x)
        assert relative_error(A.products(x), expected) < 2e-13


@pytest.mark.parametrize("packed", [False, True])
def test_complex_matrices(client, packed):
    rng = np.random.default_rng(5)
    H = rng.standard_normal((90, 20, 20, 2)).view(complex)[..., 0]
    H += H.conj().transpose(0, 2, 1)
    x = rng.standard_normal((20, 2)).view(complex)[:, 0]
    for source in (H, da.from_array(H, chunks=(30, 20, 20))):
        A = fq.distribute(source, client, packed=packed)
        assert relative_error(A.products(x), H @ x) < 2e-13
        solution = fq.solve(A, fq.measure(H, x))
        assert solution.success
        assert fq.distance(solution.x, x) < 1e-9


def test_what_goes_with_a_pass(client, monkeypatch):
    """Large signals ahead of the tasks, sums added up on the workers, and no part that moves."""
    array = np.random.default_rng(0).standard_normal((80, 12, 12))
    A = fq.distribute(array, client)
    assert len(A._bounds) == 3
    where = client.who_has(A._futures)
    assert len(set(where.values())) == 3
    monkeypatch.setattr(module, "_LARGE", 10)
    monkeypatch.setattr(module, "_FAN_IN", 2)
    for batch in (None, 2):
        for name, *arguments in calls(80, 12, batch):
            got, expected = getattr(A, name)(*arguments), getattr(naive, name)(array, *arguments)
            assert relative_error(got, expected) < 2e-13, (name, batch)
    assert client.who_has(A._futures) == where


def test_one_round_trip_a_pass(client, monkeypatch):
    A = fq.distribute(np.ones((40, 6, 6)), client)
    gathers = []
    gather = client.gather
    monkeypatch.setattr(
        client, "gather", lambda futures, **options: gathers.append(futures) or gather(futures, **options)
    )
    for batch in (None, 3):
        for name, *arguments in calls(40, 6, batch):
            gathers.clear()
            getattr(A, name)(*arguments)
            assert [len(futures) for futures in gathers] == [3], name


def test_bits_do_not_depend_on_timing(client):
    A = fq.distribute(np.random.default_rng(0).standard_normal((80, 12, 12)), client)
    w = np.random.default_rng(1).standard_normal(80)
    expected = A.weighted_sum(w)
    for _ in range(5):
        np.testing.assert_array_equal(A.weighted_sum(w), expected)


@pytest.mark.parametrize(("edges", "threads", "parts"), [
    ([0, 8, 16, 20], [1, 1], [(0, 16), (16, 20)]),
    ([0, 5], [1, 1, 1], [(0, 5)]),
    ([0, 8, 16, 24, 32], [3, 1], [(0, 24), (24, 32)]),
    ([0, 1, 2], [4] * 100, [(0, 1), (1, 2)]),
])  # fmt: skip
def test_parts_go_with_the_threads(edges, threads, parts):
    assert placement._parts(edges, threads) == parts


# -- solving ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("method", "steps"),
    [("auto", None), ("amp", 8), ("pursuit", None), (fq.methods.SPF(k=4, max_inner=3), 3), (fq.TWF(), 20)],
)
def test_the_same_solve_as_on_one_machine(method, steps, client):
    problem = fq.problems.gaussian(m=90, n=40, k=4, rng=0)
    here = fq.solve(problem.A, problem.y, method=method, max_iter=steps)
    there = fq.solve(fq.distribute(problem.A, client), problem.y, method=method, max_iter=steps)
    assert there.status is here.status
    assert (there.n_iter, there.n_passes) == (here.n_iter, pytest.approx(here.n_passes))
    np.testing.assert_allclose(there.x, here.x, atol=1e-8)


def test_a_dask_array_is_solved_by_the_current_client(client):
    problem = fq.problems.gaussian(m=60, n=20, k=2, rng=0)
    array = da.from_array(problem.A, chunks=(10, 20, 20))
    with client.as_current():
        assert isinstance(fq.as_measurements(array), fq.types.DistributedTensor)
        solution = fq.solve(array, problem.y)
    assert solution.success
    assert fq.distance(solution.x, problem.x) < 1e-9


def test_several_signals_share_their_passes(client):
    problem = fq.problems.gaussian(m=60, n=20, rng=0)
    X = np.stack([problem.x, problem.x[::-1]])
    A = fq.distribute(problem.A, client)
    solution = fq.solve(A, fq.measure(A, X), method="lm", max_iter=12)
    assert solution.success.all()
    assert max(fq.distance(*pair) for pair in zip(solution.x, X, strict=True)) < 1e-9


# -- a worker is lost -------------------------------------------------------------------------------------------------


@pytest.fixture
def mortals():
    """Workers that a test may kill; more than it kills, for it may take long until others are there in their place."""
    with workers(4) as client:
        yield client


def test_a_worker_killed_in_mid_solve_does_not_change_the_answer(mortals, tmp_path):
    """Whatever its part was made from: memory, a file, or a Dask array."""
    # Of a size that Dask does not move about.
    problem = fq.problems.gaussian(m=160, n=100, k=4, rng=0)
    np.save(tmp_path / "A.npy", problem.A)
    array = da.random.default_rng(0).standard_normal((160, 100, 100), chunks=(20, 100, 100))
    method, options = fq.TWF(beta=4.0), {"max_iter": 20}
    for source in (problem.A, tmp_path / "A.npy", array):
        A = fq.distribute(source, mortals)
        y = fq.measure(A, problem.x)
        expected = fq.solve(A, y, method=method, **options)
        killed = []

        def kill(state, A=A, killed=killed):
            if state.n_iter == 10:
                victim, *_ = mortals.who_has(A._futures)[A._futures[0].key]
                killed.append(mortals.run(os.getpid, workers=[victim])[victim])
                # While the next pass is under way.
                threading.Timer(0.005, os.kill, (killed[0], signal.SIGKILL)).start()

        solution = fq.solve(A, y, method=method, callback=kill, **options)
        assert killed
        assert (solution.n_iter, solution.status) == (expected.n_iter, expected.status)
        np.testing.assert_array_equal(solution.x, expected.x)


# -- Dask arrays without a cluster ------------------------------------------------------------------------------------


def test_a_dask_array_without_a_client_is_computed_where_it_fits(monkeypatch):
    A = np.random.default_rng(0).standard_normal((20, 5, 5)).astype(np.float32)
    array = da.from_array(A, chunks=(3, 5, 2))
    assert isinstance(fq.as_measurements(array), fq.types.RawTensor)
    chunks = fq.as_measurements(array, memory=100)
    assert isinstance(chunks, ChunkedTensor)
    for batch in (None, 3):
        for name, *arguments in calls(20, 5, batch):
            got, expected = getattr(chunks, name)(*arguments), getattr(naive, name)(A, *arguments)
            assert relative_error(got, expected) < 2e-13, (name, batch)
    np.testing.assert_allclose(chunks.matrices(2, 13), naive.sym(A)[2:13], rtol=1e-14)


def test_packing_a_dask_array_computes_each_chunk_once(tmp_path):
    made = []

    def chunk(block_info=None):
        made.append(block_info[None]["chunk-location"][0])
        return np.random.default_rng(made[-1]).standard_normal((10, 6, 6))

    array = da.map_blocks(chunk, chunks=((10,) * 5, (6,), (6,)), dtype=float, meta=np.empty((0, 0, 0)))
    expected = np.concatenate([np.random.default_rng(seed).standard_normal((10, 6, 6)) for seed in range(5)])
    for path in (tmp_path / "A.fq", None):
        made.clear()
        packed = fq.pack(array, path, n_threads=1)  # a thread that falls behind may need a chunk again
        assert sorted(made) == list(range(5))
        np.testing.assert_array_equal(packed.block(np.arange(6)), naive.sym(expected))


# -- errors -----------------------------------------------------------------------------------------------------------


def test_errors(client, tmp_path):
    A = np.ones((9, 4, 4))
    with pytest.raises(ValueError, match="`client`: there is no current one"):
        fq.distribute(A)
    with pytest.raises(TypeError, match=r"`client` must be a distributed\.Client, got str"):
        fq.distribute(A, "tcp://nowhere")
    with pytest.raises(ValueError, match="`dtype` is that of packed entries"):
        fq.distribute(A, client, dtype="float32")
    with pytest.raises(TypeError, match="`dtype` must be float16, float32 or float64"):
        fq.distribute(A, client, packed=True, dtype="int8")
    with pytest.raises(ValueError, match=r"`A` must have shape \(m, n, n\)"):
        fq.distribute(da.ones((3, 4, 5)), client)
    with pytest.raises(TypeError, match="`A` must hold"):
        fq.distribute(da.ones((3, 4, 4)).astype("U3"), client)
    with pytest.raises(FileNotFoundError, match="there is no file"):
        fq.distribute(tmp_path / "none.npy", client)
    unknown = da.ones((9, 4, 4), chunks=(3, 4, 4))
    unknown = unknown[unknown.sum(axis=(1, 2)) > 0]
    with pytest.raises(ValueError, match="chunks of known sizes"):
        fq.as_measurements(unknown)


def test_without_dask_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=r"needs Dask: pip install 'fastquad\[dask\]'"):
        fq.distribute(np.ones((9, 4, 4)))


def test_a_damaged_folder_is_refused_by_the_workers(client, tmp_path):
    fq.pack(np.ones((40, 6, 6)), tmp_path / "A.fq")
    blocks = tmp_path / "A.fq" / "blocks.npy"
    content = bytearray(blocks.read_bytes())
    content[-100] ^= 1
    blocks.write_bytes(content)
    with pytest.raises(ValueError, match="is damaged"):
        fq.distribute(tmp_path / "A.fq", client)


def test_not_finite_entries_are_reported(client):
    A = np.ones((9, 4, 4))
    A[7, 1, 1] = np.nan
    with pytest.raises(ValueError, match="`A` must be finite"):
        fq.solve(fq.distribute(A, client), np.ones(9))


def test_dask_is_imported_only_where_it_is_used():
    code = (
        "import sys, numpy as np, fastquad as fq; fq.as_measurements(np.ones((2, 2, 2)));"
        "assert not {'dask', 'distributed'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
