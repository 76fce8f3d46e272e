"""The contractions of stored tensors against the machine's limits, against each other and against peers.

Every benchmark is a race (see conftest.py), asserts the answer, and leaves the rows of docs/benchmarks.md behind.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
from machine import multiply_adds, reading_loops
from peers import Array, Data, same_answer, tasks

import fastquad as fq
from fastquad.measurements.dense.packed import PackedTensor
from fastquad.measurements.dense.raw import RawTensor

#: (m, n): more than 1 GB when packed. The small one fits in the cache.
LARGE = {"float64": (1000, 500), "float32": (800, 784)}
SMALL = (200, 100)
TINY = (40, 24)

SIGNALS = 16
NONZEROS = 10


@dataclass(frozen=True)
class Case:
    """A tensor in both layouts, and a signal."""

    data: Data
    packed: PackedTensor
    x: Array

    @property
    def name(self) -> str:
        m, n, _ = self.data.A.shape
        return f"{self.data.A.dtype}, n={n}, m={m}"

    def symmetric(self, i: int) -> Array:
        A = self.data.A[i].astype(np.float64)
        return (A + A.T) / 2

    def some(self) -> list[int]:
        """The measurements that answers are checked on."""
        return [0, self.packed.m // 2, self.packed.m - 1]

    def rng(self) -> np.random.Generator:
        return np.random.default_rng(1)


def make_case(m: int, n: int, dtype: str) -> Case:
    rng = np.random.default_rng(0)
    A = rng.standard_normal((m, n, n), dtype=np.dtype(dtype).type)
    y = rng.standard_normal(m, dtype=A.dtype.type)
    return Case(Data(A, y), fq.pack(A), rng.standard_normal(n, dtype=A.dtype.type))


@pytest.fixture(scope="module", params=list(LARGE))
def large(request: pytest.FixtureRequest, smoke: bool) -> Case:
    return make_case(*(TINY if smoke else LARGE[request.param]), request.param)


@pytest.fixture(params=[1, None], ids=["one thread", "all threads"])
def n_threads(request: pytest.FixtureRequest, threads: int) -> int:
    return request.param or threads


# -- against the machine ----------------------------------------------------------------------------------------


def hold_against_reading(race, name: str, loops: dict, nbytes: int, at_least: float | None = None) -> None:
    """The share of the best reading loop's speed at which the kernel goes through the same bytes."""
    best = race.fastest(list(loops))
    race.yardstick(best)
    race.benchmark.extra_info["bandwidth"] = nbytes / race.seconds(best) / 1e9
    speed = nbytes / race.kernel_seconds() / 1e9
    race.row(name, race.ratio(best), at_least=at_least, note=f"{speed:.1f} GB/s; {best}")


def test_packed_pass(race, large: Case, n_threads: int) -> None:
    W = np.empty((large.packed.m, large.packed.n))
    loops = reading_loops(large.packed.blocks, n_threads)
    race.run(partial(large.packed.products, large.x, out=W, n_threads=n_threads), loops, rounds=15)
    for i in large.some():
        np.testing.assert_allclose(W[i], large.symmetric(i) @ large.x, rtol=1e-5, atol=1e-5)
    name = f"packed pass over the read bandwidth, {large.name}, threads: {n_threads}"
    hold_against_reading(race, name, loops, large.packed.nbytes, 0.9 if n_threads > 1 else None)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_packed_pass_in_float(race, dtype: str, smoke: bool, n_threads: int) -> None:
    """Entries of 32 and 16 bits in float arithmetic, as a solver may ask for them."""
    m, n = TINY if smoke else LARGE["float32"]
    A = np.random.default_rng(0).standard_normal((m, n, n), dtype=np.float32)
    packed, x, W = fq.pack(A, dtype=dtype), np.random.default_rng(1).standard_normal(n), np.empty((m, n))
    loops = reading_loops(packed.blocks, n_threads)
    race.run(partial(packed.products, x, out=W, precise=False, n_threads=n_threads), loops, rounds=15)
    exact = packed.products(x)
    assert np.linalg.norm(W - exact) < 1.5e-7 * np.linalg.norm(exact)
    name = f"packed pass in float over the read bandwidth, {dtype}, n={n}, m={m}, threads: {n_threads}"
    hold_against_reading(
        race, name, loops, packed.nbytes, (0.9 if n_threads > 1 else 0.8) if dtype == "float32" else None
    )


