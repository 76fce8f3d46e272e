"""Models of the noise in y.

    Gaussian(sigma=None)                            one σ, estimated or given, or one for each measurement
    Poisson(gain=1, background=0, read=0)           counts, with the background and the noise of the detector
    Quantised(step)                                 rounded to multiples of a step
    Student(dof, sigma=None)                        heavy tails
    Outliers(share=None, sigma=None, of=None)       some measurements wrong by any amount

`noise=` of `fastquad.solve` takes one of them, or a number or an array, which mean Gaussian noise. Each is a likelihood
with the methods of `fastquad.noise.base`. No solver depends on which one it is. A model of your own is one more file
with one more class, and a row in `MODELS` if the command line should know its name.
"""

import sys
from dataclasses import MISSING, fields
from typing import TYPE_CHECKING, Any

from fastquad import arguments
from fastquad.noise.base import Noise
from fastquad.noise.gaussian import Gaussian
from fastquad.system.lazy import lazily

if TYPE_CHECKING:
    from fastquad.noise.outliers import Outliers
    from fastquad.noise.poisson import Poisson
    from fastquad.noise.quantised import Quantised
    from fastquad.noise.student import Student

__all__ = ["Gaussian", "Noise", "Outliers", "Poisson", "Quantised", "Student"]
#: The models by the word that names each on the command line, which is the name of its module too.
MODELS = {name.lower(): name for name in __all__ if name != "Noise"}

if not TYPE_CHECKING:
    __getattr__ = lazily(__name__, {word: name for word, name in MODELS.items() if word != "gaussian"})


def model_of(word: str) -> type[Noise]:
    """The class of the model that a word names."""
    found: type[Noise] = getattr(sys.modules[__name__], MODELS[word])
    return found


def from_dict(said: Any) -> Noise | None:
    """The model of `Noise.to_dict`; None for one of a class that is not defined here."""
    if str(said["model"]).lower() in MODELS:
        model_of(said["model"].lower())  # it is defined from now on
    found = {each.__name__: each for each in _known(Noise)}.get(said["model"])
    if found is None:
        return None
    given = {name: value for name, value in said.items() if name != "model"}
    return found(**{name: from_dict(value) if isinstance(value, dict) else value for name, value in given.items()})


def _known(kind: Any) -> list[Any]:
    """All models that are defined."""
    return [each for below in kind.__subclasses__() for each in (below, *_known(below))]


def from_words(text: str) -> Noise | float:
    """The noise that a text such as "0.1", "poisson", "student:4" or "poisson:gain=2,read=0.5" names."""
    name, _, rest = text.partition(":")
    if name not in MODELS:
        try:
            return float(text)
        except ValueError:
            raise ValueError(
                f"`noise` must be a number or one of {', '.join(MODELS)}, with its parameters behind a colon, got "
                f"{text!r}{arguments.nearest(name, MODELS)}"
            ) from None
    model = model_of(name)
    names = [field.name for field in fields(model)]  # type: ignore[arg-type]
    given: dict[str, float] = {}
    for place, part in enumerate(filter(None, rest.split(","))):
        key, equals, value = part.rpartition("=")
        key = key if equals else names[place] if place < len(names) else part
        if key not in names:
            raise ValueError(f"`noise`: {name} has the parameters {', '.join(names)}, got {key!r}.")
        try:
            given[key] = float(value)
        except ValueError:
            raise ValueError(f"`noise`: {key!r} of {name} must be a number, got {value!r}.") from None
    lacking = [each.name for each in fields(model) if each.default is MISSING and each.name not in given]  # type: ignore[arg-type]
    if lacking:
        raise ValueError(f"`noise`: {name} needs its parameter {lacking[0]}, such as {name}:4.")
    return model(**given)


def as_noise(value: Any, m: int, outliers: Any = False) -> Noise:
    """The model that the user gave for m measurements: an object, a number, an array, or None."""
    if isinstance(value, str):
        such = f"fastquad.noise.{MODELS.get(value.partition(':')[0].lower(), 'Poisson')}(...)"
        raise TypeError(f"`noise` must be a number, an array or a model such as {such}, got {value!r}.")
    found: Noise = value.fitted(m) if isinstance(value, Noise) else Gaussian(arguments.noise(value, m))
    return found.with_outliers() if outliers else found
