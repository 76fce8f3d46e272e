/* The leaves of gram.h for one level of SIMD. */

/* G[j + r, k + c] = Σ_i W[i, j + r] W[i, k + c] for GRAM_ROWS rows r and `vectors` vectors of columns c; or G less that, if
   `less`. Both are constants where this is inlined. */
INLINE void AT(gram_tile)(const double *W, ptrdiff_t m, ptrdiff_t n, ptrdiff_t j, ptrdiff_t k, int vectors, int less,
                          double *G) {
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
        for (int v = 0; v < vectors; v++) {
            double *at = G + (j + r) * n + k + v * WIDE;
            wide_store(at, less ? wide_fma(wide_all(-1), acc[r][v], wide_load_f64(at)) : acc[r][v]);
        }
}

/* The tiles of rows j to j + GRAM_ROWS, from the one that holds the diagonal on. */
INLINE void AT(gram_row)(const double *W, ptrdiff_t m, ptrdiff_t n, ptrdiff_t j, int less, double *G) {
    ptrdiff_t k = j / WIDE * WIDE;
    for (; k + GRAM_VECTORS * WIDE <= n; k += GRAM_VECTORS * WIDE)
        AT(gram_tile)(W, m, n, j, k, GRAM_VECTORS, less, G);
    if (n - k == 2 * WIDE) AT(gram_tile)(W, m, n, j, k, 2, less, G);
    else if (n - k == WIDE) AT(gram_tile)(W, m, n, j, k, 1, less, G);
}

/* G[j] = Σ_i W[i, j] W[i, k] for all j and k >= j, of W (m, n) with n a multiple of GRAM_MULTIPLE; left of the diagonal only
   what completes a vector is written. */
static void AT(gram_rows)(const double *W, ptrdiff_t m, ptrdiff_t n, double *G) {
    for (ptrdiff_t j = 0; j < n; j += GRAM_ROWS) AT(gram_row)(W, m, n, j, 0, G);
}

/* The first rows of U with G = U^T U, in the place of those of G (n, n), of which only k >= j is looked at: GRAM_ROWS rows at
   a time, less what the rows above explain. Returns the least square of a pivot, or the first that is not positive, where it
   stops. */
static double AT(gram_factor)(ptrdiff_t rows, ptrdiff_t n, double *G) {
    double least = HUGE_VAL;
    for (ptrdiff_t j = 0; j < rows; j += GRAM_ROWS) {
        AT(gram_row)(G, j, n, j, 1, G);
        for (ptrdiff_t r = j; r < j + GRAM_ROWS; r++) {
            double *row = G + r * n;
            for (ptrdiff_t q = j; q < r; q++) {
                const double *above = G + q * n, factor = above[r];
                for (ptrdiff_t k = r; k < n; k++) row[k] -= factor * above[k];
            }
            if (!(row[r] > 0)) return row[r];
            if (row[r] < least) least = row[r];
            const double scale = 1 / sqrt(row[r]);
            for (ptrdiff_t k = r; k < n; k++) row[k] *= scale;
        }
    }
    return least;
}

/* The other rows of G, less what those rows of U explain. */
static void AT(gram_rest)(ptrdiff_t rows, ptrdiff_t n, double *G) {
    for (ptrdiff_t j = rows; j < n; j += GRAM_ROWS) AT(gram_row)(G, rows, n, j, 1, G);
}

/* b ← (U^T U)^{-1} b */
static void AT(gram_solve)(const double *U, ptrdiff_t n, double *b) {
    for (ptrdiff_t j = 0; j < n; j++) {
        const double *row = U + j * n, value = b[j] /= row[j];
        for (ptrdiff_t k = j + 1; k < n; k++) b[k] -= value * row[k];
    }
    for (ptrdiff_t j = n - 1; j >= 0; j--) {
        const double *row = U + j * n;
        double sum = 0;
#pragma omp simd reduction(+ : sum)
        for (ptrdiff_t k = j + 1; k < n; k++) sum += row[k] * b[k];
        b[j] = (b[j] - sum) / row[j];
    }
}

/* b_j = Σ_i W[i, j] r_i */
static void AT(gram_aside)(const double *W, const double *r, ptrdiff_t m, ptrdiff_t n, double *b) {
    for (ptrdiff_t j = 0; j < n; j++) b[j] = 0;
    for (ptrdiff_t i = 0; i < m; i++, W += n)
        for (ptrdiff_t j = 0; j < n; j++) b[j] += r[i] * W[j];
}
