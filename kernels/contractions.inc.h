/* The contractions of packed.h that run in double, for one level of SIMD and one type STORED of the entries; each works on
   one block of LANES measurements. */

#if STORED_BITS == 16
#define VALUE(a) half_to_float(a)
#define ROW_NUMBER float /* rows are given in the type of the entries, and those of 16 bits as floats */
#else
#define VALUE(a) (a)
#define ROW_NUMBER STORED
#endif

/* W[k, l] = Σ_j Ã_l[k, j] x[j]: one pass over the block. */
static void OF(packed_products)(const STORED *P, ptrdiff_t n, const double *x, double *W, stream_ahead ahead) {
    memset(W, 0, padded(n) * LANES * sizeof(double));
    for (ptrdiff_t j = 0; j < n; j += GROUP) {
        wide acc[GROUP][PARTS_OF_ENTRY], xj[GROUP];
        for (int r = 0; r < GROUP; r++) {
            for (int h = 0; h < PARTS_OF_ENTRY; h++) acc[r][h] = wide_all(0);
            xj[r] = wide_all(x[j + r]);
        }
        ptrdiff_t tile_end = j + GROUP < n ? j + GROUP : n;
        for (ptrdiff_t k = j; k < tile_end; k++, P += CELL) /* the diagonal tile is whole: rows only */
            for (int r = 0; r < GROUP; r++)
                for (int h = 0; h < PARTS_OF_ENTRY; h++)
                    acc[r][h] = wide_fma(wide_load(P + r * LANES + WIDE * h), wide_all(x[k]), acc[r][h]);
        for (ptrdiff_t k = tile_end; k < n; k++, P += CELL) {
            wide xk = wide_all(x[k]);
            OF(prefetch_cell)(P, ahead);
            for (int h = 0; h < PARTS_OF_ENTRY; h++) {
                wide w = wide_load_f64(W + k * LANES + WIDE * h);
                for (int r = 0; r < GROUP; r++) {
                    wide a = wide_load(P + r * LANES + WIDE * h);
                    acc[r][h] = wide_fma(a, xk, acc[r][h]);
                    w = wide_fma(a, xj[r], w);
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

/* The entries (j, 4h..4h+3) of a block, `step` apart: side by side above the group of j, a cell apart in it. */
INLINE const STORED *OF(quad)(const STORED *P, ptrdiff_t n, ptrdiff_t j, ptrdiff_t h, ptrdiff_t *step) {
    ptrdiff_t g = j / GROUP;
    *step = h < g ? LANES : CELL;
    if (h < g) return P + (group_offset(h, n) + GROUP * (j - GROUP * h)) * LANES;
    return P + (group_offset(g, n) + GROUP * GROUP * (h - g) + j % GROUP) * LANES;
}

/* Prefetch the entries (j, 4h..4h+3) of a block for all j in S: their cache lines are too scattered for the machine to
   guess them. */
INLINE void OF(prefetch_quads)(const STORED *P, ptrdiff_t n, const ptrdiff_t *support, ptrdiff_t s, ptrdiff_t h) {
    for (ptrdiff_t t = 0; t < s; t++) {
        ptrdiff_t step;
        const STORED *a = OF(quad)(P, n, support[t], h, &step);
        if (step == CELL)
            for (int i = 0; i < GROUP; i++) PREFETCH(a + i * CELL);
        else
            for (int line = 0; line < (int)(CELL * sizeof(STORED)); line += 64) PREFETCH((const char *)a + line);
    }
}

/* W[4h + i, l] = Σ_{j in S} Ã_l[4h + i, j] x_S[j] for i < count. */
INLINE void OF(sum_quads)(
    const STORED *P, ptrdiff_t n, const ptrdiff_t *support, ptrdiff_t s, const double *x, ptrdiff_t h, int count, double *W) {
    wide acc[GROUP][PARTS_OF_ENTRY];
    for (int i = 0; i < count; i++)
        for (int v = 0; v < PARTS_OF_ENTRY; v++) acc[i][v] = wide_all(0);
    for (ptrdiff_t t = 0; t < s; t++) {
        ptrdiff_t step;
        const STORED *a = OF(quad)(P, n, support[t], h, &step);
        wide xt = wide_all(x[t]);
        for (int i = 0; i < count; i++, a += step)
            for (int v = 0; v < PARTS_OF_ENTRY; v++) acc[i][v] = wide_fma(wide_load(a + WIDE * v), xt, acc[i][v]);
    }
    for (int i = 0; i < count; i++)
        for (int v = 0; v < PARTS_OF_ENTRY; v++) wide_store(W + (GROUP * h + i) * LANES + WIDE * v, acc[i][v]);
}

/* W[k, l] = Σ_{j in S} Ã_l[k, j] x_S[j]: only the rows of the support are read, four columns of all of them at a time,
   while the next ones are prefetched, at last those of the next block. */
static void OF(packed_products_on)(
    const STORED *P, ptrdiff_t n, const ptrdiff_t *support, ptrdiff_t s, const double *x, double *W) {
    const STORED *next_block = P + block_entries(n) * LANES;
    ptrdiff_t whole = n / GROUP, quads = padded(n) / GROUP, ahead = 1 + 9 / s; /* 40 lines or so */
    for (ptrdiff_t h = 0; h < quads; h++) {
        if (h + ahead < quads) OF(prefetch_quads)(P, n, support, s, h + ahead);
        else OF(prefetch_quads)(next_block, n, support, s, h + ahead - quads);
        if (h < whole) OF(sum_quads)(P, n, support, s, x, h, GROUP, W);
        else OF(sum_quads)(P, n, support, s, x, h, (int)(n % GROUP), W);
    }
}

/* q[l] = <Ã_l, zz^T + diag(v)> */
static void OF(packed_quadratic)(const STORED *P, ptrdiff_t n, const double *z, const double *v, double *q) {
    wide total[PARTS_OF_ENTRY];
    for (int h = 0; h < PARTS_OF_ENTRY; h++) total[h] = wide_all(0);
    for (ptrdiff_t j = 0; j < n; j += GROUP) {
        wide acc[GROUP][PARTS_OF_ENTRY];
        for (int r = 0; r < GROUP; r++)
            for (int h = 0; h < PARTS_OF_ENTRY; h++) acc[r][h] = wide_all(0);
        ptrdiff_t tile_end = j + GROUP < n ? j + GROUP : n;
        for (ptrdiff_t k = j; k < tile_end; k++, P += CELL) {
            ptrdiff_t d = k - j;
            for (int h = 0; h < PARTS_OF_ENTRY; h++) {
                total[h] = wide_fma(wide_load(P + d * LANES + WIDE * h), wide_all(v[k]), total[h]);
                for (int r = 0; r < GROUP; r++) /* half, because the rest of the row counts twice */
                    acc[r][h] = wide_fma(wide_load(P + r * LANES + WIDE * h), wide_all(z[k] / 2), acc[r][h]);
            }
        }
        for (ptrdiff_t k = tile_end; k < n; k++, P += CELL) {
            wide zk = wide_all(z[k]);
            OF(prefetch_cell)(P, ahead_kept());
            for (int r = 0; r < GROUP; r++)
                for (int h = 0; h < PARTS_OF_ENTRY; h++)
                    acc[r][h] = wide_fma(wide_load(P + r * LANES + WIDE * h), zk, acc[r][h]);
        }
        for (int r = 0; r < GROUP; r++)
            for (int h = 0; h < PARTS_OF_ENTRY; h++) total[h] = wide_fma(acc[r][h], wide_all(2 * z[j + r]), total[h]);
    }
    for (int h = 0; h < PARTS_OF_ENTRY; h++) wide_store(q + WIDE * h, total[h]);
}

/* Put entries a[u] of all lanes, one after the other in `out`, where lanes are `apart`: a line of each lane at a time, because
   single numbers that are scattered over all of them cost more than the reading. */
#define SPREAD(ENTRY, COUNT, OUT, APART)                                                                                    \
    for (ptrdiff_t first = 0; first < (COUNT); first += SPREAD_AT_ONCE) {                                                   \
        const STORED *a[SPREAD_AT_ONCE];                                                                                    \
        const ptrdiff_t some = (COUNT)-first < SPREAD_AT_ONCE ? (COUNT)-first : SPREAD_AT_ONCE;                             \
        for (ptrdiff_t u = 0; u < some; u++) a[u] = P + (ENTRY(first + u)) * LANES;                                         \
        for (ptrdiff_t l = 0; l < lanes; l++)                                                                               \
            for (ptrdiff_t u = 0; u < some; u++) (OUT)[l * (APART) + first + u] = VALUE(a[u][l]);                           \
    }

/* out[l, t, u] = Ã_l[rows[t], cols[u]] */
static void OF(packed_block)(
    const STORED *P, ptrdiff_t n, ptrdiff_t lanes, const ptrdiff_t *rows, ptrdiff_t s, const ptrdiff_t *cols, ptrdiff_t t,
    double *out) {
#define ENTRY(k) entry_at(rows[j], cols[k], n)
    for (ptrdiff_t j = 0; j < s; j++) SPREAD(ENTRY, t, out + j * t, s * t)
#undef ENTRY
}

/* out[l, t, k] = Ã_l[support[t], k] for all k. */
static void OF(packed_rows)(
    const STORED *P, ptrdiff_t n, ptrdiff_t lanes, const ptrdiff_t *support, ptrdiff_t s, ROW_NUMBER *out) {
#define ENTRY(k) entry_at(support[t], k, n)
    for (ptrdiff_t t = 0; t < s; t++) SPREAD(ENTRY, n, out + t * n, s * n)
#undef ENTRY
}

/* d[l, j] = A_l[j, j] */
static void OF(packed_diagonals)(const STORED *P, ptrdiff_t n, ptrdiff_t lanes, double *d) {
#define ENTRY(j) entry_at(j, j, n)
    SPREAD(ENTRY, n, d, n)
#undef ENTRY
}

#undef SPREAD
#undef VALUE
#undef ROW_NUMBER
