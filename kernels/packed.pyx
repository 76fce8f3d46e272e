"""Contractions of packed tensors, for a range of blocks; see packed.h for the layout and the formulas.

Each function checks nothing and lets go of the GIL; fastquad.measurements calls it once a chunk. P is (blocks, entries,
LANES), with 16-bit floats given as their bits; blocks start..stop-1 are handled. Signals are padded to a multiple of 4,
what there is one of for each measurement to a multiple of 8. What ends in `_single` is computed in float.
"""

from libc.stdint cimport int32_t, uint16_t
from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

ctypedef fused real:
    float
    double

ctypedef fused source:
    float
    double

ctypedef fused stored:
    uint16_t
    float
    double

ctypedef fused narrow:
    uint16_t
    float

# P is of any stored type: the names are macros that choose the leaf.
cdef extern from "packed.h" nogil:
    enum: LANES, GROUP, CELL, TILE, TILE_SIZE
    Py_ssize_t padded(Py_ssize_t n)
    Py_ssize_t group_offset(Py_ssize_t g, Py_ssize_t n)
    Py_ssize_t block_entries(Py_ssize_t n)
    Py_ssize_t entry_at(Py_ssize_t j, Py_ssize_t k, Py_ssize_t n)
    void lanes_apart(const double* W, Py_ssize_t count, Py_ssize_t lanes, double* out)
    ctypedef struct stream_ahead:
        int lines, once
    stream_ahead ahead_of(size_t bytes, size_t entry, stream_ahead kept)
    int tiles_near
    stream_ahead ahead_kept()
    void packed_products(const void* P, Py_ssize_t n, const double* x, double* W, stream_ahead ahead)
    void packed_products_single(const void* P, Py_ssize_t n, const float* x, float* sums, double* W, stream_ahead ahead)
    void packed_products_on(const void* P, Py_ssize_t n, const Py_ssize_t* support, Py_ssize_t s, const double* x,
                            double* W)
    void packed_products_batch(const void* P, Py_ssize_t n, const double* x, Py_ssize_t b, double* tile, double* W)
    void packed_products_batch_single(const void* P, Py_ssize_t n, const float* x, Py_ssize_t b, float* tile, double* W)
    void packed_compress(const void* P, Py_ssize_t n, const double* U, Py_ssize_t b, double* tile, double* rows,
                         double* C)
    void packed_quadratic(const void* P, Py_ssize_t n, const double* z, const double* v, double* q)
    void packed_quadratic_single(const void* P, Py_ssize_t n, const float* z, const float* v, double* q)
    void packed_weighted(const void* P, Py_ssize_t count, const double* w, double* S, stream_ahead ahead)
    void packed_weighted_again(const void* P, Py_ssize_t count, const double* w, double* S, const void* next)
    void packed_weighted_single(const void* P, Py_ssize_t count, const float* w, double* S, const void* next)
    void packed_block(const void* P, Py_ssize_t n, Py_ssize_t lanes, const Py_ssize_t* rows, Py_ssize_t s,
                      const Py_ssize_t* cols, Py_ssize_t t, double* out)
    void packed_rows(const void* P, Py_ssize_t n, Py_ssize_t lanes, const Py_ssize_t* support, Py_ssize_t s, void* out)
    void packed_diagonals(const void* P, Py_ssize_t n, Py_ssize_t lanes, double* d)
    void pack_from(const void* A, Py_ssize_t n, Py_ssize_t lanes, void* P)
    void strip_products(const double* P, Py_ssize_t n, Py_ssize_t first, Py_ssize_t last, const double* x, double* W)
    const char* simd_name()

# Cells of a block that a sweep adds up at once: 256 kB of float64, in the second-level cache for all signals of a batch.
cdef enum:
    SEGMENT = 1024

#: Measurements in a block of the packed layout, and rows in a group.
lanes = LANES
group = GROUP
#: The level of SIMD that the kernels use here: "AVX-512", "AVX2", "SSE2", "NEON" or "baseline".
simd = simd_name().decode()


