/* Contractions of a strip: the groups of rows first..last-1 of one packed block (see packed.h), as doubles.

   A tensor that is computed, not stored, is made a strip at a time in a buffer that stays in cache. */
#ifndef FASTQUAD_STRIPS_H
#define FASTQUAD_STRIPS_H

#include <stdint.h>

#include "packed.h"

/* j, k = row and column of each entry of the strip, in its order; the row is −1 where it lies beyond n. */
static void strip_pairs(ptrdiff_t n, ptrdiff_t first, ptrdiff_t last, int32_t *j, int32_t *k) {
    for (ptrdiff_t g = first; g < last; g++)
        for (ptrdiff_t column = GROUP * g; column < n; column++)
            for (ptrdiff_t row = GROUP * g; row < GROUP * (g + 1); row++, j++, k++) {
                *j = row < n ? (int32_t)row : -1;
                *k = (int32_t)column;
            }
}

/* W[k, l] += Σ_j Ã_l[k, j] x[j] over the entries of the strip and their mirror images. */
CLONES static void strip_products(
    const double *P, ptrdiff_t n, ptrdiff_t first, ptrdiff_t last, const double *x, double *W) {
    for (ptrdiff_t j = GROUP * first; j < GROUP * last; j += GROUP) {
        vec acc[GROUP][2], xj[GROUP];
        for (int r = 0; r < GROUP; r++) {
            acc[r][0] = acc[r][1] = vec_all(0);
            xj[r] = vec_all(x[j + r]);
        }
        for (ptrdiff_t k = j; k < n; k++, P += CELL) {
            vec xk = vec_all(x[k]);
            int mirrored = k >= j + GROUP; /* the diagonal tile is whole */
            for (int h = 0; h < 2; h++) {
                vec w = vec_load_f64(W + k * LANES + 4 * h);
                for (int r = 0; r < GROUP; r++) {
                    vec a = vec_load_f64(P + r * LANES + 4 * h);
                    acc[r][h] = vec_fma(a, xk, acc[r][h]);
                    if (mirrored) w = vec_fma(a, xj[r], w);
                }
                vec_store_f64(W + k * LANES + 4 * h, w);
            }
        }
        for (int r = 0; r < GROUP; r++)
            for (int h = 0; h < 2; h++) {
                double *w = W + (j + r) * LANES + 4 * h;
                vec_store_f64(w, vec_add(vec_load_f64(w), acc[r][h]));
            }
    }
}

#endif
