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
                vec_store(W + k * LANES + 4 * h, w);
            }
        }
        for (int r = 0; r < GROUP; r++)
            for (int h = 0; h < 2; h++) {
                double *w = W + (j + r) * LANES + 4 * h;
                vec_store(w, vec_add(vec_load_f64(w), acc[r][h]));
            }
    }
}

/* W[k, l] = Σ_{j in S} Ã_l[k, j] x_S[j]: only the rows of the support are read. */
CLONES static void NAME(packed_products_on)(
    const REAL *P, ptrdiff_t n, const ptrdiff_t *support, ptrdiff_t s, const double *x, double *W) {
    memset(W, 0, padded(n) * LANES * sizeof(double));
    for (ptrdiff_t t = 0; t < s; t++) {
        ptrdiff_t j = support[t], g = j / GROUP;
        vec xj = vec_all(x[t]);
        for (ptrdiff_t h = 0; h < g; h++) { /* above its group, row j is a column: 4 entries side by side */
            const REAL *a = P + (group_offset(h, n) + GROUP * (j - GROUP * h)) * LANES;
            for (int v = 0; v < CELL; v += 4) {
                double *w = W + h * CELL + v;
                vec_store(w, vec_fma(vec_load(a + v), xj, vec_load_f64(w)));
            }
        }
        const REAL *a = P + (group_offset(g, n) + j % GROUP) * LANES;
        for (ptrdiff_t k = GROUP * g; k < n; k++, a += CELL) {
            PREFETCH(a + 12 * CELL);
            for (int v = 0; v < LANES; v += 4) {
                double *w = W + k * LANES + v;
                vec_store(w, vec_fma(vec_load(a + v), xj, vec_load_f64(w)));
            }
        }
    }
}

/* W[k, s, l] = Σ_j Ã_l[k, j] x[j, s] for b signals (b even). Tiles of columns, so that each entry is fetched once and
   used 2 b times from the L1 cache; `tile` holds one tile as doubles. */
static void NAME(packed_products_batch)(
    const REAL *P, ptrdiff_t n, const double *x, ptrdiff_t b, double *tile, double *W) {
    memset(W, 0, padded(n) * b * LANES * sizeof(double));
    for (ptrdiff_t k0 = 0; k0 < n; k0 += TILE) {
        ptrdiff_t k1 = k0 + TILE < n ? k0 + TILE : n;
        for (ptrdiff_t j = 0; j < k1; j += GROUP) {
            ptrdiff_t start = j > k0 ? j : k0, count = k1 - start;
            const REAL *a = P + (group_offset(j / GROUP, n) + GROUP * (start - j)) * LANES;
            for (ptrdiff_t v = 0; v < count * CELL; v++) tile[v] = a[v];
            batch_rows(tile, count, x + start * b, b, W + j * b * LANES);
            /* The diagonal tile is whole, so its mirror image is in it already. */
            ptrdiff_t skip = start == j ? (count < GROUP ? count : GROUP) : 0;
            batch_columns(tile + skip * CELL, count - skip, x + j * b, b, W + (start + skip) * b * LANES);
        }
    }
}

/* C[q, p, l] = Σ_{j, k} U[j, q] T_l[j, k] U[k, p], b columns (b even), with T the upper triangle and half the diagonal
   tiles, so that U^T Ã U = C + C^T for half the work. `rows` holds T U for TILE rows. */
static void NAME(packed_compress)(
    const REAL *P, ptrdiff_t n, const double *U, ptrdiff_t b, double *tile, double *rows, double *C) {
    memset(C, 0, b * b * LANES * sizeof(double));
    for (ptrdiff_t j0 = 0; j0 < n; j0 += TILE) {
        ptrdiff_t j1 = j0 + TILE < padded(n) ? j0 + TILE : padded(n);
        memset(rows, 0, (j1 - j0) * b * LANES * sizeof(double));
        for (ptrdiff_t j = j0; j < j1; j += GROUP)
            for (ptrdiff_t k = j; k < n; k += TILE) {
                ptrdiff_t count = n - k < TILE ? n - k : TILE;
                const REAL *a = P + (group_offset(j / GROUP, n) + GROUP * (k - j)) * LANES;
                for (ptrdiff_t v = 0; v < count * CELL; v++) tile[v] = k == j && v < GROUP * CELL ? a[v] / 2 : a[v];
                batch_rows(tile, count, U + k * b, b, rows + (j - j0) * b * LANES);
            }
        batch_outer(rows, j1 - j0, U + j0 * b, b, C);
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
                PREFETCH((const char *)P + 64 * (AHEAD + line));
            for (int r = 0; r < GROUP; r++)
                for (int h = 0; h < 2; h++) acc[r][h] = vec_fma(vec_load(P + r * LANES + 4 * h), zk, acc[r][h]);
        }
        for (int r = 0; r < GROUP; r++)
            for (int h = 0; h < 2; h++) total[h] = vec_fma(acc[r][h], vec_all(2 * z[j + r]), total[h]);
    }
    for (int h = 0; h < 2; h++) vec_store(q + 4 * h, total[h]);
}

/* S[k - k0, r] += Σ_l w[l] Ã_l[j + r, k] for `count` cells of one group of rows. */
CLONES static void NAME(packed_weighted)(const REAL *P, ptrdiff_t count, const double *w, double *S) {
    vec w0 = vec_load_f64(w), w1 = vec_load_f64(w + 4);
    for (ptrdiff_t k = 0; k < count; k++, P += CELL, S += GROUP) {
        vec sum[GROUP];
        for (int line = 0; line < (int)(CELL * sizeof(REAL) / 64); line++)
            PREFETCH((const char *)P + 64 * (AHEAD + line));
        for (int r = 0; r < GROUP; r++)
            sum[r] = vec_fma(vec_load(P + r * LANES), w0, vec_mul(vec_load(P + r * LANES + 4), w1));
        vec_store(S, vec_add(vec_load_f64(S), vec_sums(sum[0], sum[1], sum[2], sum[3])));
    }
}

/* P = the packed block of `lanes` row-major n×n matrices at A, A + n², …; SOURCE entries are symmetrised in double. */
#define DEFINE_PACK(SOURCE, SUFFIX)                                                                                    \
    static void NAME(pack_##SUFFIX)(const SOURCE *A, ptrdiff_t n, ptrdiff_t lanes, REAL *P) {                          \
        for (ptrdiff_t j = 0; j < n; j += GROUP) {                                                                     \
            ptrdiff_t rows = n - j < GROUP ? n - j : GROUP;                                                            \
            for (ptrdiff_t k0 = j; k0 < n; k0 += TILE) {                                                               \
                ptrdiff_t k1 = k0 + TILE < n ? k0 + TILE : n;                                                          \
                if (rows < GROUP || lanes < LANES) memset(P, 0, (k1 - k0) * CELL * sizeof(REAL));                      \
                for (ptrdiff_t l = 0; l < lanes; l++) {                                                                \
                    const SOURCE *a = A + l * n * n;                                                                   \
                    for (ptrdiff_t r = 0; r < rows; r++)                                                               \
                        for (ptrdiff_t k = k0; k < k1; k++)                                                            \
                            P[(k - k0) * CELL + r * LANES + l] =                                                       \
                                (REAL)(0.5 * ((double)a[(j + r) * n + k] + (double)a[k * n + j + r]));                 \
                }                                                                                                      \
                P += (k1 - k0) * CELL;                                                                                 \
            }                                                                                                          \
        }                                                                                                              \
    }
DEFINE_PACK(float, from_f32)
DEFINE_PACK(double, from_f64)
#undef DEFINE_PACK

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
