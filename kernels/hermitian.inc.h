/* The kernels of hermitian.h for one level of SIMD: vectors over all 8 measurements, and then each type of the entries. */

/* An entry of all 8 measurements, in as many vectors as that takes. */
enum { AT(EIGHT_PARTS_) = LANES / WIDE };
typedef struct { wide at[EIGHT_PARTS]; } eight;

#if defined(__GNUC__)
INLINE wide wide_fms(wide a, wide b, wide c) { return c - a * b; }
#else
INLINE wide wide_fms(wide a, wide b, wide c) { for (int i = 0; i < WIDE; i++) c.at[i] -= a.at[i] * b.at[i]; return c; }
#endif

#define EACH(what) eight t; for (int h = 0; h < EIGHT_PARTS; h++) t.at[h] = what; return t
INLINE eight eight_load_f64(const double *p) { EACH(wide_load_f64(p + WIDE * h)); }
INLINE eight eight_load_f32(const float *p) { EACH(wide_load_f32(p + WIDE * h)); }
INLINE eight eight_all(double a) { EACH(wide_all(a)); }
INLINE eight eight_fma(eight a, eight b, eight c) { EACH(wide_fma(a.at[h], b.at[h], c.at[h])); }
INLINE eight eight_fms(eight a, eight b, eight c) { EACH(wide_fms(a.at[h], b.at[h], c.at[h])); }
INLINE eight eight_add(eight a, eight b) { EACH(wide_add(a.at[h], b.at[h])); }
INLINE void eight_store(double *p, eight a) {
    for (int h = 0; h < EIGHT_PARTS; h++) wide_store(p + WIDE * h, a.at[h]);
}
#undef EACH

#include "lanes.inc.h"

#define STORED double
#define OF(f) AT(f##_f64)
#define eight_load eight_load_f64
#define wide_load wide_load_f64
#define vec_load vec_load_f64
#include "weighted.inc.h"
#include "hermitian_of.inc.h"
#include "complex.inc.h"
#undef STORED
#undef OF
#undef eight_load
#undef wide_load
#undef vec_load

#define STORED float
#define OF(f) AT(f##_f32)
#define eight_load eight_load_f32
#define wide_load wide_load_f32
#define vec_load vec_load_f32
#include "weighted.inc.h"
#include "hermitian_of.inc.h"
#include "complex.inc.h"
#undef STORED
#undef OF
#undef eight_load
#undef wide_load
#undef vec_load
