/* Descents through a fully connected network h_l = f_l(h_{l-1} W_l + b_l), in single precision.

   WEIGHTS. Those of one network serve thousands of products with few rows each, so they are laid out once for both
   directions: W_l, and for the way back its transpose, as panels of PANEL columns, (panels, inputs, PANEL), the last
   one filled up with zeros. A tile of up to TILE rows and one panel stays in registers through the whole sum, each entry
   of which is summed in the order of the inputs: so a row does not depend on the rows beside it.

   ACTIVATIONS. By e = exp(−|a|), and logarithms by 2 atanh: no overflow, no cancellation, to a few roundings. Plain
   loops, which compilers turn into vectors; both sides of a choice are computed. */
#ifndef FASTQUAD_DECODER_H
#define FASTQUAD_DECODER_H

#include <math.h>
#include <stdint.h>

#include "lanes.h"

enum { PANEL = 16, TILE = 6, HALF = 8 };
enum { SOFTPLUS, RELU, TANH, SIGMOID, IDENTITY };

INLINE ptrdiff_t padded(ptrdiff_t n) { return (n + PANEL - 1) / PANEL * PANEL; }

/* -- products -------------------------------------------------------------------------------------------------- */

#if defined(__GNUC__)
typedef float half_panel __attribute__((vector_size(4 * HALF)));
typedef float half_panel_in_memory __attribute__((vector_size(4 * HALF), aligned(4), may_alias));
INLINE half_panel half_load(const float *p) { return *(const half_panel_in_memory *)p; }
INLINE void half_store(float *p, half_panel a) { *(half_panel_in_memory *)p = a; }
INLINE half_panel half_fma(float a, half_panel b, half_panel c) { return a * b + c; }
#else
typedef struct { float at[HALF]; } half_panel;
INLINE half_panel half_load(const float *p) { half_panel a; memcpy(&a, p, sizeof a); return a; }
INLINE void half_store(float *p, half_panel a) { memcpy(p, &a, sizeof a); }
INLINE half_panel half_fma(float a, half_panel b, half_panel c) { for (int i = 0; i < HALF; i++) c.at[i] += a * b.at[i]; return c; }
#endif

/* out[r, :] = first + sum_k in[r, k] panel[k, :] for `rows` rows, a constant where this is inlined. */
INLINE void tile_product(const float *panel, ptrdiff_t inputs, const float *in, ptrdiff_t in_stride, const float *first,
                         float *out, ptrdiff_t out_stride, const int rows) {
    half_panel left[TILE], right[TILE];
    for (int r = 0; r < rows; r++) left[r] = half_load(first), right[r] = half_load(first + HALF);
    for (ptrdiff_t k = 0; k < inputs; k++) {
        half_panel a = half_load(panel + k * PANEL), b = half_load(panel + k * PANEL + HALF);
        for (int r = 0; r < rows; r++) {
            left[r] = half_fma(in[r * in_stride + k], a, left[r]);
            right[r] = half_fma(in[r * in_stride + k], b, right[r]);
        }
    }
    for (int r = 0; r < rows; r++) half_store(out + r * out_stride, left[r]), half_store(out + r * out_stride + HALF, right[r]);
}

/* out = first + in W for W in panels; out has `outputs` columns, a multiple of PANEL, and in `in_stride`. */
CLONES static void panel_product(const float *panels, ptrdiff_t inputs, ptrdiff_t outputs, const float *in,
                                 ptrdiff_t in_stride, const float *first, float *out, ptrdiff_t rows) {
    const ptrdiff_t tiles = (rows + TILE - 1) / TILE;
    for (ptrdiff_t c = 0; c < outputs; c += PANEL)
        for (ptrdiff_t t = 0; t < tiles; t++) { /* tiles of nearly one height: a low one is slow */
            const ptrdiff_t r = t * rows / tiles;
#define TILE_OF(height) \
    case height: tile_product(panels + c * inputs, inputs, in + r * in_stride, in_stride, first + c, out + r * outputs + c, outputs, height); break;
            switch ((t + 1) * rows / tiles - r) { TILE_OF(1) TILE_OF(2) TILE_OF(3) TILE_OF(4) TILE_OF(5) TILE_OF(6) }
#undef TILE_OF
        }
}

/* -- activations ----------------------------------------------------------------------------------------------- */

INLINE float float_of(int32_t bits) { float x; memcpy(&x, &bits, 4); return x; }

