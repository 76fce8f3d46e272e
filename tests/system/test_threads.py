"""Threads: a result never depends on them, and neither errors, Ctrl-C, fork nor other threads get lost in them."""

import concurrent.futures
import os
import signal
import subprocess
import sys
import threading
import time

import naive
import numpy as np
import pytest
import threadpoolctl

import fastquad as fq
from fastquad.system import threads


@pytest.fixture
def always_threads(monkeypatch):
    """Use threads however small the work."""
    monkeypatch.setattr(threads, "_BYTES_WORTH_A_THREAD", 1)
    monkeypatch.setattr("fastquad.measurements.dense.chunks.CHUNK_BYTES", 1)


def test_every_chunk_is_done_once_by_several_threads():
    done, names = [], set()

    def task(i):
        names.add(threading.current_thread().name)
        time.sleep(0.005)
        done.append(i)

    threads.run(task, [(i,) for i in range(40)], 4)
    assert sorted(done) == list(range(40))
    assert len(names) > 1


def test_little_work_stays_on_one_thread():
    names = set()
    n_threads = threads.worthwhile(4, 1000)
    threads.run(lambda i: names.add(threading.current_thread().name), [(i,) for i in range(40)], n_threads)
    assert names == {threading.current_thread().name}
    assert threads.worthwhile(4, 1000) == 1
    assert threads.worthwhile(4, 1 << 40) == 4
    assert threads.worthwhile(4, 0) == 1


@pytest.mark.parametrize("n_threads", [1, 3])
def test_an_error_in_a_chunk_is_raised_and_stops_the_rest(n_threads):
    done = []

    def task(i):
        if i == 3:
            raise RuntimeError("chunk 3")
        time.sleep(0.002)
        done.append(i)

    with pytest.raises(RuntimeError, match="chunk 3"):
        threads.run(task, [(i,) for i in range(1000)], n_threads)
    assert len(done) < 100


def test_number_of_threads(monkeypatch):
    assert threads.resolve(3) == 3
    monkeypatch.delenv("FASTQUAD_NUM_THREADS", raising=False)
    assert threads.resolve(None) == len(os.sched_getaffinity(0))
    monkeypatch.setenv("FASTQUAD_NUM_THREADS", "5")
    assert threads.resolve(None) == 5
    fq.set_num_threads(2)
    try:
        assert threads.resolve(None) == 2
        assert threads.resolve(7) == 7
    finally:
        fq.set_num_threads(None)
    monkeypatch.setenv("FASTQUAD_NUM_THREADS", "many")
    with pytest.raises(ValueError, match="`FASTQUAD_NUM_THREADS` must be a positive integer, got 'many'"):
        threads.resolve(None)
    for bad in (0, -1, 1.5, True, "2"):
        with pytest.raises(ValueError, match="`n` must be a positive integer"):
            fq.set_num_threads(bad)


def test_several_python_threads_at_once(always_threads):
    array = np.random.default_rng(0).standard_normal((60, 20, 20))
    A = fq.pack(array)
    X = np.random.default_rng(1).standard_normal((16, 20))
    results = [None] * len(X)

    def work(i):
        for _ in range(20):
            results[i] = A.products(X[i], n_threads=3)

    workers = [threading.Thread(target=work, args=(i,)) for i in range(len(X))]
    for thread in workers:
        thread.start()
    for thread in workers:
        thread.join()
    for x, W in zip(X, results, strict=True):
        np.testing.assert_allclose(W, naive.products(array, x), rtol=1e-10)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_a_process_forked_after_use_works():
    """In an interpreter of its own: other libraries that tests load do not survive a fork."""
    code = (
        "import os, numpy as np, fastquad as fq\n"
        "from fastquad.system import threads\n"
        "threads._BYTES_WORTH_A_THREAD = 1\n"
        "A, x = fq.pack(np.random.default_rng(0).standard_normal((2000, 40, 40))), np.ones(40)\n"
        "expected = A.products(x, n_threads=2)\n"
        "assert threads._pool is not None\n"
        "child = os.fork()\n"
        "same = np.array_equal(A.products(x, n_threads=2), expected)\n"
        "if child == 0: os._exit(0 if same else 1)\n"
        "assert same and os.waitpid(child, 0)[1] == 0\n"
    )
    subprocess.run([sys.executable, "-W", "ignore::DeprecationWarning", "-c", code], check=True, timeout=60)


@pytest.mark.skipif(sys.platform == "win32", reason="signals")
def test_control_c_stops_a_long_pass():
    """SIGINT during passes over a tensor ends the process within a second, with KeyboardInterrupt."""
    code = (
        "import numpy as np, fastquad as fq\n"
        "A = fq.as_measurements(np.zeros((400, 400, 400), dtype=np.float32))\n"
        "x = np.ones(400)\n"
        "print('ready', flush=True)\n"
        "while True: A.products(x, n_threads=2)\n"
    )
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert child.stdout.readline() == "ready\n"
    time.sleep(0.3)
    sent = time.perf_counter()
    child.send_signal(signal.SIGINT)
    try:
        _, errors = child.communicate(timeout=20)
    finally:
        child.kill()
    assert "KeyboardInterrupt" in errors
    assert time.perf_counter() - sent < 5  # a second on an idle machine; tests share theirs


def test_import_is_light():
    """Neither compilers nor extras are imported with fastquad."""
    code = "import sys, fastquad; print(*sorted(sys.modules))"
    modules = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    for heavy in ("numba", "torch", "jax", "dask", "matplotlib", "pooch", "rich", "scipy.optimize", "scipy.stats"):
        assert heavy not in modules


def blas_threads():
    return [library["num_threads"] for library in threadpoolctl.threadpool_info() if library["user_api"] == "blas"]


def test_a_decoder_has_the_threads_of_blas():
    A = np.random.default_rng(0).standard_normal((3, 784, 784), dtype=np.float32)
    prior = fq.Generative(fq.decoders.mnist())
    # Adam through a compiled network has threads of its own.
    for method, own in (("latent", True), (fq.methods.PPower(projection="lm"), True), ("ppower", threads.cores() > 4)):
        fq.solve(A, np.ones(3), prior=prior, method=method, max_iter=1)
        before, inside = blas_threads(), []
        fq.solve(
            A, np.ones(3), prior=prior, method=method, max_iter=1, callback=lambda s, i=inside: i.append(blas_threads())
        )
        assert inside
        assert all(count == (before if own else [1] * len(count)) for count in inside)


def test_small_solves_keep_blas_on_one_thread_and_set_it_back():
    problem = fq.problems.gaussian(m=60, n=20, k=3, rng=0)
    fq.solve(problem.A, problem.y)  # loads every BLAS there is
    before, inside = blas_threads(), []

    def solve():
        fq.solve(problem.A, problem.y, callback=lambda state: inside.append(blas_threads()))

    solve()
    assert all(count == [1] * len(count) for count in inside)
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        for future in [pool.submit(solve) for _ in range(6)]:
            future.result()
    assert blas_threads() == before
