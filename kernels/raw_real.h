/* The kernels of raw.h for one type REAL of the stored entries. */

/* acc[r] += a[r] x and w += Σ_r a[r] xj[r] for four columns of four rows. */
INLINE void NAME(four_rows)(const REAL *a, ptrdiff_t n, const double *x, const vec *xj, vec *acc, double *w) {
    vec xk = vec_load_f64(x), sum = vec_load_f64(w);
    for (int r = 0; r < 4; r++) {
        vec value = vec_load(a + r * n);
        acc[r] = vec_fma(value, xk, acc[r]);
        sum = vec_fma(value, xj[r], sum);
    }
    vec_store_f64(w, sum);
}

/* w = (A x + A^T x) / 2, each row of A read once; four rows at a time, so that w is written a quarter as often. */
CLONES static void NAME(raw_products)(const REAL *A, ptrdiff_t n, const double *x, double *w) {
    memset(w, 0, n * sizeof(double));
    ptrdiff_t j = 0;
    for (; j + 4 <= n; j += 4) {
        const REAL *a = A + j * n;
        vec acc[4] = {vec_all(0), vec_all(0), vec_all(0), vec_all(0)}, xj[4];
        for (int r = 0; r < 4; r++) xj[r] = vec_all(x[j + r]);
        ptrdiff_t k = 0;
        for (; k + 16 <= n; k += 16) { /* whole cache lines of the next four rows are asked for */
            for (int r = 0; r < 4; r++)
                for (int line = 0; line < 16 * (int)sizeof(REAL); line += 64)
                    PREFETCH_FAR((const char *)(a + (r + 4) * n + k) + line);
            for (int v = 0; v < 16; v += 4) NAME(four_rows)(a + k + v, n, x + k + v, xj, acc, w + k + v);
        }
        for (; k + 4 <= n; k += 4) NAME(four_rows)(a + k, n, x + k, xj, acc, w + k);
        double s[4];
        vec_store_f64(s, vec_sums(acc[0], acc[1], acc[2], acc[3]));
        for (; k < n; k++)
            for (int r = 0; r < 4; r++) {
                s[r] += a[r * n + k] * x[k];
                w[k] += a[r * n + k] * x[j + r];
            }
        for (int r = 0; r < 4; r++) w[j + r] += s[r];
    }
    for (; j < n; j++) {
        double s = 0;
        for (ptrdiff_t k = 0; k < n; k++) {
            s += A[j * n + k] * x[k];
            w[k] += A[j * n + k] * x[j];
        }
        w[j] += s;
    }
    for (ptrdiff_t k = 0; k < n; k++) w[k] *= 0.5;
}

/* w = (A x + A^T x) / 2 for x with entries x_S on a support: its rows and columns alone are read. */
CLONES static void NAME(raw_products_on)(
    const REAL *A, ptrdiff_t n, const ptrdiff_t *support, ptrdiff_t s, const double *restrict x, double *restrict w) {
    memset(w, 0, n * sizeof(double));
    for (ptrdiff_t t = 0; t < s; t++) {
        const REAL *restrict a = A + support[t] * n;
        double xt = 0.5 * x[t];
#pragma omp simd
        for (ptrdiff_t k = 0; k < n; k++) w[k] += a[k] * xt;
    }
    for (ptrdiff_t k = 0; k < n; k++) {
        double sum = 0;
        for (ptrdiff_t t = 0; t < s; t++) sum += A[k * n + support[t]] * x[t];
        w[k] += 0.5 * sum;
    }
}

/* w = A x */
CLONES static void NAME(raw_right)(const REAL *A, ptrdiff_t n, const double *restrict x, double *restrict w) {
    for (ptrdiff_t j = 0; j < n; j++) {
        const REAL *restrict a = A + j * n;
        double s = 0;
#pragma omp simd reduction(+ : s)
        for (ptrdiff_t k = 0; k < n; k++) s += a[k] * x[k];
        w[j] = s;
    }
}

/* w = A^T x; rows of zeros in x are not read. */
CLONES static void NAME(raw_left)(const REAL *A, ptrdiff_t n, const double *restrict x, double *restrict w) {
    memset(w, 0, n * sizeof(double));
    for (ptrdiff_t j = 0; j < n; j++) {
        const REAL *restrict a = A + j * n;
        double xj = x[j];
        if (xj == 0) continue;
#pragma omp simd
        for (ptrdiff_t k = 0; k < n; k++) w[k] += a[k] * xj;
    }
}

/* z^T A z + Σ_j v[j] A[j, j] */
CLONES static double NAME(raw_quadratic)(const REAL *A, ptrdiff_t n, const double *restrict z, const double *v) {
    double total = 0;
    for (ptrdiff_t j = 0; j < n; j++) {
        const REAL *restrict a = A + j * n;
        double s = 0;
#pragma omp simd reduction(+ : s)
        for (ptrdiff_t k = 0; k < n; k++) s += a[k] * z[k];
        total += z[j] * s + v[j] * a[j];
    }
    return total;
}

/* S[k] += Σ_{t < 4} w[t] A[t * stride + k] for k < count: the same stretch of four matrices. */
CLONES static void NAME(raw_weighted)(
    const REAL *A, ptrdiff_t stride, ptrdiff_t count, const double *w, double *restrict S) {
    const REAL *restrict a0 = A, *restrict a1 = A + stride, *restrict a2 = a1 + stride, *restrict a3 = a2 + stride;
    double w0 = w[0], w1 = w[1], w2 = w[2], w3 = w[3];
#pragma omp simd
    for (ptrdiff_t k = 0; k < count; k++) S[k] += (w0 * a0[k] + w1 * a1[k]) + (w2 * a2[k] + w3 * a3[k]);
}

/* S[k] += w A[k] for k < count */
CLONES static void NAME(raw_weighted_one)(const REAL *restrict A, ptrdiff_t count, double w, double *restrict S) {
#pragma omp simd
    for (ptrdiff_t k = 0; k < count; k++) S[k] += w * A[k];
}
