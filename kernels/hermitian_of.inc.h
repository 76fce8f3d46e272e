/* The kernels of hermitian.h for one level of SIMD and one type STORED of the entries; each works on one block of LANES measurements. */

/* sum += h (x + i u) for one entry h at `a`, real part first. */
#define ADD_PRODUCT(a, x, u, sum)                                                                       \
    do {                                                                                                \
        const eight re_ = eight_load(a), im_ = eight_load((a) + LANES);                                    \
        (sum)[0] = eight_fms(im_, u, eight_fma(re_, x, (sum)[0]));                                        \
        (sum)[1] = eight_fma(im_, x, eight_fma(re_, u, (sum)[1]));                                        \
    } while (0)

/* Prefetch the cell that is as far `ahead`. */
INLINE void OF(hermitian_prefetch)(const STORED *P, stream_ahead ahead) {
    prefetch_ahead(P, HERMITIAN_CELL * sizeof(STORED) / 64, ahead);
}

/* sums[r] += Σ_k H[j + r, k] x[k] and W[k] += Σ_r conj(H[j + r, k]) x[j + r] for columns first..last-1 of the group of j, in
   WIDE of the lanes; P, W and sums begin at these. */
INLINE void OF(hermitian_columns)(
    const STORED *P, ptrdiff_t j, ptrdiff_t first, ptrdiff_t last, const double *x, double *W, double *sums,
    stream_ahead ahead) {
    wide acc[GROUP][2], xj[GROUP][2];
    for (int r = 0; r < GROUP; r++)
        for (int c = 0; c < 2; c++) {
            acc[r][c] = wide_load_f64(sums + (2 * r + c) * LANES);
            xj[r][c] = wide_all(x[2 * (j + r) + c]);
        }
    for (ptrdiff_t k = first; k < last; k++, P += HERMITIAN_CELL) {
        const wide xk = wide_all(x[2 * k]), uk = wide_all(x[2 * k + 1]);
        double *w = W + 2 * k * LANES;
        wide re = wide_load_f64(w), im = wide_load_f64(w + LANES);
        OF(hermitian_prefetch)(P, ahead);
        for (int r = 0; r < GROUP; r++) {
            const wide a = wide_load(P + 2 * r * LANES), b = wide_load(P + (2 * r + 1) * LANES);
            acc[r][0] = wide_fms(b, uk, wide_fma(a, xk, acc[r][0]));
            acc[r][1] = wide_fma(b, xk, wide_fma(a, uk, acc[r][1]));
            re = wide_fma(b, xj[r][1], wide_fma(a, xj[r][0], re));
            im = wide_fms(b, xj[r][0], wide_fma(a, xj[r][1], im));
        }
        wide_store(w, re);
        wide_store(w + LANES, im);
    }
    for (int r = 0; r < GROUP; r++)
        for (int c = 0; c < 2; c++) wide_store(sums + (2 * r + c) * LANES, acc[r][c]);
}

/* W[k, c, l] = (H_l x)[k]: one pass over the block, in which an entry is used as H[j, k] and, conjugated, as H[k, j]. */
static void OF(hermitian_products)(const STORED *P, ptrdiff_t n, const double *x, double *W, stream_ahead ahead) {
    const ptrdiff_t strip = EIGHT_PARTS == 1 ? n : HERMITIAN_STRIP;
    memset(W, 0, 2 * padded(n) * LANES * sizeof(double));
    for (ptrdiff_t j = 0; j < n; j += GROUP) {
        double *rows = W + 2 * j * LANES;
        const ptrdiff_t tile_end = j + GROUP < n ? j + GROUP : n;
        for (int r = 0; r < GROUP; r++) { /* the diagonal tile is whole: rows only */
            eight acc[2] = {eight_load_f64(rows + 2 * r * LANES), eight_load_f64(rows + (2 * r + 1) * LANES)};
            for (ptrdiff_t k = j; k < tile_end; k++)
                ADD_PRODUCT(
                    P + (k - j) * HERMITIAN_CELL + 2 * r * LANES, eight_all(x[2 * k]), eight_all(x[2 * k + 1]), acc);
            eight_store(rows + 2 * r * LANES, acc[0]);
            eight_store(rows + (2 * r + 1) * LANES, acc[1]);
        }
        P += (tile_end - j) * HERMITIAN_CELL;
        for (ptrdiff_t k = tile_end, last; k < n; P += (last - k) * HERMITIAN_CELL, k = last) {
            last = k + strip < n ? k + strip : n;
            for (int l = 0; l < LANES; l += WIDE) OF(hermitian_columns)(P + l, j, k, last, x, W + l, rows + l, ahead);
        }
    }
}

/* W[k, c, l] = Σ_{j in S} (H_l[k, j] x_S[j]): only the rows of the support are read. */
static void OF(hermitian_products_on)(
    const STORED *P, ptrdiff_t n, const ptrdiff_t *support, ptrdiff_t s, const double *x, double *W) {
    for (ptrdiff_t k = 0; k < n; k++) {
        eight re = eight_all(0), im = eight_all(0);
        for (ptrdiff_t t = 0; t < s; t++) {
            const STORED *p = P + 2 * entry_at(k, support[t], n) * LANES;
            if (k + 4 < n) PREFETCH(P + 2 * entry_at(k + 4, support[t], n) * LANES);
            const eight a = eight_load(p), b = eight_load(p + LANES), xt = eight_all(x[2 * t]);
            const eight ut = eight_all(k <= support[t] ? x[2 * t + 1] : -x[2 * t + 1]);
            /* (a ± ib)(x + iu), with the sign of b carried by u in the real part */
            re = eight_fms(b, ut, eight_fma(a, xt, re));
            const eight bx = eight_all(k <= support[t] ? x[2 * t] : -x[2 * t]);
            im = eight_fma(b, bx, eight_fma(a, eight_all(x[2 * t + 1]), im));
        }
        eight_store(W + 2 * k * LANES, re);
        eight_store(W + (2 * k + 1) * LANES, im);
    }
}

