/* Sums over Pauli strings, of which nothing is stored but two masks of bits: see fastquad/measurements/structured/pauli.py.

   A string with the masks x and z is P = i^c X^x Z^z with c = |x & z|, so that

       l^* P r = i^c Σ_j (−1)^{|z & j|} conj(l_{j^x}) r_j,          (P r)_{j^x} = i^c (−1)^{|z & j|} r_j.

   Strings are sorted by (x, parity of c, z): those with the same x share the products conj(l_{j^x}) r_j, of which an even
   c needs the real part and an odd c the imaginary one, and by z they share sums.

   Signals are planar, n real parts and then n imaginary ones. So that j ^ x is read in whole blocks of 8, the left signal
   comes in 8 copies, copy c with l_{j^c} at j; sums of the transposed product go to 8 copies likewise. */
#ifndef FASTQUAD_PAULI_H
#define FASTQUAD_PAULI_H

#include "simd.h"

#define LEAVES "pauli.inc.h"
#include "levels.h"
LEAF(pauli_fold)
LEAF(pauli_unfold)
LEAF(pauli_pairs)
LEAF(pauli_scatter)

/* out_t = Σ_j (−1)^{|z_t & j|} Re (or Im) conj(l_{j^x}) r_j, for the groups of equal x from `first` to `last`. Group g has
   the strings starts[2g], …, starts[2g+2] − 1, from starts[2g+1] on those with an odd c. `work` has 2 n numbers. */
static void pauli_forms(const double *l, const double *r, ptrdiff_t n, const uint32_t *x, const ptrdiff_t *starts,
                        ptrdiff_t first, ptrdiff_t last, const uint32_t *z, double *work, double *out)
{
    for (ptrdiff_t part = 2 * first; part < 2 * last; part++) {
        if (starts[part] == starts[part + 1]) continue;
        pauli_pairs(l, r, n, x[part / 2], (int)(part & 1), work);
        pauli_fold(work, n, z, starts[part], starts[part + 1], out);
    }
}

/* g += Σ_t w_t i^{c_t mod 2} X^{x_t} Z^{z_t} v over the strings of the groups from `first` to `last`. `work` has 4 n. */
static void pauli_gradient(const double *v, ptrdiff_t n, const uint32_t *x, const ptrdiff_t *starts, ptrdiff_t first,
                           ptrdiff_t last, const uint32_t *z, const double *w, double *work, double *g)
{
    double *even = work, *odd = work + n;
    for (ptrdiff_t group = first; group < last; group++) {
        const ptrdiff_t *at = starts + 2 * group;
        /* each is made at the end of the memory where it has room behind it */
        if (at[1] > at[0]) {
            pauli_unfold(odd, n, z, at[0], at[1], w);
            memcpy(even, odd, (size_t)n * sizeof(double));
        } else
            memset(even, 0, (size_t)n * sizeof(double));
        if (at[2] > at[1])
            pauli_unfold(odd, n, z, at[1], at[2], w);
        else
            memset(odd, 0, (size_t)n * sizeof(double));
        pauli_scatter(even, odd, v, n, x[group], g);
    }
}
#endif
