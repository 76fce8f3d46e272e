"""What is known of the signal."""

from fastquad.priors.base import Prior
from fastquad.priors.generative import Generative
from fastquad.priors.sparse import Sparse

__all__ = ["Generative", "Prior", "Sparse"]
