/* Gibbs sampling of complex entries: Re and Im are drawn together, and vanish together.

   With V_0, V_1 the products of the other entries at Re and Im of one, a its diagonal (the same for both) and r the
   residual without it, an entry w = (w_0, w_1) changes the energy |r|² by

       E(w) = 4 <g, w> + 4 w^T G w + |w|² (2 c + 4 <b, w> + a² |w|²),    g = <r, V>, G = <V, V>, b = <V, a>, c = <r, a>.

   Its conditional is a point mass at zero and a slab with the density exp(−U), U = β E(w) + |w|²/2s². As for real
   coordinates the slab is at most two modes, each taken as a Gaussian: from the two minima of U along the direction of the
   linear model, which is where Newton's method starts. */
#ifndef FASTQUAD_GIBBS_PAIRS_H
#define FASTQUAD_GIBBS_PAIRS_H

#include "gibbs.h"

/* The largest number of Newton steps to a mode; and they end where a step would lower U by less than half of this. */
enum { FQ_NEWTON_STEPS = 8 };
#define FQ_NEWTON_DONE 1e-3

/* The coefficients of β E(w) + |w|²/2s² in w: linear, quadratic (three), cubic and quartic. */
typedef struct {
    double g[2], G[3], b[2], a;
} fq_pair_energy;

/* A mode of the slab: where, the log of its weight, and the curvature there. */
typedef struct {
    double w[2], log_weight, H[3];
} fq_pair_mode;

/* U(w) */
static double fq_pair_at(const fq_pair_energy *e, const double *w)
{
    const double square = w[0] * w[0] + w[1] * w[1];
    return e->g[0] * w[0] + e->g[1] * w[1] + e->G[0] * w[0] * w[0] + 2 * e->G[1] * w[0] * w[1] + e->G[2] * w[1] * w[1]
           + square * (e->b[0] * w[0] + e->b[1] * w[1] + e->a * square);
}

/* The gradient of U, and its curvature H = (H_00, H_01, H_11). */
static void fq_pair_slopes(const fq_pair_energy *e, const double *w, double *gradient, double *H)
{
    const double square = w[0] * w[0] + w[1] * w[1], bw = e->b[0] * w[0] + e->b[1] * w[1];
    gradient[0] = e->g[0] + 2 * (e->G[0] * w[0] + e->G[1] * w[1]) + 2 * w[0] * bw + square * (e->b[0] + 4 * e->a * w[0]);
    gradient[1] = e->g[1] + 2 * (e->G[1] * w[0] + e->G[2] * w[1]) + 2 * w[1] * bw + square * (e->b[1] + 4 * e->a * w[1]);
    const double same = 2 * bw + 4 * e->a * square;
    H[0] = 2 * e->G[0] + same + 4 * w[0] * (e->b[0] + 2 * e->a * w[0]);
    H[1] = 2 * e->G[1] + 2 * (w[0] * e->b[1] + w[1] * e->b[0]) + 8 * e->a * w[0] * w[1];
    H[2] = 2 * e->G[2] + same + 4 * w[1] * (e->b[1] + 2 * e->a * w[1]);
}

/* Add to the diagonal of H what makes it positive definite, and return its determinant. */
static double fq_pair_definite(double *H)
{
    const double middle = 0.5 * (H[0] + H[2]), half = 0.5 * (H[0] - H[2]), spread = sqrt(half * half + H[1] * H[1]);
    const double least = middle - spread, wanted = 1e-3 * (fabs(middle) + spread);
    if (least < wanted) {
        H[0] += wanted - least;
        H[2] += wanted - least;
    }
    return H[0] * H[2] - H[1] * H[1];
}

/* The mode that Newton's method reaches from w. */
static fq_pair_mode fq_pair_mode_from(const fq_pair_energy *e, double w0, double w1)
{
    fq_pair_mode mode = {{w0, w1}, 0, {0, 0, 0}};
    double value = fq_pair_at(e, mode.w), determinant = 0;
    for (int step = 0;; step++) {
        double gradient[2], next[2];
        fq_pair_slopes(e, mode.w, gradient, mode.H);
        determinant = fq_pair_definite(mode.H);
        const double d0 = -(mode.H[2] * gradient[0] - mode.H[1] * gradient[1]) / determinant;
        const double d1 = -(mode.H[0] * gradient[1] - mode.H[1] * gradient[0]) / determinant;
        if (step == FQ_NEWTON_STEPS || !(-(d0 * gradient[0] + d1 * gradient[1]) > FQ_NEWTON_DONE))
            break;
        double u = 1, lower;
        do {
            next[0] = mode.w[0] + u * d0;
            next[1] = mode.w[1] + u * d1;
            lower = fq_pair_at(e, next);
            u *= 0.5;
        } while (lower > value && u > 1e-3);
        if (!(lower < value))
            break;
        mode.w[0] = next[0];
        mode.w[1] = next[1];
        value = lower;
    }
    mode.log_weight = -value - 0.5 * log(determinant);
    return mode;
}

