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

/* Cache lines between what is used and what is asked for, into the second-level cache, ahead of it. */
enum { AHEAD = 128 };

/* Columns handled at once by the batched kernels: 4 rows × 32 columns × 8 lanes of doubles are 8 kB of the L1 cache. */
enum { TILE = 32 };

/* Rows and columns handled at once by packing: whole cache lines of a square and of its mirror image. What is used and
   what is asked for meanwhile are 256 kB of float64 in all lanes, half of the L2 cache. */
enum { SQUARE = 32 };

INLINE ptrdiff_t padded(ptrdiff_t n) { return (n + GROUP - 1) / GROUP * GROUP; }
INLINE ptrdiff_t group_offset(ptrdiff_t g, ptrdiff_t n) { return 4 * g * n - 8 * g * (g - 1); }
INLINE ptrdiff_t block_entries(ptrdiff_t n) { return group_offset(padded(n) / GROUP, n); }

/* Where the entry (j, k) of the symmetric matrices stands, in units of LANES. */
INLINE ptrdiff_t entry_at(ptrdiff_t j, ptrdiff_t k, ptrdiff_t n) {
    ptrdiff_t low = j < k ? j : k, high = j < k ? k : j, g = low / GROUP;
    return group_offset(g, n) + GROUP * (high - GROUP * g) + low % GROUP;
}

/* out[l, k] = W[k, l] for k < count and l < lanes: from lanes side by side to one row a measurement. */
CLONES static void lanes_apart(const double *W, ptrdiff_t count, ptrdiff_t lanes, double *out) {
    ptrdiff_t k = 0;
    for (; lanes == LANES && k + 4 <= count; k += 4)
        for (int h = 0; h < LANES; h += 4) {
            vec tile[4];
            for (int i = 0; i < 4; i++) tile[i] = vec_load_f64(W + (k + i) * LANES + h);
            vec_transpose(tile);
            for (int l = 0; l < 4; l++) vec_store_f64(out + (h + l) * count + k, tile[l]);
        }
    for (; k < count; k++)
        for (ptrdiff_t l = 0; l < lanes; l++) out[l * count + k] = W[k * LANES + l];
}

/* out[r][s] += Σ_k a[k * column + r * row] x[k][s] for 4 rows r and 4·vecs signals s; x and out have b signals a row.
   Eight accumulators and one operand from memory for each multiplication: this is where the batched kernels' time goes. */
INLINE void rows_times(
    const double *a, ptrdiff_t column, ptrdiff_t row, ptrdiff_t count, const double *x, ptrdiff_t b, int vecs,
    double *out) {
    vec acc[GROUP][2];
    for (int r = 0; r < GROUP; r++)
        for (int s = 0; s < vecs; s++) acc[r][s] = vec_load_f64(out + r * b + 4 * s);
    for (ptrdiff_t k = 0; k < count; k++, a += column, x += b) {
        vec xk[2];
        for (int s = 0; s < vecs; s++) xk[s] = vec_load_f64(x + 4 * s);
        for (int r = 0; r < GROUP; r++) {
            vec value = vec_all(a[r * row]);
            for (int s = 0; s < vecs; s++) acc[r][s] = vec_fma(value, xk[s], acc[r][s]);
        }
    }
    for (int r = 0; r < GROUP; r++)
        for (int s = 0; s < vecs; s++) vec_store_f64(out + r * b + 4 * s, acc[r][s]);
}

/* out[k][s] += Σ_r a[k][r] x[r][s] for one lane of a tile, 4 rows r and 4·vecs signals s. */
INLINE void columns_times(const double *a, ptrdiff_t count, const double *x, ptrdiff_t b, int vecs, double *out) {
    vec xr[GROUP][2];
    for (int r = 0; r < GROUP; r++)
        for (int s = 0; s < vecs; s++) xr[r][s] = vec_load_f64(x + r * b + 4 * s);
    for (ptrdiff_t k = 0; k < count; k++, a += CELL, out += b) {
        vec sum[2];
        for (int s = 0; s < vecs; s++) sum[s] = vec_load_f64(out + 4 * s);
        for (int r = 0; r < GROUP; r++) {
            vec value = vec_all(a[r * LANES]);
            for (int s = 0; s < vecs; s++) sum[s] = vec_fma(value, xr[r][s], sum[s]);
        }
        for (int s = 0; s < vecs; s++) vec_store_f64(out + 4 * s, sum[s]);
    }
}

/* The same for all b signals, a multiple of 4: eight at a time, then four. */
INLINE void rows_times_all(
    const double *a, ptrdiff_t column, ptrdiff_t row, ptrdiff_t count, const double *x, ptrdiff_t b, double *out) {
    ptrdiff_t s = 0;
    for (; s + 8 <= b; s += 8) rows_times(a, column, row, count, x + s, b, 2, out + s);
    if (s < b) rows_times(a, column, row, count, x + s, b, 1, out + s);
}

INLINE void columns_times_all(const double *a, ptrdiff_t count, const double *x, ptrdiff_t b, double *out) {
    ptrdiff_t s = 0;
    for (; s + 8 <= b; s += 8) columns_times(a, count, x + s, b, 2, out + s);
    if (s < b) columns_times(a, count, x + s, b, 1, out + s);
}

#define REAL double
#define NAME(f) f##_f64
#define vec_load vec_load_f64
#define vec_store vec_store_f64
#include "packed_real.h"
#undef REAL
#undef NAME
#undef vec_load
#undef vec_store

#define REAL float
#define NAME(f) f##_f32
#define vec_load vec_load_f32
#define vec_store vec_store_f32
#include "packed_real.h"
#undef REAL
#undef NAME
#undef vec_load
#undef vec_store

#endif
