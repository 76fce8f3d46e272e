"""The tolerances of the tests of an answer: all of this room, each with what measured it, or the word guess.

The campaign is `benchmarks/studies/campaign`. Distances are relative to the norm of x; residuals are in units of δ, the
tolerance of each equation; sizes of work were chosen for about 10 ms, the time of a small solve. A size that serves
several tests serves them because none of them needs another.
"""

from __future__ import annotations

import math

from fastquad.numerics.lapack import EPS as EPS
from fastquad.numerics.levenberg_marquardt import Rule

# -- what is zero ----------------------------------------------------------------------------------------------------

#: A coordinate below this share of the largest is likely to be only rounding; its standard error then decides. Guess.
TINY = 1e-12
#: The square of a direction below which no row sees it: of refined vectors those that nothing sees have at most 1e-14,
#: and the least that are seen 1e-7, on grids of up to 13,659 buses.
UNSEEN = 1e-11
#: The share of a product, of an equation or of a radius that is rounding: the residual of an exact fit. Guess.
ROUNDING = 1e-9
#: The share of x below which a coordinate is zero, of y below which a measurement fits, and of ‖r‖² below which nothing
#: is left; the relative residual below which a method just stopped. Guess.
NOTHING = 1e-6
#: The same where A has single precision, whose rounding is 1e-7.
ROUNDED = 1e-5
#: Rounding of a row, in units of eps |x|^T |Ã_i| |x|: of grids of 14 to 13,659 buses descents leave at most 4.
ROUNDED_ROW = 40.0
#: A measurement is critical if its redundancy, 1 − leverage, is below this. On grids of 14 to 2,869 buses critical ones
#: have at most 1e-15, and others nearly always more than 1e-6.
CRITICAL = 1e-8

# -- how far another signal is, and how well it fits -----------------------------------------------------------------

#: Without noise another signal is at least so far away, and one that is nearer is x: errors of exact answers are below
#: 1e-6 in the campaign. Guess.
APART = 1e-3
#: The same of a twin by a symmetry in noise, and of the end of a descent, of which only a part may differ. Guess.
TWIN_APART = 0.01
#: The same under noise, and at most where A has a structure; a wrong signal leaves at least this part, and an error
#: whose upper 95 % are above it is no success. Guess.
APART_IN_NOISE, CLEARLY_ANOTHER = 0.1, 0.5
#: The standard errors at which a signal is another, at which a change of all measurements is seen, and two draws of
#: mistakes differ: one of 370 is farther by chance.
FEW_ERRORS = 3.0
#: The standard errors of a coordinate from zero that are no noise, and no rounding. Guess.
SURE_ERRORS, CLEARLY = 5.0, 10.0
#: What another signal may leave without noise, in δ; what it may leave more than x under noise, and what one more
#: coordinate may explain by chance, in squares of δ. Guess.
FITS = 30.0
#: A part that counts: of a direction that is named, of a residual from which steps are taken or that a change explains,
#: of a direction that is clearly seen, of what noise does in a last step. Guess.
PART = 0.1
#: The ratio of effective measurements to unknowns up to which a few of them determine x. Guess.
EFFECTIVE = 1.2
#: The share of the values of a random signal, or of W, that is not in the span of J. Guess.
INDEPENDENT = 1e-4

#: The rigidity of a transform from which on it has no symmetry, nor nearly one. Guess.
RIGID = 0.3

# -- symmetries ------------------------------------------------------------------------------------------------------

#: The relative difference of diagonals below which coordinates may be exchanged: in double and in single precision,
#: and where entries may be mistaken as y is. Between equal ones it is 1e-15 and 1e-7.
ALIKE, ROUNDED_ALIKE, MISTAKEN_ALIKE = 4e-12, 8e-6, 0.06
#: The same as a multiple of the relative residual. Guess.
HIDDEN = 300.0
#: How clearly no vector must be a symmetry in noise, of 1 on average. Guess.
NO_SYMMETRY = 0.05

# -- how much is tried: bounds of work -------------------------------------------------------------------------------