cdef void* scratch(Py_ssize_t size) except NULL nogil:
    """Memory for `size` bytes from `lines` on."""
    cdef void* p = malloc(size + 64)
    if p == NULL:
        with gil:
            raise MemoryError(f"no memory for {size} bytes of scratch")
    return p


cdef inline double* lines(void* p) noexcept nogil:
    """Where the first cache line begins: vectors that lie across two take twice as long."""
    return <double*>((<size_t>p + 63) & ~<size_t>63)


include "streams.pxi"


def tiles():
    """Whether tiles of the batched kernels are prefetched into the L1 cache, and not into the L2 cache."""
    return bool(tiles_near)


def set_tiles(bint near):
    """Prefetch tiles into the L1 cache, or into the L2 cache."""
    global tiles_near
    tiles_near = near


# -- the layout -------------------------------------------------------------------------------------------------


def entries(Py_ssize_t n):
    """How many entries a packed block stores for each of its measurements."""
    return block_entries(n)


def offset(Py_ssize_t g, Py_ssize_t n):
    """Where a group of rows begins in a packed block."""
    return group_offset(g, n)


def places(const Py_ssize_t[::1] rows, const Py_ssize_t[::1] cols, Py_ssize_t n, Py_ssize_t[:, ::1] out):
    """out[s, t] = where the entry (rows[s], cols[t]) stands in a block"""
    cdef Py_ssize_t s, t
    with nogil:
        for s in range(rows.shape[0]):
            for t in range(cols.shape[0]):
                out[s, t] = entry_at(rows[s], cols[t], n)


def pairs(Py_ssize_t n, Py_ssize_t first, Py_ssize_t last, int32_t[::1] j, int32_t[::1] k):
    """j, k = row and column of each entry of the groups first..last-1; the row is -1 where it lies beyond n"""
    cdef Py_ssize_t g, row, column, e = 0
    with nogil:
        for g in range(first, last):
            for column in range(GROUP * g, n):
                for row in range(GROUP * g, GROUP * (g + 1)):
                    j[e] = <int32_t>row if row < n else -1
                    k[e] = <int32_t>column
                    e += 1


def unpack_symmetric(const double[::1] packed, double[:, ::1] S):
    """S = the symmetric matrix whose entries stand in packed order, one lane"""
    cdef Py_ssize_t n = S.shape[0], j, k
    with nogil:
        for j in range(n):
            for k in range(j, n):
                S[j, k] = S[k, j] = packed[entry_at(j, k, n)]


def pack(const source[:, :, ::1] A, real[:, :, ::1] P, Py_ssize_t start, Py_ssize_t stop):
    """P[block] = the packed symmetric part of A[8 block : 8 block + 8]"""
    cdef Py_ssize_t m = A.shape[0], n = A.shape[1], block
    with nogil:
        for block in range(start, stop):
            pack_from(&A[block * LANES, 0, 0], n, min(LANES, m - block * LANES), &P[block, 0, 0])


# -- contractions of blocks -------------------------------------------------------------------------------------


def products(const stored[:, :, ::1] P, const double[::1] x, double[:, ::1] W, Py_ssize_t start, Py_ssize_t stop):
    """W[i] = Ã_i x; x need not be padded"""
    cdef Py_ssize_t m = W.shape[0], n = W.shape[1], block
    cdef stream_ahead ahead = ahead_of(P.shape[0] * P.shape[1] * LANES * sizeof(stored), sizeof(stored), ahead_kept())
    cdef double* w
    cdef double* whole
    cdef void* memory
    with nogil:
        memory = scratch(padded(n) * (LANES + 1) * sizeof(double))
        w = lines(memory)
        whole = w + padded(n) * LANES
        memset(whole + padded(n) - GROUP, 0, GROUP * sizeof(double))
        memcpy(whole, &x[0], n * sizeof(double))
        for block in range(start, stop):
            packed_products(&P[block, 0, 0], n, whole, w, ahead)
            lanes_apart(w, n, min(LANES, m - block * LANES), &W[block * LANES, 0])
        free(memory)


