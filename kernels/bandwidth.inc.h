/* The loops of bandwidth.h for one level of SIMD. */

INLINE double AT(total_of)(const wide *acc, int count) {
    double t[WIDE], total = 0;
    for (int i = 0; i < count; i++) {
        wide_store(t, acc[i]);
        for (int k = 0; k < WIDE; k++) total += t[k];
    }
    return total;
}

INLINE double AT(stream)(const double *p, ptrdiff_t count, ptrdiff_t ahead, int far, int once) {
    wide acc[STEP / WIDE];
    for (int v = 0; v < STEP / WIDE; v++) acc[v] = wide_all(0);
    ptrdiff_t k = 0;
    for (; k + STEP <= count; k += STEP) {
        for (int line = 0; ahead && line < STEP / 8; line++) {
            if (once) PREFETCH_ONCE((const char *)(p + k) + 64 * (ahead + line));
            else if (far) PREFETCH_FAR((const char *)(p + k) + 64 * (ahead + line));
            else PREFETCH((const char *)(p + k) + 64 * (ahead + line));
        }
        for (int v = 0; v < STEP / WIDE; v++) acc[v] = wide_add(acc[v], wide_load_f64(p + k + WIDE * v));
    }
    double rest = 0;
    for (; k < count; k++) rest += p[k];
    return AT(total_of)(acc, STEP / WIDE) + rest;
}

/* Σ_k p[k], with what is `ahead` cache lines further on prefetched, into the second-level cache where that is 4 kB or
   more, or, where it is read `once`, past it; 0: a plain loop. */
static double AT(read_doubles)(const double *p, ptrdiff_t count, ptrdiff_t ahead, int once) {
    if (ahead == 0) return AT(stream)(p, count, 0, 0, 0);
    if (once) return AT(stream)(p, count, ahead, 0, 1);
    return ahead < 64 ? AT(stream)(p, count, ahead, 0, 0) : AT(stream)(p, count, ahead, 1, 0);
}

/* `rounds` of CHAINS multiply-adds of vectors. */
static double AT(multiply_add)(ptrdiff_t rounds, double a, double b) {
    wide acc[CHAINS], factor = wide_all(a), term = wide_all(b);
    for (int i = 0; i < CHAINS; i++) acc[i] = wide_all(i);
    for (ptrdiff_t round = 0; round < rounds; round++)
        for (int i = 0; i < CHAINS; i++) acc[i] = wide_fma(acc[i], factor, term);
    return AT(total_of)(acc, CHAINS);
}

/* Doubles in one of these vectors. */
static int AT(chain_width)(void) { return WIDE; }
