/* The batched kernels' inner loop, for one level of SIMD: PANEL(name) names it, and the compiler's target is set around
   this file. (Cloned as the other kernels are, GCC 12 would build each factor from halves instead of broadcasting it.) */

/* acc += the entries of `rows` rows in all lanes, times the factors of `signals` signals. */
INLINE void PANEL(add_step)(
    const double *a, ptrdiff_t row, const double *x, int rows, int signals, vec acc[2][LANES / 4][3]) {
    vec factor[3];
    for (int s = 0; s < signals; s++) factor[s] = SPREAD(x[s]);
    for (int r = 0; r < rows; r++)
        for (int h = 0; h < LANES / 4; h++) {
            vec value = vec_load_f64(a + r * row + 4 * h);
            for (int s = 0; s < signals; s++) acc[r][h][s] = vec_fma(value, factor[s], acc[r][h][s]);
        }
}

/* The sums of panel_times for one or two rows and one to three signals: two rows and three signals are twelve sums, which
   with three factors and an entry fill the 16 registers of AVX2, and take seven loads for twelve multiplications. */
INLINE void PANEL(few_times)(
    const double *a, walk at, ptrdiff_t count, const double *x, ptrdiff_t b, int rows, int signals, double *out) {
    vec acc[2][LANES / 4][3];
    for (int r = 0; r < rows; r++)
        for (int h = 0; h < LANES / 4; h++)
            for (int s = 0; s < signals; s++) acc[r][h][s] = SPREAD(0);
    for (; count >= 4; count -= 4, a += at.jump, at.jump += at.change)
        for (int k = 0; k < 4; k++, x += b) PANEL(add_step)(a + k * at.step, at.row, x, rows, signals, acc);
    for (; count > 0; count--, a += at.step, x += b) PANEL(add_step)(a, at.row, x, rows, signals, acc);
    for (int r = 0; r < rows; r++)
        for (int h = 0; h < LANES / 4; h++)
            for (int s = 0; s < signals; s++) {
                double *o = out + (r * b + s) * LANES + 4 * h;
                vec_store_f64(o, vec_add(vec_load_f64(o), acc[r][h][s]));
            }
}

static void PANEL(panel_times)(
    const double *a, walk at, ptrdiff_t count, ptrdiff_t rows, const double *x, ptrdiff_t b, double *out,
    const char *ahead, ptrdiff_t bytes) {
    ptrdiff_t calls = (rows + 1) / 2 * ((b + 2) / 3), share = (bytes / calls + 63) / 64 * 64;
    for (ptrdiff_t r = 0; r < rows; r += 2)
        for (ptrdiff_t s = 0, few; s < b; s += few) {
            few = b - s == 4 ? 2 : b - s < 3 ? b - s : 3; /* 4 = 2 + 2: the sums of one signal wait for each other */
            for (const char *line = ahead; line < ahead + share && bytes > 0; line += 64, bytes -= 64) PREFETCH_FAR(line);
            ahead += share;
            const double *ar = a + r * at.row, *xs = x + s;
            double *o = out + (r * b + s) * LANES;
            if (rows - r > 1) {
                if (few == 3) PANEL(few_times)(ar, at, count, xs, b, 2, 3, o);
                else if (few == 2) PANEL(few_times)(ar, at, count, xs, b, 2, 2, o);
                else PANEL(few_times)(ar, at, count, xs, b, 2, 1, o);
            } else {
                if (few == 3) PANEL(few_times)(ar, at, count, xs, b, 1, 3, o);
                else if (few == 2) PANEL(few_times)(ar, at, count, xs, b, 1, 2, o);
                else PANEL(few_times)(ar, at, count, xs, b, 1, 1, o);
            }
        }
}
