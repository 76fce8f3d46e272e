/* The kernels of packed.h for one type REAL of the stored entries; each works on one block of LANES measurements. */

/* W[k, l] = Σ_j Ã_l[k, j] x[j]: one pass over the block. */
CLONES static void NAME(packed_products)(const REAL *P, ptrdiff_t n, const double *x, double *W) {
    memset(W, 0, padded(n) * LANES * sizeof(double));
    for (ptrdiff_t j = 0; j < n; j += GROUP) {
        vec acc[GROUP][2], xj[GROUP];
        for (int r = 0; r < GROUP; r++) {
            acc[r][0] = acc[r][1] = vec_all(0);
            xj[r] = vec_all(x[j + r]);
        }
        ptrdiff_t tile_end = j + GROUP < n ? j + GROUP : n;
        for (ptrdiff_t k = j; k < tile_end; k++, P += CELL) /* the diagonal tile is whole: rows only */
            for (int r = 0; r < GROUP; r++)
                for (int h = 0; h < 2; h++)
                    acc[r][h] = vec_fma(vec_load(P + r * LANES + 4 * h), vec_all(x[k]), acc[r][h]);
        for (ptrdiff_t k = tile_end; k < n; k++, P += CELL) {
            vec xk = vec_all(x[k]);
            for (int line = 0; line < (int)(CELL * sizeof(REAL) / 64); line++)
                PREFETCH_FAR((const char *)P + 64 * (AHEAD + line));
            for (int h = 0; h < 2; h++) {
                vec w = vec_load_f64(W + k * LANES + 4 * h);
                for (int r = 0; r < GROUP; r++) {
                    vec a = vec_load(P + r * LANES + 4 * h);
                    acc[r][h] = vec_fma(a, xk, acc[r][h]);
                    w = vec_fma(a, xj[r], w);
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

/* The entries (j, 4h..4h+3) of a block, `step` apart: side by side above the group of j, a cell apart in it. */
INLINE const REAL *NAME(quad)(const REAL *P, ptrdiff_t n, ptrdiff_t j, ptrdiff_t h, ptrdiff_t *step) {
    ptrdiff_t g = j / GROUP;
    *step = h < g ? LANES : CELL;
    if (h < g) return P + (group_offset(h, n) + GROUP * (j - GROUP * h)) * LANES;
    return P + (group_offset(g, n) + GROUP * GROUP * (h - g) + j % GROUP) * LANES;
}

/* Ask for the entries (j, 4h..4h+3) of a block for all j in S: their cache lines are too scattered for the machine to
   guess them. */
INLINE void NAME(prefetch_quads)(const REAL *P, ptrdiff_t n, const ptrdiff_t *support, ptrdiff_t s, ptrdiff_t h) {
    for (ptrdiff_t t = 0; t < s; t++) {
        ptrdiff_t step;
        const REAL *a = NAME(quad)(P, n, support[t], h, &step);
        if (step == CELL)
            for (int i = 0; i < GROUP; i++) PREFETCH(a + i * CELL);
        else
            for (int line = 0; line < (int)(CELL * sizeof(REAL)); line += 64) PREFETCH((const char *)a + line);
    }
}

/* W[4h + i, l] = Σ_{j in S} Ã_l[4h + i, j] x_S[j] for i < count. */
INLINE void NAME(sum_quads)(
    const REAL *P, ptrdiff_t n, const ptrdiff_t *support, ptrdiff_t s, const double *x, ptrdiff_t h, int count, double *W) {
    vec acc[GROUP][2];
    for (int i = 0; i < count; i++) acc[i][0] = acc[i][1] = vec_all(0);
    for (ptrdiff_t t = 0; t < s; t++) {
        ptrdiff_t step;
        const REAL *a = NAME(quad)(P, n, support[t], h, &step);
        vec xt = vec_all(x[t]);
        for (int i = 0; i < count; i++, a += step)
            for (int v = 0; v < 2; v++) acc[i][v] = vec_fma(vec_load(a + 4 * v), xt, acc[i][v]);
    }
    for (int i = 0; i < count; i++)
        for (int v = 0; v < 2; v++) vec_store_f64(W + (GROUP * h + i) * LANES + 4 * v, acc[i][v]);
}

/* W[k, l] = Σ_{j in S} Ã_l[k, j] x_S[j]: only the rows of the support are read, four columns of all of them at a time,
   while the next ones are asked for, at last those of the next block. */
CLONES static void NAME(packed_products_on)(
    const REAL *P, ptrdiff_t n, const ptrdiff_t *support, ptrdiff_t s, const double *x, double *W) {
    const REAL *next_block = P + block_entries(n) * LANES;
    ptrdiff_t whole = n / GROUP, quads = padded(n) / GROUP, ahead = 1 + 9 / s; /* 40 lines or so */
    for (ptrdiff_t h = 0; h < quads; h++) {
        if (h + ahead < quads) NAME(prefetch_quads)(P, n, support, s, h + ahead);
        else NAME(prefetch_quads)(next_block, n, support, s, h + ahead - quads);
        if (h < whole) NAME(sum_quads)(P, n, support, s, x, h, GROUP, W);
        else NAME(sum_quads)(P, n, support, s, x, h, (int)(n % GROUP), W);
    }
}

/* tile[v] = P[v] as double for `count` columns. */
INLINE void NAME(load_tile)(const REAL *P, ptrdiff_t count, double *tile) {
    for (ptrdiff_t v = 0; v < count * CELL; v += 4) vec_store_f64(tile + v, vec_load(P + v));
}

/* Ask for one lane's share of the `count` columns at P, while the lane before them is computed. */
INLINE void NAME(prefetch_share)(const REAL *P, ptrdiff_t count, int lane) {
    const char *line = (const char *)(P + lane * count * GROUP), *end = (const char *)(P + (lane + 1) * count * GROUP);
    for (; line < end; line += 64) PREFETCH(line);
}

/* W[l, k, s] = Σ_j Ã_l[k, j] x[j, s] for b signals (a multiple of 4). Tiles of columns, so that each entry is fetched
   once and used 2 b times from the L1 cache; `tile` holds one tile as doubles. */
CLONES static void NAME(packed_products_batch)(
    const REAL *P, ptrdiff_t n, const double *x, ptrdiff_t b, double *tile, double *W) {
    ptrdiff_t lane = padded(n) * b;
    memset(W, 0, LANES * lane * sizeof(double));
    for (ptrdiff_t k0 = 0; k0 < n; k0 += TILE) {
        ptrdiff_t k1 = k0 + TILE < n ? k0 + TILE : n;
        for (ptrdiff_t j = 0; j < k1; j += GROUP) {
            ptrdiff_t start = j > k0 ? j : k0, count = k1 - start;
            const REAL *a = P + (group_offset(j / GROUP, n) + GROUP * (start - j)) * LANES;
            NAME(load_tile)(a, count, tile);
            /* The diagonal tile is whole, so its mirror image is in it already. */
            ptrdiff_t skip = start > j ? 0 : count < GROUP ? count : GROUP;
            for (int l = 0; l < LANES; l++) {
                double *w = W + l * lane;
                NAME(prefetch_share)(a + (n - j - GROUP) * CELL, count, l); /* the same columns of the next group */
                rows_times_all(tile + l, CELL, LANES, count, x + start * b, b, w + j * b);
                columns_times_all(tile + skip * CELL + l, count - skip, x + j * b, b, w + (start + skip) * b);
            }
        }
    }
}

/* C[l] = U^T T_l U, b columns (a multiple of 4), with T the upper triangle and half the diagonal tiles, so that
   U^T Ã U = C + C^T for half the work. `rows` holds T U for TILE rows of each lane. */
CLONES static void NAME(packed_compress)(
    const REAL *P, ptrdiff_t n, const double *U, ptrdiff_t b, double *tile, double *rows, double *C) {
    memset(C, 0, LANES * b * b * sizeof(double));
    for (ptrdiff_t j0 = 0; j0 < padded(n); j0 += TILE) {
        ptrdiff_t j1 = j0 + TILE < padded(n) ? j0 + TILE : padded(n), lane = (j1 - j0) * b;
        memset(rows, 0, LANES * lane * sizeof(double));
        for (ptrdiff_t j = j0; j < j1; j += GROUP)
            for (ptrdiff_t k = j; k < n; k += TILE) {
                ptrdiff_t count = n - k < TILE ? n - k : TILE;
                const REAL *a = P + (group_offset(j / GROUP, n) + GROUP * (k - j)) * LANES;
                NAME(load_tile)(a, count, tile);
                for (ptrdiff_t v = 0; k == j && v < GROUP * CELL; v++) tile[v] /= 2;
                for (int l = 0; l < LANES; l++) {
                    NAME(prefetch_share)(a + TILE * CELL, count, l);
                    rows_times_all(tile + l, CELL, LANES, count, U + k * b, b, rows + l * lane + (j - j0) * b);
                }
            }
        for (int l = 0; l < LANES; l++)
            for (ptrdiff_t q = 0; q < b; q += GROUP)
                rows_times_all(U + j0 * b + q, b, 1, j1 - j0, rows + l * lane, b, C + (l * b + q) * b);
    }
}

/* q[l] = <Ã_l, zz^T + diag(v)> */
CLONES static void NAME(packed_quadratic)(const REAL *P, ptrdiff_t n, const double *z, const double *v, double *q) {
    vec total[2] = {vec_all(0), vec_all(0)};
    for (ptrdiff_t j = 0; j < n; j += GROUP) {
        vec acc[GROUP][2];
        for (int r = 0; r < GROUP; r++) acc[r][0] = acc[r][1] = vec_all(0);
        ptrdiff_t tile_end = j + GROUP < n ? j + GROUP : n;
        for (ptrdiff_t k = j; k < tile_end; k++, P += CELL) {
            ptrdiff_t d = k - j;
            for (int h = 0; h < 2; h++) {
                total[h] = vec_fma(vec_load(P + d * LANES + 4 * h), vec_all(v[k]), total[h]);
                for (int r = 0; r < GROUP; r++) /* half, because the rest of the row counts twice */
                    acc[r][h] = vec_fma(vec_load(P + r * LANES + 4 * h), vec_all(z[k] / 2), acc[r][h]);
            }
        }
        for (ptrdiff_t k = tile_end; k < n; k++, P += CELL) {
            vec zk = vec_all(z[k]);
            for (int line = 0; line < (int)(CELL * sizeof(REAL) / 64); line++)
                PREFETCH_FAR((const char *)P + 64 * (AHEAD + line));
            for (int r = 0; r < GROUP; r++)
                for (int h = 0; h < 2; h++) acc[r][h] = vec_fma(vec_load(P + r * LANES + 4 * h), zk, acc[r][h]);
        }
        for (int r = 0; r < GROUP; r++)
            for (int h = 0; h < 2; h++) total[h] = vec_fma(acc[r][h], vec_all(2 * z[j + r]), total[h]);
    }
    for (int h = 0; h < 2; h++) vec_store_f64(q + 4 * h, total[h]);
}

/* S[k, r] += Σ_l w[l] P[k, r, l] for `count` cells. */
CLONES static void NAME(packed_weighted)(const REAL *P, ptrdiff_t count, const double *w, double *S) {
    vec w0 = vec_load_f64(w), w1 = vec_load_f64(w + 4);
    for (ptrdiff_t k = 0; k < count; k++, P += CELL, S += GROUP) {
        vec sum[GROUP];
        for (int line = 0; line < (int)(CELL * sizeof(REAL) / 64); line++)
            PREFETCH_FAR((const char *)P + 64 * (AHEAD + line));
        for (int r = 0; r < GROUP; r++)
            sum[r] = vec_fma(vec_load(P + r * LANES), w0, vec_mul(vec_load(P + r * LANES + 4), w1));
        vec_store_f64(S, vec_add(vec_load_f64(S), vec_sums(sum[0], sum[1], sum[2], sum[3])));
    }
}

#define SOURCE double
#define FROM(f) NAME(f##_from_f64)
#define vec_load_source vec_load_f64
#include "pack_real.h"
#undef SOURCE
#undef FROM
#undef vec_load_source

#define SOURCE float
#define FROM(f) NAME(f##_from_f32)
#define vec_load_source vec_load_f32
#include "pack_real.h"
#undef SOURCE
#undef FROM
#undef vec_load_source

/* out[l, t, u] = Ã_l[rows[t], cols[u]] */
static void NAME(packed_block)(
    const REAL *P, ptrdiff_t n, ptrdiff_t lanes, const ptrdiff_t *rows, ptrdiff_t s, const ptrdiff_t *cols, ptrdiff_t t,
    double *out) {
    for (ptrdiff_t j = 0; j < s; j++)
        for (ptrdiff_t k = 0; k < t; k++) {
            const REAL *a = P + entry_at(rows[j], cols[k], n) * LANES;
            for (ptrdiff_t l = 0; l < lanes; l++) out[(l * s + j) * t + k] = a[l];
        }
}

/* out[l, t, k] = Ã_l[support[t], k] for all k, in the type of the entries. */
static void NAME(packed_rows)(
    const REAL *P, ptrdiff_t n, ptrdiff_t lanes, const ptrdiff_t *support, ptrdiff_t s, REAL *out) {
    for (ptrdiff_t t = 0; t < s; t++)
        for (ptrdiff_t k = 0; k < n; k++) {
            const REAL *a = P + entry_at(support[t], k, n) * LANES;
            for (ptrdiff_t l = 0; l < lanes; l++) out[(l * s + t) * n + k] = a[l];
        }
}
