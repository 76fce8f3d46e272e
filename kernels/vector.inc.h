/* Vectors for one level of SIMD; see simd.h.

   wide      WIDE doubles: loads convert from what is stored (double, float, or the bits of a 16-bit float)
   singles   SINGLES floats, at most an entry of all lanes
   floats    FLOATS floats, all that a register holds; wide_of_floats is its part of WIDE floats as doubles
   vec       four doubles at every level, with sums and transposes across vectors */

/* The float of a 16-bit one, whose exponent is moved to its place by a multiplication: right for every finite number. */
INLINE float half_to_float(uint16_t bits) {
#if defined(__aarch64__) && defined(__GNUC__)
    __fp16 half;
    memcpy(&half, &bits, 2);
    return (float)half;
#else
    uint32_t shifted = (uint32_t)(bits & 0x7fff) << 13, sign = (uint32_t)(bits & 0x8000) << 16, word;
    float value;
    memcpy(&value, &shifted, 4);
    value *= 0x1p112f;
    memcpy(&word, &value, 4);
    word |= sign;
    memcpy(&value, &word, 4);
    return value;
#endif
}

#if defined(__GNUC__)
typedef double wide __attribute__((vector_size(8 * WIDE)));
typedef float singles __attribute__((vector_size(4 * SINGLES)));
typedef double AT(wide_in_memory) __attribute__((vector_size(8 * WIDE), aligned(8), may_alias));
typedef float AT(singles_in_memory) __attribute__((vector_size(4 * SINGLES), aligned(4), may_alias));

INLINE wide wide_load_f64(const double *p) { return *(const AT(wide_in_memory) *)p; }
INLINE void wide_store(double *p, wide a) { *(AT(wide_in_memory) *)p = a; }
INLINE wide wide_add(wide a, wide b) { return a + b; }
INLINE wide wide_mul(wide a, wide b) { return a * b; }
INLINE wide wide_fma(wide a, wide b, wide c) { return a * b + c; }
INLINE singles singles_load_f32(const float *p) { return *(const AT(singles_in_memory) *)p; }
INLINE void singles_store(float *p, singles a) { *(AT(singles_in_memory) *)p = a; }
INLINE singles singles_add(singles a, singles b) { return a + b; }
INLINE singles singles_mul(singles a, singles b) { return a * b; }
INLINE singles singles_fma(singles a, singles b, singles c) { return a * b + c; }

/* By their intrinsics, because GCC 12 would build some of these from halves. */
#if LEVEL == 4
INLINE wide wide_all(double a) { return (wide)_mm512_set1_pd(a); }
INLINE wide wide_load_f32(const float *p) { return (wide)_mm512_cvtps_pd(_mm256_loadu_ps(p)); }
INLINE wide wide_load_f16(const uint16_t *p) {
    return (wide)_mm512_cvtps_pd(_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p)));
}
#elif LEVEL == 3
INLINE wide wide_all(double a) { return (wide)_mm256_set1_pd(a); }
INLINE wide wide_load_f32(const float *p) { return (wide)_mm256_cvtps_pd(_mm_loadu_ps(p)); }
INLINE wide wide_load_f16(const uint16_t *p) {
    return (wide)_mm256_cvtps_pd(_mm_cvtph_ps(_mm_loadl_epi64((const __m128i *)p)));
}
#else
INLINE wide wide_all(double a) { return (wide){a, a}; }
INLINE wide wide_load_f32(const float *p) { return (wide){p[0], p[1]}; }
INLINE wide wide_load_f16(const uint16_t *p) { return (wide){half_to_float(p[0]), half_to_float(p[1])}; }
#endif

#if LEVEL >= 3
INLINE singles singles_all(float a) { return (singles)_mm256_set1_ps(a); }
INLINE singles singles_load_f16(const uint16_t *p) {
    return (singles)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
}
INLINE vec vec_load_f32(const float *p) { return (vec)_mm256_cvtps_pd(_mm_loadu_ps(p)); }
INLINE void vec_store_f32(float *p, vec a) { _mm_storeu_ps(p, _mm256_cvtpd_ps((__m256d)a)); }
#else
INLINE singles singles_all(float a) { return (singles){a, a, a, a}; }
INLINE singles singles_load_f16(const uint16_t *p) {
    return (singles){half_to_float(p[0]), half_to_float(p[1]), half_to_float(p[2]), half_to_float(p[3])};
}
INLINE vec vec_load_f32(const float *p) { return (vec){p[0], p[1], p[2], p[3]}; }
INLINE void vec_store_f32(float *p, vec a) {
    for (int i = 0; i < 4; i++) p[i] = (float)a[i];
}
#endif