def test_raw_pass(race, large: Case, threads: int) -> None:
    W = np.empty((large.packed.m, large.packed.n))
    raw = RawTensor(large.data.A)
    assert np.shares_memory(raw.array, large.data.A)
    loops = reading_loops(large.data.A, threads)
    race.run(partial(raw.products, large.x, out=W, n_threads=threads), loops, rounds=9)
    for i in large.some():
        np.testing.assert_allclose(W[i], large.symmetric(i) @ large.x, rtol=1e-5, atol=1e-5)
    hold_against_reading(race, f"raw pass, zero copy, over the read bandwidth, {large.name}", loops, raw.nbytes, 0.75)


def test_weighted_sum(race, large: Case, threads: int) -> None:
    w = large.rng().standard_normal(large.packed.m)
    loops = reading_loops(large.packed.blocks, threads)
    race.run(partial(large.packed.weighted_sum, w, n_threads=threads), loops, rounds=9)
    # z^T (Σ w_i Ã_i) z = Σ w_i z^T Ã_i z
    direct = large.x @ large.packed.weighted_sum(w) @ large.x
    np.testing.assert_allclose(direct, w @ large.packed.measure(large.x), rtol=1e-9)
    hold_against_reading(race, f"weighted sum over the read bandwidth, {large.name}", loops, large.packed.nbytes)


def test_pack(race, large: Case, threads: int) -> None:
    loops = reading_loops(large.data.A, threads)
    race.run(partial(fq.pack, large.data.A, n_threads=threads), loops, rounds=5)
    for i in large.some():
        np.testing.assert_allclose(large.packed.matrices(i, i + 1)[0], large.symmetric(i), rtol=1e-6)
    name = f"packing over the read bandwidth, {large.name}"
    hold_against_reading(race, name, loops, large.data.A.nbytes)


# -- against each other -----------------------------------------------------------------------------------------


def test_batch(race, large: Case, threads: int) -> None:
    packed = large.packed
    X = large.rng().standard_normal((packed.n, SIGNALS))
    W, one = np.empty((packed.m, packed.n, SIGNALS)), np.empty((packed.m, packed.n))
    columns = [np.ascontiguousarray(column) for column in X.T]

    def single_passes() -> None:
        for column in columns:
            packed.products(column, out=one, n_threads=threads)

    # Each stored entry is used twice for each signal: as Ã[j, k] and as Ã[k, j].
    peak = multiply_adds(2 * SIGNALS * packed.blocks.size, threads)
    loops = reading_loops(packed.blocks, threads)
    rivals = {f"{SIGNALS} single passes": single_passes, "multiply-adds in registers": peak, **loops}
    race.run(partial(packed.products, X, out=W, n_threads=threads), rivals, rounds=7)
    for i in large.some():
        np.testing.assert_allclose(W[i], large.symmetric(i) @ X, rtol=1e-5, atol=1e-5)

    race.yardstick("multiply-adds in registers")
    share = race.ratio("multiply-adds in registers")
    limit = max(race.seconds("multiply-adds in registers"), race.seconds(race.fastest(list(loops))))
    bound = race.seconds(f"{SIGNALS} single passes") / limit
    race.benchmark.extra_info["multiply_adds"] = (
        2 * SIGNALS * packed.blocks.size / race.seconds("multiply-adds in registers") / 1e9
    )
    race.row(
        f"{SIGNALS} signals in one pass against {SIGNALS} passes, {large.name}",
        race.ratio(f"{SIGNALS} single passes"),
        at_least=6 if packed.dtype == np.float64 else 4,
        note=f"{100 * share:.0f} % of the multiply-adds that the cores can do; all of them would give {bound:.1f}",
    )


