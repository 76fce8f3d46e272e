"""What users have A in: arrays of other libraries, datasets that are read by slices, and what is refused by name."""

import pickle
import re
import threading

import numpy as np
import pytest

import fastquad as fq
from fastquad.measurements.disk.sliced import SlicedTensor


@pytest.fixture(scope="module")
def problem():
    return fq.problems.gaussian(m=90, n=30, k=4, rng=0)


#: Less than A, which has 648 kB, and enough for what solvers keep.
BUDGET = 500_000


class Dataset:
    """What h5py, zarr and others have in common: a shape, a dtype, slices, and perhaps chunks and attributes."""

    def __init__(self, array, chunks=None, attrs=None):
        self.array, self.shape, self.dtype = array, array.shape, array.dtype
        self.chunks, self.attrs = chunks, attrs or {}
        self.reads, self.readers = [], set()

    def __getitem__(self, key):
        assert isinstance(key, slice)
        self.reads.append((key.start, key.stop))
        self.readers.add(threading.get_ident())
        return self.array[key]


def blocks(A):
    """The packed blocks of any A."""
    return fq.pack(A).blocks


@pytest.mark.parametrize("dtype", ["float32", "float64", ">f8", "float16", "int16", "complex64"])
def test_a_dataset_is_that_array(problem, dtype):
    A = (problem.A * 100).astype(dtype)
    np.testing.assert_array_equal(fq.as_measurements(Dataset(A)).matrices(0, 90), fq.as_measurements(A).matrices(0, 90))
    small = fq.as_measurements(Dataset(A, (7, 30, 30)), memory=BUDGET // 8)
    assert isinstance(small, SlicedTensor)
    assert small.dtype == fq.as_measurements(A).dtype
    np.testing.assert_array_equal(small.matrices(3, 50), fq.as_measurements(A).matrices(3, 50))
    np.testing.assert_array_equal(blocks(Dataset(A, (7, 30, 30))), blocks(A))


def test_what_fits_is_read_once(problem):
    data = Dataset(problem.A, (8, 30, 30))
    solution = fq.solve(data, problem.y)
    assert solution.success
    assert sorted(data.reads) == sorted(set(data.reads))
    assert sum(stop - start for start, stop in data.reads) == 90
    np.testing.assert_array_equal(solution.x, fq.solve(problem.A, problem.y).x)


@pytest.mark.parametrize("method", ["auto", "lm", "twf"])
def test_what_does_not_fit_is_read_by_slices_in_every_pass(problem, method):
    data = Dataset(problem.A, (2, 30, 30))
    solution = fq.solve(data, problem.y, method=method, memory=BUDGET, x0=problem.x + 0.01)
    assert solution.success
    assert fq.distance(solution.x, problem.x) < 1e-6
    assert "GB were read from disk" in solution.message
    assert max(stop - start for start, stop in data.reads) * 7200 <= BUDGET / 8
    assert all(start % 2 == 0 for start, _ in data.reads)


def test_one_thread_reads(problem):
    data = Dataset(problem.A)
    A = fq.as_measurements(data, memory=BUDGET)
    A.products(problem.x, n_threads=4)
    assert len(data.readers) == 1


@pytest.mark.parametrize(("chunk", "steps"), [(1, 8), (3, 6), (8, 8), (16, 8), (90, 8)])
def test_slices_are_whole_chunks_within_the_budget(problem, chunk, steps):
    # BUDGET / 8 has room for 8 matrices: chunks of 16 and of 90 do not fit, and are read in pieces.
    data = Dataset(problem.A, (chunk, 30, 30))
    fq.as_measurements(data, memory=BUDGET).measure(problem.x)
    assert {stop - start for start, stop in data.reads[:-1]} == {steps}


def test_packing_reads_each_slice_once(problem, tmp_path):
    for path in (None, tmp_path / "A.fq"):
        data = Dataset(problem.A, (7, 30, 30))
        np.testing.assert_array_equal(fq.pack(data, path).matrices(0, 90), fq.pack(problem.A).matrices(0, 90))
        assert sum(stop - start for start, stop in data.reads) == 90


def test_what_is_not_finite_is_named_by_its_number(problem, tmp_path):
    A = problem.A.copy()
    A[71, 3, 4] = np.nan
    for path in (None, tmp_path / "A.fq"):
        with pytest.raises(ValueError, match="NaN or inf in matrix 71"):
            fq.pack(Dataset(A, (7, 30, 30)), path)
    with pytest.raises(ValueError, match="`A` must be finite"):
        fq.solve(Dataset(A), problem.y, memory=BUDGET)


@pytest.mark.parametrize(("data", "error", "words"), [
    (Dataset(np.ones((4, 4))), ValueError, "`A` must have shape (m, n, n), got (4, 4)"),
    (Dataset(np.ones((4, 4, 5))), ValueError, "`A` must have shape (m, n, n), got (4, 4, 5)"),
    (Dataset(np.ones((4, 3, 3), dtype="U1")), TypeError, "`A` must hold numbers"),
    (Dataset(np.ones((4, 3, 3)), attrs={"scale_factor": 0.5, "add_offset": 2.0}), ValueError,
     "scaled by scale_factor = 0.5 and add_offset = 2"),
    (Dataset(np.ma.array(np.ones((4, 3, 3)), mask=np.eye(3) * np.ones((4, 1, 1)))), ValueError,
     "`A` must not be masked, got 12 masked entries"),
])  # fmt: skip
def test_datasets_that_are_refused(data, error, words):
    with pytest.raises(error, match=re.escape(words)):
        fq.solve(data, np.ones(4))


def test_no_scaling_is_no_scaling(problem):
    data = Dataset(problem.A, attrs={"scale_factor": 1.0, "add_offset": 0.0, "units": "m"})
    assert fq.solve(data, problem.y).success


def test_a_dataset_that_gives_another_shape():
    class Wrong(Dataset):
        def __getitem__(self, key):
            return self.array[key][:-1]

    with pytest.raises(ValueError, match=r"`A` must give matrices 0 to 3 as an array of shape \(4, 3, 3\)"):
        fq.solve(Wrong(np.ones((4, 3, 3))), np.ones(4))


def test_an_open_dataset_cannot_be_pickled(problem):
    with pytest.raises(TypeError, match=r"open it by its path, fastquad.open\('A.h5::A'\)"):
        pickle.dumps(fq.as_measurements(Dataset(problem.A), memory=BUDGET))


def test_vectors_in_place_of_matrices(problem):
    vectors = problem.A[:, 0]
    with pytest.raises(
        ValueError, match=r"got \(90, 30\); with a vector a_i in each row .* fastquad.RankOneTensor\(A\)"
    ):
        fq.solve(vectors, problem.y)


# -- libraries, where they are installed ------------------------------------------------------------------------------


@pytest.mark.parametrize("chunks", [None, (7, 30, 30), (90, 3, 3)])
def test_hdf5(problem, tmp_path, chunks):
    h5py = pytest.importorskip("h5py")
    path = str(tmp_path / "A.h5")
    with h5py.File(path, "w") as file:
        file.create_dataset("group/A", data=problem.A, chunks=chunks, compression=chunks and "gzip")
    with h5py.File(path) as file:
        assert fq.solve(file["group/A"], problem.y).success
        assert fq.solve(file["group/A"], problem.y, memory=BUDGET).success
        np.testing.assert_array_equal(blocks(file["group/A"]), blocks(problem.A))
        closed = file["group/A"]
    with pytest.raises(ValueError, match="`A` must be open"):
        fq.solve(closed, problem.y)
    assert fq.solve(f"{path}::group/A", problem.y).success
    assert not isinstance(fq.open(f"{path}::group/A"), SlicedTensor)
    opened = fq.open(f"{path}::group/A", memory=BUDGET)
    assert isinstance(opened, SlicedTensor)
    again = pickle.loads(pickle.dumps(opened))
    np.testing.assert_array_equal(again.measure(problem.x), opened.measure(problem.x))
    np.testing.assert_array_equal(blocks(f"{path}::group/A"), blocks(problem.A))
    with pytest.raises(ValueError, match=r"there is no dataset 'B' in .*, which has '.*A.h5::group'"):
        fq.open(f"{path}::B")
    with pytest.raises(FileNotFoundError, match="there is no file"):
        fq.open(f"{tmp_path}/B.h5::A")


def test_zarr(problem, tmp_path):
    zarr = pytest.importorskip("zarr")
    group = zarr.open_group(str(tmp_path / "A.zarr"), mode="w")
    array = group.create_array("A", shape=problem.A.shape, chunks=(7, 30, 30), dtype="float64")
    array[:] = problem.A
    assert fq.solve(array, problem.y, memory=BUDGET).success
    assert fq.solve(str(tmp_path / "A.zarr::A"), problem.y).success


def test_netcdf(problem, tmp_path):
    netCDF4 = pytest.importorskip("netCDF4")
    path = str(tmp_path / "A.nc")
    with netCDF4.Dataset(path, "w") as file:
        for name, size in (("m", 90), ("j", 30), ("k", 30)):
            file.createDimension(name, size)
        file.createVariable("A", "f8", ("m", "j", "k"), zlib=True)[:] = problem.A
        scaled = file.createVariable("scaled", "i2", ("m", "j", "k"))
        scaled.scale_factor = 0.01
        scaled[:] = problem.A
        masked = file.createVariable("masked", "f8", ("m", "j", "k"), fill_value=-9.0)
        masked[:] = np.ma.array(problem.A, mask=problem.A > 3)
    with netCDF4.Dataset(path) as file:
        assert fq.solve(file["A"], problem.y, memory=BUDGET).success
        with pytest.raises(ValueError, match=r"scaled by scale_factor = 0.01"):
            fq.solve(file["scaled"], problem.y)
        with pytest.raises(ValueError, match="must not be masked"):
            fq.solve(file["masked"], problem.y)


def test_xarray(problem):
    xr = pytest.importorskip("xarray")
    array = xr.DataArray(problem.A)
    assert fq.solve(array, problem.y).success
    np.testing.assert_array_equal(blocks(array), blocks(problem.A))
    with pytest.raises(TypeError, match="got a Dataset of 'A', 'B': give one of them"):
        fq.solve(xr.Dataset({"A": array, "B": array}), problem.y)
    pytest.importorskip("dask")
    assert fq.solve(array.chunk({"dim_0": 10}), problem.y).success


def test_torch(problem):
    torch = pytest.importorskip("torch")
    A, y = torch.tensor(problem.A), torch.tensor(problem.y)
    assert np.shares_memory(fq.as_measurements(A).array, A.numpy())  # no copy
    assert fq.solve(A, y).success
    turned = torch.tensor(problem.A + 1j * problem.A).conj()
    np.testing.assert_array_equal(fq.as_measurements(turned).array, problem.A - 1j * problem.A)
    for wrong, words in (
        (A.clone().requires_grad_(), "`A` is a torch Tensor with requires_grad, .* give A.detach()"),
        (A.bfloat16(), "dtype torch.bfloat16, which NumPy does not have: give A.float()"),
        (A.to("meta"), "on the device 'meta'"),
        (A.to_sparse(), "with layout torch.sparse_coo: give A.to_dense()"),
    ):
        with pytest.raises(TypeError, match=words):
            fq.solve(wrong, y)
    with pytest.raises(TypeError, match=r"`y` is a torch Tensor with requires_grad, .* give y.detach()"):
        fq.solve(A, y.clone().requires_grad_())
    with pytest.raises(TypeError, match="`x0` is a torch Tensor with requires_grad"):
        fq.solve(A, y, x0=torch.ones(30, requires_grad=True))


class OnDevice:
    """An array of CuPy's, as far as anybody can tell without its machine."""

    __module__ = "cupy"
    dtype, shape, device = np.dtype(float), (4, 3, 3), "<CUDA Device 0>"

    def __dlpack_device__(self):
        return 2, 0

    def __getitem__(self, key):
        raise AssertionError("it was read")


def test_an_array_on_another_device():
    for name, arguments in (("A", (OnDevice(), np.ones(4))), ("y", (np.ones((4, 3, 3)), OnDevice()))):
        words = f"`{name}` is a cupy OnDevice on the device <CUDA Device 0>, .* give {name}.get()"
        with pytest.raises(TypeError, match=words) as caught:
            fq.solve(*arguments)
        assert ("fastquad.ArrayTensor(A)" in str(caught.value)) == (name == "A")


def test_jax(problem):
    jax = pytest.importorskip("jax")
    jnp = jax.numpy
    A, y = jnp.asarray(problem.A, dtype="float32"), jnp.asarray(problem.y, dtype="float32")
    assert fq.distance(fq.solve(A, y).x, problem.x) < 1e-4
    with pytest.raises(TypeError, match=r"dtype bfloat16, which NumPy does not have: give A.astype\('float32'\)"):
        fq.solve(A.astype("bfloat16"), y)
