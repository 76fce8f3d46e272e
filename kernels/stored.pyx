"""Contractions of stored tensors, for a range of measurements; see packed.h and raw.h for the formulas.

Each function checks nothing and lets go of the GIL; fastquad.measurements calls it once a chunk.
"""

from libc.stdlib cimport free, malloc
from libc.string cimport memcpy, memset

ctypedef fused real:
    float
    double

ctypedef fused source:
    float
    double

cdef extern from "packed.h" nogil:
    enum: LANES, GROUP, CELL, TILE, TILE_SIZE
    Py_ssize_t padded(Py_ssize_t n)
    Py_ssize_t group_offset(Py_ssize_t g, Py_ssize_t n)
    Py_ssize_t block_entries(Py_ssize_t n)
    Py_ssize_t entry_at(Py_ssize_t j, Py_ssize_t k, Py_ssize_t n)
    void lanes_apart(const double*, Py_ssize_t, Py_ssize_t, double*)
    void packed_products_f32(const float*, Py_ssize_t, const double*, double*)
    void packed_products_f64(const double*, Py_ssize_t, const double*, double*)
    void packed_products_on_f32(const float*, Py_ssize_t, const Py_ssize_t*, Py_ssize_t, const double*, double*)
    void packed_products_on_f64(const double*, Py_ssize_t, const Py_ssize_t*, Py_ssize_t, const double*, double*)
    void packed_products_batch_f32(const float*, Py_ssize_t, const double*, Py_ssize_t, double*, double*)
    void packed_products_batch_f64(const double*, Py_ssize_t, const double*, Py_ssize_t, double*, double*)
    void packed_compress_f32(const float*, Py_ssize_t, const double*, Py_ssize_t, double*, double*, double*)
    void packed_compress_f64(const double*, Py_ssize_t, const double*, Py_ssize_t, double*, double*, double*)
    void packed_quadratic_f32(const float*, Py_ssize_t, const double*, const double*, double*)
    void packed_quadratic_f64(const double*, Py_ssize_t, const double*, const double*, double*)
    void packed_weighted_f32(const float*, Py_ssize_t, const double*, double*)
    void packed_weighted_f64(const double*, Py_ssize_t, const double*, double*)
    void packed_weighted_again_f32(const float*, Py_ssize_t, const double*, double*)
    void packed_weighted_again_f64(const double*, Py_ssize_t, const double*, double*)
    void packed_block_f32(const float*, Py_ssize_t, Py_ssize_t, const Py_ssize_t*, Py_ssize_t, const Py_ssize_t*,
                          Py_ssize_t, double*)
    void packed_block_f64(const double*, Py_ssize_t, Py_ssize_t, const Py_ssize_t*, Py_ssize_t, const Py_ssize_t*,
                          Py_ssize_t, double*)
    void packed_rows_f32(const float*, Py_ssize_t, Py_ssize_t, const Py_ssize_t*, Py_ssize_t, float*)
    void packed_rows_f64(const double*, Py_ssize_t, Py_ssize_t, const Py_ssize_t*, Py_ssize_t, double*)
    void pack_from_f32_f32(const float*, Py_ssize_t, Py_ssize_t, float*)
    void pack_from_f64_f32(const double*, Py_ssize_t, Py_ssize_t, float*)
    void pack_from_f32_f64(const float*, Py_ssize_t, Py_ssize_t, double*)
    void pack_from_f64_f64(const double*, Py_ssize_t, Py_ssize_t, double*)

cdef extern from "raw.h" nogil:
    void raw_products_f32(const float*, Py_ssize_t, const double*, double*)
    void raw_products_f64(const double*, Py_ssize_t, const double*, double*)
    void raw_products_on_f32(const float*, Py_ssize_t, const Py_ssize_t*, Py_ssize_t, const double*, double*)
    void raw_products_on_f64(const double*, Py_ssize_t, const Py_ssize_t*, Py_ssize_t, const double*, double*)
    void raw_right_f32(const float*, Py_ssize_t, const double*, double*)
    void raw_right_f64(const double*, Py_ssize_t, const double*, double*)
    void raw_left_f32(const float*, Py_ssize_t, const double*, double*)
    void raw_left_f64(const double*, Py_ssize_t, const double*, double*)
    double raw_quadratic_f32(const float*, Py_ssize_t, const double*, const double*)
    double raw_quadratic_f64(const double*, Py_ssize_t, const double*, const double*)
    void raw_weighted_f32(const float*, Py_ssize_t, Py_ssize_t, const double*, double*)
    void raw_weighted_f64(const double*, Py_ssize_t, Py_ssize_t, const double*, double*)
    void raw_weighted_one_f32(const float*, Py_ssize_t, double, double*)
    void raw_weighted_one_f64(const double*, Py_ssize_t, double, double*)

