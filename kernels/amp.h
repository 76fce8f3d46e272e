/* Leaves of the AMP inner loop: a matrix-vector product and the spike-and-slab denoiser. */
#ifndef FASTQUAD_AMP_H
#define FASTQUAD_AMP_H

#include <math.h>
#include <stddef.h>
#include "simd.h"

/* out_j = sum_k S[j, k] z_k */
CLONES
static void fq_matvec(const double *S, const double *z, double *out, ptrdiff_t n)
{
    for (ptrdiff_t j = 0; j < n; j++) {
        const double *row = S + j * n;
        double sum = 0;
#pragma omp simd reduction(+ : sum)
        for (ptrdiff_t k = 0; k < n; k++)
            sum += row[k] * z[k];
        out[j] = sum;
    }
}

/* The mean, variance and weight of x_j given b = a x + sqrt(a) N(0, 1) with prior rho N(0, s2) + (1 - rho) delta_0.
   totals = (sum of weights, sum of weight * second moment of the slab). */
static void fq_spike_slab(const double *b, double a, double rho, double s2, double *mean, double *variance,
                          double *weight, double *totals, ptrdiff_t n)
{
    const double c = 1 / (a + 1 / s2);
    const double odds = log(rho / (1 - rho)) + 0.5 * log(c / s2);
    double sum_weight = 0, sum_moment = 0;
    for (ptrdiff_t j = 0; j < n; j++) {
        const double mu = b[j] * c;
        const double p = 1 / (1 + exp(-(odds + 0.5 * b[j] * mu)));
        const double moment = p * (mu * mu + c);
        weight[j] = p;
        mean[j] = p * mu;
        variance[j] = moment - p * p * mu * mu;
        sum_weight += p;
        sum_moment += moment;
    }
    totals[0] = sum_weight;
    totals[1] = sum_moment;
}

#endif
