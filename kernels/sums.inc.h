/* The sums over measurements of support.h, growth.h and gibbs.h, for one level of SIMD: loops over vectors whose length
   is a multiple of FQ_MULTIPLE. They are plain where compilers turn them into SIMD. */

/* out[i:] = sum_t c_t rows_t[i:] for so many vectors, a constant where this is inlined. GCC 12 would take plain loops two
   rows at a time, and number by number. */
INLINE void AT(fq_combine_part)(const float *const *rows, const float *c, int count, ptrdiff_t i, int vectors, float *out)
{
    floats sum[4];
    for (int v = 0; v < vectors; v++)
        sum[v] = floats_all(0);
    for (int t = 0; t < count; t++) {
        const floats factor = floats_all(c[t]);
        for (int v = 0; v < vectors; v++)
            sum[v] = floats_fma(factor, floats_load(rows[t] + i + v * FLOATS), sum[v]);
    }
    for (int v = 0; v < vectors; v++)
        floats_store(out + i + v * FLOATS, sum[v]);
}

/* out = sum_t c_t rows_t */
static void AT(fq_combine)(const float *const *rows, const float *c, int count, float *out, ptrdiff_t length)
{
    ptrdiff_t i = 0;
    for (; i + 4 * FLOATS <= length; i += 4 * FLOATS)
        AT(fq_combine_part)(rows, c, count, i, 4, out);
    if (length - i == 3 * FLOATS)
        AT(fq_combine_part)(rows, c, count, i, 3, out);
    else if (length - i == 2 * FLOATS)
        AT(fq_combine_part)(rows, c, count, i, 2, out);
    else if (length - i == FLOATS)
        AT(fq_combine_part)(rows, c, count, i, 1, out);
}

/* sums[a, l] = sum_b pair_ab[l] c_b for l < count, a constant where this is inlined: each pair a >= b is read once. */
INLINE void AT(fq_tile_products)(const float *pair, const double *c, ptrdiff_t s, ptrdiff_t length, int count,
                                 double *sums)
{
    for (ptrdiff_t a = 0; a < s; a++) {
        const wide here = wide_all(c[a]);
        wide mine[FQ_TILE / WIDE];
        for (int v = 0; v < count / WIDE; v++)
            mine[v] = wide_all(0);
        for (ptrdiff_t b = 0; b < a; b++, pair += length) {
            const wide there = wide_all(c[b]);
            double *other = sums + b * count;
            for (int v = 0; v < count / WIDE; v++) {
                const wide value = wide_load_f32(pair + v * WIDE);
                mine[v] = wide_fma(there, value, mine[v]);
                wide_store(other + v * WIDE, wide_fma(here, value, wide_load_f64(other + v * WIDE)));
            }
        }
        for (int v = 0; v < count / WIDE; v++)
            wide_store(sums + a * count + v * WIDE, wide_fma(here, wide_load_f32(pair + v * WIDE), mine[v]));
        pair += length;
    }
}

/* out[i, a] = sum_b pair_ab[i] c_b in double precision, (m, s), of packed pairs; sums has s * FQ_TILE numbers. */
static void AT(fq_products)(const float *pairs, const double *c, ptrdiff_t s, ptrdiff_t m, ptrdiff_t length, double *sums,
                            double *out)
{
    for (ptrdiff_t i = 0; i < m;) {
        const int count = length - i >= FQ_TILE ? FQ_TILE : FQ_MULTIPLE;
        if (count == FQ_TILE)
            AT(fq_tile_products)(pairs + i, c, s, length, FQ_TILE, sums);
        else
            AT(fq_tile_products)(pairs + i, c, s, length, FQ_MULTIPLE, sums);
        for (ptrdiff_t l = 0; l < count && i + l < m; l++)
            for (ptrdiff_t a = 0; a < s; a++)
                out[(i + l) * s + a] = sums[a * count + l];
        i += count;
    }
}

/* dots = (<a, b>, <b, b>) */
static void AT(fq_two_dots)(const float *a, const float *b, float *dots, ptrdiff_t length)
{
    float ab = 0, bb = 0;
#pragma omp simd reduction(+ : ab, bb)
    for (ptrdiff_t i = 0; i < length; i++) {
        ab += a[i] * b[i];
        bb += b[i] * b[i];
    }
    dots[0] = ab;
    dots[1] = bb;
}

/* gram[a, b] = <W_a, W_b> for b <= a, and projection_a = <W_a, r> */
static void AT(fq_gram)(const float *W, const float *r, int s, ptrdiff_t length, double *gram, double *projection)
{
    for (int a = 0; a < s; a++) {
        const float *Wa = W + a * length;
        float dot = 0;
#pragma omp simd reduction(+ : dot)
        for (ptrdiff_t i = 0; i < length; i++)
            dot += Wa[i] * r[i];
        projection[a] = dot;
        for (int b = 0; b <= a; b++) {
            const float *Wb = W + b * length;
            float sum = 0;
#pragma omp simd reduction(+ : sum)
            for (ptrdiff_t i = 0; i < length; i++)
                sum += Wa[i] * Wb[i];
            gram[a * FQ_MAX_SUPPORT + b] = sum;
        }
    }
}

/* dots = (<r,p>, <r,q>, <p,p>, <p,q>, <q,q>) */
static void AT(fq_line_dots)(const float *r, const float *p, const float *q, double *dots, ptrdiff_t length)
{
    float rp = 0, rq = 0, pp = 0, pq = 0, qq = 0;
#pragma omp simd reduction(+ : rp, rq, pp, pq, qq)
    for (ptrdiff_t i = 0; i < length; i++) {
        rp += r[i] * p[i];
        rq += r[i] * q[i];
        pp += p[i] * p[i];
        pq += p[i] * q[i];
        qq += q[i] * q[i];
    }
    dots[0] = rp;
    dots[1] = rq;
    dots[2] = pp;
    dots[3] = pq;
    dots[4] = qq;
}

/* out += c v */
static void AT(fq_axpy)(float c, const float *v, float *out, ptrdiff_t length)
{
    for (ptrdiff_t i = 0; i < length; i++)
        out[i] += c * v[i];
}

/* projections = (<V_a, w>)_a */
static void AT(fq_project)(const float *V, const float *w, int s, float *projections, ptrdiff_t length)
{
    for (int a = 0; a < s; a++) {
        const float *v = V + a * length;
        float dot = 0;
#pragma omp simd reduction(+ : dot)
        for (ptrdiff_t i = 0; i < length; i++)
            dot += v[i] * w[i];
        projections[a] = dot;
    }
}

/* Move coordinate j by d: r and all of W follow. */
static void AT(fq_move)(const float *pairs, ptrdiff_t p, ptrdiff_t length, ptrdiff_t j, float d, float *r, float *W)
{
    const float *row = pairs + j * (j + 1) / 2 * length, *Wj = W + j * length, *a = row + j * length;
    for (ptrdiff_t i = 0; i < length; i++)
        r[i] += 2 * d * Wj[i] + d * d * a[i];
    for (ptrdiff_t i = 0; i < (j + 1) * length; i++)
        W[i] += d * row[i];
    for (ptrdiff_t k = j + 1; k < p; k++) {
        const float *pair = pairs + (k * (k + 1) / 2 + j) * length;
        float *Wk = W + k * length;
        for (ptrdiff_t i = 0; i < length; i++)
            Wk[i] += d * pair[i];
    }
}

