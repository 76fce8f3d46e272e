/* Packing of complex matrices of SOURCE, row by row, to the layout of hermitian.h in STORED; halves are taken in double. */

/* The entry (j, k) of a lane: of (A + A^*)/2, or of (A − A^*)/2i. */
INLINE void FROM(hermitian_entry)(const SOURCE *A, ptrdiff_t n, ptrdiff_t j, ptrdiff_t k, int skew, STORED *p) {
    const SOURCE *a = A + 2 * (j * n + k), *b = A + 2 * (k * n + j);
    if (!skew) {
        p[0] = (STORED)(0.5 * ((double)a[0] + (double)b[0]));
        p[LANES] = (STORED)(0.5 * ((double)a[1] - (double)b[1]));
    } else { /* −i/2 (a − b̄) */
        p[0] = (STORED)(0.5 * ((double)a[1] + (double)b[1]));
        p[LANES] = (STORED)(0.5 * ((double)b[0] - (double)a[0]));
    }
}

/* P = the packed block of `lanes` measurements: the Hermitian parts of the matrices at A, A + 2n², …; or, for `both`, in turn
   the Hermitian part and the skew part over i of each. Squares of entries, so that the cache lines of a square and of its
   mirror image are used whole. */
static void FROM(hermitian_pack)(const SOURCE *A, ptrdiff_t n, ptrdiff_t lanes, int both, STORED *P) {
    for (ptrdiff_t j0 = 0; j0 < n; j0 += HERMITIAN_SQUARE)
        for (ptrdiff_t k0 = j0; k0 < n; k0 += HERMITIAN_SQUARE)
            for (ptrdiff_t j = j0; j < n && j < j0 + HERMITIAN_SQUARE; j += GROUP) {
                ptrdiff_t k = k0 > j ? k0 : j, k1 = k0 + HERMITIAN_SQUARE < n ? k0 + HERMITIAN_SQUARE : n;
                STORED *p = P + 2 * (group_offset(j / GROUP, n) + GROUP * (k - j)) * LANES;
                if (k1 > k) memset(p, 0, (k1 - k) * HERMITIAN_CELL * sizeof(STORED));
                for (ptrdiff_t l = 0; l < lanes; l++) {
                    const SOURCE *matrix = A + 2 * n * n * (both ? l / 2 : l);
                    for (ptrdiff_t r = 0; r < GROUP && j + r < n; r++)
                        for (ptrdiff_t c = k; c < k1; c++)
                            FROM(hermitian_entry)(
                                matrix, n, j + r, c, both && l % 2, p + (c - k) * HERMITIAN_CELL + 2 * r * LANES + l);
                }
            }
}
