/* The kernels of raw.h for one level of SIMD and one type STORED of the entries. */

/* Prefetch 16 columns of the four rows from `a` on: whole cache lines, kilobytes before they are used. */
INLINE void OF(prefetch_four)(const STORED *a, ptrdiff_t n) {
    for (int r = 0; r < 4; r++)
        for (int line = 0; line < 16 * (int)sizeof(STORED); line += 64) PREFETCH_FAR((const char *)(a + r * n) + line);
}

/* acc[r] += a[r] x and w += Σ_r a[r] xj[r] for four columns of four rows. */
INLINE void OF(four_rows)(const STORED *a, ptrdiff_t n, const double *x, const vec *xj, vec *acc, double *w) {
    vec xk = vec_load_f64(x), sum = vec_load_f64(w);
    for (int r = 0; r < 4; r++) {
        vec value = vec_load(a + r * n);
        acc[r] = vec_fma(value, xk, acc[r]);
        sum = vec_fma(value, xj[r], sum);
    }
    vec_store_f64(w, sum);
}

/* Prefetch what comes RAW_AHEAD bytes after the four rows' part before column k, as much as 16 columns of them are: where
   rows are short, the next four are too near to be fetched in time. */
INLINE void OF(prefetch_along)(const STORED *a, ptrdiff_t k) {
    for (int line = 0; line < 4 * 16 * (int)sizeof(STORED); line += 64)
        PREFETCH((const char *)(a + 4 * k) + RAW_AHEAD + line);
}

/* Σ_k a[k] x[k] for one row, and w += xj a. */
INLINE double OF(one_row)(const STORED *a, ptrdiff_t n, const double *x, double xj, double *w) {
    vec acc = vec_all(0), factor = vec_all(xj);
    ptrdiff_t k = 0;
    for (; k + 4 <= n; k += 4) {
        vec value = vec_load(a + k);
        acc = vec_fma(value, vec_load_f64(x + k), acc);
        vec_store_f64(w + k, vec_fma(value, factor, vec_load_f64(w + k)));
    }
    double s[4];
    vec_store_f64(s, acc);
    double sum = (s[0] + s[1]) + (s[2] + s[3]);
    for (; k < n; k++) {
        sum += a[k] * x[k];
        w[k] += a[k] * xj;
    }
    return sum;
}

/* w = (A x + A^T x) / 2, each row of A read once; four rows at a time, so that w is written a quarter as often. */
static void OF(raw_products)(const STORED *A, ptrdiff_t n, const double *x, double *w) {
    const int near = 4 * n * (ptrdiff_t)sizeof(STORED) < RAW_AHEAD;
    memset(w, 0, n * sizeof(double));
    ptrdiff_t j = 0;
    for (; j + 4 <= n; j += 4) {
        const STORED *a = A + j * n;
        vec acc[4] = {vec_all(0), vec_all(0), vec_all(0), vec_all(0)}, xj[4];
        for (int r = 0; r < 4; r++) xj[r] = vec_all(x[j + r]);
        ptrdiff_t k = 0;
        for (; k + 16 <= n; k += 16) {
            if (near) OF(prefetch_along)(a, k);
            else OF(prefetch_four)(a + 4 * n + k, n);
            for (int v = 0; v < 16; v += 4) OF(four_rows)(a + k + v, n, x + k + v, xj, acc, w + k + v);
        }
        for (; k + 4 <= n; k += 4) OF(four_rows)(a + k, n, x + k, xj, acc, w + k);
        double s[4];
        vec_store_f64(s, vec_sums(acc[0], acc[1], acc[2], acc[3]));
        for (; k < n; k++)
            for (int r = 0; r < 4; r++) {
                s[r] += a[r * n + k] * x[k];
                w[k] += a[r * n + k] * x[j + r];
            }
        for (int r = 0; r < 4; r++) w[j + r] += s[r];
    }
    for (; j < n; j++) w[j] += OF(one_row)(A + j * n, n, x, x[j], w);
    for (ptrdiff_t k = 0; k < n; k++) w[k] *= 0.5;
}