/* Both modes; the second has no weight where there is only one. */
static void fq_pair_modes(const fq_pair_energy *e, fq_pair_mode *modes)
{
    double roots[2], H[3] = {2 * e->G[0], 2 * e->G[1], 2 * e->G[2]};
    const double determinant = fq_pair_definite(H);
    double u0 = -(H[2] * e->g[0] - H[1] * e->g[1]) / determinant, u1 = -(H[0] * e->g[1] - H[1] * e->g[0]) / determinant;
    const double length = sqrt(u0 * u0 + u1 * u1);
    u0 = length > 0 ? u0 / length : 1;
    u1 = length > 0 ? u1 / length : 0;
    const double c2 = e->G[0] * u0 * u0 + 2 * e->G[1] * u0 * u1 + e->G[2] * u1 * u1;
    const int count = fq_outer_roots(e->g[0] * u0 + e->g[1] * u1, c2, e->b[0] * u0 + e->b[1] * u1, e->a, roots);
    modes[0] = fq_pair_mode_from(e, roots[0] * u0, roots[0] * u1);
    modes[1] = modes[0];
    modes[1].log_weight = -INFINITY;
    if (count == 1)
        return;
    const fq_pair_mode other = fq_pair_mode_from(e, roots[1] * u0, roots[1] * u1);
    const double d0 = other.w[0] - modes[0].w[0], d1 = other.w[1] - modes[0].w[1];
    /* Both may end at one. */
    if (modes[0].H[0] * d0 * d0 + 2 * modes[0].H[1] * d0 * d1 + modes[0].H[2] * d1 * d1 > 1)
        modes[1] = other;
}

/* U of the entry at places j and j + 1, given its present value z, the products W of all entries and r. */
static fq_pair_energy fq_pair_energy_of(
    const fq_block *block, const fq_posterior *post, ptrdiff_t j, const double *z, const float *r, const float *W)
{
    const float *a = fq_pair(block, j, j), *W0 = W + j * block->length, *W1 = W0 + block->length;
    double first[5], second[5];
    float across[2];
    fq_line_dots(r, W0, a, first, block->length);
    fq_line_dots(r, W1, a, second, block->length);
    fq_two_dots(W0, W1, across, block->length);
    /* <r, W>, <W, W> and <W, a> with the entry; then without it, where r becomes r − 2 z W + |z|² a and W becomes W − z a */
    const double rW[2] = {first[0], second[0]}, ra = first[1], aa = first[4], Wa[2] = {first[3], second[3]};
    const double WW[3] = {first[2], across[0], second[2]}, square = z[0] * z[0] + z[1] * z[1];
    const double c = ra - 2 * (z[0] * Wa[0] + z[1] * Wa[1]) + square * aa;
    const double r0 = rW[0] - 2 * (z[0] * WW[0] + z[1] * WW[1]) + square * Wa[0];
    const double r1 = rW[1] - 2 * (z[0] * WW[1] + z[1] * WW[2]) + square * Wa[1];
    const double b0 = Wa[0] - z[0] * aa, b1 = Wa[1] - z[1] * aa;
    const double G0 = WW[0] - z[0] * (Wa[0] + b0), G2 = WW[2] - z[1] * (Wa[1] + b1);
    const double G1 = WW[1] - z[0] * Wa[1] - z[1] * Wa[0] + z[0] * z[1] * aa;
    const double beta = post->beta, same = 2 * beta * c + 0.5 / post->s2;
    return (fq_pair_energy){
        {4 * beta * (r0 - z[0] * c), 4 * beta * (r1 - z[1] * c)},
        {4 * beta * G0 + same, 4 * beta * G1, 4 * beta * G2 + same},
        {4 * beta * b0, 4 * beta * b1},
        beta * aa,
    };
}

/* The new value of an entry, given a uniform number and two normal ones. */
static void fq_pair_draw(const fq_pair_energy *e, const fq_posterior *post, double uniform, const double *normal, double *w)
{
    fq_pair_mode modes[2];
    fq_pair_modes(e, modes);
    /* Relative to the point mass, whose energy is zero. */
    const double constant = log(post->rho) - log(1 - post->rho) - log(post->s2);
    const double one = constant + modes[0].log_weight, two = constant + modes[1].log_weight;
    const double top = one > two ? (one > 0 ? one : 0) : (two > 0 ? two : 0);
    const double w0 = exp(-top), w1 = exp(one - top), w2 = exp(two - top);
    const double place = uniform * (w0 + w1 + w2);
    w[0] = w[1] = 0;
    if (place < w0)
        return;
    const fq_pair_mode *mode = place < w0 + w1 ? &modes[0] : &modes[1];
    /* H = L L^T, and L^-T times two normal numbers has the covariance H^-1. */
    const double l00 = sqrt(mode->H[0]), l10 = mode->H[1] / l00, l11 = sqrt(mode->H[2] - l10 * l10);
    w[1] = normal[1] / l11;
    w[0] = mode->w[0] + (normal[0] - l10 * w[1]) / l00;
    w[1] += mode->w[1];
}

/* One sweep over all entries in the given order, each with a uniform number and two normal ones; returns how many of Re and
   Im moved. */
static ptrdiff_t fq_pairs_sweep(const fq_block *block, const fq_posterior *post, const ptrdiff_t *order,
                                const double *uniform, const double *normal, double *z, float *r, float *W)
{
    ptrdiff_t moved = 0;
    for (ptrdiff_t i = 0; i < block->p / 2; i++) {
        const ptrdiff_t j = 2 * order[i];
        double w[2];
        const fq_pair_energy energy = fq_pair_energy_of(block, post, j, z + j, r, W);
        fq_pair_draw(&energy, post, uniform[i], normal + 2 * i, w);
        for (int part = 0; part < 2; part++)
            if (w[part] != z[j + part]) {
                fq_move(block->pairs, block->p, block->length, j + part, (float)(w[part] - z[j + part]), r, W);
                z[j + part] = w[part];
                moved++;
            }
    }
    return moved;
}

#endif
