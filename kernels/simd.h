/* SIMD: the same leaves compiled for several levels of it, and the best one that the machine has chosen when a module is
   loaded.

   LEVELS. On x86-64, GCC (12 or newer) and clang compile every leaf three times: for plain x86-64, for AVX2 with FMA and
   F16C (x86-64-v3), and for AVX-512 (x86-64-v4). Elsewhere there is one level: what the compiler targets, such as NEON on
   AArch64. A file of leaves, NAME.inc.h, is included once a level by

       #define LEAVES "NAME.inc.h"
       #include "levels.h"
       LEAF(some_leaf)

   It calls its leaves AT(some_leaf), which stands for another name at each level; LEAF(some_leaf) declares the pointer
   that the rest of the code calls. The environment variable FASTQUAD_SIMD (baseline, v3 or v4) forces a lower level, for
   comparison. No fast-math anywhere.

   VECTORS. A leaf writes `wide` for WIDE doubles and `floats` for FLOATS floats, as many as a register of its level holds,
   `singles` for SINGLES floats, at most eight, and `vec` for four doubles at every level. Their functions are in
   vector.inc.h. */
#ifndef FASTQUAD_SIMD_H
#define FASTQUAD_SIMD_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__GNUC__)
#pragma GCC diagnostic ignored "-Wpsabi" /* vectors are passed to inlined functions only */
#pragma GCC diagnostic ignored "-Wunused-function"
#define INLINE static inline __attribute__((always_inline))
#define PREFETCH(p) __builtin_prefetch(p)
#define PREFETCH_ONCE(p) __builtin_prefetch(p, 0, 0) /* not to be kept after its use */
#define PREFETCH_FAR(p) __builtin_prefetch(p, 0, 2)  /* into the second-level cache: for what is kilobytes ahead */
#else
#define INLINE static __inline
#define PREFETCH(p) ((void)0)
#define PREFETCH_ONCE(p) ((void)0)
#define PREFETCH_FAR(p) ((void)0)
#endif

/* -- levels ---------------------------------------------------------------------------------------------------- */

enum { BASELINE = 0, V3 = 3, V4 = 4 };

#if defined(__x86_64__) && (defined(__clang__) || (defined(__GNUC__) && __GNUC__ >= 12))
#define HAS_LEVELS
#include <immintrin.h>

#if defined(__clang__)
#define TARGET_V3 _Pragma("clang attribute push(__attribute__((target(\"arch=x86-64-v3\"))), apply_to = function)")
#define TARGET_V4 _Pragma("clang attribute push(__attribute__((target(\"arch=x86-64-v4\"))), apply_to = function)")
#define END_TARGET _Pragma("clang attribute pop")
#else
#define TARGET_V3 _Pragma("GCC push_options") _Pragma("GCC target(\"arch=x86-64-v3\")")
#define TARGET_V4 _Pragma("GCC push_options") _Pragma("GCC target(\"arch=x86-64-v4\")")
#define END_TARGET _Pragma("GCC pop_options")
#endif

/* What the machine has; every one with AVX2, FMA and BMI2 has the rest of its level too. */
static int simd_of_machine(void) {
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma") || !__builtin_cpu_supports("bmi2"))
        return BASELINE;
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512cd")
        && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl"))
        return V4;
    return V3;
}

/* The level in use. */
static int simd_level(void) {
    const char *wish = getenv("FASTQUAD_SIMD");
    int level = simd_of_machine();
    if (wish && !strcmp(wish, "baseline")) return BASELINE;
    if (wish && !strcmp(wish, "v3") && level > V3) return V3;
    return level;
}

#define LEAF(f)                                                                                                        \
    static __typeof__(f##_baseline) *f;                                                                                \
    __attribute__((constructor)) static void f##_choose(void) {                                                        \
        int level = simd_level();                                                                                      \
        f = level == V4 ? f##_v4 : level == V3 ? f##_v3 : f##_baseline;                                                \
    }
#else
static int simd_level(void) { return BASELINE; }
#define LEAF(f)
#endif

/* What the level is called. */
static const char *simd_name(void) {
#if defined(__aarch64__)
    return "NEON";
#elif defined(__x86_64__)
    return simd_level() == V4 ? "AVX-512" : simd_level() == V3 ? "AVX2" : "SSE2";
#else
    return "baseline";
#endif
}

/* -- vectors ---------------------------------------------------------------------------------------------------- */

#if defined(__GNUC__)
typedef double vec __attribute__((vector_size(32)));
typedef double vec_in_memory __attribute__((vector_size(32), aligned(8), may_alias));
typedef float four __attribute__((vector_size(16)));
typedef float four_in_memory __attribute__((vector_size(16), aligned(4), may_alias));
#else
typedef struct { double at[4]; } vec;
#endif

/* Each of these names stands for that of the level which is being compiled. */
#define wide AT(wide_)
#define singles AT(singles_)
#define floats AT(floats_)
#define wide_all AT(wide_all_)
#define wide_load_f64 AT(wide_load_f64_)
#define wide_load_f32 AT(wide_load_f32_)
#define wide_load_f16 AT(wide_load_f16_)
#define wide_store AT(wide_store_)
#define wide_add AT(wide_add_)
#define wide_mul AT(wide_mul_)
#define wide_fma AT(wide_fma_)
#define floats_all AT(floats_all_)
#define floats_load AT(floats_load_)
#define floats_store AT(floats_store_)
#define floats_fma AT(floats_fma_)
#define wide_of_floats AT(wide_of_floats_)
#define singles_all AT(singles_all_)
#define singles_load_f32 AT(singles_load_f32_)
#define singles_load_f16 AT(singles_load_f16_)
#define singles_store AT(singles_store_)
#define singles_add AT(singles_add_)
#define singles_mul AT(singles_mul_)
#define singles_fma AT(singles_fma_)
#define singles_sums AT(singles_sums_)
#define vec_load_f64 AT(vec_load_f64_)
#define vec_load_f32 AT(vec_load_f32_)
#define vec_load_f16 AT(vec_load_f16_)
#define vec_store_f64 AT(vec_store_f64_)
#define vec_store_f32 AT(vec_store_f32_)
#define vec_all AT(vec_all_)
#define vec_add AT(vec_add_)
#define vec_mul AT(vec_mul_)
#define vec_fma AT(vec_fma_)
#define vec_sum AT(vec_sum_)
#define vec_sums AT(vec_sums_)
#define vec_transpose AT(vec_transpose_)
#define half_to_float AT(half_to_float_)

#define LEAVES "vector.inc.h"
#include "levels.h"

/* For amp.h, whose leaves are plain loops: GCC on Linux compiles a function marked CLONES for each level by itself. */
#if defined(HAS_LEVELS) && !defined(__clang__) && defined(__GLIBC__)
#define CLONES __attribute__((target_clones("default", "arch=x86-64-v3", "arch=x86-64-v4")))
#else
#define CLONES
#endif

#endif
