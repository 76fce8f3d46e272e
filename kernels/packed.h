/* Kernels on the packed layout, for REAL = float and double.

   LAYOUT. Measurements come in blocks of LANES = 8. A block stores the upper triangle of its symmetric matrices by
   groups of GROUP = 4 rows: group g has rows 4g..4g+3 and columns k = 4g..n-1, and for each column the 4 rows, and
   for each of these the 8 measurements side by side:

       P[(offset(g) + 4 (k - 4g) + r) * 8 + l] = Ã_l[4g + r, k],      offset(g) = 4 g n - 8 g (g - 1).

   So a block is read as one stream, vectors run over measurements and never have a remainder, and an entry of all 8
   (64 bytes in float64) is what a sparse signal gathers. The first 4 columns of a group are the full diagonal tile,
   mirrored entries included; rows beyond n and measurements beyond m are zero.

   Vectors x and scratch arrays are padded to n4 = 4 ceil(n / 4). Everything is accumulated in double. */
#ifndef FASTQUAD_PACKED_H
#define FASTQUAD_PACKED_H

#include "lanes.h"

enum { LANES = 8, GROUP = 4, CELL = LANES * GROUP };

/* Cache lines between what is used and what is asked for ahead of it. */
enum { AHEAD = 32 };

/* Columns handled at once by the batched kernels: a tile of 4 rows × 16 columns × 8 lanes is 4 kB of the L1 cache. */
enum { TILE = 16 };

INLINE ptrdiff_t padded(ptrdiff_t n) { return (n + GROUP - 1) / GROUP * GROUP; }
INLINE ptrdiff_t group_offset(ptrdiff_t g, ptrdiff_t n) { return 4 * g * n - 8 * g * (g - 1); }
INLINE ptrdiff_t block_entries(ptrdiff_t n) { return group_offset(padded(n) / GROUP, n); }

/* Where the entry (j, k) of the symmetric matrices stands, in units of LANES. */
INLINE ptrdiff_t entry_at(ptrdiff_t j, ptrdiff_t k, ptrdiff_t n) {
    ptrdiff_t low = j < k ? j : k, high = j < k ? k : j, g = low / GROUP;
    return group_offset(g, n) + GROUP * (high - GROUP * g) + low % GROUP;
}

/* acc[r][s] += Σ_k a[k][r] x[k][s] and w[k][s] += Σ_r a[k][r] xj[r][s], for one half of the lanes and two signals.
   a: count cells of 4 rows × 8 lanes; x, xj: rows of b signals; sums, w: (row, signal, lane). */
INLINE void tile_rows(const double *a, ptrdiff_t count, const double *x, ptrdiff_t b, double *sums) {
    vec acc[GROUP][2];
    for (int r = 0; r < GROUP; r++)
        for (int s = 0; s < 2; s++) acc[r][s] = vec_load_f64(sums + (r * b + s) * LANES);
    for (ptrdiff_t k = 0; k < count; k++) {
        vec x0 = vec_all(x[k * b]), x1 = vec_all(x[k * b + 1]);
        for (int r = 0; r < GROUP; r++) {
            vec value = vec_load_f64(a + k * CELL + r * LANES);
            acc[r][0] = vec_fma(value, x0, acc[r][0]);
            acc[r][1] = vec_fma(value, x1, acc[r][1]);
        }
    }
    for (int r = 0; r < GROUP; r++)
        for (int s = 0; s < 2; s++) vec_store(sums + (r * b + s) * LANES, acc[r][s]);
}

INLINE void tile_columns(const double *a, ptrdiff_t count, const double *xj, ptrdiff_t b, double *w) {
    vec x[GROUP][2];
    for (int r = 0; r < GROUP; r++)
        for (int s = 0; s < 2; s++) x[r][s] = vec_all(xj[r * b + s]);
    for (ptrdiff_t k = 0; k < count; k++) {
        vec w0 = vec_load_f64(w + k * b * LANES), w1 = vec_load_f64(w + (k * b + 1) * LANES);
        for (int r = 0; r < GROUP; r++) {
            vec value = vec_load_f64(a + k * CELL + r * LANES);
            w0 = vec_fma(value, x[r][0], w0);
            w1 = vec_fma(value, x[r][1], w1);
        }
        vec_store(w + k * b * LANES, w0);
        vec_store(w + (k * b + 1) * LANES, w1);
    }
}

/* sums[r] += Σ_k a[k][r] x[k] for every pair of the b signals (b even) and both halves of the lanes. */
CLONES static void batch_rows(const double *a, ptrdiff_t count, const double *x, ptrdiff_t b, double *sums) {
    for (ptrdiff_t s = 0; s < b; s += 2)
        for (int half = 0; half < LANES; half += 4) tile_rows(a + half, count, x + s, b, sums + s * LANES + half);
}

/* w[k] += Σ_r a[k][r] xj[r] for every pair of the b signals and both halves of the lanes. */
CLONES static void batch_columns(const double *a, ptrdiff_t count, const double *xj, ptrdiff_t b, double *w) {
    for (ptrdiff_t s = 0; s < b; s += 2)
        for (int half = 0; half < LANES; half += 4) tile_columns(a + half, count, xj + s, b, w + s * LANES + half);
}

/* C[q][p] += Σ_j U[j][q] T[j][p] for count rows j (a multiple of 4), q, p < b; T and C are (·, p, lane). */
CLONES static void batch_outer(const double *T, ptrdiff_t count, const double *U, ptrdiff_t b, double *C) {
    for (ptrdiff_t q = 0; q < b; q++)
        for (ptrdiff_t p = 0; p < b * LANES; p += 4) {
            vec acc = vec_load_f64(C + q * b * LANES + p);
            for (ptrdiff_t j = 0; j < count; j++)
                acc = vec_fma(vec_load_f64(T + j * b * LANES + p), vec_all(U[j * b + q]), acc);
            vec_store(C + q * b * LANES + p, acc);
        }
}

#define REAL double
#define NAME(f) f##_f64
#define vec_load vec_load_f64
#include "packed_real.h"
#undef REAL
#undef NAME
#undef vec_load

#define REAL float
#define NAME(f) f##_f32
#define vec_load vec_load_f32
#include "packed_real.h"
#undef REAL
#undef NAME
#undef vec_load

#endif
