/* The inner loops of the batched kernels, in NUMBER = double or float, for one level of SIMD.

   PANEL(f) names their functions. A VECTOR of VECTOR_SIZE numbers holds ENTRIES entries of all lanes, or one of PARTS of an
   entry. ROWS × SIGNALS sums of vectors stay in registers, and distances within a group are known when this is compiled:
   they would take the registers that addresses need.

   - AVX-512: 4 × 6 in doubles, 10 loads for 24 multiplications, which with the six factors and an entry fill 32 registers. In
     floats a vector holds two rows: along the cells of a group it is 2 × 8, and down its columns 4 × 4;
   - AVX2: 2 × 3 in doubles, which are two vectors each: with three factors and an entry they fill 16 registers, and take
     7 loads for 12 multiplications; 4 × 3 in floats;
   - SSE2 has 16 registers of half that length, NEON 32. */
#define ENTRIES (VECTOR_SIZE > LANES ? VECTOR_SIZE / LANES : 1)
#define PARTS (VECTOR_SIZE < LANES ? LANES / VECTOR_SIZE : 1)
#if LEVEL == 4
#define ROWS 4
#define SIGNALS (NUMBER_IS_FLOAT ? 4 : 6)
#elif LEVEL == 3 || defined(__aarch64__)
#define ROWS (NUMBER_IS_FLOAT ? 4 : 2)
#define SIGNALS 3
#else
#define ROWS (NUMBER_IS_FLOAT ? 2 : 1)
#define SIGNALS 3
#endif
/* Along the cells: vectors of rows, the rows in them, and signals. */
#define ROWS_ALONG (ROWS / ENTRIES)
#define HEIGHT (ROWS_ALONG * ENTRIES)
#define SIGNALS_ALONG (SIGNALS * ENTRIES)

/* How many of the `left` signals are taken at once, of `most`: what few_along and few_down are compiled for. Never one of
   several, whose sums would wait for each other. */
INLINE int PANEL(few_of)(ptrdiff_t left, int most) {
    if (left == most + 1) return most / 2 < 2 ? 2 : most / 2;
    if (left == most + 2 && most > 4) return 4;
    if (left >= most) return most;
    if (left == 5) return 3;
    return left > 4 ? 4 : (int)left;
}

/* acc += a few vectors, `row` apart, times the factors of `signals` signals: numbers, or vectors where they are `spread`. */
INLINE void PANEL(add_step)(
    const NUMBER *a, ptrdiff_t row, const NUMBER *x, int spread, int rows, int signals,
    VECTOR acc[ROWS][PARTS][SIGNALS_ALONG]) {
    VECTOR factor[SIGNALS_ALONG];
    for (int s = 0; s < signals; s++) factor[s] = spread ? VECTOR_LOAD(x + s * VECTOR_SIZE) : VECTOR_ALL(x[s]);
    for (int r = 0; r < rows; r++)
        for (int h = 0; h < PARTS; h++) {
            VECTOR value = VECTOR_LOAD(a + r * row + h * VECTOR_SIZE);
            for (int s = 0; s < signals; s++) acc[r][h][s] = VECTOR_FMA(value, factor[s], acc[r][h][s]);
        }
}

/* acc = 0 */
INLINE void PANEL(clear)(int rows, int signals, VECTOR acc[ROWS][PARTS][SIGNALS_ALONG]) {
    for (int r = 0; r < rows; r++)
        for (int h = 0; h < PARTS; h++)
            for (int s = 0; s < signals; s++) acc[r][h][s] = VECTOR_ALL(0);
}

/* out += sum */
INLINE void PANEL(add_wide)(double *out, wide sum) { wide_store(out, wide_add(wide_load_f64(out), sum)); }

/* out[s, l] += acc[s, l] in double, for one vector; its entries are `apart` in out, or all added to the same where that is 0. */
INLINE void PANEL(add_vector)(double *out, ptrdiff_t apart, VECTOR acc) {
#if NUMBER_IS_FLOAT && FLOATS == 16
    if (apart == 0) { /* in float, a conversion less */
        float both[FLOATS];
        floats_store(both, acc);
        singles_store(both, singles_add(singles_load_f32(both), singles_load_f32(both + LANES)));
        PANEL(add_wide)(out, wide_load_f32(both));
        return;
    }
#endif
    for (int part = 0; part < VECTOR_SIZE; part += WIDE)
        PANEL(add_wide)(out + part / LANES * apart + part % LANES, VECTOR_PART(acc, part / WIDE));
}

