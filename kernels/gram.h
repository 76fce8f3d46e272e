/* The Gram matrix of columns that fit in the second-level cache, and its Cholesky factor: BLAS libraries that do not know a
   new processor fall back to the vectors of an old one, and copy more than they multiply at this size. */
#ifndef FASTQUAD_GRAM_H
#define FASTQUAD_GRAM_H

#include <math.h>
#include "simd.h"

/* Rows of the Gram matrix whose sums are in registers, and vectors of its columns: 12 registers, of 16 at least. */
enum { GRAM_ROWS = 4, GRAM_VECTORS = 3 };

/* The length of a row of W as the kernel wants it, padded with zeros: whole vectors at every level. */
enum { GRAM_MULTIPLE = 8 };

#define LEAVES "gram.inc.h"
#include "levels.h"

LEAF(gram_rows)
LEAF(gram_factor)
LEAF(gram_rest)
LEAF(gram_solve)
LEAF(gram_aside)

#endif
