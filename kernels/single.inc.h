/* The contractions of packed.h that run in float, for one level of SIMD and one type STORED of the entries: float or
   16-bit float. Their sums go to double every FLUSH products. */

/* W[l] += sum[l], in double. */
INLINE void OF(flush)(double *W, const singles *sum) {
    float values[LANES];
    for (int h = 0; h < SINGLE_PARTS; h++) singles_store(values + SINGLES * h, sum[h]);
    for (int h = 0; h < PARTS_OF_ENTRY; h++)
        wide_store(W + WIDE * h, wide_add(wide_load_f64(W + WIDE * h), wide_load_f32(values + WIDE * h)));
}

/* W[j + r] += Σ_k Ã[j + r, k] x[k] and sums[k] += Σ_r Ã[j + r, k] x[j + r] for columns first..last-1 of the group of j. */
INLINE void OF(columns_single)(
    const STORED *P, ptrdiff_t j, ptrdiff_t first, ptrdiff_t last, const float *x, float *sums, double *W,
    stream_ahead ahead) {
    singles acc[GROUP][SINGLE_PARTS], xj[GROUP];
    for (int r = 0; r < GROUP; r++) {
        for (int h = 0; h < SINGLE_PARTS; h++) acc[r][h] = singles_all(0);
        xj[r] = singles_all(x[j + r]);
    }
    for (ptrdiff_t k = first; k < last; k++, P += CELL) {
        singles xk = singles_all(x[k]);
        OF(prefetch_cell)(P, ahead);
        for (int h = 0; h < SINGLE_PARTS; h++) {
            singles sum = singles_load_f32(sums + k * LANES + SINGLES * h);
            for (int r = 0; r < GROUP; r++) {
                singles a = singles_load(P + r * LANES + SINGLES * h);
                acc[r][h] = singles_fma(a, xk, acc[r][h]);
                sum = singles_fma(a, xj[r], sum);
            }
            singles_store(sums + k * LANES + SINGLES * h, sum);
        }
    }
    for (int r = 0; r < GROUP; r++) OF(flush)(W + (j + r) * LANES, acc[r]);
}

/* W[l] += the sums of a column. */
INLINE void OF(flush_sums)(double *W, const float *sums) {
    singles sum[SINGLE_PARTS];
    for (int h = 0; h < SINGLE_PARTS; h++) sum[h] = singles_load_f32(sums + SINGLES * h);
    OF(flush)(W, sum);
}

/* W[k, l] = Σ_j Ã_l[k, j] x[j] in float: one pass over the block; `sums` is scratch for padded(n) × LANES floats. */
static void OF(packed_products_single)(
    const STORED *P, ptrdiff_t n, const float *x, float *sums, double *W, stream_ahead ahead) {
    memset(W, 0, padded(n) * LANES * sizeof(double));
    for (ptrdiff_t j0 = 0; j0 < n; j0 += FLUSH) {
        memset(sums + j0 * LANES, 0, (n - j0) * LANES * sizeof(float));
        for (ptrdiff_t j = j0; j < n && j < j0 + FLUSH; j += GROUP) {
            ptrdiff_t tile_end = j + GROUP < n ? j + GROUP : n;
            for (int r = 0; r < GROUP; r++) { /* the diagonal tile is whole: rows only */
                singles acc[SINGLE_PARTS];
                for (int h = 0; h < SINGLE_PARTS; h++) {
                    acc[h] = singles_all(0);
                    for (ptrdiff_t k = j; k < tile_end; k++)
                        acc[h] = singles_fma(
                            singles_load(P + (k - j) * CELL + r * LANES + SINGLES * h), singles_all(x[k]), acc[h]);
                }
                OF(flush)(W + (j + r) * LANES, acc);
            }
            P += (tile_end - j) * CELL;
            for (ptrdiff_t k = tile_end, last; k < n; k = last) {
                last = k + FLUSH < n ? k + FLUSH : n;
                OF(columns_single)(P, j, k, last, x, sums, W, ahead);
                P += (last - k) * CELL;
            }
        }
        for (ptrdiff_t k = j0; k < n; k++) OF(flush_sums)(W + k * LANES, sums + k * LANES);
    }
}

