/* Includes the file LEAVES once for each level of SIMD; see simd.h. Within it LEVEL is the level, WIDE the doubles and
   FLOATS the floats in a register, SINGLES these but at most eight, and AT(f) the name of f at this level. */

#define LEVEL 0
#define WIDE 2
#define SINGLES 4
#define FLOATS 4
#if defined(HAS_LEVELS)
#define AT(f) f##_baseline
#else
#define AT(f) f
#endif
#include LEAVES
#undef LEVEL
#undef WIDE
#undef SINGLES
#undef FLOATS
#undef AT

#if defined(HAS_LEVELS)
TARGET_V3
#define LEVEL 3
#define WIDE 4
#define SINGLES 8
#define FLOATS 8
#define AT(f) f##_v3
#include LEAVES
#undef LEVEL
#undef WIDE
#undef SINGLES
#undef FLOATS
#undef AT
END_TARGET

TARGET_V4
#define LEVEL 4
#define WIDE 8
#define SINGLES 8
#define FLOATS 16
#define AT(f) f##_v4
#include LEAVES
#undef LEVEL
#undef WIDE
#undef SINGLES
#undef FLOATS
#undef AT
END_TARGET
#endif

#undef LEAVES
