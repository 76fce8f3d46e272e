/* The sums over measurements of support.h, growth.h and gibbs.h, for one level of SIMD: plain loops over vectors whose
   length is a multiple of FQ_MULTIPLE, which compilers turn into SIMD. */

/* out = sum_t c_t rows_t */
static void AT(fq_combine)(const float *const *rows, const float *c, int count, float *out, ptrdiff_t length)
{
    ptrdiff_t i = 0;
    for (; i + 4 * FQ_MULTIPLE <= length; i += 4 * FQ_MULTIPLE) {
        float sum[4 * FQ_MULTIPLE] = {0};
        for (int t = 0; t < count; t++)
            for (int l = 0; l < 4 * FQ_MULTIPLE; l++)
                sum[l] += c[t] * rows[t][i + l];
        memcpy(out + i, sum, sizeof sum);
    }
    for (; i < length; i += FQ_MULTIPLE) {
        float sum[FQ_MULTIPLE] = {0};
        for (int t = 0; t < count; t++)
            for (int l = 0; l < FQ_MULTIPLE; l++)
                sum[l] += c[t] * rows[t][i + l];
        memcpy(out + i, sum, sizeof sum);
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

