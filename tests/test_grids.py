"""Grids of pandapower: every measurement against its results, states against its own estimator, critical meters."""

import copy
import dataclasses
import warnings

import numpy as np
import pytest

import fastquad as fq

# pandapower and what it imports warn of each other; that is not ours to mend.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def pp():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return pytest.importorskip("pandapower")


@pytest.fixture(scope="module")
def solved(pp):
    """A net of pandapower's library with the results of a power flow: a copy, because they take seconds to make."""
    import pandapower.networks

    made = {}

    def load(name):
        if name not in made:
            made[name] = getattr(pandapower.networks, name)()
            pp.runpp(made[name], calculate_voltage_angles=True, numba=False)
        return copy.deepcopy(made[name])

    return load


def voltages(net, meters):
    """The results of a power flow as complex voltages of the unknowns; NaN for inner points."""
    V = np.full(meters.A.n, np.nan + 0j)
    for i, name in enumerate(meters.buses):
        if name.startswith("bus"):
            row = net.res_bus.loc[int(name.split()[1])]
            V[i] = row.vm_pu * np.exp(1j * np.deg2rad(row.va_degree))
    return V


def measured(net, noise=0.0, seed=0, share=1.0, currents=True):
    """Fill the table of measurements: voltages, powers and currents, with errors of their deviations."""
    import pandas as pd

    rng = np.random.default_rng(seed)
    rows = [("v", "bus", bus, row.vm_pu, 0.002, None) for bus, row in net.res_bus.iterrows()]
    for kind, sides in (("line", ("from", "to")), ("trafo", ("hv", "lv"))):
        for element, row in net[f"res_{kind}"].iterrows():
            for side in sides:
                rows.append(("p", kind, element, row[f"p_{side}_mw"], 0.5, side))
                rows.append(("q", kind, element, row[f"q_{side}_mvar"], 0.5, side))
            if kind == "line" and currents:
                rows.append(("i", kind, element, row.i_from_ka, 0.002, "from"))
    table = pd.DataFrame(rows, columns=["measurement_type", "element_type", "element", "value", "std_dev", "side"])
    table["value"] += noise * table.std_dev * rng.standard_normal(len(table))
    net["measurement"] = table[rng.random(len(table)) < share].reset_index(drop=True)


@pytest.mark.parametrize("name", ["case14", "case30", "example_multivoltage"])
def test_results_are_measured_by_their_own_voltages(solved, name):
    """Shunts, switches, wards, transformers of three windings and impedances among them."""
    net = solved(name)
    A, y, sigma, labels = meters = fq.grids.from_pandapower(net)
    assert sigma is None
    assert len(labels) == len(set(labels)) == A.m == y.size
    solution = fq.solve(A, y)
    assert solution.success
    state = meters.state(solution)
    V = voltages(net, meters)
    at = np.isfinite(V)
    assert at.sum() >= 14
    np.testing.assert_allclose(state.vm_pu[at], np.abs(V[at]), atol=1e-8)
    off = np.deg2rad(state.va_degree[at]) - np.angle(V[at])
    np.testing.assert_allclose(np.exp(1j * (off - off[0])), 1, atol=1e-7)
    # Without the inner points the truth is known in full.
    if at.all():
        np.testing.assert_allclose(A.measure(V), y, atol=1e-7)
    assert state.va_degree[meters.reference] == 0
    row = state.to_rows()[0]
    assert row["vm_kv"] == pytest.approx(row["vm_pu"] * meters.kv[0])


def test_a_net_without_its_power_flow_is_converted(solved):
    net = solved("case30")
    before = fq.grids.from_pandapower(net)
    measured(net)
    meters = fq.grids.from_pandapower(net)
    V = voltages(net, meters)
    z = (meters.A.measure(V) - meters.y) / meters.sigma
    assert np.abs(z).max() < 1e-5
    assert before.A.n == meters.A.n
    assert any(label.startswith("|I|² of line 0 ") for label in meters.labels)


def test_the_state_agrees_with_pandapowers_estimator(solved):
    from pandapower.estimation import estimate

    net = solved("case14")
    measured(net, noise=1.0, currents=False)
    meters = fq.grids.from_pandapower(net)
    solution = fq.solve(meters.A, meters.y, noise=meters.sigma)
    assert solution.status == "CONVERGED"
    state = meters.state(solution)
    net["measurement"]["name"] = None
    assert estimate(net, init="flat", tolerance=1e-9)["success"]
    est = net.res_bus_est.loc[[int(name.split()[1]) for name in meters.buses]]
    # It fits magnitudes of voltages, not their squares: the difference is of second order in their errors.
    assert np.abs(state.vm_pu - est.vm_pu.to_numpy()).max() < 0.05 * state.vm_stderr.min()
    off = state.va_degree - est.va_degree.to_numpy()
    free = np.arange(14) != meters.reference
    assert np.abs(off - off[meters.reference])[free].max() < 0.05 * state.va_stderr[free].min()


