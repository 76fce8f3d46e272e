/* Kernels on the packed layout (see layout.h), for entries stored as double, float or 16-bit float.

   Vectors x and scratch arrays are padded to n4 = 4 ceil(n / 4). Sums are made in double; the leaves whose names end in
   `_single` multiply and add in float, and flush their sums to double every FLUSH products. */
#ifndef FASTQUAD_PACKED_H
#define FASTQUAD_PACKED_H

#include "layout.h"

/* Rows and columns of a tile of the batched kernels: 64 kB of doubles in all lanes, in the L2 cache, of which four rows
   are in the L1 cache with what they are multiplied by. */
enum { TILE = 32 };

/* Numbers of scratch for a tile: groups of rows, each with a cell more, lest they fall on the same lines of a cache. */
enum { TILE_GROUP = (TILE + 1) * CELL, TILE_SIZE = TILE / GROUP * TILE_GROUP };

/* Columns of a group of rows that compress takes at once, 16 kB of doubles in all lanes, in the L1 cache; and how many
   columns before their use they are prefetched. */
enum { STRETCH = 64, STRETCH_AHEAD = 64 };

/* Products that are added up in float before their sum goes to a double; a multiple of GROUP. */
enum { FLUSH = 64 };

/* Rows and columns handled at once by packing: whole cache lines of a square and of its mirror image. What is used and
   what is prefetched meanwhile are 256 kB of float64 in all lanes, half of the L2 cache. */
enum { SQUARE = 32 };

/* Entries of all lanes that are put into rows of one lane each at once: a cache line of doubles. */
enum { SPREAD_AT_ONCE = 8 };

/* What will be needed next: with every four steps the following `lines` cache lines from `place` on are prefetched, into
   the L1 cache where they are `near`, else into the L2 cache. */
typedef struct {
    const char *place;
    int lines, near;
} upcoming;

#define LEAVES "packed.inc.h"
#include "levels.h"

#define LEAF_OF_EACH(f) LEAF(f##_f64) LEAF(f##_f32) LEAF(f##_f16)
#define LEAF_OF_NARROW(f) LEAF(f##_f32) LEAF(f##_f16)

LEAF(lanes_apart)
LEAF_OF_EACH(packed_products)
LEAF_OF_EACH(packed_products_on)
LEAF_OF_EACH(packed_products_batch)
LEAF_OF_EACH(packed_compress)
LEAF_OF_EACH(packed_quadratic)
LEAF_OF_EACH(packed_weighted)
LEAF_OF_EACH(packed_weighted_again)
LEAF_OF_EACH(packed_block)
LEAF_OF_EACH(packed_diagonals)
LEAF_OF_NARROW(packed_products_single)
LEAF_OF_NARROW(packed_products_batch_single)
LEAF_OF_NARROW(packed_quadratic_single)
LEAF_OF_NARROW(packed_weighted_single)
LEAF(packed_rows_f64)
LEAF(packed_rows_f32)
LEAF(packed_rows_f16)
LEAF(pack_from_f64_f64)
LEAF(pack_from_f32_f64)
LEAF(pack_from_f64_f32)
LEAF(pack_from_f32_f32)
LEAF(strip_products)

/* The leaf for what P points to. */
#define OF_TYPE(f, P) _Generic(*(P), double: f##_f64, float: f##_f32, uint16_t: f##_f16)
#define OF_NARROW(f, P) _Generic(*(P), float: f##_f32, uint16_t: f##_f16)
#define packed_products(P, ...) OF_TYPE(packed_products, P)(P, __VA_ARGS__)
#define packed_products_on(P, ...) OF_TYPE(packed_products_on, P)(P, __VA_ARGS__)
#define packed_products_batch(P, ...) OF_TYPE(packed_products_batch, P)(P, __VA_ARGS__)
#define packed_compress(P, ...) OF_TYPE(packed_compress, P)(P, __VA_ARGS__)
#define packed_quadratic(P, ...) OF_TYPE(packed_quadratic, P)(P, __VA_ARGS__)
#define packed_weighted(P, ...) OF_TYPE(packed_weighted, P)(P, __VA_ARGS__)
#define packed_weighted_again(P, ...) OF_TYPE(packed_weighted_again, P)(P, __VA_ARGS__)
#define packed_block(P, ...) OF_TYPE(packed_block, P)(P, __VA_ARGS__)
#define packed_diagonals(P, ...) OF_TYPE(packed_diagonals, P)(P, __VA_ARGS__)
#define packed_rows(P, ...) OF_TYPE(packed_rows, P)(P, __VA_ARGS__)
#define packed_products_single(P, ...) OF_NARROW(packed_products_single, P)(P, __VA_ARGS__)
#define packed_products_batch_single(P, ...) OF_NARROW(packed_products_batch_single, P)(P, __VA_ARGS__)
#define packed_quadratic_single(P, ...) OF_NARROW(packed_quadratic_single, P)(P, __VA_ARGS__)
#define packed_weighted_single(P, ...) OF_NARROW(packed_weighted_single, P)(P, __VA_ARGS__)
#define pack_from(A, n, lanes, P)                                                                                      \
    _Generic(*(A),                                                                                                     \
        double: _Generic(*(P), double: pack_from_f64_f64, float: pack_from_f64_f32),                                   \
        float: _Generic(*(P), double: pack_from_f32_f64, float: pack_from_f32_f32))(A, n, lanes, P)

#endif
