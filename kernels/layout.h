/* The packed layout: where each entry of the symmetric matrices stands.

   Measurements come in blocks of LANES = 8. A block stores the upper triangle of its symmetric matrices by groups of
   GROUP = 4 rows: group g has rows 4g..4g+3 and columns k = 4g..n-1, and for each column the 4 rows, and for each of
   these the 8 measurements side by side:

       P[(offset(g) + 4 (k - 4g) + r) * 8 + l] = Ã_l[4g + r, k],      offset(g) = 4 g n - 8 g (g - 1).

   So a block is read as one stream, vectors run over measurements and never have a remainder, and an entry of all 8
   (64 bytes in float64) is what a sparse signal gathers. The first 4 columns of a group are the full diagonal tile,
   mirrored entries included; rows beyond n and measurements beyond m are zero. */
#ifndef FASTQUAD_LAYOUT_H
#define FASTQUAD_LAYOUT_H

#include "simd.h"

/* LANES: measurements side by side. GROUP: rows of a group. CELL: entries of one column of a group, in all lanes. */
enum { LANES = 8, GROUP = 4, CELL = LANES * GROUP };

INLINE ptrdiff_t padded(ptrdiff_t n) { return (n + GROUP - 1) / GROUP * GROUP; }
INLINE ptrdiff_t group_offset(ptrdiff_t g, ptrdiff_t n) { return 4 * g * n - 8 * g * (g - 1); }
INLINE ptrdiff_t block_entries(ptrdiff_t n) { return group_offset(padded(n) / GROUP, n); }

/* Where the entry (j, k) of the symmetric matrices stands, in units of LANES. */
INLINE ptrdiff_t entry_at(ptrdiff_t j, ptrdiff_t k, ptrdiff_t n) {
    ptrdiff_t low = j < k ? j : k, high = j < k ? k : j, g = low / GROUP;
    return group_offset(g, n) + GROUP * (high - GROUP * g) + low % GROUP;
}

/* -- prefetching ----------------------------------------------------------------------------------------------- */

/* Cache lines between what is used of a stream and what is prefetched of it: enough for the first lines of each page,
   which the machine does not guess. What is best depends on the core more than on the level of SIMD, in shares of the best
   reading loop:

   - Zen 5: 4 lines read float64, float32 and 16-bit entries at 0.92, 0.81 and 0.66, 128 lines at 0.92, 0.86 and 0.90, and
     with AVX2 at 0.93, 0.94 and 0.90;
   - Zen 4: 4 lines read float64 at 0.87 to 0.92, 8 at 0.74 to 0.82; older AMD cores with AVX2: 8 lines at 0.88 to 0.96;
   - Emerald Rapids: 8 lines at 0.83, 16 at 0.85 to 0.90, 32 and 64 at 0.87 to 0.92, and the narrower the entries, the more
     is gained: 16-bit ones 0.61, 0.69, 0.72 and 0.81. */
static int lines_ahead = 8;

/* A tensor of more bytes is a stream: it comes from memory each time. This is what a group of Zen cores shares; what the
   system says of the last level is the sum over all groups, or what a virtual machine does not have. */
enum { CACHE_BYTES = 32 << 20 };

/* Cache lines ahead of a stream that is not kept. In shares of the best loop that does not keep what it reads either, 80, 128
   and 160 lines read float64 at 0.93 to 0.96, float32 in float at 0.83 to 0.87, 0.90 and 0.90, 16-bit entries at 0.77, 0.85
   and 0.89; 256 lines lose 0.05 in float32. */
enum { LINES_AHEAD_ONCE = 160 };

/* How far ahead a stream is prefetched, and whether it is not to be kept. */
typedef struct {
    int lines, once;
} stream_ahead;

/* The same for streams with entries of 2, 4 and 8 bytes; without lines, as for a tensor that is kept. This is what is known
   of a processor by its name: on Zen 5, where the last level takes what the others give up, that traffic costs a tenth of a
   pass (float64 0.92 without and 1.04 with it, in shares of the best loop that keeps what it reads). What is best on the
   machine at hand is measured: see fastquad/measurements/dense/prefetch.py. It is worth it: on a Zen 5 core 8 lines, the best
   of older ones, read float64, float32 and 16-bit entries at 0.83, 0.67 and 0.55 of the best loop, and the best setting at
   0.94, 0.89 and 0.87. */
static stream_ahead streamed[3];

INLINE stream_ahead *stream_of(size_t entry) { return streamed + (entry == 8 ? 2 : entry == 4 ? 1 : 0); }

/* The same for a stream that is kept. */
INLINE stream_ahead ahead_kept(void) { return (stream_ahead){lines_ahead, 0}; }

/* The same for one read of a tensor of so many bytes, whose entries have `entry` bytes. */
INLINE stream_ahead ahead_of(size_t bytes, size_t entry, stream_ahead kept) {
    return bytes > CACHE_BYTES && stream_of(entry)->lines ? *stream_of(entry) : kept;
}

/* Prefetch so many cache lines of a stream from where it is used on. */
INLINE void prefetch_ahead(const void *place, int lines, stream_ahead ahead) {
    for (int line = 0; line < lines; line++) {
        if (ahead.once) PREFETCH_ONCE((const char *)place + 64 * (ahead.lines + line));
        else PREFETCH((const char *)place + 64 * (ahead.lines + line));
    }
}

/* Whether tiles of the batched kernels are prefetched into the L1 cache, and not into the L2 cache. On Zen 5, which hardly
   obeys prefetches into the L2 cache, 16 signals run at 0.82 to 0.88 of the multiply-adds with AVX-512, and at 0.55 to 0.62
   with these; on Zen 4 at 0.82 to 0.87 with these. */
static int tiles_near = 0;

#if defined(HAS_LEVELS)
__attribute__((constructor)) static void choose_lines_ahead(void) {
    __builtin_cpu_init();
    if (__builtin_cpu_is("intel")) lines_ahead = 48;
    /* Of AMD's cores, Zen 5 is the first that has this; not every compiler knows its name. */
    else if (__builtin_cpu_supports("avx512vp2intersect")) {
        lines_ahead = 128, tiles_near = 1;
        for (int entry = 2; entry <= 8; entry *= 2) *stream_of(entry) = (stream_ahead){LINES_AHEAD_ONCE, 1};
    }
    else if (simd_of_machine() == V4) lines_ahead = 4;
}
#endif

/* The same for what comes from the last level of cache. */
enum { LINES_AHEAD_AGAIN = 64 };

#endif
