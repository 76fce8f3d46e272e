/* Contractions of one complex matrix of STORED as the user gave it, row by row: n rows of 2n numbers, interleaved.

   With p + iq the entries of a row, (p + iq)(x + iu) summed is two real dot products of the row, with (x, −u) and with
   (u, x); and its conjugate times a number is two real multiples of it. So the loops are real ones. */

/* right = A x and left = A^* x, n complex numbers each, in one read. `work` is for 8n doubles. */
static void OF(complex_sides)(
    const STORED *A, ptrdiff_t n, const double *x, double *right, double *left, double *work) {
    double *real = work, *imaginary = work + 2 * n, *by_x = work + 4 * n, *by_u = work + 6 * n;
    for (ptrdiff_t k = 0; k < n; k++) {
        real[2 * k] = imaginary[2 * k + 1] = x[2 * k];
        real[2 * k + 1] = -x[2 * k + 1];
        imaginary[2 * k] = x[2 * k + 1];
    }
    memset(by_x, 0, 4 * n * sizeof(double));
    for (ptrdiff_t j = 0; j < n; j++, A += 2 * n) {
        const double xj = x[2 * j], uj = x[2 * j + 1];
        double re = 0, im = 0;
#pragma omp simd reduction(+ : re, im)
        for (ptrdiff_t k = 0; k < 2 * n; k++) {
            const double a = A[k];
            re += a * real[k];
            im += a * imaginary[k];
            by_x[k] += a * xj;
            by_u[k] += a * uj;
        }
        right[2 * j] = re;
        right[2 * j + 1] = im;
    }
    for (ptrdiff_t k = 0; k < n; k++) {
        left[2 * k] = by_x[2 * k] + by_u[2 * k + 1];
        left[2 * k + 1] = by_u[2 * k] - by_x[2 * k + 1];
    }
}

/* q = <A, zz^* + diag(v)> = z^* A z + Σ_j v_j a_jj, a complex number. `work` is for 4n doubles. */
static void OF(complex_quadratic)(
    const STORED *A, ptrdiff_t n, const double *z, const double *v, double *q, double *work) {
    double *real = work, *imaginary = work + 2 * n;
    for (ptrdiff_t k = 0; k < n; k++) {
        real[2 * k] = imaginary[2 * k + 1] = z[2 * k];
        real[2 * k + 1] = -z[2 * k + 1];
        imaginary[2 * k] = z[2 * k + 1];
    }
    q[0] = q[1] = 0;
    for (ptrdiff_t j = 0; j < n; j++, A += 2 * n) {
        double re = 0, im = 0;
#pragma omp simd reduction(+ : re, im)
        for (ptrdiff_t k = 0; k < 2 * n; k++) {
            const double a = A[k];
            re += a * real[k];
            im += a * imaginary[k];
        }
        q[0] += z[2 * j] * re + z[2 * j + 1] * im + v[j] * A[2 * j];
        q[1] += z[2 * j] * im - z[2 * j + 1] * re + v[j] * A[2 * j + 1];
    }
}
