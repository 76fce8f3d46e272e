/* The machine's own limits, which the benchmarks hold the kernels against: reading memory, and multiplying and adding
   in registers. Both use the vectors that the kernels use. */
#ifndef FASTQUAD_BANDWIDTH_H
#define FASTQUAD_BANDWIDTH_H

#include "simd.h"

/* Vectors that are added to in turn: enough to hide the latency of an addition, few enough for 16 registers. */
enum { CHAINS = 12 };

/* Doubles in a step of the reading loop: 4 cache lines. */
enum { STEP = 32 };

#define LEAVES "bandwidth.inc.h"
#include "levels.h"

LEAF(read_doubles)
LEAF(multiply_add)
LEAF(chain_width)

#endif
