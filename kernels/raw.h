/* Kernels on one row-major n×n matrix as the user stored it, for REAL = float and double; sums are in double. */
#ifndef FASTQUAD_RAW_H
#define FASTQUAD_RAW_H

#include "lanes.h"

/* Bytes between what is used of a long stretch and what is asked for ahead of it. */
enum { FAR_AHEAD = 4096 };

#define REAL double
#define NAME(f) f##_f64
#define vec_load vec_load_f64
#include "raw_real.h"
#undef REAL
#undef NAME
#undef vec_load

#define REAL float
#define NAME(f) f##_f32
#define vec_load vec_load_f32
#include "raw_real.h"
#undef REAL
#undef NAME
#undef vec_load

#endif
