"""What goes wrong around a solve: odd arrays, odd scales, odd callbacks, odd places for a checkpoint."""

import json
import os
import socket
import warnings
import zlib

import numpy as np
import pytest
from hanging import deadline

import fastquad as fq

METHODS = ["auto", "pursuit", "amp", "lm", "twf", "wf", fq.methods.SPF(k=3), fq.methods.SGN(k=3)]


@pytest.fixture(scope="module")
def problem():
    return fq.problems.gaussian(m=60, n=30, k=3, rng=0)


# -- numbers ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1e-100, 1e100, 1e160, 1e300])
def test_x_is_finite_at_any_scale_of_A(problem, method, scale):
    """A solve on extreme numbers may fail, but its answer is finite, and a success is right."""
    solution = fq.solve(problem.A * scale, problem.y, method=method)
    assert np.isfinite(solution.x).all()
    assert not np.isnan(solution.residual)
    if solution.success:
        assert fq.distance(solution.x * np.sqrt(scale), problem.x) < 1e-3


@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("mean", [0.0, 3.0, 1e6])
def test_measurements_that_are_all_the_same(method, mean):
    """Without its mean nothing is left of such a y."""
    A = np.random.default_rng(0).standard_normal((40, 20, 20)) + mean
    solution = fq.solve(A, np.ones(40), method=method)
    assert np.isfinite(solution.x).all()
    assert not solution.success


class Frozen(fq.types.RawTensor):
    """Measurements whose answers must not be written to, as those of some libraries."""


def _frozen(name):
    def answer(self, *arguments):
        found = getattr(fq.types.RawTensor, name)(self, *arguments)
        for array in found if isinstance(found, tuple) else (found,):
            array.flags.writeable = False
        return found

    return answer


for _name in ("_diagonals", "_weighted_sum", "_rows", "_block", "_sweep"):
    setattr(Frozen, _name, _frozen(_name))


@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("mean", [0.0, 1.0])
def test_nothing_is_written_to_what_must_not_be(problem, method, mean):
    A = problem.A + mean
    y = fq.measure(A, problem.x)
    Y, x0 = np.stack([y, 4 * y]), np.linspace(-1, 1, 30)
    for array in (A, Y, x0):
        array.flags.writeable = False
    expected = fq.solve(A, Y, method=method)
    np.testing.assert_allclose(fq.solve(Frozen(A), Y, method=method).x, expected.x, atol=1e-9)
    assert fq.solve(Frozen(A), Y[0], method=method, x0=x0).x.shape == (30,)


@pytest.mark.parametrize("name", ["y", "A", "x0", "x_true", "x"])
def test_masked_entries_are_no_numbers(problem, name):
    def masked(array):
        hidden = np.ma.masked_array(array, mask=False)
        hidden[2] = np.ma.masked
        return hidden

    call = {
        "y": lambda wrap: fq.solve(problem.A, wrap(problem.y)),
        "A": lambda wrap: fq.solve(wrap(problem.A), problem.y),
        "x0": lambda wrap: fq.solve(problem.A, problem.y, x0=wrap(problem.x + 1)),
        "x_true": lambda wrap: fq.solve(problem.A, problem.y, x_true=wrap(problem.x)),
        "x": lambda wrap: fq.as_measurements(problem.A).products(wrap(problem.x)),
    }[name]
    with pytest.raises(ValueError, match=f"`{name}` must not be masked, got [0-9]+ masked entries"):
        call(masked)
    call(np.ma.masked_array)  # nothing is masked here


def test_masked_matrices_are_not_packed(problem, tmp_path):
    matrices = [np.ma.masked_less(matrix, -3) for matrix in problem.A]
    with pytest.raises(ValueError, match="`A` must not be masked"):
        fq.pack(iter(matrices), tmp_path / "A.fq")


def test_distances_from_and_to_what_is_not_finite():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert np.isnan(fq.distance([np.nan, 1.0], [1.0, 1.0]))
        assert np.isnan(fq.distance([1.0, 1.0], [np.nan, 1.0]))
        assert np.isnan(fq.distance([np.nan, 1.0], [0.0, 0.0]))
        assert fq.distance([np.inf, 1.0], [1.0, 1.0]) == np.inf
        batch = fq.distance([[np.nan, 1.0], [-1.0, -1.0]], [[1.0, 1.0], [1.0, 1.0]])
    np.testing.assert_array_equal(batch, [np.nan, 0.0])


KINDS = {
    "raw": lambda A: fq.as_measurements(A),
    "packed": lambda A: fq.pack(A),
    "complex": lambda A: fq.as_measurements(A + 1j),
    "hermitian": lambda A: fq.pack(A + 1j),
    "gaussian": lambda A: fq.GaussianTensor(*A.shape[:2], seed=0),
    "rank one": lambda A: fq.RankOneTensor(A[:, 0]),
    "low rank": lambda A: fq.LowRankTensor(A[:, :3]),
    "shifts": lambda A: fq.ShiftTensor(30),
}


@pytest.mark.parametrize("kind", KINDS)
def test_matrices_that_are_not_there(problem, kind):
    A = KINDS[kind](problem.A)
    for start, stop in [(-8, 0), (-1, 3), (5, 4), (0, A.m + 1), (A.m + 8, A.m + 16)]:
        with pytest.raises(ValueError, match=r"`start` and `stop` must have 0 <= start <= stop <= "):
            A.matrices(start, stop)
    assert A.matrices(3, 3).shape == (0, A.n, A.n)
    assert A.matrices(A.m - 1, A.m).shape == (1, A.n, A.n)


# -- callbacks ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("error", [StopIteration, GeneratorExit, KeyError])
def test_what_a_callback_raises_is_raised(problem, method, error):
    def callback(state):
        raise error("mine")

    with pytest.raises(error, match="mine"):
        fq.solve(problem.A, problem.y, method=method, callback=callback)


