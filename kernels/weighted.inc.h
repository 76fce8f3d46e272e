/* Weighted sums of the measurements of a block, for one level of SIMD and one type STORED of the entries. */

/* Prefetch the cell that is as far `ahead`. */
INLINE void OF(prefetch_cell)(const STORED *P, stream_ahead ahead) {
    prefetch_ahead(P, CELL * sizeof(STORED) / 64, ahead);
}

/* S[k, r] += Σ_l w[l] P[k, r, l] for `count` cells. Where they are not needed again, what comes `next` is given, a line of
   which is prefetched with each of them: the memory would stand idle while these come from the cache. */
INLINE void OF(add_weighted)(
    const STORED *P, ptrdiff_t count, const double *w, double *S, const char *next, stream_ahead ahead) {
    vec w0 = vec_load_f64(w), w1 = vec_load_f64(w + 4);
    for (ptrdiff_t k = 0; k < count; k++, P += CELL, S += GROUP) {
        vec sum[GROUP];
        if (next) PREFETCH(next + 64 * k);
        OF(prefetch_cell)(P, ahead);
        for (int r = 0; r < GROUP; r++)
            sum[r] = vec_fma(vec_load(P + r * LANES), w0, vec_mul(vec_load(P + r * LANES + 4), w1));
        vec_store_f64(S, vec_add(vec_load_f64(S), vec_sums(sum[0], sum[1], sum[2], sum[3])));
    }
}

/* S[k, r] += Σ_l w[l] P[k, r, l] for `count` cells. */
static void OF(packed_weighted)(const STORED *P, ptrdiff_t count, const double *w, double *S, stream_ahead ahead) {
    OF(add_weighted)(P, count, w, S, NULL, ahead);
}

/* The same for cells that were read a moment ago and are not needed again: they leave the cache to those that are, and to
   what comes next. */
static void OF(packed_weighted_again)(
    const STORED *P, ptrdiff_t count, const double *w, double *S, const STORED *next) {
    OF(add_weighted)(P, count, w, S, (const char *)next, (stream_ahead){LINES_AHEAD_AGAIN, 1});
}
