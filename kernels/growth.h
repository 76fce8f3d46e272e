/* Greedy growth of a support from a seed, and backward pruning: which coordinate to add, and which to drop. */
#ifndef FASTQUAD_GROWTH_H
#define FASTQUAD_GROWTH_H

#include "support.h"

#define FQ_MAX_SKIPS 7
#define FQ_EXACT_GAINS 3

/* V = an orthonormal basis of the span of W's rows: Gram–Schmidt, twice to be orthogonal in single precision. A row that
   is next to nothing, that of a member which went to zero with all others, is rounding, and has no direction; nor has a
   member that z >= 0 holds at zero. */
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
        const int held = block->nonnegative && T->z[a] == 0;
        const float inverse = dots[1] > least && !held ? 1 / sqrtf(dots[1]) : 0;
        for (ptrdiff_t i = 0; i < length; i++)
            v[i] *= inverse;
    }
}

/* The value u of an added coordinate that minimises the quartic: any, or one that is not negative. */
static double fq_best_value(const fq_block *block, double c1, double c2, double c3, double c4)
{
    return block->nonnegative ? fq_minimise_within(c1, c2, c3, c4, HUGE_VAL) : fq_minimise(c1, c2, c3, c4);
}

/* What adding coordinate j would save. While T is small, when the members' values follow to first order: min_u
   |P (r + 2u W_j + u² a_j)|² with P the projection off the span of W, off which r is already, and V that span's basis.
   Then the new value is smaller than the others: <r, W_j>²/|W_j|². Only u >= 0 counts where z >= 0: nothing is saved where
   <r, W_j> is not negative. Wj is for the products of j. */
static float fq_gain(const fq_block *block, const fq_support *T, ptrdiff_t j, float *Wj)
{
    const ptrdiff_t length = block->length;
    fq_product(block, T, T->z, j, Wj);
    if (T->size > FQ_EXACT_GAINS) {
        float dots[2];
        fq_two_dots(T->r, Wj, dots, length);
        const int upwards = !block->nonnegative || dots[0] < 0;
        return dots[1] > 0 && upwards ? dots[0] * dots[0] / dots[1] : 0;
    }
    float Vw[FQ_EXACT_GAINS], Va[FQ_EXACT_GAINS];
    double dots[5];
    const float *a = fq_pair(block, j, j);
    fq_line_dots(T->r, Wj, a, dots, length);
    fq_project(T->V, Wj, T->size, Vw, length);
    fq_project(T->V, a, T->size, Va, length);
    for (int b = 0; b < T->size; b++) {
        dots[2] -= Vw[b] * Vw[b];
        dots[3] -= Vw[b] * Va[b];
        dots[4] -= Va[b] * Va[b];
    }
    const double c1 = 4 * dots[0], c2 = 4 * dots[2] + 2 * dots[1], c3 = 4 * dots[3], c4 = dots[4];
    return (float)-fq_quartic(c1, c2, c3, c4, fq_best_value(block, c1, c2, c3, c4));
}

/* The 2×2 system of adding a pair of places j, j + 1 to first order: G = <W, W> (two diagonal entries, then the other) and
   c = <r, W>, of their products in Wj, two vectors. */
static void fq_pair_system(const fq_block *block, const fq_support *T, ptrdiff_t j, float *Wj, double *G, double *c)
{
    const ptrdiff_t length = block->length;
    float *other = Wj + length, dots[2];
    fq_product(block, T, T->z, j, Wj);
    fq_product(block, T, T->z, j + 1, other);
    fq_two_dots(T->r, Wj, dots, length);
    c[0] = dots[0];
    G[0] = dots[1];
    fq_two_dots(T->r, other, dots, length);
    c[1] = dots[0];
    G[1] = dots[1];
    fq_two_dots(Wj, other, dots, length);
    G[2] = dots[0];
}

/* What adding the pair j, j + 1 would save, with values that follow from one another: c^T G^{-1} c. While T is small, the
   members' values follow too: c is off the span of W already, and G is taken off it. */
static float fq_pair_gain(const fq_block *block, const fq_support *T, ptrdiff_t j, float *Wj)
{
    double G[3], c[2];
    fq_pair_system(block, T, j, Wj, G, c);
    if (T->size <= FQ_EXACT_GAINS) {
        float first[FQ_EXACT_GAINS], second[FQ_EXACT_GAINS];
        fq_project(T->V, Wj, T->size, first, block->length);
        fq_project(T->V, Wj + block->length, T->size, second, block->length);
        for (int b = 0; b < T->size; b++) {
            G[0] -= first[b] * first[b];
            G[1] -= second[b] * second[b];
            G[2] -= first[b] * second[b];
        }
    }
    const double determinant = G[0] * G[1] - G[2] * G[2];
    if (!(determinant > 1e-6 * G[0] * G[1])) /* one of them is next to nothing, or they are alike */
        return (float)(G[0] > 0 && c[0] * c[0] * G[1] >= c[1] * c[1] * G[0] ? c[0] * c[0] / G[0]
                       : G[1] > 0 ? c[1] * c[1] / G[1] : 0);
    return (float)((c[0] * c[0] * G[1] - 2 * c[0] * c[1] * G[2] + c[1] * c[1] * G[0]) / determinant);
}