def products_single(const narrow[:, :, ::1] P, const float[::1] x, double[:, ::1] W, Py_ssize_t start, Py_ssize_t stop):
    """W[i] = Ã_i x, in float"""
    cdef Py_ssize_t m = W.shape[0], n = W.shape[1], block
    cdef stream_ahead ahead = ahead_of(P.shape[0] * P.shape[1] * LANES * sizeof(narrow), sizeof(narrow), ahead_kept())
    cdef double* w
    cdef void* memory
    with nogil:
        memory = scratch(padded(n) * LANES * (sizeof(double) + sizeof(float)))
        w = lines(memory)
        for block in range(start, stop):
            packed_products_single(&P[block, 0, 0], n, &x[0], <float*>(w + padded(n) * LANES), w, ahead)
            lanes_apart(w, n, min(LANES, m - block * LANES), &W[block * LANES, 0])
        free(memory)


def products_on(const stored[:, :, ::1] P, const Py_ssize_t[::1] support, const double[::1] x, double[:, ::1] W,
                Py_ssize_t start, Py_ssize_t stop):
    """W[i] = Σ_{j in S} Ã_i[:, j] x_S[j]"""
    cdef Py_ssize_t m = W.shape[0], n = W.shape[1], s = support.shape[0], block
    cdef double* w
    cdef void* memory
    if s == 0:
        W[start * LANES:min(m, stop * LANES), :] = 0
        return
    with nogil:
        memory = scratch(padded(n) * LANES * sizeof(double))
        w = lines(memory)
        for block in range(start, stop):
            packed_products_on(&P[block, 0, 0], n, &support[0], s, &x[0], w)
            lanes_apart(w, n, min(LANES, m - block * LANES), &W[block * LANES, 0])
        free(memory)


def products_batch(const stored[:, :, ::1] P, const double[:, ::1] x, double[:, :, ::1] W, Py_ssize_t start,
                   Py_ssize_t stop):
    """W[i] = Ã_i x for signals in the columns of x"""
    cdef Py_ssize_t m = W.shape[0], n = W.shape[1], b = W.shape[2], block
    cdef double* w
    cdef void* memory
    with nogil:
        memory = scratch((LANES * padded(n) * b + TILE_SIZE) * sizeof(double))
        w = lines(memory)
        for block in range(start, stop):
            packed_products_batch(&P[block, 0, 0], n, &x[0, 0], b, w + LANES * padded(n) * b, w)
            lanes_apart(w, n * b, min(LANES, m - block * LANES), &W[block * LANES, 0, 0])
        free(memory)


def products_batch_single(const narrow[:, :, ::1] P, const float[:, ::1] x, double[:, :, ::1] W, Py_ssize_t start,
                          Py_ssize_t stop):
    """W[i] = Ã_i x for signals in the columns of x, in float"""
    cdef Py_ssize_t m = W.shape[0], n = W.shape[1], b = W.shape[2], block
    cdef double* w
    cdef void* memory
    with nogil:
        memory = scratch(LANES * padded(n) * b * sizeof(double) + (TILE_SIZE + TILE * b * LANES) * sizeof(float))
        w = lines(memory)
        for block in range(start, stop):
            packed_products_batch_single(&P[block, 0, 0], n, &x[0, 0], b, <float*>(w + LANES * padded(n) * b), w)
            lanes_apart(w, n * b, min(LANES, m - block * LANES), &W[block * LANES, 0, 0])
        free(memory)


