"""Power grids: the meters of a net of pandapower as measurements, and their answer in volts and degrees.

The unknowns are the complex voltages V of the buses, per unit. With a row Y of admittances that ends at bus i, the
power `S = V_i conj(Y V) = V^* (Ȳ e_i^T) V` is quadratic in V: P is measured by the Hermitian part of a matrix with a
few nonzeros, Q by the skew one. So are `|V_i|²` and, with the rank-one matrix `Ȳ Y^T`, the squared current `|Y V|²`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fastquad.diagnosis import MOVED, Diagnosis, seen
from fastquad.engine.driver import finish
from fastquad.engine.problem import Problem
from fastquad.engine.verbs import Normals
from fastquad.measurements.structured.sparse import SparseTensor
from fastquad.measurements.views import RealView
from fastquad.noise import as_noise
from fastquad.solution import Solution
from fastquad.system.memory import budget
from fastquad.typing import Float, Indices, Number

__all__ = ["Meters", "State", "from_pandapower"]

# The standard deviation, per unit, of the power into a bus that stands for the inside of a component, which is zero:
# that of pandapower's own estimator.
_NOTHING = 0.001
# The sides of each kind of branch: the name of the side, which block of rows of the branches of the kind it is, of one
# row for each component, and whether the side is where these rows begin or end.
_SIDES = {
    "line": [("from", 0, 0), ("to", 0, 1)],
    "trafo": [("hv", 0, 0), ("lv", 0, 1)],
    "impedance": [("from", 0, 0), ("to", 0, 1)],
    "trafo3w": [("hv", 0, 0), ("mv", 1, 1), ("lv", 2, 1)],
}
# Columns of the tables of PYPOWER, which pandapower keeps.
_BUS_TYPE, _GS, _BS, _BASE_KV, _FROM, _TO = 1, 4, 5, 9, 0, 1


@dataclass(frozen=True)
class Meters:
    """Meters of a grid as measurements; it unpacks as `A, y, sigma, labels`. See `fastquad.grids.from_pandapower`.

    Attributes
    ----------
    A : SparseTensor
        The measurements of the n complex voltages, per unit.
    y : array of shape (m,)
        What the meters show, per unit; for voltages and currents the square of the magnitude.
    sigma : array of shape (m,), or None
        The standard deviation of each, None for results of a power flow, which are exact.
    labels : list of m str
        What each measurement is, such as "P of line 3 at its from side".
    buses : list of n str
        The buses that each voltage belongs to: closed switches join several.
    kv : array of shape (n,)
        The voltages in kV that are 1 per unit.
    reference : int
        The bus, of these n, whose angle is zero.
    left_out : list of str
        Meters of the net that are no measurements here: those of angles, and those out of service.

    Examples
    --------
    >>> import pandapower.networks, fastquad as fq                     # doctest: +SKIP
    >>> A, y, sigma, labels = fq.grids.from_pandapower(pandapower.networks.case30())   # doctest: +SKIP
    """

    A: SparseTensor
    y: Float
    sigma: Float | None
    labels: list[str]
    buses: list[str]
    kv: Float
    reference: int = 0
    left_out: list[str] = field(default_factory=list)

    def __iter__(self) -> Iterator[Any]:
        return iter((self.A, self.y, self.sigma, self.labels))

    def state(self, solution: Solution) -> State:
        """The voltages of a solution, with their standard errors, in magnitudes and degrees.

        Angles are relative to that of the reference bus. An error is inf if a direction that no meter sees moves the
        magnitude or the angle. If the meters have no `sigma`, the noise of the solution takes its place: the
        deviations that the solve was given, or its `noise`. If that is none or zero, there are no errors.
        """
        V = np.asarray(solution.x, dtype=np.complex128)
        if V.shape != (self.A.n,):
            raise ValueError(f"`solution` must have {self.A.n} voltages, got x of shape {V.shape}.")
        V = V * np.exp(-1j * np.angle(V[self.reference]))
        degree = np.rad2deg(np.angle(V))
        degree[self.reference] = 0.0  # without its rounding
        told = getattr(solution.noise_model, "sigma", None)
        sigma = next((each for each in (self.sigma, told, solution.noise) if each is not None), None)
        if sigma is None or not np.any(sigma):
            return State(np.abs(V), None, degree, None, self.buses, self.kv)
        length, angle = self._errors(V, np.broadcast_to(np.asarray(sigma, dtype=np.float64), (self.A.m,)))
        return State(np.abs(V), length, degree, np.rad2deg(angle), self.buses, self.kv)

    def _errors(self, V: Number, sigma: Float) -> tuple[Float, Float]:
        """The standard errors of |V|, and of the angles in radians, relative to that of the reference bus."""
        view = RealView(self.A)
        problem = Problem(
            m=view.m, n=view.n, y=self.y, dtype=view.dtype, prior=None, x0=None, norm=None,
            noise=as_noise(sigma, view.m), tol=0.0, random=lambda: np.random.default_rng(0), memory=budget(None),
            gram=view.gram_kind, gauge=view.gauge,
        )  # fmt: skip
        # The reference is real: hold its imaginary part, and what is left are errors relative to its angle.
        held = np.array([2 * self.reference + 1])
        case, directions = finish(view, seen(Normals.of(problem), np.ascontiguousarray(V).view(float), 1 / sigma, held))
        Z = case.factor.inverse_on_pattern()
        even, odd = np.arange(0, view.n, 2), np.arange(1, view.n, 2)
        aa, bb, ab = (np.asarray(Z[one, other]).ravel() for one, other in ((even, even), (odd, odd), (even, odd)))
        a, b, square = V.real, V.imag, np.abs(V) ** 2
        along = np.maximum(a * a * aa + 2 * a * b * ab + b * b * bb, 0.0) / square
        across = np.maximum(b * b * aa - 2 * a * b * ab + a * a * bb, 0.0) / square
        if directions.size:
            moves = np.ascontiguousarray(directions.T).view(np.complex128) * (V.conj() / np.abs(V))
            # Turn each direction so that it does not move the angle of the reference.
            moves = moves - 1j * (moves.imag[:, [self.reference]] / np.abs(V[self.reference])) * np.abs(V)
            least = MOVED * np.abs(moves).max(axis=1, keepdims=True)
            along[(np.abs(moves.real) > least).any(axis=0)] = np.inf
            across[(np.abs(moves.imag) > least).any(axis=0)] = np.inf
        return np.sqrt(along), np.sqrt(across / square)

    def islands(self) -> list[list[str]]:
        """The buses in parts that no meter ties together, the largest first: angles between parts are unknown."""
        from scipy import sparse
        from scipy.sparse import csgraph

        edges = self.A._edges()
        graph = sparse.csr_array((np.ones(edges.j.size), (edges.j, edges.k)), shape=(self.A.n, self.A.n))
        count, part = csgraph.connected_components(graph, directed=False)
        parts = [np.flatnonzero(part == number) for number in range(count)]
        return [[self.buses[i] for i in each] for each in sorted(parts, key=len, reverse=True)]

    def unseen(self, diagnosis: Diagnosis) -> list[str]:
        """The buses that a direction moves which no meter sees, in words."""
        return [self.buses[i] for i in diagnosis.moved]


@dataclass(frozen=True)
class State:
    """The voltages of a grid: magnitudes per unit, angles in degrees, their standard errors, buses and kV.

    `print` shows the buses in a table, `to_rows` has a dict for each.

    Examples
    --------
    >>> meters = fq.grids.from_pandapower(net)                         # doctest: +SKIP
    >>> print(meters.state(fq.solve(meters.A, meters.y)))              # doctest: +SKIP
    """

    vm_pu: Float
    vm_stderr: Float | None
    va_degree: Float
    va_stderr: Float | None
    buses: list[str]
    kv: Float

    def to_rows(self) -> list[dict[str, Any]]:
        """A row for each bus, for a table or a pandas.DataFrame."""
        nothing: list[Any] = [None] * len(self.buses)
        length = nothing if self.vm_stderr is None else self.vm_stderr.tolist()
        angle = nothing if self.va_stderr is None else self.va_stderr.tolist()
        return [
            {
                "bus": bus,
                "vm_pu": float(vm),
                "vm_stderr": length[i],
                "vm_kv": float(vm * kv),
                "kv_stderr": None if length[i] is None else length[i] * float(kv),
                "va_degree": float(va),
                "va_stderr": angle[i],
            }
            for i, (bus, vm, va, kv) in enumerate(zip(self.buses, self.vm_pu, self.va_degree, self.kv, strict=True))
        ]

    def __str__(self) -> str:
        lines = ["            kV      ±         degrees      ±      bus"]
        for row in self.to_rows()[:20]:
            kv, va = (f"{row[key]:9.2g}" if row[key] is not None else 9 * " " for key in ("kv_stderr", "va_stderr"))
            lines.append(f"{row['vm_kv']:14.4f}{kv}{row['va_degree']:14.4f}{va}  {row['bus']}")
        more = len(self.buses) - 20
        return "\n".join(lines + ([f"and {more} more"] if more > 0 else []))


def from_pandapower(net: Any) -> Meters:
    """The meters of a net of pandapower as quadratic measurements of its complex voltages, per unit.

    If `net.measurement` has rows, these are the meters: powers at buses and branches, and magnitudes of voltages and
    currents, with their `std_dev`. The conventions are those of pandapower's own estimator. The power of a bus is a
    load, without its shunts. The powers of buses that switches join are added. No power flows into the inner point of
    a transformer of three windings.

    Otherwise the results of the last power flow are the measurements: P and Q of all buses, with their shunts, P and Q
    at all sides of all lines, transformers and impedances, and the squared magnitudes of all voltages.

    Parameters
    ----------
    net : pandapower net
        With measurements, or with results of `pandapower.runpp`. It is not changed.

    Returns
    -------
    Meters
        It unpacks as `A, y, sigma, labels`: a `SparseTensor`, what the meters show, per unit, their standard
        deviations (None for results, which are exact), and a sentence for each.

    Examples
    --------
    >>> import pandapower, pandapower.networks, fastquad as fq  # doctest: +SKIP
    >>> net = pandapower.networks.case118()  # doctest: +SKIP
    >>> pandapower.runpp(net)  # doctest: +SKIP
    >>> meters = fq.grids.from_pandapower(net)  # doctest: +SKIP
    >>> solution = fq.solve(meters.A, meters.y)  # doctest: +SKIP
    >>> print(meters.state(solution))  # doctest: +SKIP
    """
    try:
        measured, results = len(net.measurement) > 0, len(net.res_bus) > 0
    except (AttributeError, KeyError, TypeError):
        raise TypeError(f"`net` must be a net of pandapower, got {type(net).__name__}.") from None
    if not measured and not results:
        raise ValueError(
            "`net` must have measurements or results, and has neither: run pandapower.runpp(net), or add measurements "
            "with pandapower.create_measurement."
        )
    model = _Model(net, solved=not measured)
    rows = _Rows(model)
    if measured:
        _add_measurements(net, model, rows)
    else:
        _add_results(net, model, rows)
    return rows.meters(exact=not measured)


class _Model:
    """The admittances of a net: of its buses, and of both ends of its branches, per unit."""

    def __init__(self, net: Any, solved: bool) -> None:
        from scipy import sparse

        tables, lookups = self._tables(net, solved)
        bus, branch = tables["bus"], tables["branch"]
        self.base, self.n = float(tables["baseMVA"]), len(bus)
        #: The bus, of these n, of each bus of the net; those out of service have none.
        self.at = {int(b): int(i) for b in net.bus.index if 0 <= (i := lookups["bus"][b]) < self.n}
        self.ends = tuple(branch[:, c].real.astype(np.intp) for c in (_FROM, _TO))
        self.admittances = tables["ends"]
        self.kv = bus[:, _BASE_KV].real.astype(np.float64)
        active = np.asarray(tables["internal"]["branch_is"], dtype=bool)
        #: The row of each branch that was in the tables before those out of service were left out; −1 for these.
        self.row = np.where(active, np.cumsum(active) - 1, -1)
        self.blocks = {kind: tuple(map(int, span)) for kind, span in lookups["branch"].items()}
        # What an extended ward has inside belongs to its bus, not to the grid.
        own = np.ones(len(branch))
        if "xward" in self.blocks:
            inside = self.row[slice(*self.blocks["xward"])]
            own[inside[inside >= 0]] = 0.0
        shape, every = (len(branch), self.n), np.arange(len(branch))
        network, everything = sparse.csr_array((self.n, self.n)), sparse.csr_array((self.n, self.n), dtype=complex)
        for Y, end in zip(self.admittances, self.ends, strict=True):
            network = network + sparse.csr_array((own, (every, end)), shape=shape).T @ Y
            everything = everything + sparse.csr_array((np.ones(len(branch)), (every, end)), shape=shape).T @ Y
        shunts = sparse.diags_array((bus[:, _GS] + 1j * bus[:, _BS]) / self.base)
        #: What flows from each bus into branches; and with its shunts, and what is inside of components.
        self.network, self.everything = sparse.csr_array(network), sparse.csr_array(everything + shunts)
        self.reference = int(np.flatnonzero(bus[:, _BUS_TYPE].real == 3)[0]) if (bus[:, _BUS_TYPE] == 3).any() else 0

    @staticmethod
    def _tables(net: Any, solved: bool) -> tuple[Any, Any]:
        """The tables of the components in service, of the last power flow or made now, and where each is in them."""
        if solved and getattr(net, "_ppc", None) is not None and "Yf" in net._ppc["internal"]:
            tables, lookups = dict(net._ppc["internal"]), net._pd2ppc_lookups
            tables["internal"] = tables
        else:
            try:
                from pandapower.auxiliary import _init_runse_options
                from pandapower.pd2ppc import _pd2ppc
                from pandapower.pypower.makeYbus import makeYbus
            except ImportError:
                raise ImportError("`net` needs pandapower: pip install 'fastquad[grids]'.") from None
            net = copy.deepcopy(net)  # the conversion leaves its options in the net
            _init_runse_options(net, v_start=None, delta_start=None, calculate_voltage_angles=True)
            tables, lookups = _pd2ppc(net)[1], net._pd2ppc_lookups
            _, tables["internal"]["Yf"], tables["internal"]["Yt"] = makeYbus(
                tables["baseMVA"], tables["bus"], tables["branch"]
            )
        from scipy import sparse

        tables["ends"] = tuple(sparse.csr_array(tables["internal"][name]) for name in ("Yf", "Yt"))
        return tables, lookups

    def side(self, net: Any, kind: str, element: int, side: str) -> tuple[int, int] | None:
        """The branch and the end, 0 or 1, at which the side of an element is; None if it is out of service."""
        place = net[kind].index.get_loc(element)
        block, end = next((block, end) for name, block, end in _SIDES[kind] if name == side)
        row = int(self.row[self.blocks[kind][0] + block * len(net[kind]) + place])
        return None if row < 0 else (row, end)


class _Rows:
    """Measurements as they are added: the entries of their matrices, what they show, and what they are."""

    def __init__(self, model: _Model) -> None:
        self.model = model
        self.i: list[Indices] = []
        self.j: list[Indices] = []
        self.k: list[Indices] = []
        self.values: list[Number] = []
        self.y: list[float] = []
        self.sigma: list[float] = []
        self.labels: list[str] = []
        self.left_out: list[str] = []

    def power(self, Y: Any, row: int, at: int, quantity: str, value: float, sigma: float, label: str) -> None:
        """P or Q of `V_at conj(Y_row V)`."""
        part = slice(Y.indptr[row], Y.indptr[row + 1])
        columns, entries = Y.indices[part], Y.data[part].conj().astype(complex)
        factor = 1.0 if quantity == "p" else -1j
        self._add(columns, np.full(columns.size, at), factor * entries, value, sigma, f"{quantity.upper()} {label}")

    def voltage(self, at: int, value: float, sigma: float, label: str) -> None:
        """|V_at|² from a magnitude and its standard deviation."""
        # To second order: the error of a square at zero is that of its square.
        self._add(np.array([at]), np.array([at]), np.ones(1), value**2, max(2 * value * sigma, sigma**2), label)

    def current(self, Y: Any, row: int, value: float, sigma: float, label: str) -> None:
        """|Y_row V|² from a magnitude and its standard deviation."""
        part = slice(Y.indptr[row], Y.indptr[row + 1])
        columns, entries = Y.indices[part], Y.data[part]
        matrix = np.outer(entries.conj(), entries)
        j, k = (np.repeat(columns, columns.size), np.tile(columns, columns.size))
        self._add(j, k, matrix.ravel(), value**2, max(2 * value * sigma, sigma**2), label)

    def _add(self, j: Indices, k: Indices, values: Number, y: float, sigma: float, label: str) -> None:
        if not np.isfinite(y):
            self.left_out.append(label)
            return
        self.i.append(np.full(len(j), len(self.y)))
        self.j.append(j)
        self.k.append(k)
        self.values.append(values)
        self.y.append(float(y))
        self.sigma.append(float(sigma))
        self.labels.append(label)

    def meters(self, exact: bool) -> Meters:
        """The measurements; the voltages that none of them has to do with, and that no bus of the net has, are left."""
        if not self.y:
            raise ValueError("`net` must have a measurement that is in service, got none.")
        model = self.model
        i, j, k, values = (np.concatenate(each) for each in (self.i, self.j, self.k, self.values))
        names: list[list[int]] = [[] for _ in range(model.n)]
        for bus, at in model.at.items():
            names[at].append(bus)
        used = np.zeros(model.n, dtype=bool)
        used[j], used[k] = True, True
        kept = np.flatnonzero(used | np.array([bool(each) for each in names]))
        place = np.full(model.n, -1, dtype=np.intp)
        place[kept] = np.arange(kept.size)
        A = SparseTensor.from_entries(i, place[j], place[k], values, m=len(self.y), n=kept.size)
        sigma = None if exact else np.array(self.sigma)
        if sigma is not None and not (sigma > 0).all():
            wrong = int(np.argmin(np.nan_to_num(sigma, nan=-1.0)))
            raise ValueError(f"`net.measurement` must have std_dev > 0, got none or 0 for {self.labels[wrong]}.")
        return Meters(
            A, np.array(self.y), sigma, self.labels, [_bus_name(names[at], int(at)) for at in kept],
            model.kv[kept], int(max(place[model.reference], 0)), self.left_out,
        )  # fmt: skip


def _bus_name(buses: list[int], at: int) -> str:
    """The buses that share a voltage, in words."""
    if not buses:
        return f"inner point {at}"
    return f"bus {buses[0]}" + (f" (and {len(buses) - 1} more behind switches)" if len(buses) > 1 else "")


def _add_results(net: Any, model: _Model, rows: _Rows) -> None:
    """The results of a power flow, as measurements of everything."""
    first: dict[int, int] = {}
    power = np.zeros(model.n, dtype=complex)
    columns = zip(net.res_bus.index, *(net.res_bus[c].to_numpy() for c in ("vm_pu", "p_mw", "q_mvar")), strict=True)
    for bus, vm, p, q in columns:
        at = model.at.get(int(bus))
        if at is not None and np.isfinite(vm):
            if at not in first:
                first[at] = int(bus)
                rows.voltage(at, float(vm), 0.0, f"|V|² of bus {bus}")
            power[at] += np.nan_to_num(p) + 1j * np.nan_to_num(q)
    for at, bus in first.items():
        for quantity, value in (("p", -power[at].real), ("q", -power[at].imag)):
            rows.power(model.network, at, at, quantity, value / model.base, 0.0, f"out of bus {bus}")
    for kind, sides in _SIDES.items():
        if not len(net[kind]) or kind not in model.blocks:
            continue
        table = net[f"res_{kind}"]
        for side, _, _ in sides:
            for element, p, q in zip(table.index, table[f"p_{side}_mw"], table[f"q_{side}_mvar"], strict=True):
                found = model.side(net, kind, element, side)
                if found is None:
                    continue
                row, end = found
                Y, at, label = model.admittances[end], int(model.ends[end][row]), _at(kind, element, side)
                rows.power(Y, row, at, "p", p / model.base, 0.0, label)
                rows.power(Y, row, at, "q", q / model.base, 0.0, label)
    _add_inner_points(model, rows, 0.0)


def _at(kind: str, element: int, side: str) -> str:
    return f"of {kind} {element} at its {side} side"


def _add_inner_points(model: _Model, rows: _Rows, sigma: float) -> None:
    """No power into the buses that stand for the inside of transformers, or the open end of a line."""
    known = set(model.at.values())
    if "xward" in model.blocks:
        inside = model.row[slice(*model.blocks["xward"])]
        known |= set(model.ends[1][inside[inside >= 0]].tolist())
    for at in sorted(set(range(model.n)) - known):
        for quantity in "pq":
            rows.power(model.everything, at, at, quantity, 0.0, sigma, f"into inner point {at}")


def _add_measurements(net: Any, model: _Model, rows: _Rows) -> None:
    """The table of measurements; powers of buses that switches join are added up."""
    table = net.measurement
    powers: dict[tuple[str, int], list[tuple[int, float, float]]] = {}
    fields = ("measurement_type", "element_type", "element", "value", "std_dev", "side")
    for quantity, kind, element, value, sigma, side in zip(*(table[name] for name in fields), strict=True):
        element = int(element)
        label = f"of bus {element}" if kind == "bus" else _at(kind, element, side)
        if quantity not in ("v", "p", "q", "i") or (kind != "bus" and kind not in _SIDES):
            rows.left_out.append(f"{quantity} {label}")
        elif kind == "bus":
            at = model.at.get(element)
            if at is None:
                rows.left_out.append(f"{quantity} {label}")
            elif quantity == "v":
                rows.voltage(at, value, sigma, f"|V|² {label}")
            else:
                powers.setdefault((quantity, at), []).append((element, value, sigma))
        else:
            _add_branch(net, model, rows, (quantity, kind, element, side), value, sigma)
    for (quantity, at), parts in powers.items():
        value, square = _joined(parts)
        # Loads are positive: the power that is fed in, with the other sign.
        rows.power(
            model.everything, at, at, quantity, -value / model.base, np.sqrt(square) / model.base,
            f"into bus {parts[0][0]}",
        )  # fmt: skip
    _add_inner_points(model, rows, _NOTHING)


def _joined(parts: list[tuple[int, float, float]]) -> tuple[float, float]:
    """The power of several buses and its variance: of each the weighted mean of its meters, then their sum."""
    value = square = 0.0
    for bus in dict.fromkeys(part[0] for part in parts):
        own = [part for part in parts if part[0] == bus]
        weights = np.array([1 / sigma**2 if sigma > 0 else np.nan for _, _, sigma in own])
        value += float(weights @ [v for _, v, _ in own] / weights.sum())
        square += float(1 / weights.sum())
    return value, square


def _add_branch(
    net: Any, model: _Model, rows: _Rows, what: tuple[str, str, int, Any], value: float, sigma: float
) -> None:
    """A power or a current at a side of a branch."""
    quantity, kind, element, side = what
    label = _at(kind, element, side)
    if not isinstance(side, str):  # pandapower also takes the bus at that side
        side = next((name for name, _, _ in _SIDES[kind] if net[kind].at[element, f"{name}_bus"] == side), None)
    found = None if side is None or kind not in model.blocks else model.side(net, kind, element, side)
    if found is None:
        rows.left_out.append(f"{quantity} {label}")
        return
    row, end = found
    Y, at = model.admittances[end], int(model.ends[end][row])
    if quantity == "i":
        unit = model.base / (np.sqrt(3) * model.kv[at])  # kA
        rows.current(Y, row, value / unit, sigma / unit, f"|I|² {label}")
    else:
        rows.power(Y, row, at, quantity, value / model.base, sigma / model.base, label)
