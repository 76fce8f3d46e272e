/* The kernels of hermitian.h for one level of SIMD and one type STORED of the entries; each works on one block of LANES measurements. */

/* sum += h (x + i u) for one entry h at `a`, real part first. */
#define ADD_PRODUCT(a, x, u, sum)                                                                       \
    do {                                                                                                \
        const eight re_ = eight_load(a), im_ = eight_load((a) + LANES);                                    \
        (sum)[0] = eight_fms(im_, u, eight_fma(re_, x, (sum)[0]));                                        \
        (sum)[1] = eight_fma(im_, x, eight_fma(re_, u, (sum)[1]));                                        \
    } while (0)

/* W[k, c, l] = (H_l x)[k]: one pass over the block, in which an entry is used as H[j, k] and, conjugated, as H[k, j]. */
static void OF(hermitian_products)(const STORED *P, ptrdiff_t n, const double *x, double *W) {
    memset(W, 0, 2 * padded(n) * LANES * sizeof(double));
    for (ptrdiff_t j = 0; j < n; j += GROUP) {
        eight acc[GROUP][2], xj[GROUP][2];
        for (int r = 0; r < GROUP; r++)
            for (int c = 0; c < 2; c++) {
                acc[r][c] = eight_all(0);
                xj[r][c] = eight_all(x[2 * (j + r) + c]);
            }
        ptrdiff_t tile_end = j + GROUP < n ? j + GROUP : n;
        for (ptrdiff_t k = j; k < tile_end; k++, P += HERMITIAN_CELL) { /* the diagonal tile is whole: rows only */
            const eight xk = eight_all(x[2 * k]), uk = eight_all(x[2 * k + 1]);
            for (int r = 0; r < GROUP; r++) ADD_PRODUCT(P + 2 * r * LANES, xk, uk, acc[r]);
        }
        for (ptrdiff_t k = tile_end; k < n; k++, P += HERMITIAN_CELL) {
            const eight xk = eight_all(x[2 * k]), uk = eight_all(x[2 * k + 1]);
            double *w = W + 2 * k * LANES;
            eight re = eight_load_f64(w), im = eight_load_f64(w + LANES);
            for (int line = 0; line < (int)(HERMITIAN_CELL * sizeof(STORED) / 64); line++)
                PREFETCH((const char *)P + 64 * (lines_ahead + line));
            for (int r = 0; r < GROUP; r++) {
                const eight a = eight_load(P + 2 * r * LANES), b = eight_load(P + (2 * r + 1) * LANES);
                acc[r][0] = eight_fms(b, uk, eight_fma(a, xk, acc[r][0]));
                acc[r][1] = eight_fma(b, xk, eight_fma(a, uk, acc[r][1]));
                re = eight_fma(b, xj[r][1], eight_fma(a, xj[r][0], re));
                im = eight_fms(b, xj[r][0], eight_fma(a, xj[r][1], im));
            }
            eight_store(w, re);
            eight_store(w + LANES, im);
        }
        for (int r = 0; r < GROUP; r++)
            for (int c = 0; c < 2; c++) {
                double *w = W + (2 * (j + r) + c) * LANES;
                eight_store(w, eight_add(eight_load_f64(w), acc[r][c]));
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

/* q[l] = <H_l, zz^* + diag(v)> */
static void OF(hermitian_quadratic)(
    const STORED *P, ptrdiff_t n, const double *z, const double *v, double *q) {
    eight total = eight_all(0);
    for (ptrdiff_t j = 0; j < n; j += GROUP) {
        eight acc[GROUP][2];
        for (int r = 0; r < GROUP; r++) acc[r][0] = acc[r][1] = eight_all(0);
        ptrdiff_t tile_end = j + GROUP < n ? j + GROUP : n;
        for (ptrdiff_t k = j; k < tile_end; k++, P += HERMITIAN_CELL) {
            /* half, because the rest of the row counts twice */
            const eight zk = eight_all(z[2 * k] / 2), uk = eight_all(z[2 * k + 1] / 2);
            total = eight_fma(eight_load(P + 2 * (k - j) * LANES), eight_all(v[k]), total);
            for (int r = 0; r < GROUP; r++) ADD_PRODUCT(P + 2 * r * LANES, zk, uk, acc[r]);
        }
        for (ptrdiff_t k = tile_end; k < n; k++, P += HERMITIAN_CELL) {
            const eight zk = eight_all(z[2 * k]), uk = eight_all(z[2 * k + 1]);
            for (int line = 0; line < (int)(HERMITIAN_CELL * sizeof(STORED) / 64); line++)
                PREFETCH((const char *)P + 64 * (lines_ahead + line));
            for (int r = 0; r < GROUP; r++) ADD_PRODUCT(P + 2 * r * LANES, zk, uk, acc[r]);
        }
        for (int r = 0; r < GROUP; r++)
            for (int c = 0; c < 2; c++) total = eight_fma(acc[r][c], eight_all(2 * z[2 * (j + r) + c]), total);
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