def test_sparse_signal(race, large: Case, threads: int) -> None:
    packed = large.packed
    sparse = np.zeros(packed.n)
    support = large.rng().choice(packed.n, min(NONZEROS, packed.n // 5), replace=False)
    sparse[support] = 1.0 + np.arange(support.size)
    W, full = np.empty((packed.m, packed.n)), np.empty((packed.m, packed.n))
    assert packed.reads_rows(support.size)
    loops = reading_loops(packed.blocks, threads)
    rivals = {"full pass": partial(packed.products, large.x, out=full, n_threads=threads), **loops}
    race.run(partial(packed.products, sparse, out=W, n_threads=threads), rivals, rounds=15)
    for i in large.some():
        np.testing.assert_allclose(W[i], large.symmetric(i) @ sparse, rtol=1e-5, atol=1e-5)
    race.yardstick(race.fastest(list(loops)))
    name = f"signal with {support.size} nonzeros against the full pass, {large.name}"
    note = f"its rows hold {100 * packed.share_of_rows(support.size):.1f} % of the tensor"
    race.row(name, race.ratio("full pass"), at_least=12 if packed.n == LARGE["float64"][1] else None, note=note)


def test_sweep(race, large: Case, threads: int) -> None:
    packed, rng = large.packed, large.rng()
    v, c = rng.random(packed.n), rng.standard_normal(packed.m)
    assert packed.sweep_passes() == 1
    loops = reading_loops(packed.blocks, threads)
    race.run(partial(packed.sweep, large.x, v, c, n_threads=threads), loops, rounds=9)
    r, S = packed.sweep(large.x, v, c, n_threads=threads)
    for i in large.some():
        A = large.symmetric(i)
        np.testing.assert_allclose(r[i], c[i] - large.x @ A @ large.x - np.diag(A) @ v, rtol=1e-5, atol=1e-3)
    np.testing.assert_allclose(S, packed.weighted_sum(r), rtol=1e-9, atol=1e-9 * np.abs(S).max())
    race.yardstick(race.fastest(list(loops)))
    # A thread reads a block, then comes back to it.
    note = f"a block is {packed.blocks[0].nbytes / 1e6:.1f} MB"
    best = race.fastest(list(loops))
    race.row(f"fused sweep, in reads of A, {large.name}", 1 / race.ratio(best), at_most=1.7, note=f"{note}; {best}")


def test_compress(race, large: Case, threads: int) -> None:
    packed = large.packed
    U = large.rng().standard_normal((packed.n, SIGNALS))
    # T U for the upper triangle T, then U^T (T U): p multiply-adds for each stored entry and p² n beside them.
    count = packed.m * SIGNALS * (packed.n * (packed.n + 1) / 2 + SIGNALS * packed.n)
    rivals = {"multiply-adds in registers": multiply_adds(count, threads)}
    race.run(partial(packed.compress, U, n_threads=threads), rivals, rounds=7)
    C = packed.compress(U, n_threads=threads)
    for i in large.some():
        np.testing.assert_allclose(C[i], U.T @ large.symmetric(i) @ U, rtol=1e-5, atol=1e-3)
    race.yardstick("multiply-adds in registers")
    name = f"compression to {SIGNALS} dimensions over the multiply-adds of the cores, {large.name}"
    race.row(name, race.ratio("multiply-adds in registers"))


# -- against peers ----------------------------------------------------------------------------------------------


#: The threads of OpenBLAS and OpenMP spin for a while after a call; nobody's time shall depend on who was before.
SPIN = 0.25


def race_peers(race, case: Case, threads: int, *, rounds: int, calls: int) -> None:
    """Residual and gradient for one x, by everyone."""
    W, y, packed = np.empty((case.packed.m, case.packed.n)), case.data.y.astype(np.float64), case.packed

    def fastquad_task(x: Array) -> tuple[Array, Array]:
        packed.products(x, out=W, n_threads=threads)
        r = W @ x - y
        return r, r @ W / packed.m

    x = case.x.astype(np.float64)
    peers, missing = tasks(case.data)
    for name, peer in peers.items():
        assert same_answer(peer(case.x), fastquad_task(x)), f"{name} gives another answer"
    loops = reading_loops(packed.blocks, threads)
    rivals = {name: partial(peer, case.x) for name, peer in peers.items()}
    race.run(partial(fastquad_task, x), {**rivals, **loops}, rounds=rounds, calls=calls, pause=SPIN)
    race.yardstick(race.fastest(list(loops)))
    race.benchmark.extra_info["peers"] = {
        "case": case.name,
        "fastquad": race.kernel_seconds(),
        "seconds": {name: race.seconds(name) for name in peers},
        "ratios": {name: race.ratio(name) for name in peers},
        "missing": missing,
    }


def test_peers(race, large: Case, threads: int) -> None:
    race_peers(race, large, threads, rounds=5, calls=1)
    ratios = race.benchmark.extra_info["peers"]["ratios"]
    blas = race.fastest([name for name in ratios if "pre-symmetrised" in name and "Numba" not in name])
    race.row(f"against the best pre-symmetrised BLAS, {large.name}", ratios[blas], at_least=1.8, note=blas)
    best = race.fastest(list(ratios))
    race.row(f"against the best peer of all, {large.name}", ratios[best], note=best)
    race.row(f"against einsum as people write it, {large.name}", ratios["NumPy einsum"], at_least=15)


def test_peers_in_cache(race, smoke: bool, threads: int) -> None:
    case = make_case(*(TINY if smoke else SMALL), "float64")
    race_peers(race, case, threads, rounds=15, calls=20)
    ratios = race.benchmark.extra_info["peers"]["ratios"]
    best = race.fastest(list(ratios))
    race.row(f"in cache, against the best peer, {case.name}", ratios[best], at_least=1.3, note=best)
