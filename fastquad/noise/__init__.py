"""What y is: the measurements of the signal, and how they were disturbed.

AMP never fits y itself. Each pass leaves a residual r, corrected so that it behaves like the error of predicting
measurements that were not used; a model of the noise says what to make of it. That is a score:

    score = noise.score(r)
    score.g        −d log p(y_i | prediction)/d prediction, (m,): what each measurement pulls with
    score.alpha    the mean of its derivative
    score.power    mean(g²)/α²: the variance of a measurement as the estimate sees it
    score.tau      the variance of a sound residual that the estimate itself causes, for the memory term
    score.weight   P(the measurement is sound), (m,)

and from these AMP has everything (gain = 1/variance of A's entries):

    S = X + A*(g) gain/(mα),    D = power gain/(2m),    r ← y − A(X) + min(τ, 2|z|² Σv/gain) g.

For Gaussian noise of one unknown σ that is AMP as usual, g = r/τ with τ = mean r², and r and S come of one fused pass;
any other model takes two.
"""

from fastquad.noise.base import Noise, Score
from fastquad.noise.gaussian import Gaussian
from fastquad.noise.outliers import Outliers
from fastquad.noise.unequal import Unequal

__all__ = ["Gaussian", "Noise", "Outliers", "Score", "Unequal"]
