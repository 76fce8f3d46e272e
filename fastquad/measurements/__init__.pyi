from fastquad.measurements.base import Measurements
from fastquad.measurements.cluster.placement import distribute
from fastquad.measurements.cluster.tensor import DistributedTensor
from fastquad.measurements.computed.function import ComputedTensor
from fastquad.measurements.computed.gaussian import GaussianTensor
from fastquad.measurements.convert import as_measurements, open
from fastquad.measurements.dense.foreign import ArrayTensor
from fastquad.measurements.dense.packed import PackedTensor
from fastquad.measurements.dense.raw import RawTensor
from fastquad.measurements.disk.streamed import StreamedTensor
from fastquad.measurements.packing import pack
from fastquad.measurements.structured.affine import AffineTensor
from fastquad.measurements.structured.bilinear import BilinearTensor
from fastquad.measurements.structured.fourier import FourierTensor
from fastquad.measurements.structured.low_rank import LowRankTensor
from fastquad.measurements.structured.operator import OperatorTensor
from fastquad.measurements.structured.pairs import PairTensor
from fastquad.measurements.structured.pauli import PauliTensor
from fastquad.measurements.structured.rank_one import RankOneTensor
from fastquad.measurements.structured.shifts import ShiftTensor
from fastquad.measurements.structured.sparse import SparseTensor

__all__ = [
    "AffineTensor",
    "ArrayTensor",
    "BilinearTensor",
    "ComputedTensor",
    "DistributedTensor",
    "FourierTensor",
    "GaussianTensor",
    "LowRankTensor",
    "Measurements",
    "OperatorTensor",
    "PackedTensor",
    "PairTensor",
    "PauliTensor",
    "RankOneTensor",
    "RawTensor",
    "ShiftTensor",
    "SparseTensor",
    "StreamedTensor",
    "as_measurements",
    "distribute",
    "open",
    "pack",
]
