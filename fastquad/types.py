"""The classes of what fastquad returns, for `isinstance` and annotations; one seldom makes them oneself."""

from fastquad.batch import SolutionBatch
from fastquad.diagnosis import Diagnosis
from fastquad.measurements import DistributedTensor, PackedTensor, RawTensor, StreamedTensor
from fastquad.solution import Proof

__all__ = ["Diagnosis", "DistributedTensor", "PackedTensor", "Proof", "RawTensor", "SolutionBatch", "StreamedTensor"]