# Cells of a block that a sweep adds up at once: 256 kB of float64, in the second-level cache for all signals of a batch.
cdef enum:
    SEGMENT = 1024

#: Measurements in a block of the packed layout, and rows in a group.
lanes = LANES
group = GROUP


cdef double* scratch(Py_ssize_t count) except NULL nogil:
    cdef double* p = <double*>malloc((count if count > 0 else 1) * sizeof(double))
    if p == NULL:
        with gil:
            raise MemoryError(f"no memory for {count * sizeof(double)} bytes of scratch")
    return p


def entries(Py_ssize_t n):
    """How many entries a packed block stores for each of its measurements."""
    return block_entries(n)


# -- packed: P is (blocks, entries, LANES); blocks start..stop-1 are handled ------------------------------------


def pack(const source[:, :, ::1] A, real[:, :, ::1] P, Py_ssize_t start, Py_ssize_t stop):
    """P[block] = the packed symmetric part of A[8 block : 8 block + 8]"""
    cdef Py_ssize_t m = A.shape[0], n = A.shape[1], block, count
    with nogil:
        for block in range(start, stop):
            count = min(LANES, m - block * LANES)
            if source is float:
                if real is float:
                    pack_from_f32_f32(&A[block * LANES, 0, 0], n, count, &P[block, 0, 0])
                else:
                    pack_from_f32_f64(&A[block * LANES, 0, 0], n, count, &P[block, 0, 0])
            else:
                if real is float:
                    pack_from_f64_f32(&A[block * LANES, 0, 0], n, count, &P[block, 0, 0])
                else:
                    pack_from_f64_f64(&A[block * LANES, 0, 0], n, count, &P[block, 0, 0])


def packed_products(const real[:, :, ::1] P, const double[::1] x, double[:, ::1] W, Py_ssize_t start, Py_ssize_t stop):
    """W[i] = Ã_i x; x is padded to a multiple of 4"""
    cdef Py_ssize_t m = W.shape[0], n = W.shape[1], block
    cdef double* w
    with nogil:
        w = scratch(padded(n) * LANES)
        for block in range(start, stop):
            if real is float:
                packed_products_f32(&P[block, 0, 0], n, &x[0], w)
            else:
                packed_products_f64(&P[block, 0, 0], n, &x[0], w)
            lanes_apart(w, n, min(LANES, m - block * LANES), &W[block * LANES, 0])
        free(w)


def packed_products_on(const real[:, :, ::1] P, const Py_ssize_t[::1] support, const double[::1] x, double[:, ::1] W,
                       Py_ssize_t start, Py_ssize_t stop):
    """W[i] = Σ_{j in S} Ã_i[:, j] x_S[j]"""
    cdef Py_ssize_t m = W.shape[0], n = W.shape[1], s = support.shape[0], block
    cdef double* w
    if s == 0:
        W[start * LANES:min(m, stop * LANES), :] = 0
        return
    with nogil:
        w = scratch(padded(n) * LANES)
        for block in range(start, stop):
            if real is float:
                packed_products_on_f32(&P[block, 0, 0], n, &support[0], s, &x[0], w)
            else:
                packed_products_on_f64(&P[block, 0, 0], n, &support[0], s, &x[0], w)
            lanes_apart(w, n, min(LANES, m - block * LANES), &W[block * LANES, 0])
        free(w)


def packed_products_batch(const real[:, :, ::1] P, const double[:, ::1] x, double[:, :, ::1] W, Py_ssize_t first,
                          Py_ssize_t start, Py_ssize_t stop):
    """W[i - first] = Ã_i x; x has as many rows as a multiple of 4"""
    cdef Py_ssize_t m = W.shape[0] + first, n = W.shape[1], b = W.shape[2], block
    cdef double* w
    cdef double* tile
    with nogil:
        w = scratch(LANES * padded(n) * b + TILE_SIZE)
        tile = w + LANES * padded(n) * b
        for block in range(start, stop):
            if real is float:
                packed_products_batch_f32(&P[block, 0, 0], n, &x[0, 0], b, tile, w)
            else:
                packed_products_batch_f64(&P[block, 0, 0], n, &x[0, 0], b, tile, w)
            lanes_apart(w, n * b, min(LANES, m - block * LANES), &W[block * LANES - first, 0, 0])
        free(w)


