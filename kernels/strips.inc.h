/* Contractions of a strip, the groups of rows first..last-1 of one packed block, as doubles: a tensor that is computed, not
   stored, is made a strip at a time in a buffer that stays in cache. */

/* W[k, l] += Σ_j Ã_l[k, j] x[j] over the entries of the strip and their mirror images. */
static void AT(strip_products)(
    const double *P, ptrdiff_t n, ptrdiff_t first, ptrdiff_t last, const double *x, double *W) {
    for (ptrdiff_t j = GROUP * first; j < GROUP * last; j += GROUP) {
        wide acc[GROUP][PARTS_OF_ENTRY], xj[GROUP];
        for (int r = 0; r < GROUP; r++) {
            for (int h = 0; h < PARTS_OF_ENTRY; h++) acc[r][h] = wide_all(0);
            xj[r] = wide_all(x[j + r]);
        }
        for (ptrdiff_t k = j; k < n; k++, P += CELL) {
            wide xk = wide_all(x[k]);
            int mirrored = k >= j + GROUP; /* the diagonal tile is whole */
            for (int h = 0; h < PARTS_OF_ENTRY; h++) {
                wide w = wide_load_f64(W + k * LANES + WIDE * h);
                for (int r = 0; r < GROUP; r++) {
                    wide a = wide_load_f64(P + r * LANES + WIDE * h);
                    acc[r][h] = wide_fma(a, xk, acc[r][h]);
                    if (mirrored) w = wide_fma(a, xj[r], w);
                }
                wide_store(W + k * LANES + WIDE * h, w);
            }
        }
        for (int r = 0; r < GROUP; r++)
            for (int h = 0; h < PARTS_OF_ENTRY; h++) {
                double *w = W + (j + r) * LANES + WIDE * h;
                wide_store(w, wide_add(wide_load_f64(w), acc[r][h]));
            }
    }
}
