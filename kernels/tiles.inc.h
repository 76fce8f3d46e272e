/* Tiles as NUMBER, the type that they are multiplied in, and the batched products; for one type STORED of the entries. */

/* The tile of rows from j0 on and `width` columns from k0 on, as NUMBER: where it stands if it is stored so, else copied.
   `group` is the distance of its first two groups of rows and `change` what each further one is longer. */
INLINE const NUMBER *IN(numbers_of_tile)(
    const STORED *P, ptrdiff_t n, ptrdiff_t j0, ptrdiff_t k0, ptrdiff_t width, NUMBER *tile, ptrdiff_t *group,
    ptrdiff_t *change) {
#if STORED_BITS == NUMBER_BITS
    (void)width, (void)tile;
    *group = OF(cell)(P, n, j0 + GROUP, k0) - OF(cell)(P, n, j0, k0);
    *change = -GROUP * CELL;
    return OF(cell)(P, n, j0, k0);
#else
    *group = TILE_GROUP;
    *change = 0;
    for (ptrdiff_t j = 0; j < TILE; j += GROUP) {
        const STORED *a = OF(cell)(P, n, j0 + j, k0);
        NUMBER *out = tile + j / GROUP * TILE_GROUP;
#if NUMBER_BITS == 64
        for (ptrdiff_t v = 0; v < width * CELL; v += WIDE) wide_store(out + v, wide_load(a + v));
#else
        for (ptrdiff_t v = 0; v < width * CELL; v += SINGLES) singles_store(out + v, singles_load(a + v));
#endif
    }
    return tile;
#endif
}

/* The tile on the diagonal with its mirror image, in groups of rows as it is stored: all j, k < size. */
static void IN(diagonal_square)(
    const STORED *P, ptrdiff_t n, ptrdiff_t j0, ptrdiff_t size, NUMBER *square) {
    for (ptrdiff_t j = 0; j < size; j += GROUP)
        for (ptrdiff_t k = j; k < size; k++) {
            const STORED *a = OF(cell)(P, n, j0 + j, j0 + k);
            NUMBER *here = square + j / GROUP * TILE_GROUP + k * CELL;
            NUMBER *mirror = square + k / GROUP * TILE_GROUP + j * CELL + k % GROUP * LANES;
            for (ptrdiff_t r = 0; r < GROUP; r++, a += LANES, here += LANES, mirror += CELL) {
#if NUMBER_BITS == 64
                for (int h = 0; h < LANES; h += WIDE) {
                    wide value = wide_load(a + h);
                    wide_store(here + h, value);
                    if (k >= j + GROUP) wide_store(mirror + h, value);
                }
#else
                for (int h = 0; h < LANES; h += SINGLES) {
                    singles value = singles_load(a + h);
                    singles_store(here + h, value);
                    if (k >= j + GROUP) singles_store(mirror + h, value);
                }
#endif
            }
        }
}

/* W[k, s, l] = Σ_j Ã_l[k, j] x[j, s] for b signals. Tile by tile in the order in which they are stored, so that each entry
   is fetched once and used 2 b times from the caches, as Ã[j, k] and as Ã[k, j]; `tile` is scratch for one, and after it for
   TILE × b × LANES numbers. */
static void IN(packed_products_batch)(
    const STORED *P, ptrdiff_t n, const NUMBER *x, ptrdiff_t b, NUMBER *tile, double *W) {
    memset(W, 0, padded(n) * b * LANES * sizeof(double));
    for (ptrdiff_t j0 = 0; j0 < n; j0 += TILE) {
        ptrdiff_t height = n - j0 < TILE ? n - j0 : TILE, group, change;
        IN(diagonal_square)(P, n, j0, height, tile);
        for (ptrdiff_t j = 0; j < height; j += GROUP)
            panel_cells(tile + j / GROUP * TILE_GROUP, height, x + j0 * b, b, W + (j0 + j) * b * LANES,
                        OF(columns_at)(OF(tile_after)(P, n, j0, j0, j / GROUP), GROUP, tiles_near));
        if (j0 + TILE >= n) return;
        const NUMBER *factors = spread(x + j0 * b, TILE, b, tile + TILE_SIZE);
        for (ptrdiff_t k0 = j0 + TILE; k0 < n; k0 += TILE) {
            ptrdiff_t width = n - k0 < TILE ? n - k0 : TILE;
            const NUMBER *a = IN(numbers_of_tile)(P, n, j0, k0, width, tile, &group, &change), *rows = a;
            /* Each half of the work prefetches half of the columns of the next tile. */
            for (ptrdiff_t j = 0, step = group; j < TILE; j += GROUP, rows += step, step += change)
                panel_cells(rows, width, x + k0 * b, b, W + (j0 + j) * b * LANES,
                            OF(columns_at)(OF(tile_after)(P, n, j0, k0, j / GROUP), GROUP / 2, tiles_near));
            for (ptrdiff_t k = 0; k < width; k += GROUP)
                panel_down(
                    a + k * CELL, group, change, width - k < GROUP ? width - k : GROUP, factors, b, W + (k0 + k) * b * LANES,
                    OF(columns_at)(OF(tile_after)(P, n, j0, k0, k / GROUP) + TILE / 2 * CELL, GROUP / 2, tiles_near));
        }
    }
}
