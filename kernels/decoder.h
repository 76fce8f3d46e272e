/* Descents through a fully connected network h_l = f_l(h_{l-1} W_l + b_l), in single precision.

   WEIGHTS. Those of one network serve thousands of products with few rows each, so they are laid out once for both
   directions: W_l, and for the way back its transpose, as panels of PANEL columns, (panels, inputs, PANEL), the last
   one filled up with zeros. A tile of up to TILE rows and one panel stays in registers through the whole sum, each entry
   of which is summed in the order of the inputs: so a row does not depend on the rows beside it.

   ACTIVATIONS. By e = exp(−|a|), and logarithms by 2 atanh: no overflow, no cancellation, to a few roundings. Plain
   loops, which compilers turn into vectors; both sides of a choice are computed. */
#ifndef FASTQUAD_DECODER_H
#define FASTQUAD_DECODER_H

#include <math.h>
#include <stdint.h>

#include "simd.h"

enum { PANEL = 16, TILE = 6, HALF = 8 };
enum { SOFTPLUS, RELU, TANH, SIGMOID, IDENTITY };

INLINE ptrdiff_t padded(ptrdiff_t n) { return (n + PANEL - 1) / PANEL * PANEL; }

#define LEAVES "decoder.inc.h"
#include "levels.h"

LEAF(panel_product)
LEAF(activate)
LEAF(scale_by)
LEAF(pull)

#endif
