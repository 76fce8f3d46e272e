/* Greedy growth of a support with Levenberg–Marquardt, on a packed block of A: small dense algebra in one cache.

   The block holds, for each pair a >= b of p coordinates, the vector (Ã_i[a, b])_i, padded with zeros to a multiple of
   FQ_LANES. Every sum over measurements is then a dot product or a combination of such vectors. Single precision is
   enough: growth only chooses a support, and stops at |r| = 1e-4 |y|. */
#ifndef FASTQUAD_GROWTH_H
#define FASTQUAD_GROWTH_H

#include <math.h>
#include <stddef.h>
#include <string.h>
#include "lanes.h"

#define FQ_LANES 16
#define FQ_MAX_SUPPORT 64
#define FQ_MAX_SKIPS 7
#define FQ_FIT_STEPS 12
#define FQ_EXACT_GAINS 3

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

/* V = an orthonormal basis of the span of W's rows: Gram–Schmidt, twice to be orthogonal in single precision. A row that
   is next to nothing, that of a member which went to zero with all others, is rounding, and has no direction. */
static void fq_span(const fq_block *block, fq_support *T)
{
    const ptrdiff_t length = block->length;
    float dots[2];
    fq_two_dots(block->y, block->y, dots, length);
    const float least = 1e-6f * dots[1];
    memcpy(T->V, T->W, T->size * length * sizeof(float));
    for (int a = 0; a < T->size; a++) {
        float *v = T->V + a * length;
        for (int b = 0; b < 2 * a; b++) {
            const float *other = T->V + (b % a) * length;
            fq_two_dots(other, v, dots, length);
            fq_axpy(-dots[0], other, v, length);
        }
        fq_two_dots(v, v, dots, length);
        const float inverse = dots[1] > least ? 1 / sqrtf(dots[1]) : 0;
        for (ptrdiff_t i = 0; i < length; i++)
            v[i] *= inverse;
    }
}

/* projections = (<V_a, w>)_a */
CLONES
static void fq_project(const float *V, const float *w, int s, float *projections, ptrdiff_t length)
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

/* What adding coordinate j would save, when the members' values follow to first order: min_u |P (r + 2u W_j + u² a_j)|²
   with P the projection off the span of W, off which r is already. While T is so small that the new value is as large
   as the others; then without u². V is that span's basis, Wj is for the products of j. */
static float fq_gain(const fq_block *block, const fq_support *T, ptrdiff_t j, float *Wj)
{
    float Vw[FQ_MAX_SUPPORT], Va[FQ_MAX_SUPPORT];
    const ptrdiff_t length = block->length;
    fq_product(block, T, T->z, j, Wj);
    fq_project(T->V, Wj, T->size, Vw, length);
    if (T->size <= FQ_EXACT_GAINS) {
        double dots[5];
        const float *a = fq_pair(block, j, j);
        fq_line_dots(T->r, Wj, a, dots, length);
        fq_project(T->V, a, T->size, Va, length);
        for (int b = 0; b < T->size; b++) {
            dots[2] -= Vw[b] * Vw[b];
            dots[3] -= Vw[b] * Va[b];
            dots[4] -= Va[b] * Va[b];
        }
        const double c1 = 4 * dots[0], c2 = 4 * dots[2] + 2 * dots[1], c3 = 4 * dots[3], c4 = dots[4];
        return (float)-fq_quartic(c1, c2, c3, c4, fq_minimise(c1, c2, c3, c4));
    }
    float dots[2];
    fq_two_dots(T->r, Wj, dots, length);
    float square = dots[1];
    for (int b = 0; b < T->size; b++)
        square -= Vw[b] * Vw[b];
    return square > 1e-6f * dots[1] ? dots[0] * dots[0] / square : 0;
}

/* The coordinates outside T with the `count` largest gains, the largest first; how many there are. */
static int fq_best_gains(const fq_block *block, fq_support *T, int count, float *best, ptrdiff_t *where)
{
    int found = 0;
    fq_span(block, T);
    for (ptrdiff_t j = 0; j < block->p; j++) {
        int inside = 0;
        for (int a = 0; a < T->size; a++)
            inside |= T->member[a] == j;
        if (inside)
            continue;
        const float gain = fq_gain(block, T, j, T->scratch);
        if (found == count && !(gain > best[count - 1]))
            continue;
        int place = found < count ? found++ : count - 1;
        for (; place > 0 && gain > best[place - 1]; place--) {
            best[place] = best[place - 1];
            where[place] = where[place - 1];
        }
        best[place] = gain;
        where[place] = j;
    }
    return found;
}

/* The coordinate outside T with the (skip+1)-th largest gain, −1 where none is left. */
static ptrdiff_t fq_best_gain(const fq_block *block, fq_support *T, int skip)
{
    float best[FQ_MAX_SKIPS + 1];
    ptrdiff_t where[FQ_MAX_SKIPS + 1];
    return fq_best_gains(block, T, skip + 1, best, where) > skip ? where[skip] : -1;
}

