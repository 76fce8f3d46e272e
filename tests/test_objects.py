"""Solutions and measurements as objects: shown, compared, saved, indexed; and errors that point to the way out."""

import json
import re

import numpy as np
import pytest
import scipy.sparse

import fastquad as fq


@pytest.fixture(scope="module")
def problem():
    return fq.problems.gaussian(m=60, n=30, k=3, rng=0)


@pytest.fixture(scope="module")
def solution(problem):
    return fq.solve(problem.A, problem.y, x_true=problem.x)


@pytest.fixture(scope="module")
def batch(problem):
    return fq.solve(problem.A, np.stack([problem.y, 4 * problem.y, 0 * problem.y]))


def test_a_solution_is_saved_and_loaded_without_pickle(solution, tmp_path):
    solution.save(tmp_path / "solution.npz")
    again = fq.load_solution(tmp_path / "solution.npz")
    assert again == solution
    assert again.history["distance"][-1] == solution.history["distance"][-1]
    with np.load(tmp_path / "solution.npz", allow_pickle=False) as content:
        assert all(content[name].dtype.kind != "O" for name in content.files)


def test_a_batch_is_saved_and_loaded(batch, tmp_path):
    batch.save(tmp_path / "batch.npz")
    assert fq.load_solution(tmp_path / "batch.npz") == batch


def test_a_solution_differs_from_another(solution, batch, problem):
    assert solution != batch[0]
    assert solution != "solution"
    assert batch != fq.solve(problem.A, problem.y[None])


@pytest.mark.parametrize("content", [b"", b"text", b"PK\x03\x04damaged"])
def test_what_is_no_solution_is_refused(tmp_path, content):
    (tmp_path / "other.npz").write_bytes(content)
    with pytest.raises(ValueError, match=r"`path`: .* is not a solution that fastquad saved"):
        fq.load_solution(tmp_path / "other.npz")
    with pytest.raises(FileNotFoundError, match="`path`: there is no file"):
        fq.load_solution(tmp_path / "missing.npz")


def test_an_archive_of_other_arrays_is_refused(tmp_path):
    np.savez(tmp_path / "other.npz", A=np.ones(3))
    with pytest.raises(ValueError, match="is not a solution"):
        fq.load_solution(tmp_path / "other.npz")


def test_a_solution_becomes_json(solution, batch):
    said = json.loads(json.dumps(solution.to_dict()))
    assert said["status"] == "EXACT"
    assert said["x"] == solution.x.tolist()
    assert len(json.loads(json.dumps(batch.to_dict()))["x"]) == 3


def test_what_is_shown_is_short(solution, batch):
    assert repr(solution).startswith("Solution(EXACT by ")
    assert len(repr(solution)) < 160
    assert "3 of 30" in repr(solution)
    assert "2 of" in repr(batch) or "3 of" in repr(batch)


def test_a_notebook_shows_a_table(solution, batch):
    html = solution._repr_html_()
    assert "<table>" in html
    assert "EXACT" in html
    assert batch._repr_html_().count("<tr>") == 4


def test_x_cannot_be_written_to(solution, batch):
    with pytest.raises(ValueError, match="read-only"):
        solution.x[0] = 1.0
    with pytest.raises(ValueError, match="read-only"):
        batch.x[0, 0] = 1.0


def test_a_batch_is_a_sequence(batch):
    assert len(batch) == 3
    assert [each.status for each in batch] == batch.status
    assert np.array_equal(batch[-1].x, np.zeros(30))
    assert len(batch[:2]) == 2


def test_measurements_say_what_they_are(problem):
    packed = fq.pack(problem.A, dtype="float32")
    assert packed.shape == (60, 30, 30)
    assert len(packed) == 60
    assert repr(packed) == f"PackedTensor(m=60, n=30, float32, {packed.nbytes / 1000:.3g} kB)"


def test_every_kind_says_its_shape_dtype_and_bytes(problem):
    matrices = [scipy.sparse.eye_array(4, format="csr")] * 3
    kinds = [
        fq.as_measurements(problem.A), fq.GaussianTensor(5, 4, 7), fq.GaussianTensor(5, 4, 7, dtype=complex),
        fq.RankOneTensor(np.ones((5, 4))), fq.LowRankTensor(np.ones((5, 2, 4))), fq.ShiftTensor(6),
        fq.FourierTensor(np.ones((2, 3, 4))), fq.SparseTensor(matrices), fq.AffineTensor(problem.A, np.ones((60, 30))),
    ]  # fmt: skip
    for A in kinds:
        said = repr(A)
        assert said.startswith(f"{type(A).__name__}(m={A.m}, n={A.n}, {A.dtype}, ")
        assert re.search(r"\d (bytes|kB)", said)
        assert A.shape == (A.m, A.n, A.n)
        assert len(A) == A.m
    assert "never stored, seed=7" in repr(kinds[1])


def test_a_problem_is_shown_in_one_line(problem):
    assert repr(problem) == "Instance(m=60, n=30, float64, noise=0)"


def test_state_and_solver_are_public(problem):
    seen = []
    fq.solve(problem.A, problem.y, callback=seen.append)
    assert all(isinstance(state, fq.methods.State) for state in seen)
    assert isinstance(fq.TWF(), fq.methods.Solver)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("A.csv", "numpy.loadtxt"),
        ("A.h5", r"name its dataset behind two colons, .*A.h5::A"),
        ("A.npz", r"numpy.load\(path\)\['A'\]"),
    ],
)
def test_other_formats_point_to_the_way(tmp_path, problem, name, words):
    (tmp_path / name).write_bytes(b"content")
    with pytest.raises(ValueError, match=words):
        fq.solve(tmp_path / name, problem.y)


