/* The inner loop of the batched kernels, in NUMBER = double or float, for one level of SIMD.

   PANEL(f) names its functions, VECTOR holds PARTS of an entry of all lanes, and ROWS × SIGNALS sums stay in registers:

   - AVX-512: 4 × 4 in doubles or floats, 8 loads for 16 multiplications;
   - AVX2: 2 × 3 in doubles, which are two vectors each: with three factors and an entry they fill 16 registers, and take
     7 loads for 12 multiplications; 4 × 3 in floats;
   - SSE2 has 16 registers of half that length, NEON 32. */
#if LEVEL == 4
#define ROWS 4
#define SIGNALS 4
#elif LEVEL == 3
#define ROWS (NUMBER_IS_FLOAT ? 4 : 2)
#define SIGNALS 3
#elif defined(__aarch64__)
#define ROWS (NUMBER_IS_FLOAT ? 4 : 2)
#define SIGNALS 3
#else
#define ROWS (NUMBER_IS_FLOAT ? 2 : 1)
#define SIGNALS 3
#endif

/* acc += the entries of `rows` rows in all lanes, times the factors of `signals` signals. */
INLINE void PANEL(add_step)(
    const NUMBER *a, ptrdiff_t row, const NUMBER *x, int rows, int signals, VECTOR acc[ROWS][PARTS][SIGNALS]) {
    VECTOR factor[SIGNALS];
    for (int s = 0; s < signals; s++) factor[s] = VECTOR_ALL(x[s]);
    for (int r = 0; r < rows; r++)
        for (int h = 0; h < PARTS; h++) {
            VECTOR value = VECTOR_LOAD(a + r * row + h * (LANES / PARTS));
            for (int s = 0; s < signals; s++) acc[r][h][s] = VECTOR_FMA(value, factor[s], acc[r][h][s]);
        }
}

/* out += acc, in double. */
INLINE void PANEL(add_to)(double *out, VECTOR acc) {
#if NUMBER_IS_FLOAT
    float sum[SINGLES];
    singles_store(sum, acc);
    for (int i = 0; i < SINGLES; i += WIDE) wide_store(out + i, wide_add(wide_load_f64(out + i), wide_load_f32(sum + i)));
#else
    wide_store(out, wide_add(wide_load_f64(out), acc));
#endif
}

/* The sums of panel_times for a few rows and signals, both constants where this is inlined. With every four steps the
   cache lines from..to of `next` are prefetched. */
INLINE void PANEL(few_times)(
    const NUMBER *a, walk at, ptrdiff_t count, const NUMBER *x, ptrdiff_t b, int rows, int signals, double *out,
    upcoming next, int from, int to) {
    VECTOR acc[ROWS][PARTS][SIGNALS];
    for (int r = 0; r < rows; r++)
        for (int h = 0; h < PARTS; h++)
            for (int s = 0; s < signals; s++) acc[r][h][s] = VECTOR_ALL(0);
    for (; count >= 4; count -= 4, a += at.jump, at.jump += at.change, next.place += 64 * next.lines) {
        if (next.near)
            for (int line = from; line < to; line++) PREFETCH(next.place + 64 * line);
        else
            for (int line = from; line < to; line++) PREFETCH_FAR(next.place + 64 * line);
        for (int k = 0; k < 4; k++, x += b) PANEL(add_step)(a + k * at.step, at.row, x, rows, signals, acc);
    }
    for (; count > 0; count--, a += at.step, x += b) PANEL(add_step)(a, at.row, x, rows, signals, acc);
    for (int r = 0; r < rows; r++)
        for (int h = 0; h < PARTS; h++)
            for (int s = 0; s < signals; s++)
                PANEL(add_to)(out + (r * b + s) * LANES + h * (LANES / PARTS), acc[r][h][s]);
}

/* out[r, s, l] += Σ_{k < count} a[k, r, l] x[k, s] for `rows` rows r and b signals s; the prefetches of `next` are spread
   over all of it. */
static void PANEL(panel_times)(
    const NUMBER *a, walk at, ptrdiff_t count, ptrdiff_t rows, const NUMBER *x, ptrdiff_t b, double *out, upcoming next) {
    const ptrdiff_t calls = (rows + ROWS - 1) / ROWS * ((b + SIGNALS - 1) / SIGNALS);
    const int share = (int)((next.lines + calls - 1) / calls);
    int from = 0;
    for (ptrdiff_t r = 0, high; r < rows; r += high) {
        high = rows - r < ROWS ? 1 : ROWS;
        for (ptrdiff_t s = 0, few; s < b; s += few) {
            few = b - s < SIGNALS ? b - s : SIGNALS;
            if (b - s == SIGNALS + 1) few = 2; /* the sums of a single signal would wait for each other */
            const int to = from + share < next.lines ? from + share : next.lines;
            const NUMBER *ar = a + r * at.row, *xs = x + s;
            double *o = out + (r * b + s) * LANES;
#define FEW(h, s) PANEL(few_times)(ar, at, count, xs, b, h, s, o, next, from, to)
            if (high == ROWS && few == SIGNALS) FEW(ROWS, SIGNALS);
            else if (high == ROWS && few == 3) FEW(ROWS, 3);
            else if (high == ROWS && few == 2) FEW(ROWS, 2);
            else if (high == ROWS) FEW(ROWS, 1);
            else if (few == SIGNALS) FEW(1, SIGNALS);
            else if (few == 3) FEW(1, 3);
            else if (few == 2) FEW(1, 2);
            else FEW(1, 1);
#undef FEW
            from = to;
        }
    }
}

#undef ROWS
#undef SIGNALS