def compress(const stored[:, :, ::1] P, Py_ssize_t n, const double[:, ::1] U, double[:, :, ::1] C, Py_ssize_t start,
             Py_ssize_t stop):
    """C[i] = U^T Ã_i U"""
    cdef Py_ssize_t m = C.shape[0], b = C.shape[1], block, q, s, l
    cdef double* c
    cdef double* tile
    cdef void* memory
    with nogil:
        memory = scratch((LANES * b * b + TILE_SIZE + LANES * TILE * b) * sizeof(double))
        c = lines(memory)
        tile = c + LANES * b * b
        for block in range(start, stop):
            packed_compress(&P[block, 0, 0], n, &U[0, 0], b, tile, tile + TILE_SIZE, c)
            for l in range(min(LANES, m - block * LANES)):
                for q in range(b):
                    for s in range(b):
                        C[block * LANES + l, q, s] = c[(q * b + s) * LANES + l] + c[(s * b + q) * LANES + l]
        free(memory)


def quadratic(const stored[:, :, ::1] P, Py_ssize_t n, const double[::1] z, const double[::1] v, double[::1] q,
              Py_ssize_t start, Py_ssize_t stop):
    """q[i] = <Ã_i, zz^T + diag(v)>"""
    cdef Py_ssize_t block
    with nogil:
        for block in range(start, stop):
            packed_quadratic(&P[block, 0, 0], n, &z[0], &v[0], &q[block * LANES])


def weighted(const stored[:, :, ::1] P, const double[:, ::1] w, double[:, ::1] S, Py_ssize_t start, Py_ssize_t stop):
    """S[s, e] += Σ_i w[s, i] P_i[e] over all blocks, for the entries start <= e < stop, multiples of 4"""
    cdef Py_ssize_t s, block, count = (stop - start) // GROUP
    # With several signals, all but the last come back to it.
    cdef stream_ahead ahead = ahead_kept()
    if w.shape[0] == 1:
        ahead = ahead_of(P.shape[0] * P.shape[1] * LANES * sizeof(stored), sizeof(stored), ahead)
    with nogil:
        for block in range(P.shape[0]):
            for s in range(w.shape[0]):
                packed_weighted(&P[block, start, 0], count, &w[s, block * LANES], &S[s, start], ahead)


def sweep(const stored[:, :, ::1] P, Py_ssize_t n, const double[:, ::1] z, const double[:, ::1] v, double[:, ::1] r,
          double[:, ::1] S, Py_ssize_t start, Py_ssize_t stop):
    """r[s, i] -= <Ã_i, zz^T + diag(v)>, then S[s] += Σ_i r[s, i] Ã_i in the order of the packed entries, while the
    block is in cache"""
    cdef Py_ssize_t b = z.shape[0], block, s, l, cells = block_entries(n) // GROUP, first, last
    cdef Py_ssize_t line = 64 // sizeof(P[0, 0, 0])
    cdef double q[8]
    with nogil:
        for block in range(start, stop):
            for s in range(b):
                packed_quadratic(&P[block, 0, 0], n, &z[s, 0], &v[s, 0], q)
                for l in range(LANES):
                    r[s, block * LANES + l] -= q[l]
            # From the end of the block to its beginning: what was read last is what the cache still holds.
            last = cells
            while last > 0:
                first = max(0, last - SEGMENT)
                # Of a batch, all signals but the last need the segment again.
                for s in range(b - 1):
                    packed_weighted(&P[block, first * GROUP, 0], last - first, &r[s, block * LANES],
                                    &S[s, first * GROUP], ahead_kept())
                packed_weighted_again(&P[block, first * GROUP, 0], last - first, &r[b - 1, block * LANES],
                                      &S[b - 1, first * GROUP], &P[block, 0, 0] + cells * CELL + (cells - last) * line)
                last = first