def packed_compress(const real[:, :, ::1] P, Py_ssize_t n, const double[:, ::1] U, double[:, :, ::1] C,
                    Py_ssize_t first, Py_ssize_t start, Py_ssize_t stop):
    """C[i - first] = U^T Ã_i U; U has as many rows as a multiple of 4"""
    cdef Py_ssize_t m = C.shape[0] + first, b = C.shape[1], block, q, s, l
    cdef double* c
    cdef double* tile
    cdef double* rows
    with nogil:
        c = scratch(LANES * b * b + TILE_SIZE + LANES * TILE * b)
        tile = c + LANES * b * b
        rows = tile + TILE_SIZE
        for block in range(start, stop):
            if real is float:
                packed_compress_f32(&P[block, 0, 0], n, &U[0, 0], b, tile, rows, c)
            else:
                packed_compress_f64(&P[block, 0, 0], n, &U[0, 0], b, tile, rows, c)
            for l in range(min(LANES, m - block * LANES)):
                for q in range(b):
                    for s in range(b):
                        C[block * LANES + l - first, q, s] = (
                            c[(q * b + s) * LANES + l] + c[(s * b + q) * LANES + l])
        free(c)


def packed_quadratic(const real[:, :, ::1] P, Py_ssize_t n, const double[::1] z, const double[::1] v, double[::1] q,
                     Py_ssize_t start, Py_ssize_t stop):
    """q[i] = <Ã_i, zz^T + diag(v)>; z and v are padded to a multiple of 4, q to one of 8"""
    cdef Py_ssize_t block
    with nogil:
        for block in range(start, stop):
            if real is float:
                packed_quadratic_f32(&P[block, 0, 0], n, &z[0], &v[0], &q[block * LANES])
            else:
                packed_quadratic_f64(&P[block, 0, 0], n, &z[0], &v[0], &q[block * LANES])


def packed_weighted_sum(const real[:, :, ::1] P, const double[:, ::1] w, double[:, :, ::1] S, Py_ssize_t start,
                        Py_ssize_t stop):
    """S[s, j, k] = S[s, k, j] = Σ_i w[s, i] Ã_i[j, k] for the groups of rows start..stop-1; w is padded to 8"""
    cdef Py_ssize_t n = S.shape[1], b = w.shape[0], blocks = P.shape[0], g, j, k, r, s, block, count
    cdef double* sums
    with nogil:
        sums = scratch(b * n * GROUP)
        for g in range(start, stop):
            j = g * GROUP
            count = n - j
            memset(sums, 0, b * count * GROUP * sizeof(double))
            for block in range(blocks):
                for s in range(b):
                    if real is float:
                        packed_weighted_f32(&P[block, group_offset(g, n), 0], count, &w[s, block * LANES],
                                            sums + s * count * GROUP)
                    else:
                        packed_weighted_f64(&P[block, group_offset(g, n), 0], count, &w[s, block * LANES],
                                            sums + s * count * GROUP)
            for s in range(b):
                for r in range(min(GROUP, n - j)):
                    for k in range(count):
                        S[s, j + r, j + k] = S[s, j + k, j + r] = sums[(s * count + k) * GROUP + r]
        free(sums)


def packed_sweep(const real[:, :, ::1] P, Py_ssize_t n, const double[:, ::1] z, const double[:, ::1] v,
                 double[:, ::1] r, double[:, ::1] S, Py_ssize_t start, Py_ssize_t stop):
    """r[s, i] -= <Ã_i, zz^T + diag(v)>, then S[s] += Σ_i r[s, i] Ã_i in the order of the packed entries, while the
    block is in cache; r is padded to a multiple of 8 with zeros"""
    cdef Py_ssize_t b = z.shape[0], block, s, l, cells = block_entries(n) // GROUP, first, last
    cdef double q[8]
    with nogil:
        for block in range(start, stop):
            for s in range(b):
                if real is float:
                    packed_quadratic_f32(&P[block, 0, 0], n, &z[s, 0], &v[s, 0], q)
                else:
                    packed_quadratic_f64(&P[block, 0, 0], n, &z[s, 0], &v[s, 0], q)
                for l in range(LANES):
                    r[s, block * LANES + l] -= q[l]
            # From the end of the block to its beginning: what was read last is what the cache still holds.
            last = cells
            while last > 0:
                first = max(0, last - SEGMENT)
                # Of a batch, all signals but the last need the segment again.
                for s in range(b):
                    if real is float and s < b - 1:
                        packed_weighted_f32(&P[block, first * GROUP, 0], last - first, &r[s, block * LANES],
                                            &S[s, first * GROUP])
                    elif real is float:
                        packed_weighted_again_f32(&P[block, first * GROUP, 0], last - first, &r[s, block * LANES],
                                                  &S[s, first * GROUP])
                    elif s < b - 1:
                        packed_weighted_f64(&P[block, first * GROUP, 0], last - first, &r[s, block * LANES],
                                            &S[s, first * GROUP])
                    else:
                        packed_weighted_again_f64(&P[block, first * GROUP, 0], last - first, &r[s, block * LANES],
                                                  &S[s, first * GROUP])
                last = first


