"""How far ahead the kernels prefetch: measured once, kept for the machine, and never seen in a result."""

import json

import numpy as np
import pytest

from fastquad._kernels import hermitian, packed
from fastquad.measurements.dense import prefetch
from fastquad.measurements.dense.packed import PackedTensor

N, BLOCKS = 64, 12


@pytest.fixture(autouse=True)
def settings(monkeypatch, tmp_path):
    """Nothing is measured yet, no machine is known, and the kernels have their own settings again afterwards."""
    monkeypatch.delenv("FASTQUAD_PREFETCH", raising=False)
    monkeypatch.delenv("LOCALAPPDATA", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr(prefetch, "_settled", set())
    monkeypatch.setattr(prefetch, "TIMES_CACHE", 0)
    before = [(module, entry, module.stream(entry)) for module in (packed, hermitian) for entry in (2, 4, 8)]
    tiles = packed.tiles()
    yield
    for module, entry, stream in before:
        module.set_stream(entry, *stream)
    packed.set_tiles(tiles)


@pytest.fixture
def blocks():
    return np.random.default_rng(0).standard_normal((BLOCKS, packed.entries(N), packed.lanes))


class Machine:
    """A machine on which one setting takes half the time of the others."""

    def __init__(self, monkeypatch, fastest):
        self.now, self.calls, self.fastest = 0.0, 0, fastest
        monkeypatch.setattr(prefetch, "thread_time", lambda: self.now)

    def run(self, start, stop):
        assert 0 <= start < stop <= BLOCKS
        self.calls += 1
        self.now += 0.5 if self.setting() == self.fastest else 1.0

    def setting(self):
        return packed.stream(8)


@pytest.mark.parametrize("fastest", prefetch.STREAMS)
def test_the_fastest_setting_is_chosen_once_and_kept(monkeypatch, blocks, fastest):
    machine = Machine(monkeypatch, fastest)
    prefetch.settle_streams(packed, blocks, machine.run)
    measured = machine.calls
    assert packed.stream(8) == fastest
    assert measured >= 2 * len(prefetch.STREAMS)
    prefetch.settle_streams(packed, blocks, machine.run)
    assert machine.calls == measured
    # Another process: it reads the file, and measures nothing.
    prefetch._settled.clear()
    packed.set_stream(8, 1, False)
    prefetch.settle_streams(packed, blocks, machine.run)
    assert packed.stream(8) == fastest
    assert machine.calls == measured


def test_what_is_known_of_the_processor_stands_unless_another_is_clearly_faster(monkeypatch, blocks):
    packed.set_stream(8, 16, False)
    machine = Machine(monkeypatch, (128, False))
    monkeypatch.setattr(prefetch, "_GAIN", 0.6)
    prefetch.settle_streams(packed, blocks, machine.run)
    assert packed.stream(8) == (16, False)


def test_tiles_are_measured_as_well(monkeypatch, blocks):
    machine = Machine(monkeypatch, not packed.tiles())
    machine.setting = packed.tiles
    prefetch.settle_tiles(blocks, machine.run)
    assert packed.tiles() == machine.fastest


@pytest.mark.parametrize("content", ["", "[", "[1]", '{"%s": 3}', '{"%s": {"packed 8": [1e9, true]}}', "\x00"])
def test_a_file_that_says_something_else_is_measured_anew(monkeypatch, tmp_path, blocks, content):
    path = tmp_path / "fastquad" / "prefetch.json"
    path.parent.mkdir()
    path.write_text(content.replace("%s", prefetch.machine()), encoding="utf-8")
    machine = Machine(monkeypatch, (8, False))
    prefetch.settle_streams(packed, blocks, machine.run)
    assert packed.stream(8) == (8, False)
    assert json.loads(path.read_text())[prefetch.machine()]["packed 8"] == [8, False]


def test_the_settings_of_another_machine_stay(monkeypatch, tmp_path, blocks):
    path = tmp_path / "fastquad" / "prefetch.json"
    path.parent.mkdir()
    path.write_text('{"another": {"packed 8": [4, false]}}', encoding="utf-8")
    prefetch.settle_streams(packed, blocks, Machine(monkeypatch, (48, False)).run)
    assert set(json.loads(path.read_text())) == {"another", prefetch.machine()}


def test_a_folder_that_cannot_be_written_is_no_error(monkeypatch, tmp_path, blocks):
    (tmp_path / "fastquad").write_text("a file in place of the folder", encoding="utf-8")
    prefetch.settle_streams(packed, blocks, Machine(monkeypatch, (80, True)).run)
    assert packed.stream(8) == (80, True)


def test_the_variable_says_it_instead(monkeypatch, blocks):
    machine = Machine(monkeypatch, (8, False))
    monkeypatch.setenv("FASTQUAD_PREFETCH", "96 once")
    prefetch.settle_streams(packed, blocks, machine.run)
    assert packed.stream(8) == (96, True)
    assert machine.calls == 0
    monkeypatch.setenv("FASTQUAD_PREFETCH", "far")
    with pytest.raises(ValueError, match=r"`FASTQUAD_PREFETCH` must be a number of cache lines.*got 'far'"):
        prefetch.settle_streams(packed, blocks, machine.run)


def test_a_mapped_tensor_is_not_measured_on(monkeypatch, tmp_path, blocks):
    np.save(tmp_path / "P.npy", blocks)
    machine = Machine(monkeypatch, (8, False))
    mapped = PackedTensor(np.load(tmp_path / "P.npy", mmap_mode="r"), BLOCKS * packed.lanes, N)
    prefetch.settle_streams(packed, mapped.blocks, machine.run)
    assert machine.calls == 0


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_no_setting_changes_a_bit(blocks, dtype):
    """Of a tensor that is a stream: the settings are for those alone."""
    many = -(-(packed.cached + 1) // (blocks[0].size * np.dtype(dtype).itemsize))
    A = PackedTensor(np.resize(blocks.astype(dtype), (many, *blocks[0].shape)), many * packed.lanes, N)
    x = np.random.default_rng(1).standard_normal(N)
    results = []
    for stream in ((0, False), *prefetch.STREAMS):
        packed.set_stream(A.blocks.itemsize, *stream)
        results.append(A.products(x, n_threads=2))
    assert all(np.array_equal(results[0], other) for other in results)


@pytest.mark.parametrize("near", [False, True])
def test_no_setting_of_tiles_changes_a_bit(blocks, near):
    A = PackedTensor(blocks, BLOCKS * packed.lanes, N)
    X = np.random.default_rng(1).standard_normal((N, 5))
    before = A.products(X)
    packed.set_tiles(near)
    assert np.array_equal(A.products(X), before)


def test_the_first_pass_over_a_large_tensor_measures(monkeypatch, blocks):
    asked = []
    monkeypatch.setattr("fastquad.measurements.dense.packed._STREAM_BYTES", blocks.nbytes)
    monkeypatch.setattr(prefetch, "_settle", lambda name, *rest: asked.append(name))
    A = PackedTensor(blocks, BLOCKS * packed.lanes, N)
    A.products(np.ones(N))
    A.products(np.ones((N, 4)))
    assert asked == ["packed 8", "tiles"]