#if FLOATS > SINGLES
typedef float floats __attribute__((vector_size(4 * FLOATS)));
typedef float AT(floats_in_memory) __attribute__((vector_size(4 * FLOATS), aligned(4), may_alias));
INLINE floats floats_all(float a) { return (floats)_mm512_set1_ps(a); }
INLINE floats floats_load(const float *p) { return *(const AT(floats_in_memory) *)p; }
INLINE void floats_store(float *p, floats a) { *(AT(floats_in_memory) *)p = a; }
INLINE floats floats_fma(floats a, floats b, floats c) { return a * b + c; }
INLINE wide wide_of_floats(floats a, int part) {
    return (wide)_mm512_cvtps_pd(part ? _mm512_extractf32x8_ps((__m512)a, 1) : _mm512_castps512_ps256((__m512)a));
}
#endif

INLINE vec vec_load_f64(const double *p) { return *(const vec_in_memory *)p; }
INLINE void vec_store_f64(double *p, vec a) { *(vec_in_memory *)p = a; }
INLINE vec vec_all(double a) { return (vec){a, a, a, a}; }
INLINE vec vec_add(vec a, vec b) { return a + b; }
INLINE vec vec_mul(vec a, vec b) { return a * b; }
INLINE vec vec_fma(vec a, vec b, vec c) { return a * b + c; }
#else
typedef struct { double at[WIDE]; } wide;
typedef struct { float at[SINGLES]; } singles;

INLINE wide wide_all(double v) { wide a; for (int i = 0; i < WIDE; i++) a.at[i] = v; return a; }
INLINE wide wide_load_f64(const double *p) { wide a; for (int i = 0; i < WIDE; i++) a.at[i] = p[i]; return a; }
INLINE wide wide_load_f32(const float *p) { wide a; for (int i = 0; i < WIDE; i++) a.at[i] = p[i]; return a; }
INLINE wide wide_load_f16(const uint16_t *p) { wide a; for (int i = 0; i < WIDE; i++) a.at[i] = half_to_float(p[i]); return a; }
INLINE void wide_store(double *p, wide a) { for (int i = 0; i < WIDE; i++) p[i] = a.at[i]; }
INLINE wide wide_add(wide a, wide b) { for (int i = 0; i < WIDE; i++) a.at[i] += b.at[i]; return a; }
INLINE wide wide_mul(wide a, wide b) { for (int i = 0; i < WIDE; i++) a.at[i] *= b.at[i]; return a; }
INLINE wide wide_fma(wide a, wide b, wide c) { for (int i = 0; i < WIDE; i++) c.at[i] += a.at[i] * b.at[i]; return c; }
INLINE singles singles_all(float v) { singles a; for (int i = 0; i < SINGLES; i++) a.at[i] = v; return a; }
INLINE singles singles_load_f32(const float *p) { singles a; memcpy(&a, p, sizeof a); return a; }
INLINE singles singles_load_f16(const uint16_t *p) { singles a; for (int i = 0; i < SINGLES; i++) a.at[i] = half_to_float(p[i]); return a; }
INLINE void singles_store(float *p, singles a) { memcpy(p, &a, sizeof a); }
INLINE singles singles_add(singles a, singles b) { for (int i = 0; i < SINGLES; i++) a.at[i] += b.at[i]; return a; }
INLINE singles singles_mul(singles a, singles b) { for (int i = 0; i < SINGLES; i++) a.at[i] *= b.at[i]; return a; }
INLINE singles singles_fma(singles a, singles b, singles c) { for (int i = 0; i < SINGLES; i++) c.at[i] += a.at[i] * b.at[i]; return c; }
INLINE vec vec_load_f64(const double *p) { vec a; for (int i = 0; i < 4; i++) a.at[i] = p[i]; return a; }
INLINE vec vec_load_f32(const float *p) { vec a; for (int i = 0; i < 4; i++) a.at[i] = p[i]; return a; }
INLINE void vec_store_f64(double *p, vec a) { for (int i = 0; i < 4; i++) p[i] = a.at[i]; }
INLINE void vec_store_f32(float *p, vec a) { for (int i = 0; i < 4; i++) p[i] = (float)a.at[i]; }
INLINE vec vec_all(double v) { vec a; for (int i = 0; i < 4; i++) a.at[i] = v; return a; }
INLINE vec vec_add(vec a, vec b) { for (int i = 0; i < 4; i++) a.at[i] += b.at[i]; return a; }
INLINE vec vec_mul(vec a, vec b) { for (int i = 0; i < 4; i++) a.at[i] *= b.at[i]; return a; }
INLINE vec vec_fma(vec a, vec b, vec c) { for (int i = 0; i < 4; i++) c.at[i] += a.at[i] * b.at[i]; return c; }
#endif

#if FLOATS == SINGLES
typedef singles floats;
INLINE floats floats_all(float a) { return singles_all(a); }
INLINE floats floats_load(const float *p) { return singles_load_f32(p); }
INLINE void floats_store(float *p, floats a) { singles_store(p, a); }
INLINE floats floats_fma(floats a, floats b, floats c) { return singles_fma(a, b, c); }
INLINE wide wide_of_floats(floats a, int part) {
    float t[FLOATS];
    singles_store(t, a);
    return wide_load_f32(t + part * WIDE);
}
#endif

