/* Packing: from row-major matrices of SOURCE to the layout of packed.h in STORED. Entries are symmetrised in double. */

/* The cells (j..j+3, k..k+3) of four lanes from `lane` on: p[(i, r, l)] = (A_l[j + r, k + i] + A_l[k + i, j + r]) / 2. */
INLINE void FROM(pack_cells)(const SOURCE *A, ptrdiff_t n, ptrdiff_t j, ptrdiff_t k, STORED *p) {
    vec sum[GROUP][4]; /* [row][column], vectors over lanes */
    for (int r = 0; r < GROUP; r++) {
        for (int l = 0; l < 4; l++) sum[r][l] = SOURCE_LOAD(A + l * n * n + (j + r) * n + k);
        vec_transpose(sum[r]);
    }
    for (int i = 0; i < 4; i++) {
        vec mirror[GROUP];
        for (int l = 0; l < 4; l++) mirror[l] = SOURCE_LOAD(A + l * n * n + (k + i) * n + j);
        vec_transpose(mirror);
        for (int r = 0; r < GROUP; r++)
            vec_store(p + i * CELL + r * LANES, vec_mul(vec_add(sum[r][i], mirror[r]), vec_all(0.5)));
    }
}

/* One entry at a time, for what is left of rows, columns and lanes. */
INLINE void FROM(pack_rest)(
    const SOURCE *A, ptrdiff_t n, ptrdiff_t lanes, ptrdiff_t j, ptrdiff_t k0, ptrdiff_t k1, STORED *p) {
    memset(p, 0, (k1 - k0) * CELL * sizeof(STORED));
    for (ptrdiff_t k = k0; k < k1; k++, p += CELL)
        for (ptrdiff_t r = 0; r < GROUP && j + r < n; r++)
            for (ptrdiff_t l = 0; l < lanes; l++) {
                const SOURCE *a = A + l * n * n;
                p[r * LANES + l] = (STORED)(0.5 * ((double)a[(j + r) * n + k] + (double)a[k * n + j + r]));
            }
}

/* Prefetch the rows i..i+3, columns k..k+31 of all lanes. */
INLINE void FROM(prefetch_rows)(const SOURCE *A, ptrdiff_t n, ptrdiff_t lanes, ptrdiff_t i, ptrdiff_t k) {
    for (ptrdiff_t l = 0; l < lanes; l++)
        for (ptrdiff_t row = i; row < i + GROUP && row < n; row++)
            for (int line = 0; line < SQUARE; line += 64 / sizeof(SOURCE)) PREFETCH_FAR(A + (l * n + row) * n + k + line);
}

/* P = the packed block of `lanes` matrices at A, A + n², … Squares of 32 × 32 entries, so that the cache lines of a square
   and of its mirror image are used whole; the lines of the next square and its mirror image are prefetched meanwhile. */
static void FROM(pack)(const SOURCE *A, ptrdiff_t n, ptrdiff_t lanes, STORED *P) {
    for (ptrdiff_t j0 = 0; j0 < n; j0 += SQUARE)
        for (ptrdiff_t k0 = j0; k0 < n; k0 += SQUARE) {
            ptrdiff_t k1 = k0 + SQUARE < n ? k0 + SQUARE : n;
            for (ptrdiff_t j = j0; j < n && j < j0 + SQUARE; j += GROUP) {
                ptrdiff_t k = k0 > j ? k0 : j;
                STORED *p = P + (group_offset(j / GROUP, n) + GROUP * (k - j)) * LANES;
                if (k1 < n) {
                    FROM(prefetch_rows)(A, n, lanes, j, k1);
                    FROM(prefetch_rows)(A, n, lanes, k1 + (j - j0), j0);
                }
                if (lanes == LANES && j + GROUP <= n)
                    for (; k + 4 <= k1; k += 4, p += 4 * CELL) {
                        FROM(pack_cells)(A, n, j, k, p);
                        FROM(pack_cells)(A + 4 * n * n, n, j, k, p + 4);
                    }
                FROM(pack_rest)(A, n, lanes, j, k, k1, p);
            }
        }
}
