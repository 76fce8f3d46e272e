"""What y is: the measurements of the signal, and how they were disturbed.

    Gaussian(sigma=None)                            one σ, learnt or given, or one for each measurement
    Poisson(gain=1, background=0, read=0)           counts, with what the detector adds
    Quantised(step)                                 rounded to multiples of a step
    Student(dof, sigma=None)                        heavy tails
    Outliers(share=None, sigma=None, of=None)       some measurements may be anything

`noise=` of `fastquad.solve` takes one of them, or a number or an array, which stand for Gaussian noise. Each is a
likelihood with the verbs of `fastquad.noise.base`; no method asks which one it is. A model of your own is one more
file with one more class, and a row in `MODELS` if the command line is to know its name.
"""

from typing import Any

from fastquad import arguments
from fastquad.noise.base import Noise
from fastquad.noise.gaussian import Gaussian
from fastquad.noise.outliers import Outliers
from fastquad.noise.poisson import Poisson
from fastquad.noise.quantised import Quantised
from fastquad.noise.student import Student

#: The models by the word that names each on the command line.
MODELS: dict[str, type[Noise]] = {
    "gaussian": Gaussian,
    "poisson": Poisson,
    "quantised": Quantised,
    "student": Student,
    "outliers": Outliers,
}

__all__ = ["Gaussian", "Noise", "Outliers", "Poisson", "Quantised", "Student"]


def as_noise(value: Any, m: int, outliers: Any = False) -> Noise:
    """The model that the user gave for m measurements: an object, a number, an array, or None."""
    found: Noise = value.fitted(m) if isinstance(value, Noise) else Gaussian(arguments.noise(value, m))
    return found.with_outliers() if outliers else found
