"""A notebook, run by a kernel of its own: it shows a bar while a solve runs, its answer as a table, a plot once."""

import pytest

nbformat = pytest.importorskip("nbformat", reason="needs fastquad[notebook]")
nbclient = pytest.importorskip("nbclient", reason="needs fastquad[notebook]")
pytest.importorskip("ipykernel", reason="needs fastquad[notebook]")
pytest.importorskip("ipywidgets", reason="needs fastquad[notebook]")

CELLS = [
    "import fastquad as fq\nfrom fastquad.system import progress\nprogress.PATIENCE = 0.0",
    "problem = fq.problems.gaussian(m=60, n=30, k=3, rng=0)\nfq.solve(problem.A, problem.y, method='twf')",
    "fq.plot.recovery(fq.solve(problem.A, problem.y), problem.x)",
]


# What the kernel's packages warn of is theirs.
@pytest.mark.filterwarnings("ignore")
def test_a_notebook_shows_the_bar_the_table_and_one_picture(tmp_path):
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(cell) for cell in CELLS])
    nbclient.NotebookClient(notebook, timeout=120, resources={"metadata": {"path": str(tmp_path)}}).execute()
    shown = [[output["data"].keys() for output in cell["outputs"] if "data" in output] for cell in notebook["cells"]]
    assert any("application/vnd.jupyter.widget-view+json" in kinds for kinds in shown[1])
    assert "text/html" in shown[1][-1]
    assert sum("image/png" in kinds for kinds in shown[2]) == 1
