/* The leaves of descent.h for one level of SIMD. */

/* sums = (r·p, p·p, r·q, p·q, q·q) with p = 2 W d and q = V d */
static void AT(line_terms)(const double *W, const double *V, const double *d, const double *r, ptrdiff_t m, ptrdiff_t s,
                           double sums[5]) {
    for (int t = 0; t < 5; t++) sums[t] = 0;
    for (ptrdiff_t i = 0; i < m; i++, W += s, V += s) {
        double p = 0, q = 0;
#pragma omp simd reduction(+ : p, q)
        for (ptrdiff_t j = 0; j < s; j++) {
            p += W[j] * d[j];
            q += V[j] * d[j];
        }
        p *= 2;
        sums[0] += r[i] * p;
        sums[1] += p * p;
        sums[2] += r[i] * q;
        sums[3] += p * q;
        sums[4] += q * q;
    }
}

/* W += u V, then r = W z − y; returns ‖r‖² */
static double AT(line_move)(const double *V, double u, const double *z, const double *y, ptrdiff_t m, ptrdiff_t s, double *W,
                            double *r) {
    double square = 0;
    for (ptrdiff_t i = 0; i < m; i++, W += s, V += s) {
        double sum = 0;
#pragma omp simd reduction(+ : sum)
        for (ptrdiff_t j = 0; j < s; j++) {
            W[j] += u * V[j];
            sum += W[j] * z[j];
        }
        r[i] = sum - y[i];
        square += r[i] * r[i];
    }
    return square;
}