def sweep_single(const narrow[:, :, ::1] P, Py_ssize_t n, const float[:, ::1] z, const float[:, ::1] v,
                 double[:, ::1] r, double[:, ::1] S, Py_ssize_t start, Py_ssize_t stop):
    """The same as `sweep`, in float"""
    cdef Py_ssize_t b = z.shape[0], block, s, l, cells = block_entries(n) // GROUP, first, last
    cdef Py_ssize_t line = 64 // sizeof(P[0, 0, 0])
    cdef double q[8]
    cdef float w[8]
    cdef const narrow* next
    with nogil:
        for block in range(start, stop):
            for s in range(b):
                packed_quadratic_single(&P[block, 0, 0], n, &z[s, 0], &v[s, 0], q)
                for l in range(LANES):
                    r[s, block * LANES + l] -= q[l]
            last = cells
            while last > 0:
                first = max(0, last - SEGMENT)
                for s in range(b):
                    for l in range(LANES):
                        w[l] = <float>r[s, block * LANES + l]
                    next = &P[block, 0, 0] + cells * CELL + (cells - last) * line if s == b - 1 else NULL
                    packed_weighted_single(&P[block, first * GROUP, 0], last - first, w, &S[s, first * GROUP], next)
                last = first


# -- parts of blocks --------------------------------------------------------------------------------------------


def block(const stored[:, :, ::1] P, Py_ssize_t n, const Py_ssize_t[::1] rows, const Py_ssize_t[::1] cols,
          double[:, :, ::1] out, Py_ssize_t start, Py_ssize_t stop):
    """out[i] = Ã_i[rows, cols]; neither is empty"""
    cdef Py_ssize_t m = out.shape[0], block
    with nogil:
        for block in range(start, stop):
            packed_block(&P[block, 0, 0], n, min(LANES, m - block * LANES), &rows[0], rows.shape[0], &cols[0],
                         cols.shape[0], &out[block * LANES, 0, 0])


def rows(const stored[:, :, ::1] P, const Py_ssize_t[::1] support, real[:, :, ::1] out, Py_ssize_t start,
         Py_ssize_t stop):
    """out[i] = Ã_i[support, :], in the type of the entries, and those of 16 bits as float; the support is not empty"""
    cdef Py_ssize_t m = out.shape[0], n = out.shape[2], block
    with nogil:
        for block in range(start, stop):
            packed_rows(&P[block, 0, 0], n, min(LANES, m - block * LANES), &support[0], support.shape[0],
                        <void*>&out[block * LANES, 0, 0])


def diagonals(const stored[:, :, ::1] P, double[:, ::1] d, Py_ssize_t start, Py_ssize_t stop):
    """d[i, j] = A_i[j, j]"""
    cdef Py_ssize_t m = d.shape[0], n = d.shape[1], block
    with nogil:
        for block in range(start, stop):
            packed_diagonals(&P[block, 0, 0], n, min(LANES, m - block * LANES), &d[block * LANES, 0])


# -- contractions of strips: the groups of rows first..last-1 of one block, as doubles -------------------------------


def strip(const double[:, ::1] P, Py_ssize_t first, Py_ssize_t last, const double[:, ::1] x, double[:, :, ::1] W,
          Py_ssize_t n):
    """W[s, k, l] += Σ_j Ã_l[k, j] x[s, j] over the entries of the strip and their mirror images"""
    cdef Py_ssize_t s
    with nogil:
        for s in range(x.shape[0]):
            strip_products(&P[0, 0], n, first, last, &x[s, 0], &W[s, 0, 0])


def transposed(const double[:, ::1] entries, real[:, :] out):
    """out[l, p] = entries[p, l], as many of the 8 measurements l as out has; its rows are contiguous"""
    cdef Py_ssize_t count = out.shape[1], start, p, l
    cdef real* row
    with nogil:
        # A few cache lines of entries at a time, which stay in the L1 cache for all measurements.
        for start in range(0, count, 64):
            for l in range(out.shape[0]):
                row = &out[l, 0]
                for p in range(start, min(count, start + 64)):
                    row[p] = <real>entries[p, l]