/* Add coordinate j at the value that fits best, and update W and r. */
static void fq_add(const fq_block *block, fq_support *T, ptrdiff_t j)
{
    const ptrdiff_t length = block->length;
    double dots[5];
    float *Wj = T->W + T->size * length;
    const float *a = fq_pair(block, j, j);
    fq_product(block, T, T->z, j, Wj);
    fq_line_dots(T->r, Wj, a, dots, length);
    const double u = fq_minimise(4 * dots[0], 4 * dots[2] + 2 * dots[1], 4 * dots[3], dots[4]);
    for (int t = 0; t < T->size; t++)
        fq_axpy((float)u, fq_pair(block, T->member[t], j), T->W + t * length, length);
    fq_axpy((float)u, a, Wj, length);
    T->member[T->size] = j;
    T->z[T->size++] = u;
    fq_residual(block, T);
}

/* Start at one coordinate, with the value that its diagonal suggests. */
static void fq_seed(const fq_block *block, fq_support *T, ptrdiff_t j, double y_norm)
{
    float dots[2];
    const float *a = fq_pair(block, j, j);
    fq_two_dots(block->y, a, dots, block->length);
    const double least = 0.02 * y_norm * sqrt(dots[1]);
    const double z = dots[1] > 0 ? sqrt((dots[0] > least ? dots[0] : least) / dots[1]) : 1;
    T->size = 1;
    T->member[0] = j;
    T->z[0] = z;
    for (ptrdiff_t i = 0; i < block->length; i++)
        T->W[i] = (float)z * a[i];
    fq_residual(block, T);
}

/* Grow from one seed up to `limit` members; curve[s−1] is the residual's square with s members.
   The first addition skips `skip1` better ones, the second `skip2`; at `checkpoint` members the run is given up
   unless the residual is below `cut`. */
static void fq_grow(const fq_block *block, fq_support *T, ptrdiff_t seed, int skip1, int skip2, int limit,
                    int checkpoint, double cut, double *curve)
{
    float dots[2];
    fq_two_dots(block->y, block->y, dots, block->length);
    const double goal = 1e-8 * dots[1];
    fq_seed(block, T, seed, sqrt(dots[1]));
    fq_fit(block, T, goal);
    curve[0] = T->rss;
    while (T->size < limit && T->rss > goal) {
        if (T->size == checkpoint && T->rss > cut)
            break;
        const ptrdiff_t j = fq_best_gain(block, T, T->size == 1 ? skip1 : T->size == 2 ? skip2 : 0);
        if (j < 0)
            break;
        fq_add(block, T, j);
        fq_fit(block, T, goal);
        curve[T->size - 1] = T->rss;
    }
}

/* The RSS that would be added without each member, to second order: z² / ((4 W^T W)^{-1})_aa. */
static void fq_drop_costs(const fq_block *block, const fq_support *T, double *costs)
{
    double gram[FQ_MAX_SUPPORT * FQ_MAX_SUPPORT], factor[FQ_MAX_SUPPORT * FQ_MAX_SUPPORT];
    double unit[FQ_MAX_SUPPORT], column[FQ_MAX_SUPPORT], trace = 0;
    const int s = T->size;
    fq_gram(T->W, T->r, s, block->length, gram, column);
    for (int a = 0; a < s; a++)
        trace += gram[a * FQ_MAX_SUPPORT + a];
    for (int a = 0; a < s; a++) {
        for (int b = 0; b < s; b++)
            unit[b] = a == b;
        const int regular = fq_solve(gram, 1e-6 * trace / s, unit, factor, column, s);
        costs[a] = regular && column[a] > 0 ? 4 * T->z[a] * T->z[a] / column[a] : 0;
    }
}

/* Remove member a, and update W and r. */
static void fq_drop(const fq_block *block, fq_support *T, int a)
{
    const ptrdiff_t length = block->length, j = T->member[a];
    const float z = (float)T->z[a];
    for (int t = 0, to = 0; t < T->size; t++) {
        if (t == a)
            continue;
        fq_axpy(-z, fq_pair(block, T->member[t], j), T->W + t * length, length);
        if (to != t)
            memcpy(T->W + to * length, T->W + t * length, length * sizeof(float));
        T->member[to] = T->member[t];
        T->z[to++] = T->z[t];
    }
    T->size--;
    fq_residual(block, T);
}

/* Drop the member that costs least while the RSS grows less than 1 + allowance/(m − s) times.
   T holds a fitted support on entry; on exit its members and z are those of the last that was accepted. */
static void fq_prune(const fq_block *block, fq_support *T, double allowance, ptrdiff_t m)
{
    double costs[FQ_MAX_SUPPORT], z[FQ_MAX_SUPPORT];
    ptrdiff_t member[FQ_MAX_SUPPORT];
    float dots[2];
    fq_two_dots(block->y, block->y, dots, block->length);
    /* An RSS of zero would make every member matter: below this one nothing is left to explain. */
    const double least = 1e-8 * dots[1];
    while (T->size > 1) {
        const int size = T->size;
        const double rss = T->rss;
        const double allowed = (rss + least) * (1 + allowance / (m > size ? m - size : 1));
        int worst = 0;
        fq_drop_costs(block, T, costs);
        for (int a = 1; a < size; a++)
            if (costs[a] < costs[worst])
                worst = a;
        memcpy(z, T->z, sizeof z);
        memcpy(member, T->member, sizeof member);
        fq_drop(block, T, worst);
        fq_fit(block, T, least);
        if (T->rss + least > allowed) {
            memcpy(T->z, z, sizeof z);
            memcpy(T->member, member, sizeof member);
            T->size = size;
            T->rss = rss;
            return;
        }
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