#: Of candidates, directions, starts: as many as the cost of one allows. With 12 descents that come back to x, and none
#: to another signal, 98 of 100 planted twins are found; elsewhere guesses. The last: unseen directions of a factor.
FEW, SEVERAL, MANY, MOST, MOST_UNSEEN = 6, 12, 24, 48, 200
#: The steps of a refit, each of which doubles the digits; of those, steps to the bottom in noise, and the measurements
#: to spare of a few coordinates with which noise of more than TWIN_APART of y does not move x far. Guess.
REFIT, SETTLING = 10, 3
#: Measurements to spare, or values to compare, with fewer of which chance fits anything. Guess.
SPARE_ROWS = 8
#: When a descent to another signal ends: in noise, to rounding, and among the signals orthogonal to x. Guess.
CHALLENGE, TO_ROUNDING = Rule(max_steps=40, patience=12, bottom=1e-3), Rule(max_steps=60, patience=12)
BESIDE = Rule(max_steps=12, patience=5)
#: The entries that the steps of all descents from an exact answer read, where A looks independent and where it does
#: not, of about 10 and 40 ms of 30 steps each; the fewest and most of them. Guess.
REFUTING_WORK, REFUTING = (5e5, 1.7e6), (4, 32)
#: The entries of a block for a look at all coordinates in noise, for descents where A looks independent, and where it
#: does not, so that nothing else speaks for x. Guess.
LOOK_ENTRIES, INDEPENDENT_ENTRIES, STRUCTURED_ENTRIES = 2_000_000, 300_000, 8_000_000
#: The random starts in noise, and the entries that all read in a step if they are more than the fewest. Guess.
STARTS, READ_IN_A_STEP = (16, 128), 10_000_000
#: Random starts by verbs, so that a twin that attracts as many as x does is missed in 1 of 256 problems; and the
#: coordinates of all of them: of Pauli strings of 10 qubits 4 starts take 20 s.
STARTS_BY_VERBS = (8, 8192)
#: How many descents should come back to x in noise. Guess.
RECAPTURES = 2
#: The largest size in bytes of a block that is read for the certificate alone, and the largest n of whole matrices, of
#: integer programs and of lifted unknowns; half and four times that for a search for a proof, where an eigenvalue
#: problem takes 30 ms at the most.
BLOCK_BYTES, SMALL_N = 128 << 20, 128

# -- evidence --------------------------------------------------------------------------------------------------------

#: The odds, as a logarithm, below which two explanations cannot be told apart: 20 to 1.
SURE = math.log(20.0)
#: The evidence to spare against chance in noise, as a logarithm; and in bits: chance is the better explanation in less
#: than one of 2^20 problems.
SPARE_NATS, SPARE_BITS = 10.0, 20
#: The bits of a generic real number that is measured to rounding: 52, less what sums of many terms lose; and those of a
#: measurement below which it takes few values. Guess.
GENERIC_BITS, FEW_BITS = 40.0, 10.0
#: The evidence beyond chance, as a multiple of what is needed, from which on a search takes no more time than for an
#: exact answer. Guess.
BEYOND_CHANCE = 2.0
#: How much of the noise another signal takes away, for each of its unknowns: it is the best of many (3,000 problems).
TAKEN = 1.4
#: A proof is asked for from so many measurements per unknown: random real matrices with a known norm have one in 1 of 3
#: cases at 2.25, 2 of 3 at 2.5 and 3 of 3 at 3 (n = 100); where n is small and the norm known it costs little.
PROOF_LIKELY, PROOF_POSSIBLE = 2.2, 1.5

# -- what is left, and what is a success in noise ---------------------------------------------------------------------

#: The chance below which a test says that what is left is not noise: at most 2 of 2,000 right answers for each test.
ALPHA = 1e-3
#: The largest estimated error of a success: 1 % of true errors exceed twice the estimate, and then stay below 0.5. And
#: the share of y that a sparse system may leave where no level is given: more may be a wrong valley.
TRUSTED = 0.25
#: The same for m <= n without a given level of noise, where many small coordinates of x may look like noise, and among
#: outliers; and where A has a structure and no level is given: a part of the signal may look like noise, too. Guess.
TRUSTED_OF_FEW, TRUSTED_STRUCTURED = 0.15, 0.1
#: If the error of least squares exceeds that of the method by this factor, some directions are seen less. Guess.
UNEQUALLY_SEEN = 1.5
