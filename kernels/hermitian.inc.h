/* The kernels of hermitian.h for one level of SIMD: vectors over all 8 measurements, and then each type of the entries. */

#if defined(__GNUC__)
typedef double eight __attribute__((vector_size(64)));
typedef double AT(eight_in_memory) __attribute__((vector_size(64), aligned(8), may_alias));
INLINE eight eight_load_f64(const double *p) { return *(const AT(eight_in_memory) *)p; }
INLINE eight eight_load_f32(const float *p) { return (eight){p[0], p[1], p[2], p[3], p[4], p[5], p[6], p[7]}; }
INLINE void eight_store(double *p, eight a) { *(AT(eight_in_memory) *)p = a; }
INLINE eight eight_all(double a) { return (eight){a, a, a, a, a, a, a, a}; }
INLINE eight eight_fma(eight a, eight b, eight c) { return a * b + c; }
INLINE eight eight_fms(eight a, eight b, eight c) { return c - a * b; }
INLINE eight eight_add(eight a, eight b) { return a + b; }
#else
typedef struct { double at[LANES]; } eight;
INLINE eight eight_load_f64(const double *p) { eight a; for (int l = 0; l < LANES; l++) a.at[l] = p[l]; return a; }
INLINE eight eight_load_f32(const float *p) { eight a; for (int l = 0; l < LANES; l++) a.at[l] = p[l]; return a; }
INLINE void eight_store(double *p, eight a) { for (int l = 0; l < LANES; l++) p[l] = a.at[l]; }
INLINE eight eight_all(double v) { eight a; for (int l = 0; l < LANES; l++) a.at[l] = v; return a; }
INLINE eight eight_fma(eight a, eight b, eight c) { for (int l = 0; l < LANES; l++) c.at[l] += a.at[l] * b.at[l]; return c; }
INLINE eight eight_fms(eight a, eight b, eight c) { for (int l = 0; l < LANES; l++) c.at[l] -= a.at[l] * b.at[l]; return c; }
INLINE eight eight_add(eight a, eight b) { for (int l = 0; l < LANES; l++) a.at[l] += b.at[l]; return a; }
#endif

#include "lanes.inc.h"

#define STORED double
#define OF(f) AT(f##_f64)
#define eight_load eight_load_f64
#define vec_load vec_load_f64
#include "weighted.inc.h"
#include "hermitian_of.inc.h"
#include "complex.inc.h"
#undef STORED
#undef OF
#undef eight_load
#undef vec_load

#define STORED float
#define OF(f) AT(f##_f32)
#define eight_load eight_load_f32
#define vec_load vec_load_f32
#include "weighted.inc.h"
#include "hermitian_of.inc.h"
#include "complex.inc.h"
#undef STORED
#undef OF
#undef eight_load
#undef vec_load
