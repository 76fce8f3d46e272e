/* Minimisers of c1 u + c2 u² + c3 u³ + c4 u⁴: the one home of Cardano's roots in C. (Its twin in Python, for arrays, is
   fastquad/numerics/quartic.py.) */
#ifndef FASTQUAD_QUARTIC_H
#define FASTQUAD_QUARTIC_H

#include <math.h>

static double fq_quartic(double c1, double c2, double c3, double c4, double u) {
    return u * (c1 + u * (c2 + u * (c3 + u * c4)));
}

/* The outer roots of the quartic's derivative, for c4 > 0; how many there are, and the same one twice where that is one.
   With u = t − shift the derivative is 4 c4 (t³ + 3P t + 2Q): one real root, by Cardano without cancellation, or the outer
   two of three, by cosines. The middle one is a maximum. */
static int fq_outer_roots(double c1, double c2, double c3, double c4, double roots[2]) {
    const double shift = c3 / (4 * c4);
    const double P = c2 / (6 * c4) - shift * shift;
    const double Q = shift * shift * shift - shift * c2 / (4 * c4) + c1 / (8 * c4);
    const double discriminant = Q * Q + P * P * P;
    if (discriminant >= 0) {
        const double big = -copysign(cbrt(fabs(Q) + sqrt(discriminant)), Q);
        roots[0] = roots[1] = (big != 0 ? big - P / big : 0) - shift;
        return 1;
    }
    const double radius = sqrt(-P);
    double cosine = -Q / (radius * radius * radius);
    cosine = cosine > 1 ? 1 : cosine < -1 ? -1 : cosine;
    const double angle = acos(cosine) / 3;
    roots[0] = 2 * radius * cos(angle) - shift;
    roots[1] = 2 * radius * cos(angle + 2.0943951023931953) - shift;
    return 2;
}

/* The u that minimises the quartic, c4 >= 0: the better of the outer roots of the derivative. */
static double fq_minimise(double c1, double c2, double c3, double c4) {
    /* Where the quartic term is next to nothing, the roots are rounding, and this is the minimum. */
    const double flat = c2 > 0 ? -c1 / (2 * c2) : 0;
    double roots[2] = {0, 0};
    if (c4 > 0) fq_outer_roots(c1, c2, c3, c4, roots);
    const double high = fq_quartic(c1, c2, c3, c4, roots[0]), low = fq_quartic(c1, c2, c3, c4, roots[1]);
    const double root = high <= low ? roots[0] : roots[1];
    return fq_quartic(c1, c2, c3, c4, root) <= fq_quartic(c1, c2, c3, c4, flat) ? root : flat;
}

/* The u in [0, most] that minimises the quartic, c4 >= 0: an end, or a root of the derivative between them. */
static double fq_minimise_within(double c1, double c2, double c3, double c4, double most) {
    double candidates[4] = {most < HUGE_VAL ? most : 0, c2 > 0 ? -c1 / (2 * c2) : 0, 0, 0};
    if (c4 > 0) fq_outer_roots(c1, c2, c3, c4, candidates + 2);
    double best = 0, value = 0;
    for (int i = 0; i < 4; i++) {
        const double u = candidates[i], change = fq_quartic(c1, c2, c3, c4, u);
        if (u > 0 && u <= most && change < value) {
            best = u;
            value = change;
        }
    }
    return best;
}

#endif