def test_standard_errors_cover_the_truth(solved):
    net = solved("case30")
    z_vm, z_va = [], []
    for seed in range(10):
        measured(net, noise=1.0, seed=seed)
        meters = fq.grids.from_pandapower(net)
        solution = fq.solve(meters.A, meters.y, noise=meters.sigma)
        assert solution.success
        state, V = meters.state(solution), voltages(net, meters)
        z_vm.append((state.vm_pu - np.abs(V)) / state.vm_stderr)
        angle = np.rad2deg(np.angle(V / V[meters.reference]))
        free = np.arange(V.size) != meters.reference
        z_va.append(((state.va_degree - angle)[free]) / state.va_stderr[free])
    assert 0.8 < np.std(z_vm) < 1.2
    assert 0.8 < np.std(z_va) < 1.2


@pytest.mark.parametrize("name", ["case14", "case30"])
@pytest.mark.parametrize("share", [1.0, 0.45])
def test_critical_meters_by_removing_each_in_turn(solved, name, share):
    net = solved(name)
    measured(net, seed=3, share=share)
    meters = fq.grids.from_pandapower(net)
    A, V = meters.A, voltages(net, meters)
    found = fq.diagnose(A, V, meters.sigma, labels=meters.labels)
    J = A.along(V, np.concatenate([np.eye(A.n), 1j * np.eye(A.n)], axis=1))
    size = np.linalg.norm(J, axis=1, keepdims=True)
    J /= np.where(size > 0, size, 1)

    def rank(matrix):
        return np.linalg.matrix_rank(matrix, tol=1e-9)

    whole = rank(J)
    assert found.unseen.shape[1] == 2 * A.n - 1 - whole
    assert found.critical.tolist() == [i for i in range(A.m) if rank(np.delete(J, i, axis=0)) < whole]
    if share < 1:
        assert found.critical.size or found.unseen.size


def test_errors_of_a_state_use_the_deviations_that_the_solve_was_given(solved):
    meters = fq.grids.from_pandapower(solved("case14"))
    assert meters.sigma is None
    rng = np.random.default_rng(0)
    sigma = 10 ** rng.uniform(-4, -2, meters.y.size)
    y = meters.y + sigma * rng.standard_normal(sigma.size)
    solution = fq.solve(meters.A, y, noise=sigma)
    state = meters.state(solution)
    expected = dataclasses.replace(meters, sigma=sigma).state(solution)
    np.testing.assert_allclose(state.vm_stderr, expected.vm_stderr)


def test_islands_and_what_is_unseen_by_name(solved):
    meters = fq.grids.from_pandapower(solved("mv_oberrhein"))
    islands = meters.islands()
    assert len(islands) == 2
    solution = fq.solve(meters.A, meters.y)
    assert solution.status == "UNDETERMINED"
    found = fq.diagnose(meters.A, solution.x)
    assert found.unseen.shape[1] == 1
    # Held is the phase of one island; the other one is free to turn.
    assert sorted(meters.unseen(found)) in (sorted(islands[0]), sorted(islands[1]))
    state = fq.grids.Meters(
        meters.A, meters.y, np.full(meters.A.m, 1e-3), meters.labels, meters.buses, meters.kv, meters.reference
    ).state(solution)
    assert np.isfinite(state.vm_stderr).all()
    other = next(each for each in islands if meters.buses[meters.reference] not in each)
    assert sorted(name for name, e in zip(state.buses, state.va_stderr, strict=True) if np.isinf(e)) == sorted(other)


def test_what_is_left_out_is_said(pp, solved):
    net = solved("case14")
    measured(net)
    pp.create_measurement(net, "va", "bus", 0.0, 0.1, element=net.bus.index[0])
    net.line.loc[net.line.index[2], "in_service"] = False
    meters = fq.grids.from_pandapower(net)
    assert "va of bus 0" in meters.left_out
    assert sum("line 2 " in each for each in meters.left_out) == 5
    assert not any("line 2 " in each for each in meters.labels)


@pytest.mark.parametrize(("change", "error", "said"), [
    (lambda net: 3, TypeError, "`net` must be a net of pandapower, got int"),
    (lambda net: net.res_bus.drop(net.res_bus.index, inplace=True) or net, ValueError, r"run pandapower\.runpp\(net\)"),
])  # fmt: skip
def test_what_is_refused(solved, change, error, said):
    with pytest.raises(error, match=said):
        fq.grids.from_pandapower(change(solved("case14")))


def test_a_meter_without_a_deviation_is_refused(pp, solved):
    net = solved("case14")
    pp.create_measurement(net, "v", "bus", 1.0, 0.0, element=net.bus.index[0])
    with pytest.raises(ValueError, match=r"std_dev > 0, got none or 0 for \|V\|² of bus 0"):
        fq.grids.from_pandapower(net)
