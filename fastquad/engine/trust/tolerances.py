"""The tolerances of the tests of an answer, each with what measured it, or the word guess.

The campaign is `benchmarks/studies/campaign`. Distances are relative to the norm of x; residuals are in units of δ, the
tolerance of each equation; sizes of work were chosen for about 10 ms, the time of a small solve.
"""

from __future__ import annotations

import numpy as np

EPS = float(np.finfo(np.float64).eps)

# -- how far another signal is, and how well it fits -----------------------------------------------------------------

#: Without noise another signal is at least so far away: errors of exact answers are below 1e-6 in the campaign. Guess.
APART = 1e-3
#: It is as many times what rounding leaves open of a coordinate, and at most APART_IN_NOISE away. Guess.
TIMES_ROUNDING = 10.0
#: The same under noise, and in units of the error that the method expects; where A has a structure at most so far.
APART_IN_NOISE, FEW_ERRORS, CLEARLY_ANOTHER = 0.1, 3.0, 0.5
#: The same of a twin by a symmetry of A. Guess.
TWIN_APART = 0.01
#: What another signal may leave without noise, and what it may leave more than x under noise, in squares of δ. Guess.
FITS, LIKELY = 30.0, 30.0
#: The change of the measurements, in δ, by which a change of x by its norm is seen under noise. Guess.
SEEN_IN_NOISE = 10.0
#: The standard deviations of noise by which a change of all measurements together must exceed it to be seen.
NOT_SEEN = 3.0
#: Two draws of mistakes of A differ by so many standard deviations of the logarithm of their mean square.
DRAWS = 3.0
#: The distance up to which a descent in exact data is back at x. Guess.
BACK = 1e-3
#: How far from a line of signals that fit its signals are at the most. Guess.
ON_LINE = 1e-3

# -- steps to another signal -----------------------------------------------------------------------------------------

#: The largest number of steps, each of which doubles the digits; of those, steps to the bottom in noise. Guess.
REFIT, SETTLING = 10, 3
#: The number of open directions along which a witness is looked for. Guess.
WITNESSES = 2
#: The share of y that a moved x may leave for steps from it to be taken. Guess.
NEARLY = 0.1

# -- directions ------------------------------------------------------------------------------------------------------

#: The part of the largest in an open direction from which on a coordinate is named in a sentence.
TAKES_PART = 0.1
#: The ratio of effective measurements to unknowns up to which a few of them determine x. Guess.
EFFECTIVE = 1.2
#: The share of a measurement that is left to judge it by, below which its residual is rounding. Guess.
LEAST_SPARE = 1e-6
#: The values at which one more coordinate is tried, and the most that it may explain by chance, in squares of δ. Guess.
SADDLE_STEPS, SADDLE = 0.01 * 1.2 ** np.arange(26), 30.0
#: Coordinates this many standard errors from zero are no noise, and must have this share of the norm of x. Guess.
SURE, LEAST_SURE = 5.0, 0.5
#: The measurements beyond those on the support that tell zero coordinates from the others. Guess.
SPARE_ROWS = 4
#: The standard errors from zero at which a coordinate is no rounding. Guess.
CLEARLY = 10.0

# -- by the verbs of the Jacobian ------------------------------------------------------------------------------------

#: The singular value of the scaled Jacobian below which a direction is unseen. Of refined vectors those that nothing
#: sees have at most 1e-14, and the least that are seen 1e-7, on grids of up to 13,659 buses.
UNSEEN_BY_VERBS = 1e-11
#: Rounding of a row, in units of eps |x|^T |Ã_i| |x|: of grids of 14 to 13,659 buses descents leave at most 4.
ROUNDED_ROW = 40.0
#: A measurement is critical if its redundancy, 1 − leverage, is below this. On grids of 14 to 2,869 buses critical ones
#: have at most 1e-15, and others nearly always more than 1e-6.
CRITICAL = 1e-8
#: How many critical measurements are looked at for another root, and how many roots are tried. On a grid of 1,354 buses
#: with 300 critical meters 6 of the 8 best were roots. Guess.
CRITICAL_ONES = (48, 6)
#: The share of the values of a random signal that is not in the span of J. Guess.
INDEPENDENT = 1e-4
#: The largest number of vectors for a symmetry, and how clearly none must be one in noise, of 1 on average. Guess.
VECTORS, NO_SYMMETRY = 12, 0.05
#: Random starts, so that a twin that attracts as many as x does is missed in 1 of 256 problems; and the coordinates of
#: all of them: of Pauli strings of 10 qubits 4 starts take 20 s.
STARTS_BY_VERBS = (8, 8192)
#: The distance of another signal of a sparse system. Guess.
PARTS_APART = 0.05
#: The chance below which noise of the given level does not explain what is left. Guess.
UNEXPLAINED = 1e-5

