/* Kernels on the packed layout of Hermitian matrices, for entries stored as double or float.

   LAYOUT. As in layout.h, with two numbers an entry: the real part in all 8 measurements, then the imaginary one,

       P[(2 e + c) * 8 + l],    e = entry_at(j, k), c = 0: Re H_l[j, k], c = 1: Im H_l[j, k],    j <= k.

   So a matrix takes n² reals and a few more, half of what it takes as an array. In the diagonal tiles the mirrored
   entries stand too, conjugated. Sums over measurements do not see what an entry means: those are the kernels of packed.h.

   Signals are interleaved (Re, Im), padded to 2 n4 numbers; everything is accumulated in double, in vectors over all 8
   measurements. */
#ifndef FASTQUAD_HERMITIAN_H
#define FASTQUAD_HERMITIAN_H

#include "layout.h"

/* Numbers of a cell: 4 rows of one column, real and imaginary parts. */
enum { HERMITIAN_CELL = 2 * CELL };

/* Columns of which the lanes are taken one vector after the other, where an entry is more than one vector: sums stay in
   registers, and 8 kB of doubles in the first-level cache. */
enum { HERMITIAN_STRIP = 16 };

/* Cache lines between what is used and what is prefetched. On a Zen 5 core the pass reads complex128 at 0.67 of the best
   reading loop with 8 lines, 0.80 with 48 and 0.85 with 128, complex64 at 0.57, 0.73 and 0.84; with AVX2 alone 0.54, 0.66
   and 0.90, and 0.42, 0.60 and 0.71. */
enum { HERMITIAN_AHEAD = 128 };

INLINE stream_ahead hermitian_kept(void) { return (stream_ahead){HERMITIAN_AHEAD, 0}; }

/* Rows and columns that are packed at once: 32 kB of complex128 in each of 8 matrices, with the mirror image. */
enum { HERMITIAN_SQUARE = 16 };

/* Each of these names stands for that of the level which is being compiled; see simd.h. */
#define eight AT(eight_)
#define EIGHT_PARTS AT(EIGHT_PARTS_)
#define wide_fms AT(wide_fms_)
#define eight_load_f64 AT(eight_load_f64_)
#define eight_load_f32 AT(eight_load_f32_)
#define eight_store AT(eight_store_)
#define eight_all AT(eight_all_)
#define eight_fma AT(eight_fma_)
#define eight_fms AT(eight_fms_)
#define eight_add AT(eight_add_)

#define LEAVES "hermitian.inc.h"
#include "levels.h"

#define LEAF_OF_BOTH(f) LEAF(f##_f64) LEAF(f##_f32)
LEAF(lanes_apart)
LEAF_OF_BOTH(hermitian_products)
LEAF_OF_BOTH(hermitian_products_on)
LEAF_OF_BOTH(hermitian_quadratic)
LEAF_OF_BOTH(hermitian_block)
LEAF_OF_BOTH(hermitian_rows)
LEAF_OF_BOTH(hermitian_pack_from_f64)
LEAF_OF_BOTH(hermitian_pack_from_f32)
LEAF_OF_BOTH(complex_sides)
LEAF_OF_BOTH(complex_quadratic)
LEAF_OF_BOTH(packed_weighted_again)

/* out[l, 2k + c] = W[k, c, l] for k < n and l < lanes: one row of complex numbers a measurement. */
static void hermitian_apart(const double *W, ptrdiff_t n, ptrdiff_t lanes, double *out) {
    lanes_apart(W, 2 * n, lanes, out);
}

#endif