/* w = (A x + A^T x) / 2 for x with entries x_S on a support: its rows and columns alone are read. */
static void OF(raw_products_on)(
    const STORED *A, ptrdiff_t n, const ptrdiff_t *support, ptrdiff_t s, const double *restrict x, double *restrict w) {
    memset(w, 0, n * sizeof(double));
    for (ptrdiff_t t = 0; t < s; t++) {
        const STORED *restrict a = A + support[t] * n;
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

/* s[r] = Σ_k a[r, k] x[k] for four rows, while the next four are prefetched. */
INLINE void OF(four_dots)(const STORED *a, ptrdiff_t n, const double *x, double *s) {
    vec acc[4] = {vec_all(0), vec_all(0), vec_all(0), vec_all(0)};
    ptrdiff_t k = 0;
    for (; k + 16 <= n; k += 16) {
        OF(prefetch_four)(a + 4 * n + k, n);
        for (int v = 0; v < 16; v += 4) {
            vec xk = vec_load_f64(x + k + v);
            for (int r = 0; r < 4; r++) acc[r] = vec_fma(vec_load(a + r * n + k + v), xk, acc[r]);
        }
    }
    vec_store_f64(s, vec_sums(acc[0], acc[1], acc[2], acc[3]));
    for (; k < n; k++)
        for (int r = 0; r < 4; r++) s[r] += a[r * n + k] * x[k];
}

/* Σ_k a[k] x[k] for one row. */
INLINE double OF(one_dot)(const STORED *restrict a, ptrdiff_t n, const double *restrict x) {
    double s = 0;
#pragma omp simd reduction(+ : s)
    for (ptrdiff_t k = 0; k < n; k++) s += a[k] * x[k];
    return s;
}

/* w = A x */
static void OF(raw_right)(const STORED *A, ptrdiff_t n, const double *x, double *w) {
    ptrdiff_t j = 0;
    for (; j + 4 <= n; j += 4) OF(four_dots)(A + j * n, n, x, w + j);
    for (; j < n; j++) w[j] = OF(one_dot)(A + j * n, n, x);
}

/* z^T A z + Σ_j v[j] A[j, j] */
static double OF(raw_quadratic)(const STORED *A, ptrdiff_t n, const double *z, const double *v) {
    double total = 0, s[4];
    ptrdiff_t j = 0;
    for (; j + 4 <= n; j += 4) {
        OF(four_dots)(A + j * n, n, z, s);
        for (int r = 0; r < 4; r++) total += z[j + r] * s[r] + v[j + r] * A[(j + r) * n + j + r];
    }
    for (; j < n; j++) total += z[j] * OF(one_dot)(A + j * n, n, z) + v[j] * A[j * n + j];
    return total;
}

/* w += Σ_r x[r] a[r] for four rows, while the next four are prefetched. */
INLINE void OF(add_four)(const STORED *a, ptrdiff_t n, const double *x, double *w) {
    vec xr[4];
    for (int r = 0; r < 4; r++) xr[r] = vec_all(x[r]);
    ptrdiff_t k = 0;
    for (; k + 16 <= n; k += 16) {
        OF(prefetch_four)(a + 4 * n + k, n);
        for (int v = 0; v < 16; v += 4) {
            vec sum = vec_load_f64(w + k + v);
            for (int r = 0; r < 4; r++) sum = vec_fma(vec_load(a + r * n + k + v), xr[r], sum);
            vec_store_f64(w + k + v, sum);
        }
    }
    for (; k < n; k++)
        for (int r = 0; r < 4; r++) w[k] += a[r * n + k] * x[r];
}

/* w = A^T x; rows of zeros in x are not read. */
static void OF(raw_left)(const STORED *A, ptrdiff_t n, const double *restrict x, double *restrict w) {
    memset(w, 0, n * sizeof(double));
    for (ptrdiff_t j = 0; j < n; j++) {
        const STORED *restrict a = A + j * n;
        if (j % 4 == 0 && j + 4 <= n && x[j] != 0 && x[j + 1] != 0 && x[j + 2] != 0 && x[j + 3] != 0) {
            OF(add_four)(a, n, x + j, w);
            j += 3;
        } else if (x[j] != 0) {
            double xj = x[j];
#pragma omp simd
            for (ptrdiff_t k = 0; k < n; k++) w[k] += a[k] * xj;
        }
    }
}

/* S[k] += Σ_{t < 4} w[t] A[t * stride + k] for k < count: the same stretch of four matrices. */
static void OF(raw_weighted)(
    const STORED *A, ptrdiff_t stride, ptrdiff_t count, const double *w, double *restrict S) {
    vec wt[4];
    for (int t = 0; t < 4; t++) wt[t] = vec_all(w[t]);
    ptrdiff_t k = 0;
    for (; k + 16 <= count; k += 16) {
        OF(prefetch_four)(A + k + FAR_AHEAD / sizeof(STORED), stride);
        for (int v = 0; v < 16; v += 4) {
            const STORED *a = A + k + v;
            vec low = vec_fma(vec_load(a + stride), wt[1], vec_mul(vec_load(a), wt[0]));
            vec high = vec_fma(vec_load(a + 3 * stride), wt[3], vec_mul(vec_load(a + 2 * stride), wt[2]));
            vec_store_f64(S + k + v, vec_add(vec_load_f64(S + k + v), vec_add(low, high)));
        }
    }
    for (; k < count; k++)
        S[k] += (w[0] * A[k] + w[1] * A[stride + k]) + (w[2] * A[2 * stride + k] + w[3] * A[3 * stride + k]);
}

/* S[k] += w A[k] for k < count */
static void OF(raw_weighted_one)(const STORED *restrict A, ptrdiff_t count, double w, double *restrict S) {
#pragma omp simd
    for (ptrdiff_t k = 0; k < count; k++) S[k] += w * A[k];
}