# -- symmetries ------------------------------------------------------------------------------------------------------

#: The relative difference of diagonals below which coordinates may be exchanged: in double and in single precision,
#: and where entries may be mistaken as y is. Between equal ones it is 1e-15 and 1e-7.
ALIKE, ROUNDED_ALIKE, MISTAKEN_ALIKE = 4e-12, 8e-6, 0.06
#: The same as a multiple of the relative residual; and of entries between two coordinates as a multiple. Guess.
HIDDEN, LOOSELY = 300.0, 5.0
#: The square of what rows see of a direction, as a share of the average, below which a twin may lie along it: in double
#: and in single precision. Guess.
UNSEEN, UNSEEN_ROUNDED = 1e-11, 1e-9
#: The share by which rows must see each direction under noise to rule out a twin. Guess.
CLEARLY_SEEN = 0.1
#: The share of a vector's products beside those of x from which on they are more than rounding. Guess.
BEYOND_ROUNDING = 1e-5
#: The largest number of directions of a search among those that the rows do not see, and its starts. Guess.
DIRECTIONS, TWIN_STARTS = 48, 12
#: The relabellings from which steps are taken, of those that nearly fit; the matrices that they must preserve. Guess.
RELABELLINGS, MATRICES = 20, 24
#: The zero coordinates that are compared with each other, or exchanged for others, and the lines that are tried. Guess.
COMPARED, LINES = 16, 4
#: The weakly coupled parts of x that are tried with the other sign: of an answer, and as starts in noise. Guess.
PARTS, TURNED = 6, 16
#: The largest share of such a change that the other values cannot compensate. Guess.
EXPLAINED_BY_OTHERS = 0.1
#: The starts for other values of a few coordinates, and their sizes relative to x there. Guess.
SUBSYSTEM_STARTS, SUBSYSTEM_SIZES = 24, (1.0, 3.0)
#: The share of the largest product that is rounding. Guess.
ROUNDING = 1e-9
#: The measurements to spare of a few coordinates with which noise, above this share of y, does not move x far. Guess.
SPARE_IN_NOISE, SMALL_NOISE = 3, 0.01

# -- descents from other starts --------------------------------------------------------------------------------------

#: The entries that all descents from an exact answer read, where A looks independent and where it does not: bounds of
#: work, of about 10 and 40 ms. With fewer than the first number of them nothing is told. Guess.
REFUTING_WORK, REFUTING_WORK_STRUCTURED, STEPS_OF_A_DESCENT, REFUTING = 1.5e7, 5e7, 30, (4, 32)
#: The descents that come back to x, and none to another signal, after which it is the valley: 98 of 100 planted twins.
ENOUGH_BACK = 12
#: The entries of a block for a look at all coordinates in noise, for descents where A looks independent, and where it
#: does not, so that nothing else speaks for x: bounds of work.
LOOK_ENTRIES, INDEPENDENT_ENTRIES, STRUCTURED_ENTRIES = 2_000_000, 300_000, 8_000_000
#: The random starts in noise, and the entries that all read in a step if they are more than the fewest. Guess.
STARTS, READ_IN_A_STEP = (16, 128), 10_000_000
#: How many descents should come back to x in noise. Guess.
RECAPTURES = 2
#: The evidence from which on a signal fits exactly, which is no fit of the noise: one of 2^20.
EXACT_NATS = 20 * float(np.log(2))
#: The evidence beyond chance, as a multiple of what is needed, from which on a search takes no more time than for an
#: exact answer. Guess.
BEYOND_CHANCE = 2.0
#: The part of a signal that a wrong one near it may leave. Guess.
PART_LEFT = 0.5

# -- what is left ----------------------------------------------------------------------------------------------------

#: The chance below which a test says that what is left is not noise: at most 2 of 2,000 right answers for each test.
ALPHA = 1e-3
#: The relative residual below which what is left is not noise, and too small to be signal: the method just stopped.
FITTED = 1e-6
#: The largest change of the measurements by one more step, in units of what noise does, at the bottom of a valley.
BOTTOM = 0.1

# -- what is a success in noise --------------------------------------------------------------------------------------

#: The largest estimated error of a success: 1 % of true errors exceed twice the estimate, and then stay below .5; and
#: its upper 95 %, above which few directions of x make up the error, so that it may be large.
TRUSTED, TRUSTED_BOUND = 0.25, 0.5
#: The same for m <= n without a given level of noise, where many small coordinates of x may look like noise, and among
#: outliers; and where A has a structure and no level is given: a part of the signal may look like noise, too. Guess.
TRUSTED_OF_FEW, TRUSTED_STRUCTURED = 0.15, 0.1
#: If the error of least squares exceeds that of the method by this factor, some directions are seen less. Guess.
UNEQUALLY_SEEN = 1.5