/* total[l] = Σ_k Σ_r 2 z[j + r] Ã[j + r, k] z[k] for columns first..last-1 of the group of j, added in double. */
INLINE void OF(columns_quadratic)(
    const STORED *P, ptrdiff_t j, ptrdiff_t first, ptrdiff_t last, const float *z, double *total) {
    singles acc[GROUP][SINGLE_PARTS], sum[SINGLE_PARTS];
    for (int r = 0; r < GROUP; r++)
        for (int h = 0; h < SINGLE_PARTS; h++) acc[r][h] = singles_all(0);
    for (ptrdiff_t k = first; k < last; k++, P += CELL) {
        singles zk = singles_all(z[k]);
        OF(prefetch_cell)(P, ahead_kept());
        for (int r = 0; r < GROUP; r++)
            for (int h = 0; h < SINGLE_PARTS; h++)
                acc[r][h] = singles_fma(singles_load(P + r * LANES + SINGLES * h), zk, acc[r][h]);
    }
    for (int h = 0; h < SINGLE_PARTS; h++) {
        sum[h] = singles_all(0);
        for (int r = 0; r < GROUP; r++) sum[h] = singles_fma(acc[r][h], singles_all(2 * z[j + r]), sum[h]);
    }
    OF(flush)(total, sum);
}

/* q[l] = <Ã_l, zz^T + diag(v)> in float; z and v are padded. */
static void OF(packed_quadratic_single)(const STORED *P, ptrdiff_t n, const float *z, const float *v, double *q) {
    memset(q, 0, LANES * sizeof(double));
    for (ptrdiff_t j = 0; j < n; j += GROUP) {
        ptrdiff_t tile_end = j + GROUP < n ? j + GROUP : n;
        singles sum[SINGLE_PARTS];
        for (int h = 0; h < SINGLE_PARTS; h++) sum[h] = singles_all(0);
        for (ptrdiff_t k = j; k < tile_end; k++, P += CELL)
            for (int h = 0; h < SINGLE_PARTS; h++) {
                sum[h] = singles_fma(singles_load(P + (k - j) * LANES + SINGLES * h), singles_all(v[k]), sum[h]);
                for (int r = 0; r < GROUP; r++)
                    sum[h] = singles_fma(singles_load(P + r * LANES + SINGLES * h), singles_all(z[j + r] * z[k]), sum[h]);
            }
        OF(flush)(q, sum);
        for (ptrdiff_t k = tile_end, last; k < n; k = last) {
            last = k + FLUSH < n ? k + FLUSH : n;
            OF(columns_quadratic)(P, j, k, last, z, q);
            P += (last - k) * CELL;
        }
    }
}

/* S[k, r] += Σ_l w[l] P[k, r, l] for `count` cells, each sum in float; these were read a moment ago, and where they are not
   needed again, what comes `next` is given, as in weighted.inc.h. */
static void OF(packed_weighted_single)(
    const STORED *P, ptrdiff_t count, const float *w, double *S, const STORED *next) {
    const stream_ahead ahead = {LINES_AHEAD_AGAIN, next != NULL};
    singles weight[SINGLE_PARTS];
    for (int h = 0; h < SINGLE_PARTS; h++) weight[h] = singles_load_f32(w + SINGLES * h);
    for (ptrdiff_t k = 0; k < count; k++, P += CELL, S += GROUP) {
        singles sum[GROUP];
        if (next) PREFETCH((const char *)next + 64 * k);
        OF(prefetch_cell)(P, ahead);
        for (int r = 0; r < GROUP; r++) {
            sum[r] = singles_mul(singles_load(P + r * LANES), weight[0]);
            for (int h = 1; h < SINGLE_PARTS; h++)
                sum[r] = singles_fma(singles_load(P + r * LANES + SINGLES * h), weight[h], sum[r]);
        }
        vec_store_f64(S, vec_add(vec_load_f64(S), singles_sums(sum)));
    }
}