def unpack_symmetric(const double[::1] packed, double[:, ::1] S):
    """S = the symmetric matrix whose entries stand in packed order, one lane"""
    cdef Py_ssize_t n = S.shape[0], j, k
    with nogil:
        for j in range(n):
            for k in range(j, n):
                S[j, k] = S[k, j] = packed[entry_at(j, k, n)]


def packed_block(const real[:, :, ::1] P, Py_ssize_t n, const Py_ssize_t[::1] rows, const Py_ssize_t[::1] cols,
                 double[:, :, ::1] out, Py_ssize_t start, Py_ssize_t stop):
    """out[i] = Ã_i[rows, cols]; neither is empty"""
    cdef Py_ssize_t m = out.shape[0], block, count
    with nogil:
        for block in range(start, stop):
            count = min(LANES, m - block * LANES)
            if real is float:
                packed_block_f32(&P[block, 0, 0], n, count, &rows[0], rows.shape[0], &cols[0], cols.shape[0],
                                 &out[block * LANES, 0, 0])
            else:
                packed_block_f64(&P[block, 0, 0], n, count, &rows[0], rows.shape[0], &cols[0], cols.shape[0],
                                 &out[block * LANES, 0, 0])


def packed_rows(const real[:, :, ::1] P, const Py_ssize_t[::1] support, real[:, :, ::1] out, Py_ssize_t start,
                Py_ssize_t stop):
    """out[i] = Ã_i[support, :]; the support is not empty"""
    cdef Py_ssize_t m = out.shape[0], n = out.shape[2], block, count
    with nogil:
        for block in range(start, stop):
            count = min(LANES, m - block * LANES)
            if real is float:
                packed_rows_f32(&P[block, 0, 0], n, count, &support[0], support.shape[0], &out[block * LANES, 0, 0])
            else:
                packed_rows_f64(&P[block, 0, 0], n, count, &support[0], support.shape[0], &out[block * LANES, 0, 0])


def packed_diagonals(const real[:, :, ::1] P, double[:, ::1] d, Py_ssize_t start, Py_ssize_t stop):
    """d[i, j] = A_i[j, j]"""
    cdef Py_ssize_t m = d.shape[0], n = d.shape[1], block, j, l
    with nogil:
        for block in range(start, stop):
            for j in range(n):
                for l in range(min(LANES, m - block * LANES)):
                    d[block * LANES + l, j] = P[block, entry_at(j, j, n), l]


# -- raw: A is (m, n, n), row by row; measurements start..stop-1 are handled ------------------------------------


def raw_products(const real[:, :, ::1] A, const double[::1] x, double[:, ::1] W, Py_ssize_t start, Py_ssize_t stop):
    """W[i] = (A_i x + A_i^T x) / 2"""
    cdef Py_ssize_t n = A.shape[1], i
    with nogil:
        for i in range(start, stop):
            if real is float:
                raw_products_f32(&A[i, 0, 0], n, &x[0], &W[i, 0])
            else:
                raw_products_f64(&A[i, 0, 0], n, &x[0], &W[i, 0])


def raw_products_on(const real[:, :, ::1] A, const Py_ssize_t[::1] support, const double[::1] x, double[:, ::1] W,
                    Py_ssize_t start, Py_ssize_t stop):
    """W[i] = Σ_{j in S} (A_i[:, j] + A_i[j, :]) x_S[j] / 2"""
    cdef Py_ssize_t n = A.shape[1], s = support.shape[0], i
    if s == 0:
        W[start:stop, :] = 0
        return
    with nogil:
        for i in range(start, stop):
            if real is float:
                raw_products_on_f32(&A[i, 0, 0], n, &support[0], s, &x[0], &W[i, 0])
            else:
                raw_products_on_f64(&A[i, 0, 0], n, &support[0], s, &x[0], &W[i, 0])


