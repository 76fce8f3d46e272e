/* A support on a packed block of A, and Levenberg–Marquardt on it: small dense algebra in one cache.

   The block holds, for each pair a >= b of p coordinates, the vector (Ã_i[a, b])_i, padded with zeros to a multiple of
   FQ_LANES. Every sum over measurements is then a dot product or a combination of such vectors. Single precision is
   enough: growth only chooses a support, and stops at |r| = 1e-4 |y|. */
#ifndef FASTQUAD_SUPPORT_H
#define FASTQUAD_SUPPORT_H

#include <math.h>
#include <stddef.h>
#include <string.h>
#include "lanes.h"

#define FQ_LANES 16
#define FQ_MAX_SUPPORT 64
#define FQ_FIT_STEPS 12

typedef struct {
    const float *pairs;
    const float *y;
    ptrdiff_t length; /* padded number of measurements */
    ptrdiff_t p;
} fq_block;

typedef struct {
    int size;
    ptrdiff_t member[FQ_MAX_SUPPORT];
    double z[FQ_MAX_SUPPORT];
    double rss;
    float *r;       /* A(zz^T) − y */
    float *W;       /* products of z at the members, one row each */
    float *V;       /* products of a direction */
    float *scratch; /* two vectors */
} fq_support;

static inline const float *fq_pair(const fq_block *block, ptrdiff_t a, ptrdiff_t b)
{
    return block->pairs + (a >= b ? a * (a + 1) / 2 + b : b * (b + 1) / 2 + a) * block->length;
}

/* out = sum_t c_t rows_t */
CLONES
static void fq_combine(const float *const *rows, const float *c, int count, float *out, ptrdiff_t length)
{
    ptrdiff_t i = 0;
    for (; i + 4 * FQ_LANES <= length; i += 4 * FQ_LANES) {
        float sum[4 * FQ_LANES] = {0};
        for (int t = 0; t < count; t++)
            for (int l = 0; l < 4 * FQ_LANES; l++)
                sum[l] += c[t] * rows[t][i + l];
        memcpy(out + i, sum, sizeof sum);
    }
    for (; i < length; i += FQ_LANES) {
        float sum[FQ_LANES] = {0};
        for (int t = 0; t < count; t++)
            for (int l = 0; l < FQ_LANES; l++)
                sum[l] += c[t] * rows[t][i + l];
        memcpy(out + i, sum, sizeof sum);
    }
}

/* dots = (<a, b>, <b, b>) */
CLONES
static void fq_two_dots(const float *a, const float *b, float *dots, ptrdiff_t length)
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
CLONES
static void fq_gram(const float *W, const float *r, int s, ptrdiff_t length, double *gram, double *projection)
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
CLONES
static void fq_line_dots(const float *r, const float *p, const float *q, double *dots, ptrdiff_t length)
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
CLONES
static void fq_axpy(float c, const float *v, float *out, ptrdiff_t length)
{
    for (ptrdiff_t i = 0; i < length; i++)
        out[i] += c * v[i];
}

static double fq_quartic(double c1, double c2, double c3, double c4, double u)
{
    return u * (c1 + u * (c2 + u * (c3 + u * c4)));
}

/* The better of the outer roots of the quartic's derivative, for c4 > 0. */
static double fq_best_root(double c1, double c2, double c3, double c4)
{
    const double shift = c3 / (4 * c4);
    const double P = c2 / (6 * c4) - shift * shift;
    const double Q = shift * shift * shift - shift * c2 / (4 * c4) + c1 / (8 * c4);
    const double discriminant = Q * Q + P * P * P;
    if (discriminant >= 0) {
        const double big = -copysign(cbrt(fabs(Q) + sqrt(discriminant)), Q);
        return (big != 0 ? big - P / big : 0) - shift;
    }
    const double radius = sqrt(-P);
    double cosine = -Q / (radius * radius * radius);
    cosine = cosine > 1 ? 1 : cosine < -1 ? -1 : cosine;
    const double angle = acos(cosine) / 3;
    const double high = 2 * radius * cos(angle) - shift;
    const double low = 2 * radius * cos(angle + 2.0943951023931953) - shift;
    return fq_quartic(c1, c2, c3, c4, high) <= fq_quartic(c1, c2, c3, c4, low) ? high : low;
}

/* The u that minimises c1 u + c2 u^2 + c3 u^3 + c4 u^4, c4 >= 0: the better of the outer roots of the derivative. */
static double fq_minimise(double c1, double c2, double c3, double c4)
{
    /* Where the quartic term is next to nothing, the roots are rounding, and this is the minimum. */
    const double flat = c2 > 0 ? -c1 / (2 * c2) : 0;
    const double root = c4 > 0 ? fq_best_root(c1, c2, c3, c4) : 0;
    return fq_quartic(c1, c2, c3, c4, root) <= fq_quartic(c1, c2, c3, c4, flat) ? root : flat;
}

