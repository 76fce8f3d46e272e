/* The batched kernels of packed.h, for one level of SIMD and one type STORED of the entries: tiles of TILE × TILE entries,
   each fetched once and used from the caches for all signals. */

/* Where the column k ≥ j of the group of row j stands. */
INLINE const STORED *OF(cell)(const STORED *P, ptrdiff_t n, ptrdiff_t j, ptrdiff_t k) {
    return P + (group_offset(j / GROUP, n) + GROUP * (k - j)) * LANES;
}

/* What comes after the cells from (j, k) on. */
INLINE upcoming OF(next_tile)(const STORED *P, ptrdiff_t n, ptrdiff_t j, ptrdiff_t k) {
    upcoming next = {(const char *)OF(cell)(P, n, j, k), (int)(GROUP * CELL * sizeof(STORED) / 64)};
    return next;
}

#define NUMBER double
#define NUMBER_BITS 64
#define IN(f) OF(f)
#define panel_times AT(panel_times_double)
#include "tiles.inc.h"
#undef NUMBER
#undef NUMBER_BITS
#undef IN
#undef panel_times

#if STORED_BITS < 64
#define NUMBER float
#define NUMBER_BITS 32
#define IN(f) OF(f##_single)
#define panel_times AT(panel_times_float)
#include "tiles.inc.h"
#undef NUMBER
#undef NUMBER_BITS
#undef IN
#undef panel_times
#endif

/* C[s, q, l] = U[:, s]^T T_l U[:, q] for b columns, with T the tiles above the diagonal and half of those on it, so that
   U^T Ã U = C + C^T for half the work. `rows` holds T U for TILE rows. */
static void OF(packed_compress)(
    const STORED *P, ptrdiff_t n, const double *U, ptrdiff_t b, double *tile, double *rows, double *C) {
    const walk along_square = {LANES, TILE_ROW, GROUP * TILE_ROW, 0}, along = {LANES, CELL, GROUP * CELL, 0};
    const walk along_rows = {LANES, b * LANES, GROUP * b * LANES, 0};
    const upcoming nothing = {NULL, 0};
    memset(C, 0, b * b * LANES * sizeof(double));
    for (ptrdiff_t j0 = 0; j0 < n; j0 += TILE) {
        ptrdiff_t height = n - j0 < TILE ? n - j0 : TILE, group, change;
        memset(rows, 0, TILE * b * LANES * sizeof(double));
        OF(diagonal_square)(P, n, j0, height, 0.5, tile);
        AT(panel_times_double)(tile, along_square, height, height, U + j0 * b, b, rows, nothing);
        for (ptrdiff_t k0 = j0 + TILE; k0 < n; k0 += TILE) {
            ptrdiff_t width = n - k0 < TILE ? n - k0 : TILE;
            const double *a = OF(numbers_of_tile)(P, n, j0, k0, width, tile, &group, &change);
            for (ptrdiff_t j = j0, step = group; j < j0 + TILE; j += GROUP, a += step, step += change)
                AT(panel_times_double)(a, along, width, GROUP, U + k0 * b, b, rows + (j - j0) * b * LANES,
                                       OF(next_tile)(P, n, j, k0 + TILE));
        }
        AT(panel_times_double)(rows, along_rows, height, b, U + j0 * b, b, C, nothing);
    }
}
