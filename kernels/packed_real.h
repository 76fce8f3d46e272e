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
                PREFETCH((const char *)P + 64 * (AHEAD + line));
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

/* Where the column k ≥ j of the group of row j stands. */
INLINE const REAL *NAME(cell)(const REAL *P, ptrdiff_t n, ptrdiff_t j, ptrdiff_t k) {
    return P + (group_offset(j / GROUP, n) + GROUP * (k - j)) * LANES;
}

/* The tile of rows j0..j0+31 and `width` columns from k0 on, as doubles: where it stands if it is stored so, else copied.
   `group` is the distance of its first two groups of rows and `change` what each further one is longer. */
CLONES static const double *NAME(as_doubles)(
    const REAL *P, ptrdiff_t n, ptrdiff_t j0, ptrdiff_t k0, ptrdiff_t width, double *tile, ptrdiff_t *group,
    ptrdiff_t *change) {
#if IS_DOUBLE
    (void)width, (void)tile;
    *group = NAME(cell)(P, n, j0 + GROUP, k0) - NAME(cell)(P, n, j0, k0);
    *change = -GROUP * CELL;
    return NAME(cell)(P, n, j0, k0);
#else
    *group = GROUP * TILE_ROW;
    *change = 0;
    for (ptrdiff_t j = 0; j < TILE; j += GROUP) {
        const REAL *a = NAME(cell)(P, n, j0 + j, k0);
        for (ptrdiff_t v = 0; v < width * CELL; v += 4) vec_store_f64(tile + j * TILE_ROW + v, vec_load(a + v));
    }
    return tile;
#endif
}

/* square[k, j] = scale · Ã[j0 + j, j0 + k] for all j, k < size: a tile on the diagonal with its mirror image. */
CLONES static void NAME(diagonal_square)(
    const REAL *P, ptrdiff_t n, ptrdiff_t j0, ptrdiff_t size, double scale, double *square) {
    for (ptrdiff_t j = 0; j < size; j += GROUP)
        for (ptrdiff_t k = j; k < size; k++) {
            const REAL *a = NAME(cell)(P, n, j0 + j, j0 + k);
            for (ptrdiff_t r = j; r < j + GROUP && r < size; r++, a += LANES)
                for (int h = 0; h < LANES; h += 4) {
                    vec value = vec_mul(vec_load(a + h), vec_all(scale));
                    vec_store_f64(square + k * TILE_ROW + r * LANES + h, value);
                    vec_store_f64(square + r * TILE_ROW + k * LANES + h, value);
                }
        }
}

/* W[k, s, l] = Σ_j Ã_l[k, j] x[j, s] for b signals. Tile by tile, so that each entry is fetched once and used 2 b times
   from the caches, as Ã[j, k] and as Ã[k, j]; `tile` is scratch for one. */
static void NAME(packed_products_batch)(
    const REAL *P, ptrdiff_t n, const double *x, ptrdiff_t b, double *tile, double *W) {
    const walk along_square = {LANES, TILE_ROW, GROUP * TILE_ROW, 0}, along = {LANES, CELL, GROUP * CELL, 0};
    memset(W, 0, padded(n) * b * LANES * sizeof(double));
    for (ptrdiff_t k0 = 0; k0 < n; k0 += TILE) {
        ptrdiff_t width = n - k0 < TILE ? n - k0 : TILE, group, change;
        for (ptrdiff_t j0 = 0; j0 < k0; j0 += TILE) {
            const double *a = NAME(as_doubles)(P, n, j0, k0, width, tile, &group, &change), *rows = a;
            for (ptrdiff_t j = j0, step = group; j < j0 + TILE; j += GROUP, rows += step, step += change)
                panel_times(rows, along, width, GROUP, x + k0 * b, b, W + j * b * LANES,
                            NAME(cell)(P, n, j + TILE, k0), width * CELL * sizeof(REAL)); /* the tile below is next */
            panel_times(a, (walk){CELL, LANES, group, change}, TILE, width, x + j0 * b, b, W + k0 * b * LANES, NULL, 0);
        }
        NAME(diagonal_square)(P, n, k0, width, 1, tile);
        panel_times(tile, along_square, width, width, x + k0 * b, b, W + k0 * b * LANES, NULL, 0);
    }
}

