/* The leaf of gram.h for one level of SIMD. */

/* G[j + r, k + c] = Σ_i W[i, j + r] W[i, k + c] for GRAM_ROWS rows r and `vectors` vectors of columns c, a constant where
   this is inlined. */
INLINE void AT(gram_tile)(const double *W, ptrdiff_t m, ptrdiff_t n, ptrdiff_t j, ptrdiff_t k, int vectors, double *G) {
    wide acc[GRAM_ROWS][GRAM_VECTORS], value[GRAM_VECTORS];
    for (int r = 0; r < GRAM_ROWS; r++)
        for (int v = 0; v < vectors; v++) acc[r][v] = wide_all(0);
    for (ptrdiff_t i = 0; i < m; i++, W += n) {
        for (int v = 0; v < vectors; v++) value[v] = wide_load_f64(W + k + v * WIDE);
        for (int r = 0; r < GRAM_ROWS; r++) {
            wide factor = wide_all(W[j + r]);
            for (int v = 0; v < vectors; v++) acc[r][v] = wide_fma(factor, value[v], acc[r][v]);
        }
    }
    for (int r = 0; r < GRAM_ROWS; r++)
        for (int v = 0; v < vectors; v++) wide_store(G + (j + r) * n + k + v * WIDE, acc[r][v]);
}

/* G[j] = Σ_i W[i, j] W[i, k] for all j and k >= j, of W (m, n) with n a multiple of GRAM_MULTIPLE; left of the diagonal only
   what completes a vector is written. */
static void AT(gram_rows)(const double *W, ptrdiff_t m, ptrdiff_t n, double *G) {
    for (ptrdiff_t j = 0; j < n; j += GRAM_ROWS) {
        ptrdiff_t k = j / WIDE * WIDE;
        for (; k + GRAM_VECTORS * WIDE <= n; k += GRAM_VECTORS * WIDE) AT(gram_tile)(W, m, n, j, k, GRAM_VECTORS, G);
        if (n - k == 2 * WIDE) AT(gram_tile)(W, m, n, j, k, 2, G);
        else if (n - k == WIDE) AT(gram_tile)(W, m, n, j, k, 1, G);
    }
}
