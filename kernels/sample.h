/* Statistics of a sample of A's entries, a row for each measurement: plain loops over columns side by side. */
#ifndef FASTQUAD_SAMPLE_H
#define FASTQUAD_SAMPLE_H

#include "gram.h"

/* max |X_i| */
CLONES
static double sample_largest(const double *X, ptrdiff_t count)
{
    double largest = 0;
#pragma omp simd reduction(max : largest)
    for (ptrdiff_t i = 0; i < count; i++) largest = fabs(X[i]) > largest ? fabs(X[i]) : largest;
    return largest;
}

/* Σ_i X_i⁴ */
CLONES
static double sample_fourth(const double *X, ptrdiff_t count)
{
    double sum = 0;
#pragma omp simd reduction(+ : sum)
    for (ptrdiff_t i = 0; i < count; i++) sum += X[i] * X[i] * X[i] * X[i];
    return sum;
}

/* mean_j = Σ_i X[i, j]/m and square_j = Σ_i X[i, j]²/m */
CLONES
static void sample_moments(const double *X, ptrdiff_t m, ptrdiff_t c, double *mean, double *square)
{
    for (ptrdiff_t j = 0; j < c; j++) mean[j] = square[j] = 0;
    for (ptrdiff_t i = 0; i < m; i++, X += c)
        for (ptrdiff_t j = 0; j < c; j++) {
            mean[j] += X[j];
            square[j] += X[j] * X[j];
        }
    for (ptrdiff_t j = 0; j < c; j++) {
        mean[j] /= m;
        square[j] /= m;
    }
}

/* X[i, j] −= mean_j */
CLONES
static void sample_centre(double *X, ptrdiff_t m, ptrdiff_t c, const double *mean)
{
    for (ptrdiff_t i = 0; i < m; i++, X += c)
        for (ptrdiff_t j = 0; j < c; j++) X[j] -= mean[j];
}

/* X[i, j] = (scale · Y[i, j])^power with power 1 or 2, and zeros from c to `stride` */
CLONES
static void sample_powers(const double *Y, ptrdiff_t m, ptrdiff_t c, double scale, int power, ptrdiff_t stride, double *X)
{
    for (ptrdiff_t i = 0; i < m; i++, X += stride, Y += c) {
        for (ptrdiff_t j = 0; j < c; j++) {
            const double value = scale * Y[j];
            X[j] = power == 2 ? value * value : value;
        }
        for (ptrdiff_t j = c; j < stride; j++) X[j] = 0;
    }
}

/* Σ_{j<k} corr_jk² over the columns that vary, given their inner products G; `count` is how many vary */
static double sample_correlations(const double *G, ptrdiff_t c, ptrdiff_t stride, double *inverse, ptrdiff_t *count)
{
    double total = 0;
    *count = 0;
    for (ptrdiff_t j = 0; j < c; j++) {
        const double square = G[j * stride + j];
        inverse[j] = square > 0 ? 1 / square : 0;
        *count += square > 0;
    }
    for (ptrdiff_t j = 0; j < c; j++) {
        double sum = 0;
#pragma omp simd reduction(+ : sum)
        for (ptrdiff_t k = j + 1; k < c; k++) sum += G[j * stride + k] * G[j * stride + k] * inverse[k];
        total += sum * inverse[j];
    }
    return total;
}

#endif