/* C[s, q, l] = U[:, s]^T T_l U[:, q] for b columns, with T the tiles above the diagonal and half of those on it, so that
   U^T Ã U = C + C^T for half the work. `rows` holds T U for TILE rows. */
static void NAME(packed_compress)(
    const REAL *P, ptrdiff_t n, const double *U, ptrdiff_t b, double *tile, double *rows, double *C) {
    const walk along_square = {LANES, TILE_ROW, GROUP * TILE_ROW, 0}, along = {LANES, CELL, GROUP * CELL, 0};
    const walk along_rows = {LANES, b * LANES, GROUP * b * LANES, 0};
    memset(C, 0, b * b * LANES * sizeof(double));
    for (ptrdiff_t j0 = 0; j0 < n; j0 += TILE) {
        ptrdiff_t height = n - j0 < TILE ? n - j0 : TILE, group, change;
        memset(rows, 0, TILE * b * LANES * sizeof(double));
        NAME(diagonal_square)(P, n, j0, height, 0.5, tile);
        panel_times(tile, along_square, height, height, U + j0 * b, b, rows, NULL, 0);
        for (ptrdiff_t k0 = j0 + TILE; k0 < n; k0 += TILE) {
            ptrdiff_t width = n - k0 < TILE ? n - k0 : TILE;
            const double *a = NAME(as_doubles)(P, n, j0, k0, width, tile, &group, &change);
            for (ptrdiff_t j = j0, step = group; j < j0 + TILE; j += GROUP, a += step, step += change)
                panel_times(a, along, width, GROUP, U + k0 * b, b, rows + (j - j0) * b * LANES,
                            NAME(cell)(P, n, j, k0 + TILE), width * CELL * sizeof(REAL));
        }
        panel_times(rows, along_rows, height, b, U + j0 * b, b, C, NULL, 0);
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
                PREFETCH((const char *)P + 64 * (AHEAD_OF_SUMS + line));
            for (int r = 0; r < GROUP; r++)
                for (int h = 0; h < 2; h++) acc[r][h] = vec_fma(vec_load(P + r * LANES + 4 * h), zk, acc[r][h]);
        }
        for (int r = 0; r < GROUP; r++)
            for (int h = 0; h < 2; h++) total[h] = vec_fma(acc[r][h], vec_all(2 * z[j + r]), total[h]);
    }
    for (int h = 0; h < 2; h++) vec_store_f64(q + 4 * h, total[h]);
}

INLINE void NAME(add_weighted)(const REAL *P, ptrdiff_t count, const double *w, double *S, int last_use) {
    vec w0 = vec_load_f64(w), w1 = vec_load_f64(w + 4);
    for (ptrdiff_t k = 0; k < count; k++, P += CELL, S += GROUP) {
        vec sum[GROUP];
        for (int line = 0; line < (int)(CELL * sizeof(REAL) / 64); line++) {
            if (last_use) PREFETCH_ONCE((const char *)P + 64 * (AHEAD_AGAIN + line));
            else PREFETCH((const char *)P + 64 * (AHEAD_OF_SUMS + line));
        }
        for (int r = 0; r < GROUP; r++)
            sum[r] = vec_fma(vec_load(P + r * LANES), w0, vec_mul(vec_load(P + r * LANES + 4), w1));
        vec_store_f64(S, vec_add(vec_load_f64(S), vec_sums(sum[0], sum[1], sum[2], sum[3])));
    }
}

/* S[k, r] += Σ_l w[l] P[k, r, l] for `count` cells. */
CLONES static void NAME(packed_weighted)(const REAL *P, ptrdiff_t count, const double *w, double *S) {
    NAME(add_weighted)(P, count, w, S, 0);
}

/* The same for cells that were read a moment ago and are not needed again: they leave the cache to those that are. */
CLONES static void NAME(packed_weighted_again)(const REAL *P, ptrdiff_t count, const double *w, double *S) {
    NAME(add_weighted)(P, count, w, S, 1);
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
