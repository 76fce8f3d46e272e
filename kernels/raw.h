/* Kernels on one row-major n×n matrix as the user stored it, in double or float; sums are in double. */
#ifndef FASTQUAD_RAW_H
#define FASTQUAD_RAW_H

#include "simd.h"

/* Bytes between what is used of a long stretch and what is prefetched of it. */
enum { FAR_AHEAD = 4096 };

/* The same for rows so short that four of them are fewer bytes: at n = 100 in the last level of cache a pass took 0.75 of
   the time that it takes with the next four rows prefetched, at n = 500 from memory it would take 1.25. */
enum { RAW_AHEAD = 8192 };

#define LEAVES "raw.inc.h"
#include "levels.h"

#define LEAF_OF_BOTH(f) LEAF(f##_f64) LEAF(f##_f32)
LEAF_OF_BOTH(raw_products)
LEAF_OF_BOTH(raw_products_on)
LEAF_OF_BOTH(raw_right)
LEAF_OF_BOTH(raw_left)
LEAF_OF_BOTH(raw_quadratic)
LEAF_OF_BOTH(raw_weighted)
LEAF_OF_BOTH(raw_weighted_one)

/* The leaf for what A points to. */
#define RAW_OF_TYPE(f, A) _Generic(*(A), double: f##_f64, float: f##_f32)
#define raw_products(A, ...) RAW_OF_TYPE(raw_products, A)(A, __VA_ARGS__)
#define raw_products_on(A, ...) RAW_OF_TYPE(raw_products_on, A)(A, __VA_ARGS__)
#define raw_right(A, ...) RAW_OF_TYPE(raw_right, A)(A, __VA_ARGS__)
#define raw_left(A, ...) RAW_OF_TYPE(raw_left, A)(A, __VA_ARGS__)
#define raw_quadratic(A, ...) RAW_OF_TYPE(raw_quadratic, A)(A, __VA_ARGS__)
#define raw_weighted(A, ...) RAW_OF_TYPE(raw_weighted, A)(A, __VA_ARGS__)
#define raw_weighted_one(A, ...) RAW_OF_TYPE(raw_weighted_one, A)(A, __VA_ARGS__)

#endif
