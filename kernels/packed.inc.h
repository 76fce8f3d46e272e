/* The kernels of packed.h for one level of SIMD: what does not depend on the type of the entries, and then each type. */

#include "lanes.inc.h"

/* Vectors of doubles, and of floats, for an entry of all lanes. */
#define PARTS_OF_ENTRY (LANES / WIDE)
#define SINGLE_PARTS (LANES / SINGLES)

#define NUMBER double
#define NUMBER_IS_FLOAT 0
#define PANEL(f) AT(f##_double)
#define VECTOR wide
#define VECTOR_SIZE WIDE
#define VECTOR_ALL wide_all
#define VECTOR_LOAD wide_load_f64
#define VECTOR_FMA wide_fma
#define VECTOR_PART(a, part) (a)
#include "panel.inc.h"
#undef NUMBER
#undef NUMBER_IS_FLOAT
#undef PANEL
#undef VECTOR
#undef VECTOR_SIZE
#undef VECTOR_ALL
#undef VECTOR_LOAD
#undef VECTOR_FMA
#undef VECTOR_PART

#define NUMBER float
#define NUMBER_IS_FLOAT 1
#define PANEL(f) AT(f##_float)
#define VECTOR floats
#define VECTOR_SIZE FLOATS
#define VECTOR_ALL floats_all
#define VECTOR_LOAD floats_load
#define VECTOR_FMA floats_fma
#define VECTOR_PART wide_of_floats
#include "panel.inc.h"
#undef NUMBER
#undef NUMBER_IS_FLOAT
#undef PANEL
#undef VECTOR
#undef VECTOR_SIZE
#undef VECTOR_ALL
#undef VECTOR_LOAD
#undef VECTOR_FMA
#undef VECTOR_PART

#define STORED double
#define OF(f) AT(f##_f64)
#define STORED_BITS 64
#define wide_load wide_load_f64
#define vec_load vec_load_f64
#define vec_store vec_store_f64
#include "weighted.inc.h"
#include "contractions.inc.h"
#include "batch.inc.h"
#include "pack.inc.h"
#undef STORED
#undef OF
#undef STORED_BITS
#undef wide_load
#undef vec_load
#undef vec_store

#define STORED float
#define OF(f) AT(f##_f32)
#define STORED_BITS 32
#define wide_load wide_load_f32
#define singles_load singles_load_f32
#define vec_load vec_load_f32
#define vec_store vec_store_f32
#include "weighted.inc.h"
#include "contractions.inc.h"
#include "single.inc.h"
#include "batch.inc.h"
#include "pack.inc.h"
#undef STORED
#undef OF
#undef STORED_BITS
#undef wide_load
#undef singles_load
#undef vec_load
#undef vec_store

#define STORED uint16_t
#define OF(f) AT(f##_f16)
#define STORED_BITS 16
#define wide_load wide_load_f16
#define singles_load singles_load_f16
#define vec_load vec_load_f16
#include "weighted.inc.h"
#include "contractions.inc.h"
#include "single.inc.h"
#include "batch.inc.h"
#undef STORED
#undef OF
#undef STORED_BITS
#undef wide_load
#undef singles_load
#undef vec_load

#include "strips.inc.h"

#undef PARTS_OF_ENTRY
#undef SINGLE_PARTS
