"""What A is: the contractions (base), then one file per kind."""

from fastquad.system.lazy import lazily

_PLACES = {
    "base": "Measurements",
    "cluster.placement": "distribute",
    "cluster.tensor": "DistributedTensor",
    "computed.function": "ComputedTensor",
    "computed.gaussian": "GaussianTensor",
    "convert": "as_measurements open",
    "dense.foreign": "ArrayTensor",
    "dense.packed": "PackedTensor",
    "dense.raw": "RawTensor",
    "disk.streamed": "StreamedTensor",
    "packing": "pack",
    "structured.affine": "AffineTensor",
    "structured.bilinear": "BilinearTensor",
    "structured.fourier": "FourierTensor",
    "structured.low_rank": "LowRankTensor",
    "structured.operator": "OperatorTensor",
    "structured.pairs": "PairTensor",
    "structured.pauli": "PauliTensor",
    "structured.rank_one": "RankOneTensor",
    "structured.shifts": "ShiftTensor",
    "structured.sparse": "SparseTensor",
}
__all__ = [name for names in _PLACES.values() for name in names.split()]
__getattr__ = lazily(__name__, _PLACES)
