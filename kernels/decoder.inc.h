/* The leaves of decoder.h for one level of SIMD. */

/* -- products -------------------------------------------------------------------------------------------------- */

#if defined(__GNUC__)
typedef float AT(half_panel) __attribute__((vector_size(4 * HALF)));
typedef float AT(half_panel_in_memory) __attribute__((vector_size(4 * HALF), aligned(4), may_alias));
INLINE AT(half_panel) AT(half_load)(const float *p) { return *(const AT(half_panel_in_memory) *)p; }
INLINE void AT(half_store)(float *p, AT(half_panel) a) { *(AT(half_panel_in_memory) *)p = a; }
INLINE AT(half_panel) AT(half_fma)(float a, AT(half_panel) b, AT(half_panel) c) { return a * b + c; }
#else
typedef struct { float at[HALF]; } AT(half_panel);
INLINE AT(half_panel) AT(half_load)(const float *p) { AT(half_panel) a; memcpy(&a, p, sizeof a); return a; }
INLINE void AT(half_store)(float *p, AT(half_panel) a) { memcpy(p, &a, sizeof a); }
INLINE AT(half_panel) AT(half_fma)(float a, AT(half_panel) b, AT(half_panel) c) { for (int i = 0; i < HALF; i++) c.at[i] += a * b.at[i]; return c; }
#endif

/* out[r, :] = first + sum_k in[r, k] panel[k, :] for `rows` rows, a constant where this is inlined. */
INLINE void AT(tile_product)(const float *panel, ptrdiff_t inputs, const float *in, ptrdiff_t in_stride, const float *first,
                         float *out, ptrdiff_t out_stride, const int rows) {
    AT(half_panel) left[TILE], right[TILE];
    for (int r = 0; r < rows; r++) left[r] = AT(half_load)(first), right[r] = AT(half_load)(first + HALF);
    for (ptrdiff_t k = 0; k < inputs; k++) {
        AT(half_panel) a = AT(half_load)(panel + k * PANEL), b = AT(half_load)(panel + k * PANEL + HALF);
        for (int r = 0; r < rows; r++) {
            left[r] = AT(half_fma)(in[r * in_stride + k], a, left[r]);
            right[r] = AT(half_fma)(in[r * in_stride + k], b, right[r]);
        }
    }
    for (int r = 0; r < rows; r++) AT(half_store)(out + r * out_stride, left[r]), AT(half_store)(out + r * out_stride + HALF, right[r]);
}

/* out = first + in W for W in panels; out has `outputs` columns, a multiple of PANEL, and in `in_stride`. */
static void AT(panel_product)(const float *panels, ptrdiff_t inputs, ptrdiff_t outputs, const float *in,
                                 ptrdiff_t in_stride, const float *first, float *out, ptrdiff_t rows) {
    const ptrdiff_t tiles = (rows + TILE - 1) / TILE;
    for (ptrdiff_t c = 0; c < outputs; c += PANEL)
        for (ptrdiff_t t = 0; t < tiles; t++) { /* tiles of nearly one height: a low one is slow */
            const ptrdiff_t r = t * rows / tiles;
#define TILE_OF(height) \
    case height: AT(tile_product)(panels + c * inputs, inputs, in + r * in_stride, in_stride, first + c, out + r * outputs + c, outputs, height); break;
            switch ((t + 1) * rows / tiles - r) { TILE_OF(1) TILE_OF(2) TILE_OF(3) TILE_OF(4) TILE_OF(5) TILE_OF(6) }
#undef TILE_OF
        }
}

/* -- activations ----------------------------------------------------------------------------------------------- */

INLINE float AT(float_of)(int32_t bits) { float x; memcpy(&x, &bits, 4); return x; }