# -- places for a checkpoint --------------------------------------------------------------------------------------


@pytest.fixture
def no_hanging():
    with deadline(60):
        yield


@pytest.mark.skipif(os.name == "nt", reason="FIFOs of Unix")
@pytest.mark.parametrize("kind", ["FIFO", "socket", "link to a FIFO", "folder", "loop of links", "link to a folder"])
def test_a_checkpoint_takes_no_place_but_a_file_s(problem, tmp_path, kind, no_hanging):
    path, other = tmp_path / "solve.ck", tmp_path / "other"
    if kind == "FIFO":
        os.mkfifo(path)
    elif kind == "socket":
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(path))
    elif kind == "folder":
        path.mkdir()
    elif kind == "loop of links":
        path.symlink_to(other)
        other.symlink_to(path)
    else:
        os.mkfifo(other) if kind == "link to a FIFO" else other.mkdir()
        path.symlink_to(other)
    before = {entry.name: entry.lstat().st_mode for entry in tmp_path.iterdir()}
    with pytest.raises((ValueError, OSError), match="`checkpoint` must be the path of a"):
        fq.solve(problem.A, problem.y, checkpoint=path)
    assert {entry.name: entry.lstat().st_mode for entry in tmp_path.iterdir()} == before


@pytest.mark.skipif(os.name == "nt", reason="FIFOs of Unix")
def test_nor_is_what_lies_beside_it_followed(problem, tmp_path, no_hanging):
    (tmp_path / "victim").write_text("precious")
    (tmp_path / "solve.ck.partial").symlink_to(tmp_path / "victim")
    with pytest.raises(OSError, match="partial"):
        fq.solve(problem.A, problem.y, checkpoint=tmp_path / "solve.ck")
    assert (tmp_path / "victim").read_text() == "precious"
    (tmp_path / "solve.ck.partial").unlink()
    os.mkfifo(tmp_path / "solve.ck.partial")
    with pytest.raises(OSError, match="regular file"):
        fq.solve(problem.A, problem.y, checkpoint=tmp_path / "solve.ck")


def test_a_link_to_a_checkpoint_stays_a_link(problem, tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "solve.ck")
    first = fq.solve(problem.A, problem.y, checkpoint=tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "solve.ck").is_file()
    np.testing.assert_array_equal(fq.solve(problem.A, problem.y, checkpoint=tmp_path / "solve.ck").x, first.x)


def test_a_checkpoint_that_was_put_there_meanwhile_is_not_overwritten(problem, tmp_path):
    path = tmp_path / "solve.ck"

    def replace(state):
        path.unlink(missing_ok=True)
        path.write_text("precious")

    with pytest.raises(OSError, match="was replaced while it was in use"):
        fq.solve(problem.A, problem.y, method="twf", checkpoint=path, callback=replace)
    assert path.read_text() == "precious"


# -- checkpoints whose checksums are right, and whose content is not --------------------------------------------------


def reseal(said, data=b""):
    text = json.dumps(said)
    return f"[{zlib.crc32(data, zlib.crc32(text.encode()))}, {text}]\n".encode() + data


@pytest.mark.parametrize(
    "changes",
    [
        {"memory": None}, {"memory": "x"}, {"memory": -1}, {"memory": 10**40}, {"memory": []}, {"problem": None},
        {"problem": [1]}, {"problem": {}}, {"version": [2]}, {"format": {}}, {"arrays": 5}, {"arrays": [["<f8"]]},
        {"arrays": [["(", [3]]]}, {"arrays": [["O", [1]]]}, {"arrays": [["<f8", [-1]]]},
        {"arrays": [["<f8", [2**62]]]}, {"deep": "[" * 5},
    ],
)  # fmt: skip
def test_altered_headers(problem, tmp_path, changes, no_hanging):
    path = tmp_path / "solve.ck"
    fq.solve(problem.A, problem.y, checkpoint=path)
    lines = path.read_bytes().split(b"\n", 1)
    said = json.loads(lines[0])[1] | {key: value for key, value in changes.items() if key == "deep"}
    arrays = said.pop("arrays")
    path.write_bytes(reseal(said | {"arrays": arrays} | changes) + lines[1])
    if "deep" in changes:
        fq.solve(problem.A, problem.y, checkpoint=path)
        return
    with pytest.raises(ValueError, match=r"`checkpoint`|`memory`"):
        fq.solve(problem.A, problem.y, checkpoint=path)


@pytest.mark.parametrize(
    "change",
    [
        lambda said: said.pop("kind"), lambda said: said.pop("solutions"), lambda said: said.update(solutions=5),
        lambda said: said.update(solutions=[{"dict": {}}]),
        lambda said: said.update(solutions=[{"array": 99, "axes": []}]),
        lambda said: said.update(kind="snapshot"),
        lambda said: said.update(kind="snapshot", bytes_read=0, paid=[], runs=[]),
        lambda said: said.update(kind="answer", index=0),
        lambda said: said["solutions"][0]["dict"].update(status="FINE"),
    ],
)  # fmt: skip
def test_altered_answers(problem, tmp_path, change, no_hanging):
    path = tmp_path / "solve.ck"
    expected = fq.solve(problem.A, problem.y, checkpoint=path)
    header, line, data = path.read_bytes().split(b"\n", 2)
    said = json.loads(line)[1]
    change(said)
    path.write_bytes(header + b"\n" + reseal(said, data))
    try:
        again = fq.solve(problem.A, problem.y, checkpoint=path)
    except ValueError as error:
        assert "`checkpoint`" in str(error)  # noqa: PT017
    else:
        np.testing.assert_array_equal(again.x, expected.x)
