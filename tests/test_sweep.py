"""Cells of the sweep: in noise of every size the default call is a success, as near as least squares can be."""

import importlib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
pytestmark = pytest.mark.skipif(not (ROOT / "benchmarks").is_dir(), reason="the sweep comes with the sources")

NOISE = (1e-9, 1e-7, 1e-5, 3e-4, 3e-3, 0.03)
#: Kind, n, m/n, k: every nonzero is far above its standard error, and there are enough measurements.
SHAPES = (
    ("gaussian", 20, "3", 20), ("gaussian", 40, "1+1/n", 3), ("packed", 60, "2", 8), ("gaussian", 30, "2-1/n", 5),
    ("gaussian", 30, "2+1/n", 12), ("rank one array", 20, "5", 20), ("rank one", 20, "5", 20),
    ("low rank array", 20, "5", 20), ("sparse", 30, "3", 6), ("hermitian", 20, "5", 8), ("rank one", 20, "3", 5),
    ("low rank", 20, "3", 5), ("rank one array", 20, "3", 5),
    # Hardly more measurements than coordinates: a fit on all of them leaves little, and explains nothing.
    ("rank one array", 20, "1+1/n", 1), ("rank one", 20, "1.2", 3), ("hermitian", 20, "1.05", 2),
    ("low rank", 20, "1.2", 4), ("low rank array", 20, "1", 1), ("sparse", 20, "1.5", 5), ("sparse", 60, "1+1/n", 8),
)  # fmt: skip
#: How many of the six levels of noise must be good: one may fail by chance.
ENOUGH = 5


@pytest.fixture
def sweep(monkeypatch):
    monkeypatch.syspath_prepend(ROOT)
    return importlib.import_module("benchmarks.studies.sweep")


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: f"{shape[0]} {shape[1]} {shape[2]} {shape[3]}")
def test_every_level_of_noise_is_solved_to_the_optimum(sweep, shape):
    rows = [
        sweep.run(sweep.Cell(*shape, noise, told=False), (4711, SHAPES.index(shape), i))
        for i, noise in enumerate(NOISE)
    ]
    assert all(row["predictable"] for row in rows)
    assert not any(row["wrong"] for row in rows)
    # an exact answer has no error to be compared with
    good = [row["success"] and row["over"] <= 1.5 and not row["claim"] > 3 for row in rows]
    said = [(f"{row['noise']:g}", row["status"], f"{row['over']:.3g}", f"{row['claim']:.2g}") for row in rows]
    assert sum(good) >= ENOUGH, said


def test_a_sweep_goes_on_from_its_file_and_is_compared(sweep, tmp_path, capsys):
    path = tmp_path / "a.csv"
    chosen = ["--sizes", "5", "--ratios", "5", "--cells", "300", "--csv", str(path)]
    sweep.main([*chosen, "--cells", "100"])
    first = path.read_text()
    sweep.main([*chosen, "--map", str(tmp_path / "a.png"), "--compare", str(path)])
    assert path.read_text().startswith(first)
    assert len(path.read_text()) > len(first) > 0
    assert (tmp_path / "a.png").stat().st_size > 0
    assert "-> " in capsys.readouterr().out


#: Cells that were refused, or further off than they said: a fit on all coordinates as the rival of a sparse signal, a
#: long search that did not return to what chance cannot explain, few measurements that see x, and noise of 1e-9 to
#: 1e-11, where x was left on coordinates that only fit noise, or short of the bottom. The last: sizes of rows that led
#: to another valley kept the noise of the first.
MENDED = ((4711, 3), (4711, 277), (4711, 503), (4711, 738), (4711, 523), (4711, 227), (4711, 429),
           (90222, 250))  # fmt: skip


def test_cells_that_were_refused_or_not_at_the_optimum(sweep):
    rows = [sweep.run(sweep.cell(*at), (*at, 0)) for at in MENDED]
    good = [row["success"] and row["over"] <= 1.5 and not row["claim"] > 3 for row in rows]
    said = [(row["number"], row["status"], f"{row['over']:.3g}", f"{row['claim']:.2g}") for row in rows]
    assert sum(good) >= len(MENDED) - 1, said


def test_with_one_measurement_to_spare_the_error_allows_for_a_level_that_is_hardly_known(sweep):
    """Regression: some were further than three errors from x."""
    rows = [sweep.run(sweep.Cell("gaussian", 10, "1+1/n", 10, 1e-10, told=False), (6, 0, i)) for i in range(20)]
    assert sum(row["success"] for row in rows) >= 10
    assert not any(row["claim"] > 3 for row in rows if row["success"])


@pytest.mark.parametrize(("seed", "number"), [*((9101, i) for i in (15, 536, 594, 1059, 1637)), (9104, 1431)])
def test_what_chance_may_explain_is_no_success(sweep, seed, number):
    """Regression: cells that were successes, far more than 3 errors from x."""
    row = sweep.run(sweep.cell(seed, number), (seed, number, 0))
    assert not row["wrong"], (row["status"], row["claim"])
    assert row["success"] == row["predictable"]
