"""Whether measurements bend: y is no multiple of x^T A x, because a sensor saturates, say.

The residual r of AMP is that of predictions p = y − r which were not made with their own measurement: whatever the
noise, its mean at a given p is zero. If y is f(x^T A x + noise) in truth, x takes the length that fits best, and
two things show it.

The mean of r at p keeps the shape of f, if noise does not blur it:

    r ≈ b1 p + b2 p|p|,    T = b2 over its standard error.

The standard error allows for noise that grows with p (White's, with leverages). In 50 problems with noise T had the
mean 0 and the deviation 1, in 23 with y = tanh the mean −10, in 22 with y|y| 14.

And f changes the noise with the signal: y is p plus Gaussian noise in another scale. Of the powers

    ψ(y) = sign(y) ((1 + |y|/c)^λ − 1)/λ,    c a tenth of y's size, so that λ = 1 is y itself,

the likeliest (as Box and Cox do) is compared with y itself, whose noise may grow with p by its own:

    ψ(y) = κ p + N(0, a)    or    y = κ p + N(0, a + b p²),    G = twice the logarithm of the ratio of likelihoods.

Among 6,000 draws of y = p + Gaussian noise the largest G was 16, and noise that grows with p makes it negative. For
y|y| with noise 1.2 times the signal, where the mean of r shows nothing, G is about 100 for m = 150.
"""

from __future__ import annotations

import numpy as np

from fastquad.typing import Float

# So many standard errors of b2 are no chance, …
_CLEAR = 5.0
# … and fewer if measurements may be grossly wrong, which makes standard errors large, …
_CLEAR_AMONG_GROSS = 3.0
# … and neither is this G, …
_LIKELIER = 20.0
# … if there are at least this many measurements.
_ENOUGH = 30
# No measurement is taken for more than this much of the fit.
_LEVERAGE = 0.9
# The powers λ that are tried.
_POWERS = np.linspace(0.1, 3.0, 30)
# The ratios of b p² to a that are tried, at the typical p.
_GROWTHS = (0.0, *np.logspace(-1, 2.5, 15))
# c, as a share of y's root mean square.
_LINEAR = 0.1
# The share of y's values that must differ: rounding to a few values changes the noise as well, but bends nothing.
_DISTINCT = 0.5

#: The note if y bends.
BENT = "But y is not proportional to the measurements of x, as if a sensor saturates: the length of x is uncertain."


def bend(y: Float, r: Float, gross: bool = False) -> float:
    """The relative error that a bend brings to the length of x; 0 if there is none, or one that may be chance.

    With `gross` errors among them, no scale makes the noise Gaussian, and the mean of r alone is asked.

    Nothing tells at which size of the signal y is right. If it is at small p, the length is wrong by what the curvature
    says; if at the size of what x explains, by what the power says. The larger one counts.
    """
    p = y - r
    if r.size < _ENOUGH or not p.any():
        return 0.0
    curved, deviations = _curvature(p, r)
    gain, moved = (0.0, 0.0) if gross else _power(y, p)
    if gain > _LIKELIER:
        return max(curved, moved)
    return curved if deviations > (_CLEAR_AMONG_GROSS if gross else _CLEAR) else 0.0


def _curvature(p: Float, r: Float) -> tuple[float, float]:
    """The change of length from b2, and b2 over its standard error.

    From small p to the typical one y/p changes by b2 rms(p), and the length of x by half of that.
    """
    X = np.stack([p, p * np.abs(p)], axis=1)
    G = np.linalg.pinv(X.T @ X, hermitian=True)
    b = G @ (X.T @ r)
    leverage = np.einsum("ij,jk,ik->i", X, G, X)
    left = (r - X @ b) / (1 - np.minimum(leverage, _LEVERAGE))
    deviation = float(np.linalg.norm((X @ G[1]) * left))
    return 0.5 * abs(float(b[1])) * _size(p), abs(float(b[1])) / max(deviation, 1e-300)


def _power(y: Float, p: Float) -> tuple[float, float]:
    """G, and the change of length from the likeliest power.

    If the signal has the size of p, ψ(y) is κ p, and y what ψ makes of that: their ratio to p is that of the squared
    lengths.
    """
    if np.unique(y).size < _DISTINCT * y.size:
        return 0.0, 0.0
    c = _LINEAR * _size(y)
    stretch, square = np.log1p(np.abs(y) / c), float(p @ p)

    def fitted(power: float) -> tuple[float, float]:
        """The log likelihood of a power, and κ."""
        changed = np.sign(y) * np.expm1(power * stretch) / power
        slope = float(p @ changed) / square
        variance = max(float(np.mean((changed - slope * p) ** 2)), 1e-300)
        return -0.5 * y.size * float(np.log(variance)) + (power - 1) * float(stretch.sum()), slope

    power = max(_POWERS, key=lambda each: fitted(each)[0])
    likelihood, slope = fitted(power)
    size = _size(p)
    there = c * ((1 + power * abs(slope) * size) ** (1 / power) - 1)
    ratio = float(np.sqrt(size / max(there, 1e-300)))
    return 2 * (likelihood - _unbent(y / c, p)), max(ratio, 1 / ratio) - 1


def _unbent(y: Float, p: Float) -> float:
    """The log likelihood of y = κ p + noise that may grow with p."""
    squares = p**2
    likelihood = -np.inf
    for growth in _GROWTHS:
        shape = 1 + growth * squares / np.mean(squares)
        slope = float(np.sum(p * y / shape)) / float(np.sum(squares / shape))
        variance = max(float(np.mean((y - slope * p) ** 2 / shape)), 1e-300)
        likelihood = max(likelihood, -0.5 * (y.size * float(np.log(variance)) + float(np.log(shape).sum())))
    return likelihood


def _size(values: Float) -> float:
    """The root mean square."""
    return float(np.sqrt(np.mean(values**2)))
