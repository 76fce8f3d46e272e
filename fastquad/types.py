"""The classes of what fastquad returns, for `isinstance` and annotations; one seldom makes them oneself."""

from fastquad.diagnosis import Diagnosis
from fastquad.measurements import DistributedTensor, PackedTensor, RawTensor, StreamedTensor
from fastquad.solution import Proof, SolutionBatch

__all__ = ["Diagnosis", "DistributedTensor", "PackedTensor", "Proof", "RawTensor", "SolutionBatch", "StreamedTensor"]