/* Solve (gram + damping) d = b by Cholesky, in place in `factor`; 0 where it is not positive definite. */
static int fq_solve(const double *gram, double damping, const double *b, double *factor, double *d, int s)
{
    for (int a = 0; a < s; a++) {
        double *row = factor + a * FQ_MAX_SUPPORT;
        double value = b[a];
        for (int c = 0; c <= a; c++) {
            const double *other = factor + c * FQ_MAX_SUPPORT;
            double sum = gram[a * FQ_MAX_SUPPORT + c] + (a == c ? damping : 0);
            for (int k = 0; k < c; k++)
                sum -= row[k] * other[k];
            if (c < a) {
                row[c] = sum / other[c];
                value -= row[c] * d[c];
            } else {
                if (!(sum > 0))
                    return 0;
                row[a] = sqrt(sum);
            }
        }
        d[a] = value / row[a];
    }
    for (int a = s - 1; a >= 0; a--) {
        double value = d[a];
        for (int c = a + 1; c < s; c++)
            value -= factor[c * FQ_MAX_SUPPORT + a] * d[c];
        d[a] = value / factor[a * FQ_MAX_SUPPORT + a];
    }
    return 1;
}

/* out = sum_a c_a M_a over the rows of M */
static void fq_rows_sum(const float *M, const double *c, int s, float *out, ptrdiff_t length)
{
    const float *rows[FQ_MAX_SUPPORT];
    float coefficient[FQ_MAX_SUPPORT];
    for (int a = 0; a < s; a++) {
        rows[a] = M + a * length;
        coefficient[a] = (float)c[a];
    }
    fq_combine(rows, coefficient, s, out, length);
}

/* out = products of the signal with values c on the members, at coordinate j */
static void fq_product(const fq_block *block, const fq_support *T, const double *c, ptrdiff_t j, float *out)
{
    const float *rows[FQ_MAX_SUPPORT];
    float coefficient[FQ_MAX_SUPPORT];
    for (int a = 0; a < T->size; a++) {
        rows[a] = fq_pair(block, T->member[a], j);
        coefficient[a] = (float)c[a];
    }
    fq_combine(rows, coefficient, T->size, out, block->length);
}

/* r = A(zz^T) − y and its square, from W and z */
static void fq_residual(const fq_block *block, fq_support *T)
{
    float dots[2];
    fq_rows_sum(T->W, T->z, T->size, T->r, block->length);
    fq_axpy(-1, block->y, T->r, block->length);
    fq_two_dots(T->r, T->r, dots, block->length);
    T->rss = dots[1];
}

/* Levenberg–Marquardt on the members, from z; stops when a step lowers the residual by less than 0.1%. */
static void fq_fit(const fq_block *block, fq_support *T, double goal)
{
    double gram[FQ_MAX_SUPPORT * FQ_MAX_SUPPORT], factor[FQ_MAX_SUPPORT * FQ_MAX_SUPPORT];
    double b[FQ_MAX_SUPPORT], d[FQ_MAX_SUPPORT], dots[5], damping = -1;
    const ptrdiff_t length = block->length;
    const int s = T->size;
    float *p = T->scratch, *q = T->scratch + length;
    for (int step = 0; step < FQ_FIT_STEPS && T->rss > goal; step++) {
        fq_gram(T->W, T->r, s, length, gram, b);
        double trace = 0;
        for (int a = 0; a < s; a++) {
            trace += gram[a * FQ_MAX_SUPPORT + a];
            b[a] *= -0.5;
        }
        if (damping < 0)
            damping = 1e-2 * trace / s;
        while (!fq_solve(gram, damping, b, factor, d, s))
            damping = 10 * damping + 1e-6 * trace / s + 1e-30;
        for (int a = 0; a < s; a++)
            fq_product(block, T, d, T->member[a], T->V + a * length);
        fq_rows_sum(T->W, d, s, p, length);
        fq_rows_sum(T->V, d, s, q, length);
        /* |r + 2u p + u² q|² */
        fq_line_dots(T->r, p, q, dots, length);
        const double c1 = 4 * dots[0], c2 = 4 * dots[2] + 2 * dots[1], c3 = 4 * dots[3], c4 = dots[4];
        const double u = fq_minimise(c1, c2, c3, c4);
        const double change = fq_quartic(c1, c2, c3, c4, u);
        const double ratio = (c1 + c2 + c3 + c4) / (c1 + 4 * dots[2]);
        if (!(change < 0))
            break;
        const double before = T->rss;
        for (int a = 0; a < s; a++)
            T->z[a] += u * d[a];
        fq_axpy((float)u, T->V, T->W, s * length);
        fq_residual(block, T);
        if (before - T->rss < 1e-3 * before)
            break;
        damping *= ratio > 0.9 ? 1e-2 : ratio > 0.6 ? 0.1 : ratio > 0.25 ? 1 : 10;
    }
}

/* W, r and the RSS of a support whose members and z are given. */
static void fq_load(const fq_block *block, fq_support *T)
{
    for (int a = 0; a < T->size; a++)
        fq_product(block, T, T->z, T->member[a], T->W + a * block->length);
    fq_residual(block, T);
}

#endif
