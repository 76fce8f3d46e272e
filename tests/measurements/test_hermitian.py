"""Complex matrices: every contraction of every kind of tensor agrees with its slow twin, and with its real view."""

import naive
import numpy as np
import pytest
from hermitian import agrees, array, make
from tensors import complex_normal, relative_error

import fastquad as fq

SHAPES = [(1, 1), (1, 5), (3, 1), (7, 4), (8, 3), (9, 17), (17, 33), (20, 50), (9, 70)]
KINDS = ["raw", "packed", "both", "both packed", "user's own"]


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("shape", SHAPES)
def test_agrees_with_its_twin(kind, shape, dtype):
    tensor, H = make(kind, *shape, dtype)
    rounded = dtype == "complex64" and "packed" in kind
    agrees(tensor, H, 3e-7 if rounded else 1e-13)
    assert tensor.dtype == dtype


@pytest.mark.parametrize("transpose", [False, True])
def test_sided_products_are_of_the_matrices_as_given(transpose):
    A = array(9, 7)
    x = complex_normal(np.random.default_rng(1), 7)
    got = fq.as_measurements(A).sided_products(x, transpose=transpose)
    assert relative_error(got, naive.sided_products(A, x, transpose)) < 1e-13


def test_a_packed_hermitian_tensor_takes_half_the_bytes():
    A = array(16, 100)
    assert fq.pack(A).nbytes < 0.55 * A.nbytes


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("memory", [None, "200 kB"])
def test_a_folder_on_disk_holds_complex_matrices(tmp_path, dtype, memory, monkeypatch):
    monkeypatch.setattr("fastquad.measurements.disk.writer.SECTION_BYTES", 30_000)
    A = array(120, 21, dtype)
    fq.pack(iter(A), tmp_path / "A.fq")
    opened = fq.open(tmp_path / "A.fq", memory=memory)
    assert opened.dtype == dtype
    assert type(opened).__name__ == ("StreamedTensor" if memory else "HermitianFolderTensor")
    agrees(opened, naive.sym(A).astype(dtype), 1e-13)
    again = fq.pack(opened)
    assert (again.block(np.arange(21)) == opened.block(np.arange(21))).all()


def test_a_npy_file_of_complex_matrices_is_mapped(tmp_path):
    A = array(9, 12)
    np.save(tmp_path / "A.npy", A)
    agrees(fq.as_measurements(tmp_path / "A.npy"), A, 1e-13)


@pytest.mark.parametrize("packed", [False, True])
def test_dask_arrays_of_complex_matrices(packed):
    da = pytest.importorskip("dask.array")
    A = array(20, 9)
    chunked = da.from_array(A, chunks=(7, 9, 9))
    tensor = fq.pack(chunked) if packed else fq.as_measurements(chunked, memory="4 kB")
    agrees(tensor, A, 1e-13)


def test_packing_complex_matrices_to_real_numbers_is_refused():
    with pytest.raises(TypeError, match="`dtype` must be complex64 or complex128, got float32"):
        fq.pack(array(3, 4), dtype="float32")


def test_the_input_is_not_modified():
    A = array(9, 6)
    before = A.copy()
    agrees(fq.as_measurements(A), A, 1e-13)
    assert (before == A).all()
    assert A.flags.writeable
