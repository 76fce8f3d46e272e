/* Standard normal entries of any tensor, made when they are asked for: a function of (seed, i, j, k) alone.

   BITS. The block cipher Threefry-4x32 with 20 rounds (Salmon, Moraes, Dror, Shaw, "Parallel random numbers: as easy as
   1, 2, 3", 2011), with the key (seed, 0, 0) and the counter (k, j, i / 4, 0), j <= k, gives four words of 32 bits: one
   each for the measurements 4 (i / 4) + 0..3.

   NORMALS. Two words (a, b) become two normals by Box and Muller. With u = (a + ½) / 2^32 the radius is
   sqrt(−2 ln u); 30 bits of b are an angle φ in (0, π/2) and the other two are signs. With φ = π/4 + t,

       sqrt(−2 ln u) cos φ = sqrt(−ln u) (cos t − sin t),      sqrt(−2 ln u) sin φ = sqrt(−ln u) (cos t + sin t).

   −ln u is taken from v = min(u, 1 − u), which keeps its relative precision at both ends: as −ln v with v = m 2^e for
   u < ½, as −ln(1 − v) for u > ½, both by ln((1 + s)/(1 − s)) = 2 atanh s with |s| <= 1/3. The polynomials are minimax,
   to 4e-9 and better, far below a float's rounding.

   SAME BITS EVERYWHERE. Only integer operations, and + − × / sqrt of floats, each rounded as IEEE 754 says. This file
   must be compiled without contraction to fused multiply-add (see setup.py): then every machine gets the same bits.
   Plain loops over AT_ONCE pairs, in 32-bit lanes, which compilers turn into vectors; both branches of a choice are
   computed, and bits are selected. */
#ifndef FASTQUAD_GAUSSIAN_H
#define FASTQUAD_GAUSSIAN_H

#include <math.h>
#include <stdint.h>

#include "layout.h"

/* Pairs (j, k) that are handled at once, for LANES measurements each. */
enum { AT_ONCE = 16 };

/* Variance ½ off the diagonal: the symmetric part of a matrix with independent standard normal entries. */
#define OFF_DIAGONAL 0.707106781f

#define LEAVES "gaussian.inc.h"
#include "levels.h"

LEAF(gaussian_fill)
LEAF(threefry_one)

#endif
