/* A step of Levenberg–Marquardt along a line z + u d: what ‖r‖² is there, and going there. W and V are the products of z
   and of d, (m, s), and the residual is `r + 2u W d + u² V d`. */
#ifndef FASTQUAD_DESCENT_H
#define FASTQUAD_DESCENT_H

#include "simd.h"

#define LEAVES "descent.inc.h"
#include "levels.h"

LEAF(line_terms)
LEAF(line_move)

#endif
