"""What A is: the contractions (base), then one file a kind."""

from fastquad.measurements.base import Measurements
from fastquad.measurements.computed import ComputedTensor
from fastquad.measurements.distributed import DistributedTensor, distribute
from fastquad.measurements.door import as_measurements, open, pack
from fastquad.measurements.gaussian import GaussianTensor
from fastquad.measurements.low_rank import LowRankTensor
from fastquad.measurements.packed import PackedTensor
from fastquad.measurements.rank_one import RankOneTensor
from fastquad.measurements.raw import RawTensor
from fastquad.measurements.shifts import ShiftTensor
from fastquad.measurements.streamed import StreamedTensor

__all__ = [
    "ComputedTensor",
    "DistributedTensor",
    "GaussianTensor",
    "LowRankTensor",
    "Measurements",
    "PackedTensor",
    "RankOneTensor",
    "RawTensor",
    "ShiftTensor",
    "StreamedTensor",
    "as_measurements",
    "distribute",
    "open",
    "pack",
]