INLINE vec vec_load_f16(const uint16_t *p) {
#if LEVEL >= 3
    return (vec)_mm256_cvtps_pd(_mm_cvtph_ps(_mm_loadl_epi64((const __m128i *)p)));
#else
    double t[4];
    for (int i = 0; i < 4; i++) t[i] = half_to_float(p[i]);
    return vec_load_f64(t);
#endif
}

/* vec_sums: {sum of a, sum of b, sum of c, sum of d}; singles_sums: the same of floats a[0] to a[3], as doubles.
   vec_transpose: a[i][j] becomes a[j][i]. */
#if defined(__clang__) || (defined(__GNUC__) && __GNUC__ >= 12)
#if SINGLES == 8
typedef float AT(four) __attribute__((vector_size(16)));
INLINE vec singles_sums(const singles *a) {
    singles ab = __builtin_shufflevector(a[0], a[1], 0, 8, 2, 10, 4, 12, 6, 14)
                 + __builtin_shufflevector(a[0], a[1], 1, 9, 3, 11, 5, 13, 7, 15);
    singles cd = __builtin_shufflevector(a[2], a[3], 0, 8, 2, 10, 4, 12, 6, 14)
                 + __builtin_shufflevector(a[2], a[3], 1, 9, 3, 11, 5, 13, 7, 15);
    singles halves = __builtin_shufflevector(ab, cd, 0, 1, 8, 9, 4, 5, 12, 13)
                     + __builtin_shufflevector(ab, cd, 2, 3, 10, 11, 6, 7, 14, 15);
    AT(four) low = __builtin_shufflevector(halves, halves, 0, 1, 2, 3);
    return __builtin_convertvector(low + __builtin_shufflevector(halves, halves, 4, 5, 6, 7), vec);
}
#else
INLINE vec singles_sums(const singles *a) {
    singles ab = __builtin_shufflevector(a[0], a[1], 0, 4, 2, 6) + __builtin_shufflevector(a[0], a[1], 1, 5, 3, 7);
    singles cd = __builtin_shufflevector(a[2], a[3], 0, 4, 2, 6) + __builtin_shufflevector(a[2], a[3], 1, 5, 3, 7);
    return __builtin_convertvector(
        __builtin_shufflevector(ab, cd, 0, 1, 4, 5) + __builtin_shufflevector(ab, cd, 2, 3, 6, 7), vec);
}
#endif
INLINE vec vec_sums(vec a, vec b, vec c, vec d) {
    vec ab = __builtin_shufflevector(a, b, 0, 4, 2, 6) + __builtin_shufflevector(a, b, 1, 5, 3, 7);
    vec cd = __builtin_shufflevector(c, d, 0, 4, 2, 6) + __builtin_shufflevector(c, d, 1, 5, 3, 7);
    return __builtin_shufflevector(ab, cd, 0, 1, 4, 5) + __builtin_shufflevector(ab, cd, 2, 3, 6, 7);
}
INLINE void vec_transpose(vec *a) {
    vec even01 = __builtin_shufflevector(a[0], a[1], 0, 4, 2, 6), odd01 = __builtin_shufflevector(a[0], a[1], 1, 5, 3, 7);
    vec even23 = __builtin_shufflevector(a[2], a[3], 0, 4, 2, 6), odd23 = __builtin_shufflevector(a[2], a[3], 1, 5, 3, 7);
    a[0] = __builtin_shufflevector(even01, even23, 0, 1, 4, 5);
    a[1] = __builtin_shufflevector(odd01, odd23, 0, 1, 4, 5);
    a[2] = __builtin_shufflevector(even01, even23, 2, 3, 6, 7);
    a[3] = __builtin_shufflevector(odd01, odd23, 2, 3, 6, 7);
}
#else
INLINE vec singles_sums(const singles *a) {
    double sums[4];
    for (int r = 0; r < 4; r++) {
        float t[SINGLES], sum = 0;
        singles_store(t, a[r]);
        for (int i = 0; i < SINGLES; i++) sum += t[i];
        sums[r] = sum;
    }
    return vec_load_f64(sums);
}
INLINE double vec_sum(vec a) { double t[4]; vec_store_f64(t, a); return (t[0] + t[1]) + (t[2] + t[3]); }
INLINE vec vec_sums(vec a, vec b, vec c, vec d) {
    double t[4] = {vec_sum(a), vec_sum(b), vec_sum(c), vec_sum(d)};
    return vec_load_f64(t);
}
INLINE void vec_transpose(vec *a) {
    double t[16], u[16];
    for (int i = 0; i < 4; i++) vec_store_f64(t + 4 * i, a[i]);
    for (int i = 0; i < 16; i++) u[i] = t[i % 4 * 4 + i / 4];
    for (int i = 0; i < 4; i++) a[i] = vec_load_f64(u + 4 * i);
}
#endif
