/* Gibbs sampling of a spike-and-slab posterior on a packed block of A, one coordinate after the other.

   With r = A(zz^T) − y and W_j the products of z, moving coordinate j by d changes the energy |r|² by the quartic
   4d<r,W_j> + d²(4|W_j|² + 2<r,a_j>) + 4d³<W_j,a_j> + d⁴|a_j|², a_j the diagonal. The conditional of z_j is a point
   mass at zero and a slab whose log-density is that quartic plus a parabola: at most two modes, each taken as a
   Gaussian. The block is laid out as in support.h. */
#ifndef FASTQUAD_GIBBS_H
#define FASTQUAD_GIBBS_H

#include "support.h"

typedef struct {
    double beta; /* 1/(2 σ²) */
    double rho;  /* P(z_j != 0) */
    double s2;   /* variance of the slab */
    int positive; /* whether the slab has no negative values */
} fq_posterior;

/* A mode of the slab: where, the log of its weight, and its standard deviation. */
typedef struct {
    double d, log_weight, width;
} fq_mode;

static fq_mode fq_mode_at(double c1, double c2, double c3, double c4, double d)
{
    const double curvature = 2 * c2 + d * (6 * c3 + d * 12 * c4);
    fq_mode mode = {d, -INFINITY, 0};
    if (curvature > 0) {
        mode.width = 1 / sqrt(curvature);
        mode.log_weight = -fq_quartic(c1, c2, c3, c4, d) + log(mode.width);
    }
    return mode;
}

/* The modes at the outer stationary points of a quartic with c4 > 0; the second has no weight where there is only one. */
static void fq_modes(double c1, double c2, double c3, double c4, fq_mode *modes) {
    double roots[2];
    const int count = fq_outer_roots(c1, c2, c3, c4, roots);
    modes[0] = fq_mode_at(c1, c2, c3, c4, roots[0]);
    modes[1] = fq_mode_at(c1, c2, c3, c4, roots[1]);
    if (count == 1) modes[1].log_weight = -INFINITY;
}

/* The move of one coordinate with value z, given the energy's coefficients e, a uniform number and a normal one. */
static double fq_draw(const double *e, double z, const fq_posterior *post, double uniform, double normal)
{
    fq_mode modes[2];
    const double c1 = post->beta * e[0] + z / post->s2, c2 = post->beta * e[1] + 0.5 / post->s2;
    fq_modes(c1, c2, post->beta * e[2], post->beta * e[3], modes);
    if (post->positive)
        for (int i = 0; i < 2; i++)
            if (z + modes[i].d <= 0)
                modes[i].log_weight = -INFINITY; /* what is left of it above zero is as good as zero */
    const double constant = (post->positive ? 0.6931471805599453 : 0) + log(post->rho) - 0.5 * log(post->s2) - 0.5 * z * z / post->s2;
    const double spike = log(1 - post->rho) - post->beta * fq_quartic(e[0], e[1], e[2], e[3], -z);
    const double one = constant + modes[0].log_weight - spike, two = constant + modes[1].log_weight - spike;
    const double top = one > two ? (one > 0 ? one : 0) : (two > 0 ? two : 0);
    const double w0 = exp(-top), w1 = exp(one - top), w2 = exp(two - top);
    const double place = uniform * (w0 + w1 + w2);
    if (place < w0)
        return -z;
    const fq_mode *mode = place < w0 + w1 ? &modes[0] : &modes[1];
    const double d = mode->d + mode->width * normal;
    return post->positive && z + d < 0 ? -d - 2 * z : d; /* reflected */
}

/* One sweep over all coordinates in the given order, each with its uniform and its normal number; returns how many moved. */
static ptrdiff_t fq_gibbs_sweep(const fq_block *block, const fq_posterior *post, const ptrdiff_t *order,
                                const double *uniform, const double *normal, double *z, float *r, float *W)
{
    ptrdiff_t moved = 0;
    for (ptrdiff_t i = 0; i < block->p; i++) {
        const ptrdiff_t j = order[i];
        double dots[5];
        fq_line_dots(r, W + j * block->length, fq_pair(block, j, j), dots, block->length);
        const double e[4] = {4 * dots[0], 4 * dots[2] + 2 * dots[1], 4 * dots[3], dots[4]};
        const double d = fq_draw(e, z[j], post, uniform[i], normal[i]);
        if (d == 0)
            continue;
        /* Exactly zero, so that the nonzeros are the support. */
        z[j] = d == -z[j] ? 0 : z[j] + d;
        fq_move(block->pairs, block->p, block->length, j, (float)d, r, W);
        moved++;
    }
    return moved;
}

/* One sweep over coordinates that have one of a few values: another one is proposed, all with the same chance, and taken
   with the chance min(1, exp(−β ΔE)); each coordinate has a uniform number for either. Returns how many moved. */
static ptrdiff_t fq_values_sweep(const fq_block *block, double beta, const double *values, ptrdiff_t count,
                                 const ptrdiff_t *order, const double *other, const double *taken, double *z, float *r,
                                 float *W)
{
    ptrdiff_t moved = 0;
    for (ptrdiff_t i = 0; i < block->p; i++) {
        const ptrdiff_t j = order[i];
        /* Values ascend: those below z_j keep their place among the others, those from z_j on are one further. */
        ptrdiff_t place = (ptrdiff_t)(other[i] * (count - 1));
        if (values[place] >= z[j])
            place++;
        double dots[5];
        fq_line_dots(r, W + j * block->length, fq_pair(block, j, j), dots, block->length);
        const double d = values[place] - z[j];
        const double energy = fq_quartic(4 * dots[0], 4 * dots[2] + 2 * dots[1], 4 * dots[3], dots[4], d);
        if (taken[i] >= exp(-beta * energy))
            continue;
        z[j] = values[place];
        fq_move(block->pairs, block->p, block->length, j, (float)d, r, W);
        moved++;
    }
    return moved;
}

/* W and r of z, from scratch. */
static void fq_gibbs_load(const fq_block *block, const double *z, float *r, float *W)
{
    const ptrdiff_t length = block->length;
    memset(W, 0, block->p * length * sizeof(float));
    memset(r, 0, length * sizeof(float));
    for (ptrdiff_t j = 0; j < block->p; j++)
        if (z[j] != 0)
            fq_move(block->pairs, block->p, length, j, (float)z[j], r, W);
    fq_axpy(-1, block->y, r, length);
}

#endif