/* The coordinates outside T with the `count` largest gains, the largest first; how many there are. Of pairs, the first. */
static int fq_best_gains(const fq_block *block, fq_support *T, int count, float *best, ptrdiff_t *where)
{
    int found = 0;
    if (T->size <= FQ_EXACT_GAINS)
        fq_span(block, T);
    for (ptrdiff_t j = 0; j < block->p; j += block->width) {
        int inside = 0;
        for (int a = 0; a < T->size; a++)
            inside |= T->member[a] >= j && T->member[a] < j + block->width;
        if (inside)
            continue;
        const float gain = block->width == 1 ? fq_gain(block, T, j, T->scratch) : fq_pair_gain(block, T, j, T->scratch);
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

/* The coordinate outside T with the (skip+1)-th largest gain, −1 where none is left, or none that may grow saves anything. */
static ptrdiff_t fq_best_gain(const fq_block *block, fq_support *T, int skip)
{
    float best[FQ_MAX_SKIPS + 1];
    ptrdiff_t where[FQ_MAX_SKIPS + 1];
    if (fq_best_gains(block, T, skip + 1, best, where) <= skip || (block->nonnegative && !(best[skip] > 0)))
        return -1;
    return where[skip];
}

/* Add a place j with value u, whose products are in the next row of W, and update W. */
static void fq_append(const fq_block *block, fq_support *T, ptrdiff_t j, double u)
{
    const ptrdiff_t length = block->length;
    for (int t = 0; t < T->size; t++)
        fq_axpy((float)u, fq_pair(block, T->member[t], j), T->W + t * length, length);
    fq_axpy((float)u, fq_pair(block, j, j), T->W + T->size * length, length);
    T->member[T->size] = j;
    T->z[T->size++] = u;
}

/* Add the pair j, j + 1 at the values that fit best to first order, −½ G^{-1} c, and update W and r. */
static void fq_add_pair(const fq_block *block, fq_support *T, ptrdiff_t j)
{
    double G[3], c[2];
    fq_pair_system(block, T, j, T->scratch, G, c);
    const double least = 1e-6 * (G[0] + G[1]) + 1e-30, a = G[0] + least, b = G[1] + least;
    const double determinant = a * b - G[2] * G[2];
    const double u = -0.5 * (b * c[0] - G[2] * c[1]) / determinant, v = -0.5 * (a * c[1] - G[2] * c[0]) / determinant;
    fq_product(block, T, T->z, j, T->W + T->size * block->length);
    fq_append(block, T, j, u);
    fq_product(block, T, T->z, j + 1, T->W + T->size * block->length);
    fq_append(block, T, j + 1, v);
    fq_residual(block, T);
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
    fq_append(block, T, j, fq_best_value(block, 4 * dots[0], 4 * dots[2] + 2 * dots[1], 4 * dots[3], dots[4]));
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

/* How a support grows. */
typedef struct {
    int skip_first;  /* better candidates that the first addition passes over */
    int skip_second; /* and the second */
    int limit;       /* the largest size */
    int milestone;   /* the size at which a run is given up unless its RSS is below `cut` */
    double cut;
} fq_plan;

/* Grow from one seed; curve[s−1] is the residual's square with s members. */
static void fq_grow(const fq_block *block, fq_support *T, ptrdiff_t seed, const fq_plan *plan, double *curve)
{
    float dots[2];
    fq_two_dots(block->y, block->y, dots, block->length);
    const double goal = 1e-8 * dots[1];
    fq_seed(block, T, seed, sqrt(dots[1]));
    fq_fit(block, T, goal);
    curve[0] = T->rss;
    for (int added = 0; T->size + block->width <= plan->limit && T->rss > goal; added++) {
        /* Of a pair the seed is the first: its phase is as good as any. */
        if (T->size == block->width * plan->milestone - (block->width - 1) && T->rss > plan->cut)
            break;
        const int skip = added == 0 ? plan->skip_first : added == 1 ? plan->skip_second : 0;
        const ptrdiff_t j = fq_best_gain(block, T, skip);
        if (j < 0)
            break;
        if (block->width == 1)
            fq_add(block, T, j);
        else
            fq_add_pair(block, T, j);
        fq_fit(block, T, goal);
        for (int w = 1; w <= block->width; w++)
            curve[T->size - w] = T->rss;
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
    const int regular = fq_factor(gram, 1e-6 * trace / s, factor, s);
    for (int a = 0; a < s; a++) {
        for (int b = 0; b < s; b++)
            unit[b] = a == b;
        if (regular)
            fq_substitute(factor, unit, column, s);
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
        if (!(T->rss + least <= allowed)) { /* NaN too */
            memcpy(T->z, z, sizeof z);
            memcpy(T->member, member, sizeof member);
            T->size = size;
            T->rss = rss;
            return;
        }
    }
}

#endif