def test_a_generator_is_to_be_packed(problem):
    with pytest.raises(TypeError, match=r"`A` .* fastquad.pack\(A, 'A.fq'\)"):
        fq.solve((matrix for matrix in problem.A), problem.y)


@pytest.mark.parametrize(
    ("option", "words"),
    [("k", r"fastquad.Sparse\(k=...\)"), ("seed", "rng=..."), ("random_state", "rng=..."), ("n_jobs", "n_threads=...")],
)
def test_options_of_other_libraries_have_a_name_here(problem, option, words):
    with pytest.raises(TypeError, match=f"no option `{option}`: give .*{words}"):
        fq.solve(problem.A, problem.y, **{option: 3})


@pytest.mark.parametrize("option", ["seed", "random_state"])
def test_a_problem_is_drawn_with_rng(option):
    with pytest.raises(TypeError, match=f"no option `{option}`; give `rng=...`"):
        fq.problems.gaussian(m=10, n=5, k=2, **{option: 0})


@pytest.mark.parametrize(("name", "way"), [("y.npy", "numpy.load"), ("y.csv", "numpy.loadtxt")])
def test_y_and_x0_as_paths(problem, name, way):
    with pytest.raises(TypeError, match=rf"`y` must be an array, .*{way}\('{name}'\)"):
        fq.solve(problem.A, name)
    with pytest.raises(TypeError, match=rf"`x0` must be an array, .*{way}\('{name}'\)"):
        fq.solve(problem.A, problem.y, x0=name)


def test_turned_arrays_are_told_how_to_turn(problem):
    with pytest.raises(ValueError, match=r"numpy.moveaxis\(A, -1, 0\)"):
        fq.solve(np.moveaxis(problem.A, 0, -1), problem.y)
    with pytest.raises(ValueError, match=r"got \(60, 2\); one row per signal: give y.T"):
        fq.solve(problem.A, np.stack([problem.y, problem.y], axis=1))


def test_an_opened_archive_is_not_an_array(problem, tmp_path):
    np.savez(tmp_path / "A.npz", A=problem.A)
    with np.load(tmp_path / "A.npz") as archive, pytest.raises(TypeError, match="NpzFile of 'A': give one of them"):
        fq.solve(archive, problem.y)


def test_a_home_folder_is_found(problem, tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    np.save(tmp_path / "A.npy", problem.A)
    assert fq.as_measurements("~/A.npy").m == 60
    fq.pack("~/A.npy", "~/A.fq")
    assert (tmp_path / "A.fq").is_dir()
    assert fq.open("~/A.fq").m == 60
    fq.solve("~/A.fq", problem.y, checkpoint="~/solve.ck").save("~/solution.npz")
    assert (tmp_path / "solve.ck").is_file()
    assert fq.load_solution("~/solution.npz").success


def test_a_status_is_its_name():
    assert all(status == status.name == str(status) == status.value for status in fq.Status)
    assert repr(fq.Status.EXACT) == "<Status.EXACT>"
    assert fq.Status("EXACT") is fq.Status.EXACT
    assert len({status.sentence for status in fq.Status}) == len(fq.Status)


def test_the_truth_of_a_solution_is_its_success(solution, batch, problem):
    assert solution
    assert not fq.solve(problem.A, problem.y, method=fq.TWF(), max_iter=1)
    with pytest.raises(TypeError, match=r"batch\.success\.all"):
        bool(batch)


def test_only_a_batch_has_an_index(solution, batch):
    with pytest.raises(TypeError, match="y of shape"):
        solution[0]
    with pytest.raises(TypeError, match="not iterable"):
        iter(solution)
    assert batch[0].x.shape == solution.x.shape


def test_a_row_of_a_table_has_no_arrays(solution, batch):
    row = solution.to_row()
    assert json.loads(json.dumps(row)) == row
    assert (row["status"], row["nonzeros"], row["outliers"]) == ("EXACT", 3, None)
    assert [each["success"] for each in batch.to_rows()] == batch.success.tolist()


def test_a_file_of_an_older_version_loads_and_a_newer_one_is_named(solution, tmp_path):
    solution.save(tmp_path / "solution.npz")
    with np.load(tmp_path / "solution.npz") as content:
        arrays = dict(content)
    about = json.loads(str(arrays["about"]))
    for version, status, found in ((1, "ISOLATED", fq.Status.UNDECIDED), (1, "EXACT", fq.Status.EXACT)):
        old = {**about, "version": version}
        new = ("rival", "proof", "noise_model", "gauge")
        one = {key: value for key, value in about["solutions"][0].items() if key not in new}
        old["solutions"] = [{**one, "status": status}]
        np.savez(tmp_path / "old.npz", **{**arrays, "about": np.array(json.dumps(old))})
        again = fq.load_solution(tmp_path / "old.npz")
        assert (again.status, again.success, again.rival) == (found, found.success, None)
    np.savez(tmp_path / "new.npz", **{**arrays, "about": np.array(json.dumps({**about, "version": 3}))})
    with pytest.raises(ValueError, match="it has version 3, and this fastquad reads versions up to 2"):
        fq.load_solution(tmp_path / "new.npz")


def test_one_array_is_no_solution(problem, tmp_path):
    np.save(tmp_path / "y.npy", problem.y)
    with pytest.raises(ValueError, match="is not a solution that fastquad saved: it holds one array"):
        fq.load_solution(tmp_path / "y.npy")


def test_measurements_without_a_size_are_refused_by_name():
    class Unsized(fq.Measurements):
        def matrices(self, start, stop):
            return np.ones((stop - start, 3, 3))

    with pytest.raises(TypeError, match="`A` must have `m`, `n` and `dtype`: set `m` and `n` and `dtype` of Unsized"):
        fq.solve(Unsized(), np.ones(4))