/* exp(x) for −80 <= x <= 0: 2^n e^r with |r| <= ln(2)/2 */
INLINE float AT(exp_below)(float x) {
    float n = (x * 1.44269504f + 12582912.0f) - 12582912.0f; /* to the nearest integer: 1.5 * 2^23 */
    float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
    float p = 5.0000001201e-1f + r * (1.6666665459e-1f + r * (4.1665795894e-2f + r * (8.3334519073e-3f
              + r * (1.3981999507e-3f + r * 1.9875691500e-4f))));
    return (1.0f + (r + r * r * p)) * AT(float_of)(((int32_t)n + 127) * (1 << 23));
}

/* exp(−|a|), but never a denormal number, which is many times slower */
INLINE float AT(decay)(float a) { float x = -fabsf(a); return AT(exp_below)(x < -80.0f ? -80.0f : x); }

/* ln(1 + e) for 0 <= e <= 1: 2 atanh(s), s = e/(2 + e) <= 1/3 */
INLINE float AT(log_one_plus)(float e) {
    float s = e / (2.0f + e), q = s * s;
    return 2.0f * (s + s * q * (0.333333198f + q * (0.200038354f + q * (0.14116978f + q * 0.134337742f))));
}

INLINE float AT(tanh_of)(float a) {
    float q = a * a, e = AT(decay)(2.0f * a), far = copysignf((1.0f - e) / (1.0f + e), a);
    float near = a + a * q * (-3.33332819422e-1f + q * (1.33314422036e-1f + q * (-5.37397155531e-2f
                 + q * (2.06390887954e-2f - q * 5.70498872745e-3f))));
    return q < 0.390625f ? near : far;
}

/* h = f(a) and slope = f'(a); h may be a. */
static void AT(activate)(int kind, const float *a, float *h, float *slope, ptrdiff_t count) {
    if (kind == SOFTPLUS)
#pragma omp simd
        for (ptrdiff_t i = 0; i < count; i++) {
            float x = a[i], e = AT(decay)(x), share = 1.0f / (1.0f + e);
            h[i] = (x > 0.0f ? x : 0.0f) + AT(log_one_plus)(e);
            slope[i] = (x > 0.0f ? 1.0f : e) * share;
        }
    else if (kind == SIGMOID)
#pragma omp simd
        for (ptrdiff_t i = 0; i < count; i++) {
            float x = a[i], e = AT(decay)(x), share = 1.0f / (1.0f + e);
            h[i] = (x > 0.0f ? 1.0f : e) * share;
            slope[i] = e * share * share;
        }
    else if (kind == TANH)
#pragma omp simd
        for (ptrdiff_t i = 0; i < count; i++) {
            float x = a[i], e = AT(decay)(2.0f * x), share = 1.0f / (1.0f + e);
            h[i] = AT(tanh_of)(x);
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
static void AT(scale_by)(const float *slope, float *d, ptrdiff_t count) {
#pragma omp simd
    for (ptrdiff_t i = 0; i < count; i++) {
        float x = slope[i] * d[i];
        d[i] = fabsf(x) < 1e-30f ? 0.0f : x;
    }
}

/* d = the derivative by G of ½‖G − v‖², or where `unit` of ½‖G/‖G‖ − v‖²: (g (g·v) − v)/‖G‖ with g = G/‖G‖ */
static void AT(pull)(const float *G, const float *v, ptrdiff_t n, int unit, float *d) {
    double square = 0, overlap = 0;
#pragma omp simd reduction(+ : square, overlap)
    for (ptrdiff_t i = 0; i < n; i++) square += (double)G[i] * G[i], overlap += (double)G[i] * v[i];
    /* An output that vanishes altogether has no direction; it stays zero. */
    const double norm = square > 0 ? sqrt(square) : 1;
    const float along = unit ? (float)(overlap / (norm * norm * norm)) : 1.0f, across = unit ? (float)(1 / norm) : 1.0f;
#pragma omp simd
    for (ptrdiff_t i = 0; i < n; i++) d[i] = along * G[i] - across * v[i];
}

