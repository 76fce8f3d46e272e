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

/* Cache lines between what is used of a stream and what is asked for ahead of it: enough for the first lines of each page,
   which the machine does not guess, and no more, because it fetches the rest by itself better than it is told to. (Held
   against the best reading loop, 8 lines gave 0.88 to 0.96, 16 gave 0.80 to 0.95.) AHEAD_OF_SUMS, below, is
   for the kernels that do less with each line; AHEAD_AGAIN for what comes from the last level of cache. */
enum { AHEAD = 8, AHEAD_AGAIN = 64 };

/* Rows and columns of a tile of the batched kernels: 64 kB in all lanes, in the L2 cache, of which four rows are in the
   L1 cache with what they are multiplied by. */
enum { TILE = 32 };

/* Doubles of scratch for a tile; rows are an odd number of cache lines apart, lest they fall on the same lines of a cache. */
enum { TILE_ROW = (TILE + 1) * LANES, TILE_SIZE = TILE * TILE_ROW };

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

/* How panel_times goes through entries of LANES doubles: rows are `row` apart, four steps are `step` apart, the next four
   are `jump` from these, and each jump is longer than the one before by `change`. */
typedef struct { ptrdiff_t row, step, jump, change; } walk;

#define PANEL(f) f##_plain
#include "panel.h"
#undef PANEL

#ifdef HAS_CLONES
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v3")
#define PANEL(f) f##_v3
#include "panel.h"
#undef PANEL
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("arch=x86-64-v4")
#define PANEL(f) f##_v4
#include "panel.h"
#undef PANEL
#pragma GCC pop_options
#endif

/* out[r, s, l] += Σ_{k < count} a[k, r, l] x[k, s] for `rows` rows r and b signals s. `bytes` of memory from `ahead` on are
   asked for meanwhile. */
static void panel_times(
    const double *a, walk at, ptrdiff_t count, ptrdiff_t rows, const double *x, ptrdiff_t b, double *out, const void *ahead,
    ptrdiff_t bytes) {
#ifdef HAS_CLONES
    if (__builtin_cpu_supports("x86-64-v4")) panel_times_v4(a, at, count, rows, x, b, out, ahead, bytes);
    else if (__builtin_cpu_supports("x86-64-v3")) panel_times_v3(a, at, count, rows, x, b, out, ahead, bytes);
    else
#endif
        panel_times_plain(a, at, count, rows, x, b, out, ahead, bytes);
}

#define REAL double
#define NAME(f) f##_f64
#define vec_load vec_load_f64
#define IS_DOUBLE 1
#define AHEAD_OF_SUMS 4
#define vec_store vec_store_f64
#include "packed_real.h"
#undef REAL
#undef NAME
#undef vec_load
#undef IS_DOUBLE
#undef AHEAD_OF_SUMS
#undef vec_store

#define REAL float
#define NAME(f) f##_f32
#define vec_load vec_load_f32
#define IS_DOUBLE 0
#define AHEAD_OF_SUMS 8
#define vec_store vec_store_f32
#include "packed_real.h"
#undef REAL
#undef NAME
#undef vec_load
#undef IS_DOUBLE
#undef AHEAD_OF_SUMS
#undef vec_store

#endif