def raw_right(const real[:, :, ::1] A, const double[::1] x, double[:, ::1] W, Py_ssize_t start, Py_ssize_t stop):
    """W[i] = A_i x"""
    cdef Py_ssize_t n = A.shape[1], i
    with nogil:
        for i in range(start, stop):
            if real is float:
                raw_right_f32(&A[i, 0, 0], n, &x[0], &W[i, 0])
            else:
                raw_right_f64(&A[i, 0, 0], n, &x[0], &W[i, 0])


def raw_left(const real[:, :, ::1] A, const double[::1] x, double[:, ::1] W, Py_ssize_t start, Py_ssize_t stop):
    """W[i] = A_i^T x"""
    cdef Py_ssize_t n = A.shape[1], i
    with nogil:
        for i in range(start, stop):
            if real is float:
                raw_left_f32(&A[i, 0, 0], n, &x[0], &W[i, 0])
            else:
                raw_left_f64(&A[i, 0, 0], n, &x[0], &W[i, 0])


cdef void add_weighted(const real* A, Py_ssize_t stride, Py_ssize_t count, Py_ssize_t length, const double* w,
                       double* S) noexcept nogil:
    """S[k] += Σ_{t < count} w[t] A[t * stride + k] for k < length, four matrices at a time"""
    cdef Py_ssize_t t = 0
    while t + 4 <= count:
        if real is float:
            raw_weighted_f32(A + t * stride, stride, length, w + t, S)
        else:
            raw_weighted_f64(A + t * stride, stride, length, w + t, S)
        t += 4
    while t < count:
        if real is float:
            raw_weighted_one_f32(A + t * stride, length, w[t], S)
        else:
            raw_weighted_one_f64(A + t * stride, length, w[t], S)
        t += 1


def raw_weighted_sum(const real[:, :, ::1] A, const double[:, ::1] w, double[:, :, ::1] S, Py_ssize_t start,
                     Py_ssize_t stop):
    """S[s, j] = Σ_i w[s, i] A_i[j] for the rows start..stop-1, not symmetrised"""
    cdef Py_ssize_t m = A.shape[0], n = A.shape[1], b = w.shape[0], s, i
    S[:, start:stop, :] = 0
    with nogil:
        # Four matrices at a time, so that what b sums share is still in cache for the next of them.
        i = 0
        while i < m:
            for s in range(b):
                add_weighted(&A[i, start, 0], n * n, min(4, m - i), (stop - start) * n, &w[s, i], &S[s, start, 0])
            i += 4


def raw_quadratic(const real[:, :, ::1] A, const double[::1] z, const double[::1] v, double[::1] q, Py_ssize_t start,
                  Py_ssize_t stop):
    """q[i] = <A_i, zz^T + diag(v)>"""
    cdef Py_ssize_t n = A.shape[1], i
    with nogil:
        for i in range(start, stop):
            if real is float:
                q[i] = raw_quadratic_f32(&A[i, 0, 0], n, &z[0], &v[0])
            else:
                q[i] = raw_quadratic_f64(&A[i, 0, 0], n, &z[0], &v[0])


def raw_sweep(const real[:, :, ::1] A, const double[:, ::1] z, const double[:, ::1] v, double[:, ::1] r,
              double[:, :, ::1] S, Py_ssize_t start, Py_ssize_t stop):
    """r[s, i] -= <A_i, zz^T + diag(v)>, then S[s] += Σ_i r[s, i] A_i while the matrices are in cache"""
    cdef Py_ssize_t n = A.shape[1], b = z.shape[0], i, s, t, count
    with nogil:
        i = start
        while i < stop:
            count = min(4, stop - i)
            for t in range(i, i + count):
                for s in range(b):
                    if real is float:
                        r[s, t] -= raw_quadratic_f32(&A[t, 0, 0], n, &z[s, 0], &v[s, 0])
                    else:
                        r[s, t] -= raw_quadratic_f64(&A[t, 0, 0], n, &z[s, 0], &v[s, 0])
            for s in range(b):
                add_weighted(&A[i, 0, 0], n * n, count, n * n, &r[s, i], &S[s, 0, 0])
            i += count