/* out[r, s, l] += acc[r, s, l], for vectors of rows that are `row` apart. */
INLINE void PANEL(add_to)(
    double *out, ptrdiff_t row, ptrdiff_t apart, int rows, int signals, VECTOR acc[ROWS][PARTS][SIGNALS_ALONG]) {
    for (int r = 0; r < rows; r++)
        for (int h = 0; h < PARTS; h++)
            for (int s = 0; s < signals; s++)
                PANEL(add_vector)(out + r * row + s * LANES + h * VECTOR_SIZE, apart, acc[r][h][s]);
}

/* Prefetch the cache lines from..to of what is next. */
INLINE void PANEL(fetch)(upcoming next, int from, int to) {
    if (next.near)
        for (int line = from; line < to; line++) PREFETCH(next.place + 64 * line);
    else
        for (int line = from; line < to; line++) PREFETCH_FAR(next.place + 64 * line);
}

/* The sums of panel_along for a few vectors of rows and a few signals, both constants where this is inlined. With every four
   steps the cache lines from..to of `next` are prefetched. */
INLINE void PANEL(few_along)(
    const NUMBER *a, ptrdiff_t step, ptrdiff_t count, const NUMBER *x, ptrdiff_t b, int rows, int signals, double *out,
    upcoming next, int from, int to) {
    VECTOR acc[ROWS][PARTS][SIGNALS_ALONG];
    PANEL(clear)(rows, signals, acc);
    for (; count >= 4; count -= 4, a += 4 * step, next.place += 64 * next.lines) {
        PANEL(fetch)(next, from, to);
        for (int k = 0; k < 4; k++, x += b) PANEL(add_step)(a + k * step, ENTRIES * LANES, x, 0, rows, signals, acc);
    }
    for (; count > 0; count--, a += step, x += b) PANEL(add_step)(a, ENTRIES * LANES, x, 0, rows, signals, acc);
    PANEL(add_to)(out, ENTRIES * b * LANES, b * LANES, rows, signals, acc);
}

/* out[r, s, l] += Σ_{k < count} a[k, r, l] x[k, s] for `rows` rows r, side by side, and b signals s, with `step` from one k to
   the next; the prefetches of `next` are spread over all of it. */
INLINE void PANEL(panel_along)(
    const NUMBER *a, ptrdiff_t step, ptrdiff_t count, ptrdiff_t rows, const NUMBER *x, ptrdiff_t b, double *out,
    upcoming next) {
    const ptrdiff_t calls = (rows + HEIGHT - 1) / HEIGHT * ((b + SIGNALS_ALONG - 1) / SIGNALS_ALONG);
    const int share = (int)((next.lines + calls - 1) / calls);
    int from = 0;
    for (ptrdiff_t r = 0, high; r < rows; r += high) {
        high = rows - r < HEIGHT ? 1 : HEIGHT;
        for (ptrdiff_t s = 0, few; s < b; s += few) {
            few = PANEL(few_of)(b - s, SIGNALS_ALONG);
            const int to = from + share < next.lines ? from + share : next.lines;
#define FEW(h, f) PANEL(few_along)(a + r * LANES, step, count, x + s, b, h, f, out + (r * b + s) * LANES, next, from, to)
            if (high == HEIGHT && few == SIGNALS_ALONG) FEW(ROWS_ALONG, SIGNALS_ALONG);
            else if (high == HEIGHT && few == 4) FEW(ROWS_ALONG, SIGNALS_ALONG < 4 ? 1 : 4);
            else if (high == HEIGHT && few == 3) FEW(ROWS_ALONG, 3);
            else if (high == HEIGHT && few == 2) FEW(ROWS_ALONG, 2);
            else if (high == HEIGHT) FEW(ROWS_ALONG, 1);
            else if (few == SIGNALS) FEW(1, SIGNALS);
            else if (few == 4) FEW(1, SIGNALS < 4 ? 1 : 4);
            else if (few == 3) FEW(1, 3);
            else if (few == 2) FEW(1, 2);
            else FEW(1, 1);
#undef FEW
            from = to;
        }
    }
}

