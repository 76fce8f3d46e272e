/* The batched kernels of packed.h, for one level of SIMD and one type STORED of the entries: tiles of TILE × TILE entries,
   each fetched once and used from the caches for all signals. */

/* Where the column k ≥ j of the group of row j stands. */
INLINE const STORED *OF(cell)(const STORED *P, ptrdiff_t n, ptrdiff_t j, ptrdiff_t k) {
    return P + (group_offset(j / GROUP, n) + GROUP * (k - j)) * LANES;
}

/* The cells from `place` on, `count` columns of them with every four steps. */
INLINE upcoming OF(columns_at)(const STORED *place, int count, int near) {
    upcoming next = {(const char *)place, (int)(count * CELL * sizeof(STORED) / 64), near};
    return next;
}

/* Where the rows of group g of the tile stand that is used after the one at (j0, k0): the next of the same rows, else that
   on the diagonal of the next rows, else the first of the next block. */
INLINE const STORED *OF(tile_after)(const STORED *P, ptrdiff_t n, ptrdiff_t j0, ptrdiff_t k0, ptrdiff_t g) {
    if (k0 + TILE < n) return OF(cell)(P, n, j0 + GROUP * g, k0 + TILE);
    ptrdiff_t j = j0 + TILE + GROUP * g;
    if (j < n) return OF(cell)(P, n, j, j);
    return P + (block_entries(n) + group_offset(g, n)) * LANES;
}

#define NUMBER double
#define NUMBER_BITS 64
#define IN(f) OF(f)
#define panel_cells AT(panel_cells_double)
#define panel_down AT(panel_down_double)
#define spread AT(spread_double)
#include "tiles.inc.h"
#undef NUMBER
#undef NUMBER_BITS
#undef IN
#undef panel_cells
#undef panel_down
#undef spread

#if STORED_BITS < 64
#define NUMBER float
#define NUMBER_BITS 32
#define IN(f) OF(f##_single)
#define panel_cells AT(panel_cells_float)
#define panel_down AT(panel_down_float)
#define spread AT(spread_float)
#include "tiles.inc.h"
#undef NUMBER
#undef NUMBER_BITS
#undef IN
#undef panel_cells
#undef panel_down
#undef spread
#endif

/* out[r, s, l] += Σ_{k < count} Ã_l[j + r, j + k] x[k, s] for the four rows of a group, of which a is the first cell. */
INLINE void OF(group_times)(
    const STORED *a, ptrdiff_t count, const double *x, ptrdiff_t b, double *tile, double *out) {
    const upcoming next = OF(columns_at)(a + STRETCH_AHEAD * CELL, GROUP, 1);
#if STORED_BITS == 64
    (void)tile;
    AT(panel_cells_double)(a, count, x, b, out, next);
#else
    for (ptrdiff_t v = 0; v < count * CELL; v += WIDE) wide_store(tile + v, wide_load(a + v));
    AT(panel_cells_double)(tile, count, x, b, out, next);
#endif
}

/* C[s, q, l] = U[:, s]^T T_l U[:, q] for b columns, with T the tiles of a group above the diagonal and half of those on it,
   so that U^T Ã U = C + C^T for half the work. A block is read in the order in which it is stored; `rows` holds T U for
   TILE rows. */
static void OF(packed_compress)(
    const STORED *P, ptrdiff_t n, const double *U, ptrdiff_t b, double *tile, double *rows, double *C) {
    const upcoming nothing = {NULL, 0, 0};
    memset(C, 0, b * b * LANES * sizeof(double));
    for (ptrdiff_t j0 = 0; j0 < n; j0 += TILE) {
        ptrdiff_t height = n - j0 < TILE ? n - j0 : TILE;
        memset(rows, 0, TILE * b * LANES * sizeof(double));
        for (ptrdiff_t j = j0; j < j0 + height; j += GROUP) {
            double *out = rows + (j - j0) * b * LANES;
            OF(group_times)(OF(cell)(P, n, j, j), n - j < GROUP ? n - j : GROUP, U + j * b, b, tile, out);
            for (ptrdiff_t v = 0; v < GROUP * b * LANES; v += WIDE)
                wide_store(out + v, wide_mul(wide_load_f64(out + v), wide_all(0.5)));
            for (ptrdiff_t k = j + GROUP; k < n; k += STRETCH)
                OF(group_times)(OF(cell)(P, n, j, k), n - k < STRETCH ? n - k : STRETCH, U + k * b, b, tile, out);
        }
        AT(panel_along_double)(rows, b * LANES, height, b, U + j0 * b, b, C, nothing);
    }
}
