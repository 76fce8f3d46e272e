/* A support on a packed block of A, and Levenberg–Marquardt on it: small dense algebra in one cache.

   The block holds, for each pair a >= b of p coordinates, the vector (Ã_i[a, b])_i, padded with zeros to a multiple of
   FQ_MULTIPLE. Every sum over measurements is then a dot product or a combination of such vectors. Single precision is
   enough: growth only chooses a support, and stops at |r| = 1e-4 |y|. */
#ifndef FASTQUAD_SUPPORT_H
#define FASTQUAD_SUPPORT_H

#include "quartic.h"
#include "simd.h"

/* Vectors over the measurements are padded with zeros to a multiple of this. */
#define FQ_MULTIPLE 16
#define FQ_MAX_SUPPORT 64
#define FQ_FIT_STEPS 12
/* The measurements whose products are summed together: a multiple of FQ_MULTIPLE. */
#define FQ_TILE 64

typedef struct {
    const float *pairs;
    const float *y;
    ptrdiff_t length; /* padded number of measurements */
    ptrdiff_t p;
    int width;       /* places that are added together: 1, or 2 for Re and Im of a complex entry, which are neighbours */
    int nonnegative; /* whether z >= 0, for a width of 1 */
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

#define LEAVES "sums.inc.h"
#include "levels.h"

LEAF(fq_combine)
LEAF(fq_products)
LEAF(fq_two_dots)
LEAF(fq_gram)
LEAF(fq_line_dots)
LEAF(fq_axpy)
LEAF(fq_project)
LEAF(fq_move)

/* The Cholesky factor of gram + damping; 0 where that is not positive definite. */
static int fq_factor(const double *gram, double damping, double *factor, int s)
{
    for (int a = 0; a < s; a++) {
        double *row = factor + a * FQ_MAX_SUPPORT;
        for (int c = 0; c <= a; c++) {
            const double *other = factor + c * FQ_MAX_SUPPORT;
            double sum = gram[a * FQ_MAX_SUPPORT + c] + (a == c ? damping : 0);
            for (int k = 0; k < c; k++)
                sum -= row[k] * other[k];
            if (c < a)
                row[c] = sum / other[c];
            else if (sum > 0)
                row[a] = sqrt(sum);
            else
                return 0;
        }
    }
    return 1;
}

/* Solve for d, given the Cholesky factor of the matrix and the right-hand side b. */
static void fq_substitute(const double *factor, const double *b, double *d, int s)
{
    for (int a = 0; a < s; a++) {
        const double *row = factor + a * FQ_MAX_SUPPORT;
        double value = b[a];
        for (int c = 0; c < a; c++)
            value -= row[c] * d[c];
        d[a] = value / row[a];
    }
    for (int a = s - 1; a >= 0; a--) {
        double value = d[a];
        for (int c = a + 1; c < s; c++)
            value -= factor[c * FQ_MAX_SUPPORT + a] * d[c];
        d[a] = value / factor[a * FQ_MAX_SUPPORT + a];
    }
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

/* The step d of the damped linear model, (gram + damping) d = b; raises the damping until it can be solved for. */
static void fq_step(const double *gram, double *damping, const double *b, double trace, double *d, int s)
{
    double factor[FQ_MAX_SUPPORT * FQ_MAX_SUPPORT];
    while (!fq_factor(gram, *damping, factor, s))
        *damping = 10 * *damping + 1e-6 * trace / s + 1e-30;
    fq_substitute(factor, b, d, s);
}

/* The same where z >= 0: members at zero move only up. */
static void fq_nonnegative_step(const double *gram, double *damping, const double *b, const double *z, double *d, int s)
{
    double part[FQ_MAX_SUPPORT * FQ_MAX_SUPPORT], c[FQ_MAX_SUPPORT], moved[FQ_MAX_SUPPORT];
    int mover[FQ_MAX_SUPPORT], movers = 0, stuck = 1;
    for (int a = 0; a < s; a++) {
        d[a] = 0;
        if (z[a] > 0 || b[a] > 0)
            mover[movers++] = a;
    }
    while (stuck) {
        double trace = 0;
        for (int i = 0; i < movers; i++) {
            for (int j = 0; j <= i; j++)
                part[i * FQ_MAX_SUPPORT + j] = gram[mover[i] * FQ_MAX_SUPPORT + mover[j]];
            trace += part[i * FQ_MAX_SUPPORT + i];
            c[i] = b[mover[i]];
        }
        fq_step(part, damping, c, trace, moved, movers);
        /* A member at zero that would go down stays there, and the step of the others is computed again. */
        int left = 0;
        for (int i = 0; i < movers; i++) {
            const int goes = z[mover[i]] > 0 || moved[i] >= 0;
            moved[left] = moved[i];
            mover[left] = mover[i];
            left += goes;
        }
        stuck = left < movers;
        movers = left;
    }
    for (int i = 0; i < movers; i++)
        d[mover[i]] = moved[i];
}

/* How far z can go along d before a member would be negative. */
static double fq_room(const double *z, const double *d, int s)
{
    double most = HUGE_VAL;
    for (int a = 0; a < s; a++)
        if (d[a] < 0 && z[a] < -most * d[a])
            most = z[a] / -d[a];
    return most;
}

/* V = products of d, and |r + 2u p + u² q|² − |r|² = c1 u + c2 u² + c3 u³ + c4 u⁴ along z + u d; |2p|² is returned. */
static double fq_line(const fq_block *block, fq_support *T, const double *d, double *c)
{
    const ptrdiff_t length = block->length;
    const int s = T->size;
    double dots[5];
    float *p = T->scratch, *q = T->scratch + length;
    for (int a = 0; a < s; a++)
        fq_product(block, T, d, T->member[a], T->V + a * length);
    fq_rows_sum(T->W, d, s, p, length);
    fq_rows_sum(T->V, d, s, q, length);
    fq_line_dots(T->r, p, q, dots, length);
    c[0] = 4 * dots[0];
    c[1] = 4 * dots[2] + 2 * dots[1];
    c[2] = 4 * dots[3];
    c[3] = dots[4];
    return 4 * dots[2];
}

/* The best u along d where z >= 0; `curve` is |2p|². d is cut where it would take members below zero, so that one step can
   take several to zero; where that does not go down, u stops at the first of them instead. Returns whether d met zero. */
static int fq_bounded_line(const fq_block *block, fq_support *T, double *d, double *c, double *curve, double *u)
{
    double cut[FQ_MAX_SUPPORT];
    int below = 0;
    for (int a = 0; a < T->size; a++) {
        below |= d[a] < -T->z[a];
        cut[a] = d[a] < -T->z[a] ? -T->z[a] : d[a];
    }
    *curve = fq_line(block, T, cut, c);
    *u = fq_minimise_within(c[0], c[1], c[2], c[3], fq_room(T->z, cut, T->size));
    if (*u > 0 || !below)
        memcpy(d, cut, T->size * sizeof(double));
    else {
        *curve = fq_line(block, T, d, c);
        *u = fq_minimise_within(c[0], c[1], c[2], c[3], fq_room(T->z, d, T->size));
    }
    return below;
}

/* Levenberg–Marquardt on the members, from z; stops when a step lowers the residual by less than 0.1%. */
static void fq_fit(const fq_block *block, fq_support *T, double goal)
{
    double gram[FQ_MAX_SUPPORT * FQ_MAX_SUPPORT], b[FQ_MAX_SUPPORT], d[FQ_MAX_SUPPORT];
    double c[4], curve, u, damping = -1;
    const ptrdiff_t length = block->length;
    const int s = T->size;
    for (int step = 0; step < FQ_FIT_STEPS && T->rss > goal; step++) {
        fq_gram(T->W, T->r, s, length, gram, b);
        double trace = 0;
        int met = 0; /* whether zero is in the way: then a small step need not be the last */
        for (int a = 0; a < s; a++) {
            trace += gram[a * FQ_MAX_SUPPORT + a];
            b[a] *= -0.5;
        }
        if (!isfinite(trace)) /* the products overflowed: no damping makes this positive definite */
            break;
        if (damping < 0)
            damping = 1e-2 * trace / s;
        if (block->nonnegative) {
            fq_nonnegative_step(gram, &damping, b, T->z, d, s);
            met = fq_bounded_line(block, T, d, c, &curve, &u);
        } else {
            fq_step(gram, &damping, b, trace, d, s);
            curve = fq_line(block, T, d, c);
            u = fq_minimise(c[0], c[1], c[2], c[3]);
        }
        const double change = fq_quartic(c[0], c[1], c[2], c[3], u);
        const double ratio = (c[0] + c[1] + c[2] + c[3]) / (c[0] + curve);
        if (!(change < 0))
            break;
        const double before = T->rss;
        for (int a = 0; a < s; a++) {
            T->z[a] += u * d[a];
            if (block->nonnegative && !(T->z[a] > 0))
                T->z[a] = 0;
        }
        fq_axpy((float)u, T->V, T->W, s * length);
        fq_residual(block, T);
        if (before - T->rss < 1e-3 * before && !met)
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
