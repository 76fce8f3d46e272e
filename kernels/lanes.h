/* Four doubles at a time, on any compiler; and the clones that choose the machine's SIMD at run time.

   GCC 12 and newer on x86-64 with glibc compile each function marked CLONES for plain x86-64, for AVX2 with FMA
   and for AVX-512, and pick one when the module is loaded. Elsewhere CLONES is nothing. No fast-math anywhere. */
#ifndef FASTQUAD_LANES_H
#define FASTQUAD_LANES_H

#include <stdlib.h>
#include <string.h>
#include <stddef.h>

/* __GLIBC__ is known only after a libc header. */
#if defined(__GNUC__) && !defined(__clang__) && __GNUC__ >= 12 && defined(__x86_64__) && defined(__GLIBC__)
#define CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#define HAS_CLONES
#else
#define CLONES
#endif

#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wpsabi" /* vectors are passed to inlined functions only */
#pragma GCC diagnostic ignored "-Wunused-function"
#define INLINE static inline __attribute__((always_inline))
#define PREFETCH(p) __builtin_prefetch(p)
#define PREFETCH_ONCE(p) __builtin_prefetch(p, 0, 0) /* not to be kept after its use */
#define PREFETCH_FAR(p) __builtin_prefetch(p, 0, 2) /* into the second-level cache: for what is kilobytes ahead */
typedef double vec __attribute__((vector_size(32)));
typedef double vec_in_memory __attribute__((vector_size(32), aligned(8), may_alias));

INLINE vec vec_load_f64(const double *p) { return *(const vec_in_memory *)p; }
/* Written out because it becomes one instruction, which __builtin_convertvector does not on GCC 12. */
INLINE vec vec_load_f32(const float *p) { return (vec){p[0], p[1], p[2], p[3]}; }
INLINE void vec_store_f64(double *p, vec a) { *(vec_in_memory *)p = a; }
INLINE void vec_store_f32(float *p, vec a) { for (int i = 0; i < 4; i++) p[i] = (float)a[i]; }
#define SPREAD(a) ((vec){a, a, a, a})
INLINE vec vec_all(double a) { return SPREAD(a); }
INLINE vec vec_add(vec a, vec b) { return a + b; }
INLINE vec vec_mul(vec a, vec b) { return a * b; }
INLINE vec vec_fma(vec a, vec b, vec c) { return a * b + c; }
#else
#define INLINE static __inline
#define PREFETCH(p) ((void)0)
#define PREFETCH_ONCE(p) ((void)0)
#define PREFETCH_FAR(p) ((void)0)
typedef struct { double at[4]; } vec;

INLINE vec vec_load_f64(const double *p) { vec a; for (int i = 0; i < 4; i++) a.at[i] = p[i]; return a; }
INLINE vec vec_load_f32(const float *p) { vec a; for (int i = 0; i < 4; i++) a.at[i] = p[i]; return a; }
INLINE void vec_store_f64(double *p, vec a) { for (int i = 0; i < 4; i++) p[i] = a.at[i]; }
INLINE void vec_store_f32(float *p, vec a) { for (int i = 0; i < 4; i++) p[i] = (float)a.at[i]; }
INLINE vec vec_all(double v) { vec a; for (int i = 0; i < 4; i++) a.at[i] = v; return a; }
#define SPREAD(a) vec_all(a)
INLINE vec vec_add(vec a, vec b) { for (int i = 0; i < 4; i++) a.at[i] += b.at[i]; return a; }
INLINE vec vec_mul(vec a, vec b) { for (int i = 0; i < 4; i++) a.at[i] *= b.at[i]; return a; }
INLINE vec vec_fma(vec a, vec b, vec c) { for (int i = 0; i < 4; i++) c.at[i] += a.at[i] * b.at[i]; return c; }
#endif

/* vec_sums: {sum of a, sum of b, sum of c, sum of d}. vec_transpose: a[i][j] becomes a[j][i]. */
#if defined(__clang__) || (defined(__GNUC__) && __GNUC__ >= 12)
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

#endif
