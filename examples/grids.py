"""Power grids as quadratic measurements: what the grid examples, their tests and the study of the measured world share.

At every bus i the complex voltage V_i is unknown. Powers are quadratic in V: with the row Y_i of the admittance matrix,
`P_i + jQ_i = V_i conj(Y_i V) = V^* (Y_i^* e_i^T) V`, so that P and Q are the Hermitian and the skew part of a matrix
with few nonzeros. So are the powers that flow into the two ends of a line, and |V_i|².
The cases are those of the IEEE, as PYPOWER has them (`pip install fastquad[grids]`).
"""

from dataclasses import dataclass

import numpy as np
from scipy import sparse

CASES = ("case9", "case14", "case30", "case57", "case118")
#: Sets of measurements: powers into each bus, powers into both ends of each line, squared voltages.
SETS = {"injections": ("bus", "voltage"), "flows": ("line", "voltage"), "full": ("bus", "line", "voltage")}


@dataclass
class Grid:
    """Admittances of buses and of both ends of lines, where the lines go, and the solved voltages."""

    Y: sparse.csr_array
    ends: list  # (admittances (lines, buses), the bus of each end), twice
    V: np.ndarray

    @property
    def n(self):
        return len(self.V)


def load(name):
    """A case of PYPOWER with the voltages that its Newton method finds."""
    from pypower import api
    from pypower.ext2int import ext2int
    from pypower.makeYbus import makeYbus

    result, converged = api.runpf(getattr(api, name)(), api.ppoption(VERBOSE=0, OUT_ALL=0))
    assert converged
    case = ext2int(result)
    Y, Yf, Yt = (sparse.csr_array(each) for each in makeYbus(case["baseMVA"], case["bus"], case["branch"]))
    V = case["bus"][:, 7] * np.exp(1j * np.deg2rad(case["bus"][:, 8]))
    fbus, tbus = case["branch"][:, 0].astype(int), case["branch"][:, 1].astype(int)
    return Grid(Y, [(Yf, fbus), (Yt, tbus)], V)


def matrices(grid, kinds):
    """The Hermitian matrices of these kinds of measurements, as sparse ones: P and Q in turn, then |V|²."""
    n, out = grid.n, []
    if "bus" in kinds:
        out += _powers(grid.Y, np.arange(n))
    if "line" in kinds:
        for admittances, bus in grid.ends:
            out += _powers(admittances, bus)
    if "voltage" in kinds:
        out += [sparse.coo_array(([1.0 + 0j], ([i], [i])), shape=(n, n)) for i in range(n)]
    return out


def _powers(admittances, bus):
    """P and Q of `V_i conj(Y_row V)` for each row of admittances and its bus i."""
    n, out = admittances.shape[1], []
    for row, i in enumerate(bus):
        part = slice(admittances.indptr[row], admittances.indptr[row + 1])
        columns, values = admittances.indices[part], admittances.data[part].conj()
        M = sparse.coo_array((values, (columns, np.full(columns.size, i))), shape=(n, n))
        out += [(M + M.conj().T) / 2, (M - M.conj().T) / 2j]
    return out


def labels(grid, kinds):
    """What each measurement is, in the order of `matrices`."""
    out = []
    if "bus" in kinds:
        out += [f"{q} into bus {i + 1}" for i in range(grid.n) for q in "PQ"]
    if "line" in kinds:
        for _, bus in grid.ends:
            out += [f"{q} into line {row + 1} at bus {i + 1}" for row, i in enumerate(bus) for q in "PQ"]
    if "voltage" in kinds:
        out += [f"|V|² at bus {i + 1}" for i in range(grid.n)]
    return out


def error(V, truth):
    """The relative distance up to a phase."""
    turn = np.vdot(V, truth)
    return float(np.linalg.norm(V * turn / abs(turn) - truth) / np.linalg.norm(truth))


def weighted_least_squares(A, y, sigma, V, steps=20):
    """The state estimator of the textbooks: Gauss–Newton on magnitudes and angles, the first angle held."""
    magnitude, angle = np.abs(V), np.angle(V)
    n = V.size
    for _ in range(steps):
        V = magnitude * np.exp(1j * angle)
        W = A.products(V)  # d(V^* H V) = 2 Re(conj(HV) dV), and dV = V/|V| d|V| + jV dθ
        J = np.hstack([2 * np.real(W.conj() * (V / magnitude)), 2 * np.real(W.conj() * (1j * V))[:, 1:]])
        step = np.linalg.lstsq(J / sigma[:, None], (y - A.measure(V)) / sigma, rcond=None)[0]
        magnitude, angle = magnitude + step[:n], angle + np.append(0.0, step[n:])
        if np.linalg.norm(step) < 1e-13:
            break
    return magnitude * np.exp(1j * angle)
