/* Packing into entries of type STORED, from doubles and from floats. */
#define SOURCE double
#define FROM(f) OF(f##_from_f64)
#define SOURCE_LOAD vec_load_f64
#include "pack_from.inc.h"
#undef SOURCE
#undef FROM
#undef SOURCE_LOAD

#define SOURCE float
#define FROM(f) OF(f##_from_f32)
#define SOURCE_LOAD vec_load_f32
#include "pack_from.inc.h"
#undef SOURCE
#undef FROM
#undef SOURCE_LOAD
