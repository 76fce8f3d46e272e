/* The kernels of raw.h for one level of SIMD: for entries stored as double and as float. */

#define STORED double
#define OF(f) AT(f##_f64)
#define vec_load vec_load_f64
#include "raw_of.inc.h"
#undef STORED
#undef OF
#undef vec_load

#define STORED float
#define OF(f) AT(f##_f32)
#define vec_load vec_load_f32
#include "raw_of.inc.h"
#undef STORED
#undef OF
#undef vec_load