/* The panel along `count` cells of a group. */
static void PANEL(panel_cells)(
    const NUMBER *a, ptrdiff_t count, const NUMBER *x, ptrdiff_t b, double *out, upcoming next) {
    PANEL(panel_along)(a, CELL, count, GROUP, x, b, out, next);
}

/* x[j, s] as panel_down takes it: itself, or where a vector holds two rows each number in all lanes, written to `out`. */
static const NUMBER *PANEL(spread)(const NUMBER *x, ptrdiff_t rows, ptrdiff_t b, NUMBER *out) {
    if (ENTRIES == 1) return x;
    for (ptrdiff_t j = 0; j < rows; j++)
        for (ptrdiff_t s = 0; s < b; s++)
            for (int l = 0; l < LANES; l++) out[((j / ENTRIES * b + s) * ENTRIES + j % ENTRIES) * LANES + l] = x[j * b + s];
    return out;
}

/* The sums of panel_down for a few columns and a few signals, both constants where this is inlined. */
INLINE void PANEL(few_down)(
    const NUMBER *a, ptrdiff_t jump, ptrdiff_t change, const NUMBER *x, ptrdiff_t b, int columns, int signals, double *out,
    upcoming next, int from, int to) {
    VECTOR acc[ROWS][PARTS][SIGNALS_ALONG];
    PANEL(clear)(columns, signals, acc);
    for (int j = 0; j < TILE; j += GROUP, a += jump, jump += change, next.place += 64 * next.lines) {
        PANEL(fetch)(next, from, to);
        for (int r = 0; r < GROUP; r += ENTRIES, x += ENTRIES > 1 ? VECTOR_SIZE * b : b)
            PANEL(add_step)(a + r * LANES, CELL, x, ENTRIES > 1, columns, signals, acc);
    }
    PANEL(add_to)(out, b * LANES, 0, columns, signals, acc);
}

/* out[k, s, l] += Σ_j a[j, k, l] x[j, s] for `columns` columns k and b signals s, over the rows j of a tile, whose second group
   is `jump` from the first, and each further jump longer by `change`. x is what `spread` gave. */
static void PANEL(panel_down)(
    const NUMBER *a, ptrdiff_t jump, ptrdiff_t change, ptrdiff_t columns, const NUMBER *x, ptrdiff_t b, double *out,
    upcoming next) {
    const ptrdiff_t calls = (columns + ROWS - 1) / ROWS * ((b + SIGNALS - 1) / SIGNALS);
    const int share = (int)((next.lines + calls - 1) / calls);
    int from = 0;
    for (ptrdiff_t k = 0, some; k < columns; k += some) {
        some = columns - k < ROWS ? 1 : ROWS;
        for (ptrdiff_t s = 0, few; s < b; s += few) {
            few = PANEL(few_of)(b - s, SIGNALS);
            const int to = from + share < next.lines ? from + share : next.lines;
            const NUMBER *xs = x + (ENTRIES > 1 ? VECTOR_SIZE * s : s);
#define FEW(c, f) PANEL(few_down)(a + k * CELL, jump, change, xs, b, c, f, out + (k * b + s) * LANES, next, from, to)
            if (some == ROWS && few == SIGNALS) FEW(ROWS, SIGNALS);
            else if (some == ROWS && few == 4) FEW(ROWS, SIGNALS < 4 ? 1 : 4);
            else if (some == ROWS && few == 3) FEW(ROWS, 3);
            else if (some == ROWS && few == 2) FEW(ROWS, 2);
            else if (some == ROWS) FEW(ROWS, 1);
            else if (few == SIGNALS) FEW(1, SIGNALS);
            else if (few == 4) FEW(1, SIGNALS < 4 ? 1 : 4);
            else if (few == 3) FEW(1, 3);
            else if (few == 2) FEW(1, 2);
            else FEW(1, 1);
#undef FEW
            from = to;
        }
    }
}

#undef ENTRIES
#undef PARTS
#undef ROWS
#undef SIGNALS
#undef ROWS_ALONG
#undef HEIGHT
#undef SIGNALS_ALONG
