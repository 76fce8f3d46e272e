"""Priors: what is known of the signal."""

from fastquad.system.lazy import lazily

_PLACES = {
    "base": "Prior",
    "discrete": "Discrete",
    "generative": "Generative",
    "image": "Denoiser",
    "piecewise": "PiecewiseConstant",
    "sparse": "Sparse",
}
__all__ = [name for names in _PLACES.values() for name in names.split()]
__getattr__ = lazily(__name__, _PLACES)