/* sums[r] += Σ_k H[j + r, k] z[k] for columns first..last-1 of a group, in WIDE of the lanes; P and sums begin at these. */
INLINE void OF(hermitian_row_sums)(const STORED *P, ptrdiff_t first, ptrdiff_t last, const double *z, double *sums) {
    wide acc[GROUP][2];
    for (int r = 0; r < GROUP; r++)
        for (int c = 0; c < 2; c++) acc[r][c] = wide_load_f64(sums + (2 * r + c) * LANES);
    for (ptrdiff_t k = first; k < last; k++, P += HERMITIAN_CELL) {
        const wide zk = wide_all(z[2 * k]), uk = wide_all(z[2 * k + 1]);
        OF(hermitian_prefetch)(P, hermitian_kept());
        for (int r = 0; r < GROUP; r++) {
            const wide a = wide_load(P + 2 * r * LANES), b = wide_load(P + (2 * r + 1) * LANES);
            acc[r][0] = wide_fms(b, uk, wide_fma(a, zk, acc[r][0]));
            acc[r][1] = wide_fma(b, zk, wide_fma(a, uk, acc[r][1]));
        }
    }
    for (int r = 0; r < GROUP; r++)
        for (int c = 0; c < 2; c++) wide_store(sums + (2 * r + c) * LANES, acc[r][c]);
}

/* q[l] = <H_l, zz^* + diag(v)> */
static void OF(hermitian_quadratic)(
    const STORED *P, ptrdiff_t n, const double *z, const double *v, double *q) {
    const ptrdiff_t strip = EIGHT_PARTS == 1 ? n : HERMITIAN_STRIP;
    eight total = eight_all(0);
    for (ptrdiff_t j = 0; j < n; j += GROUP) {
        double sums[2 * CELL];
        const ptrdiff_t tile_end = j + GROUP < n ? j + GROUP : n;
        for (int r = 0; r < GROUP; r++) {
            eight acc[2] = {eight_all(0), eight_all(0)};
            for (ptrdiff_t k = j; k < tile_end; k++) /* half, because the rest of the row counts twice */
                ADD_PRODUCT(
                    P + (k - j) * HERMITIAN_CELL + 2 * r * LANES, eight_all(z[2 * k] / 2), eight_all(z[2 * k + 1] / 2), acc);
            eight_store(sums + 2 * r * LANES, acc[0]);
            eight_store(sums + (2 * r + 1) * LANES, acc[1]);
        }
        for (ptrdiff_t k = j; k < tile_end; k++, P += HERMITIAN_CELL)
            total = eight_fma(eight_load(P + 2 * (k - j) * LANES), eight_all(v[k]), total);
        for (ptrdiff_t k = tile_end, last; k < n; P += (last - k) * HERMITIAN_CELL, k = last) {
            last = k + strip < n ? k + strip : n;
            for (int l = 0; l < LANES; l += WIDE) OF(hermitian_row_sums)(P + l, k, last, z, sums + l);
        }
        for (int r = 0; r < 2 * GROUP; r++)
            total = eight_fma(eight_load_f64(sums + r * LANES), eight_all(2 * z[2 * j + r]), total);
    }
    eight_store(q, total);
}

/* out[l, t, u] = H_l[rows[t], cols[u]], complex numbers. */
static void OF(hermitian_block)(
    const STORED *P, ptrdiff_t n, ptrdiff_t lanes, const ptrdiff_t *rows, ptrdiff_t s, const ptrdiff_t *cols, ptrdiff_t t,
    double *out) {
    for (ptrdiff_t j = 0; j < s; j++)
        for (ptrdiff_t k = 0; k < t; k++) {
            const STORED *a = P + 2 * entry_at(rows[j], cols[k], n) * LANES;
            const double sign = rows[j] <= cols[k] ? 1 : -1;
            for (ptrdiff_t l = 0; l < lanes; l++) {
                out[2 * ((l * s + j) * t + k)] = a[l];
                out[2 * ((l * s + j) * t + k) + 1] = sign * a[LANES + l];
            }
        }
}

/* out[l, t, k] = H_l[support[t], k] for all k, complex numbers in the type of the entries. */
static void OF(hermitian_rows)(
    const STORED *P, ptrdiff_t n, ptrdiff_t lanes, const ptrdiff_t *support, ptrdiff_t s, STORED *out) {
    for (ptrdiff_t t = 0; t < s; t++)
        for (ptrdiff_t k = 0; k < n; k++) {
            const STORED *a = P + 2 * entry_at(support[t], k, n) * LANES;
            const STORED sign = support[t] <= k ? (STORED)1 : (STORED)-1;
            for (ptrdiff_t l = 0; l < lanes; l++) {
                out[2 * ((l * s + t) * n + k)] = a[l];
                out[2 * ((l * s + t) * n + k) + 1] = sign * a[LANES + l];
            }
        }
}

#define SOURCE double
#define FROM(f) OF(f##_from_f64)
#include "hermitian_pack.inc.h"
#undef SOURCE
#undef FROM

#define SOURCE float
#define FROM(f) OF(f##_from_f32)
#include "hermitian_pack.inc.h"
#undef SOURCE
#undef FROM

#undef ADD_PRODUCT
