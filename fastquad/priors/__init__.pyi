from fastquad.priors.base import Prior
from fastquad.priors.discrete import Discrete
from fastquad.priors.generative import Generative
from fastquad.priors.piecewise import PiecewiseConstant
from fastquad.priors.sparse import Sparse

__all__ = ["Discrete", "Generative", "PiecewiseConstant", "Prior", "Sparse"]
