/* The machine's own limits, which the benchmarks hold the kernels against: reading memory, and multiplying and adding
   in registers. Both use the vectors that the kernels use. */
#ifndef FASTQUAD_BANDWIDTH_H
#define FASTQUAD_BANDWIDTH_H

#include "lanes.h"

/* A step of the reading loop: 4 cache lines. */
enum { STEP = 32 };

INLINE double total_of(const vec *acc, int count) {
    double t[4], total = 0;
    for (int i = 0; i < count; i++) {
        vec_store_f64(t, acc[i]);
        total += (t[0] + t[1]) + (t[2] + t[3]);
    }
    return total;
}

INLINE double stream(const double *p, ptrdiff_t count, ptrdiff_t ahead, int far) {
    vec acc[STEP / 4];
    for (int v = 0; v < STEP / 4; v++) acc[v] = vec_all(0);
    ptrdiff_t k = 0;
    for (; k + STEP <= count; k += STEP) {
        for (int line = 0; ahead && line < STEP / 8; line++) {
            if (far) PREFETCH_FAR((const char *)(p + k) + 64 * (ahead + line));
            else PREFETCH((const char *)(p + k) + 64 * (ahead + line));
        }
        for (int v = 0; v < STEP / 4; v++) acc[v] = vec_add(acc[v], vec_load_f64(p + k + 4 * v));
    }
    double rest = 0;
    for (; k < count; k++) rest += p[k];
    return total_of(acc, STEP / 4) + rest;
}

/* Σ_k p[k], with what is `ahead` cache lines further on asked for meanwhile, into the second-level cache where that is
   4 kB or more; 0: a plain loop. */
CLONES static double read_doubles(const double *p, ptrdiff_t count, ptrdiff_t ahead) {
    if (ahead == 0) return stream(p, count, 0, 0);
    return ahead < 64 ? stream(p, count, ahead, 0) : stream(p, count, ahead, 1);
}

/* 48 fused multiply-adds a round on 12 chains: enough to hide their latency, few enough for 16 registers. */
enum { CHAINS = 12 };

CLONES static double multiply_add(ptrdiff_t rounds, double a, double b) {
    vec acc[CHAINS], factor = vec_all(a), term = vec_all(b);
    for (int i = 0; i < CHAINS; i++) acc[i] = vec_all(i);
    for (ptrdiff_t round = 0; round < rounds; round++)
        for (int i = 0; i < CHAINS; i++) acc[i] = vec_fma(acc[i], factor, term);
    return total_of(acc, CHAINS);
}

#endif
