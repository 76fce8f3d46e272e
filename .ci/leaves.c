/* The leaves of the kernels against loops that anybody can check, without Python: for other compilers and processors.

   Built and run by .ci/leaves. Ends with 1 where a number is wrong. */
#include <math.h>
#include <stdio.h>

#include "packed.h"
#include "raw.h"

enum { SIGNALS_MAX = 16 };

static int failures = 0;

static double uniform(void) {
    static uint64_t state = 88172645463325252u;
    state ^= state << 13, state ^= state >> 7, state ^= state << 17;
    return (double)(state >> 11) / 9007199254740992.0 - 0.5;
}

static void expect(const char *what, ptrdiff_t n, double got, double expected, double tolerance) {
    if (fabs(got - expected) <= tolerance) return;
    if (failures++ < 20) printf("%s, n = %td: %.17g in place of %.17g\n", what, n, got, expected);
}

/* The nearest 16-bit float to a number of ordinary size. */
static uint16_t half_of(double value) {
    int exponent;
    double fraction = frexp(fabs(value), &exponent); /* in [½, 1) */
    if (value == 0 || exponent < -13) return value < 0 ? 0x8000 : 0;
    uint16_t bits = (uint16_t)(((exponent + 14) << 10) + (int)nearbyint((fraction * 2 - 1) * 1024));
    return value < 0 ? bits | 0x8000 : bits;
}

static double value_of_half(uint16_t bits) {
    double value = ldexp(1 + (bits & 1023) / 1024.0, ((bits >> 10) & 31) - 15);
    return (bits & 0x7fff) == 0 ? 0 : bits & 0x8000 ? -value : value;
}

/* W[i, k, s] = Σ_j Ã_i[k, j] x[j, s] */
static double product(const double *A, ptrdiff_t n, ptrdiff_t i, ptrdiff_t k, const double *x, ptrdiff_t b, ptrdiff_t s) {
    double sum = 0;
    for (ptrdiff_t j = 0; j < n; j++) sum += A[(i * n + k) * n + j] * x[j * b + s];
    return sum;
}

static void check(ptrdiff_t n) {
    const ptrdiff_t size = block_entries(n) * LANES, rows = padded(n) + GROUP;
    double *A = calloc(LANES * n * n, 8), *full = calloc(LANES * n * n, 8), *P = calloc(size + CELL, 8);
    float *F = calloc(size + CELL, 4), *sums = calloc(rows * LANES, 4), *tile_f = calloc(TILE_SIZE + TILE * SIGNALS_MAX * LANES, 4);
    uint16_t *H = calloc(size + CELL, 2);
    double *x = calloc(rows * SIGNALS_MAX, 8), *W = calloc(rows * SIGNALS_MAX * LANES, 8), *tile = calloc(TILE_SIZE, 8);
    float *xf = calloc(rows * SIGNALS_MAX, 4);
    for (ptrdiff_t e = 0; e < LANES * n * n; e++) A[e] = value_of_half(half_of(uniform())) / 4;
    for (ptrdiff_t i = 0; i < LANES; i++) /* halves of symmetric sums are 16-bit numbers once rounded */
        for (ptrdiff_t j = 0; j < n; j++)
            for (ptrdiff_t k = 0; k < n; k++)
                full[(i * n + j) * n + k] = value_of_half(half_of((A[(i * n + j) * n + k] + A[(i * n + k) * n + j]) / 2));
    pack_from(full, n, LANES, P);
    pack_from(full, n, LANES, F);
    for (ptrdiff_t e = 0; e < size; e++) H[e] = half_of(P[e]);
    const double single = 4e-6 * sqrt((double)n), precise = 1e-13 * n;

    for (ptrdiff_t b = 1; b <= SIGNALS_MAX; b = b < 5 ? b + 1 : b + 11) {
        for (ptrdiff_t e = 0; e < n * b; e++) xf[e] = (float)uniform(), x[e] = xf[e];
        memset(x + n * b, 0, (rows * SIGNALS_MAX - n * b) * 8), memset(xf + n * b, 0, (rows * SIGNALS_MAX - n * b) * 4);
#define HOLD(what, tolerance)                                                                                          \
    for (ptrdiff_t k = 0; k < n; k++)                                                                                  \
        for (ptrdiff_t s = 0; s < b; s++)                                                                              \
            for (ptrdiff_t l = 0; l < LANES; l++)                                                                      \
                expect(what, n, W[(k * b + s) * LANES + l], product(full, n, l, k, x, b, s), tolerance)
        packed_products_batch(P, n, x, b, tile, W); HOLD("batch, double", precise);
        packed_products_batch(F, n, x, b, tile, W); HOLD("batch, float", precise);
        packed_products_batch(H, n, x, b, tile, W); HOLD("batch, half", precise);
        packed_products_batch_single(F, n, xf, b, tile_f, W); HOLD("batch in float, float", single);
        packed_products_batch_single(H, n, xf, b, tile_f, W); HOLD("batch in float, half", single);
        if (b > 1) continue;
        packed_products(P, n, x, W, ahead_kept()); HOLD("products, double", precise);
        packed_products(F, n, x, W, ahead_kept()); HOLD("products, float", precise);
        packed_products(H, n, x, W, ahead_kept()); HOLD("products, half", precise);
        packed_products_single(F, n, xf, sums, W, ahead_of(SIZE_MAX, sizeof(float), ahead_kept())); HOLD("products in float, float", single);
        packed_products_single(H, n, xf, sums, W, ahead_of(SIZE_MAX, sizeof(uint16_t), ahead_kept())); HOLD("products in float, half", single);
        double q[LANES], w[LANES], right[4096];
        float qf[LANES];
        packed_quadratic(P, n, x, x, q);
        for (ptrdiff_t l = 0; l < LANES; l++) {
            double sum = 0;
            for (ptrdiff_t k = 0; k < n; k++)
                sum += x[k] * (product(full, n, l, k, x, 1, 0) + full[(l * n + k) * n + k]);
            expect("quadratic", n, q[l], sum, precise * n);
            raw_products(full + l * n * n, n, x, right);
            for (ptrdiff_t k = 0; k < n; k++) expect("raw products", n, right[k], product(full, n, l, k, x, 1, 0), precise);
            w[l] = uniform(), qf[l] = (float)w[l], w[l] = qf[l];
        }
        double *S = calloc(block_entries(n) + CELL, 8), *T = calloc(block_entries(n) + CELL, 8);
        packed_weighted(P, block_entries(n) / GROUP, w, S, ahead_kept());
        packed_weighted_single(F, block_entries(n) / GROUP, qf, T, (const float *)NULL);
        for (ptrdiff_t j = 0; j < n; j++)
            for (ptrdiff_t k = j; k < n; k++) {
                double sum = 0;
                for (ptrdiff_t l = 0; l < LANES; l++) sum += w[l] * full[(l * n + j) * n + k];
                expect("weighted", n, S[entry_at(j, k, n)], sum, precise);
                expect("weighted in float", n, T[entry_at(j, k, n)], sum, single);
            }
        free(S), free(T);
    }
    free(A), free(full), free(P), free(F), free(H), free(sums), free(tile), free(tile_f), free(x), free(xf), free(W);
}

int main(void) {
    const ptrdiff_t sizes[] = {1, 2, 3, 4, 5, 8, 17, 31, 32, 33, 70, 101};
    for (size_t t = 0; t < sizeof sizes / sizeof *sizes; t++) check(sizes[t]);
    printf("%s: %s\n", simd_name(), failures ? "wrong" : "right");
    return failures != 0;
}