/* exp(x) for −80 <= x <= 0: 2^n e^r with |r| <= ln(2)/2 */
INLINE float exp_below(float x) {
    float n = (x * 1.44269504f + 12582912.0f) - 12582912.0f; /* to the nearest integer: 1.5 * 2^23 */
    float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    float p = 5.0000001201e-1f + r * (1.6666665459e-1f + r * (4.1665795894e-2f + r * (8.3334519073e-3f
              + r * (1.3981999507e-3f + r * 1.9875691500e-4f))));
    return (1.0f + (r + r * r * p)) * float_of(((int32_t)n + 127) * (1 << 23));
}

/* exp(−|a|), but never a denormal number, which is many times slower */
INLINE float decay(float a) { float x = -fabsf(a); return exp_below(x < -80.0f ? -80.0f : x); }

/* ln(1 + e) for 0 <= e <= 1: 2 atanh(s), s = e/(2 + e) <= 1/3 */
INLINE float log_one_plus(float e) {
    float s = e / (2.0f + e), q = s * s;
    return 2.0f * (s + s * q * (0.333333198f + q * (0.200038354f + q * (0.14116978f + q * 0.134337742f))));
}

INLINE float tanh_of(float a) {
    float q = a * a, e = decay(2.0f * a), far = copysignf((1.0f - e) / (1.0f + e), a);
    float near = a + a * q * (-3.33332819422e-1f + q * (1.33314422036e-1f + q * (-5.37397155531e-2f
                 + q * (2.06390887954e-2f - q * 5.70498872745e-3f))));
    return q < 0.390625f ? near : far;
}

/* h = f(a) and slope = f'(a); h may be a. */
CLONES static void activate(int kind, const float *a, float *h, float *slope, ptrdiff_t count) {
    if (kind == SOFTPLUS)
#pragma omp simd
        for (ptrdiff_t i = 0; i < count; i++) {
            float x = a[i], e = decay(x), share = 1.0f / (1.0f + e);
            h[i] = (x > 0.0f ? x : 0.0f) + log_one_plus(e);
            slope[i] = (x > 0.0f ? 1.0f : e) * share;
        }
    else if (kind == SIGMOID)
#pragma omp simd
        for (ptrdiff_t i = 0; i < count; i++) {
            float x = a[i], e = decay(x), share = 1.0f / (1.0f + e);
            h[i] = (x > 0.0f ? 1.0f : e) * share;
            slope[i] = e * share * share;
        }
    else if (kind == TANH)
#pragma omp simd
        for (ptrdiff_t i = 0; i < count; i++) {
            float x = a[i], e = decay(2.0f * x), share = 1.0f / (1.0f + e);
            h[i] = tanh_of(x);
            slope[i] = 4.0f * e * share * share;
        }
    else
        for (ptrdiff_t i = 0; i < count; i++) {
            float x = a[i];
            int open = kind == IDENTITY || x > 0.0f;
            slope[i] = open ? 1.0f : 0.0f;
            h[i] = open ? x : 0.0f;
        }
}

/* -- descents -------------------------------------------------------------------------------------------------- */

/* d = slope * d, with nothing in it that would become a denormal number further down */
CLONES static void scale_by(const float *slope, float *d, ptrdiff_t count) {
#pragma omp simd
    for (ptrdiff_t i = 0; i < count; i++) {
        float x = slope[i] * d[i];
        d[i] = fabsf(x) < 1e-30f ? 0.0f : x;
    }
}

/* d = the derivative by G of ½‖G − v‖², or where `unit` of ½‖G/‖G‖ − v‖²: (g (g·v) − v)/‖G‖ with g = G/‖G‖ */
CLONES static void pull(const float *G, const float *v, ptrdiff_t n, int unit, float *d) {
    double square = 0, overlap = 0;
#pragma omp simd reduction(+ : square, overlap)
    for (ptrdiff_t i = 0; i < n; i++) square += (double)G[i] * G[i], overlap += (double)G[i] * v[i];
    /* An output that vanishes altogether has no direction; it stays zero. */
    const double norm = square > 0 ? sqrt(square) : 1;
    const float along = unit ? (float)(overlap / (norm * norm * norm)) : 1.0f, across = unit ? (float)(1 / norm) : 1.0f;
#pragma omp simd
    for (ptrdiff_t i = 0; i < n; i++) d[i] = along * G[i] - across * v[i];
}

#endif
