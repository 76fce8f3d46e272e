"""Contractions of packed Hermitian tensors, for a range of blocks; see hermitian.h for the layout and the formulas.

P is (blocks, 2 entries, 8). Complex arrays come as real ones whose last axis is twice as long. Each function checks
nothing and lets go of the GIL; fastquad.measurements calls it once a chunk.
"""

from libc.stdlib cimport free, malloc

ctypedef fused real:
    float
    double

ctypedef fused source:
    float
    double

cdef extern from "hermitian.h" nogil:
    enum: LANES, GROUP, CELL
    Py_ssize_t padded(Py_ssize_t n)
    Py_ssize_t block_entries(Py_ssize_t n)
    Py_ssize_t entry_at(Py_ssize_t j, Py_ssize_t k, Py_ssize_t n)
    void hermitian_apart(const double*, Py_ssize_t, Py_ssize_t, double*)
    ctypedef struct stream_ahead:
        int lines, once
    stream_ahead ahead_of(size_t bytes, size_t entry, stream_ahead kept)
    stream_ahead hermitian_kept()
    void hermitian_products_f32(const float*, Py_ssize_t, const double*, double*, stream_ahead)
    void hermitian_products_f64(const double*, Py_ssize_t, const double*, double*, stream_ahead)
    void hermitian_products_on_f32(const float*, Py_ssize_t, const Py_ssize_t*, Py_ssize_t, const double*, double*)
    void hermitian_products_on_f64(const double*, Py_ssize_t, const Py_ssize_t*, Py_ssize_t, const double*, double*)
    void hermitian_quadratic_f32(const float*, Py_ssize_t, const double*, const double*, double*)
    void hermitian_quadratic_f64(const double*, Py_ssize_t, const double*, const double*, double*)
    void hermitian_block_f32(const float*, Py_ssize_t, Py_ssize_t, const Py_ssize_t*, Py_ssize_t, const Py_ssize_t*,
                             Py_ssize_t, double*)
    void hermitian_block_f64(const double*, Py_ssize_t, Py_ssize_t, const Py_ssize_t*, Py_ssize_t, const Py_ssize_t*,
                             Py_ssize_t, double*)
    void hermitian_rows_f32(const float*, Py_ssize_t, Py_ssize_t, const Py_ssize_t*, Py_ssize_t, float*)
    void hermitian_rows_f64(const double*, Py_ssize_t, Py_ssize_t, const Py_ssize_t*, Py_ssize_t, double*)
    void hermitian_pack_from_f32_f32(const float*, Py_ssize_t, Py_ssize_t, int, float*)
    void hermitian_pack_from_f64_f32(const double*, Py_ssize_t, Py_ssize_t, int, float*)
    void hermitian_pack_from_f32_f64(const float*, Py_ssize_t, Py_ssize_t, int, double*)
    void hermitian_pack_from_f64_f64(const double*, Py_ssize_t, Py_ssize_t, int, double*)
    void complex_sides_f32(const float*, Py_ssize_t, const double*, double*, double*, double*)
    void complex_sides_f64(const double*, Py_ssize_t, const double*, double*, double*, double*)
    void complex_quadratic_f32(const float*, Py_ssize_t, const double*, const double*, double*, double*)
    void complex_quadratic_f64(const double*, Py_ssize_t, const double*, const double*, double*, double*)
    void packed_weighted_again_f32(const float*, Py_ssize_t, const double*, double*, const float*)
    void packed_weighted_again_f64(const double*, Py_ssize_t, const double*, double*, const double*)


cdef double* scratch(Py_ssize_t count) except NULL nogil:
    cdef double* p = <double*>malloc((count if count > 0 else 1) * sizeof(double))
    if p == NULL:
        with gil:
            raise MemoryError(f"no memory for {count * sizeof(double)} bytes of scratch")
    return p


cdef inline double* at_line(double* p) noexcept nogil:
    """The first cache line of a scratch with 8 numbers more than needed: no vector of 8 then lies in two of them"""
    return p + (-<Py_ssize_t>p & 63) // 8


include "streams.pxi"


def pack(const source[:, :, ::1] A, real[:, ::1] P, Py_ssize_t lanes, bint both):
    """P = the Hermitian parts of the first matrices of A (m, n, 2n), as many as lanes; with `both`, in turn the Hermitian
    part and the skew part over i of half as many"""
    cdef Py_ssize_t n = A.shape[1]
    with nogil:
        if source is float:
            if real is float:
                hermitian_pack_from_f32_f32(&A[0, 0, 0], n, lanes, both, &P[0, 0])
            else:
                hermitian_pack_from_f32_f64(&A[0, 0, 0], n, lanes, both, &P[0, 0])
        else:
            if real is float:
                hermitian_pack_from_f64_f32(&A[0, 0, 0], n, lanes, both, &P[0, 0])
            else:
                hermitian_pack_from_f64_f64(&A[0, 0, 0], n, lanes, both, &P[0, 0])


def products(const real[:, :, ::1] P, const double[:, ::1] x, double[:, :, ::1] W, Py_ssize_t first,
             Py_ssize_t start, Py_ssize_t stop):
    """W[s, i - first] = H_i x[s] for each signal s; x (b, 2n) is padded to a multiple of 8"""
    cdef Py_ssize_t m = W.shape[1] + first, n = W.shape[2] // 2, block, s
    # With several signals, all but the last come back to a block.
    cdef stream_ahead ahead = hermitian_kept()
    cdef double* memory
    cdef double* w
    if x.shape[0] == 1:
        ahead = ahead_of(P.shape[0] * P.shape[1] * LANES * sizeof(real), sizeof(real), ahead)
    with nogil:
        memory = scratch(2 * padded(n) * LANES + 8)
        w = at_line(memory)
        for block in range(start, stop):
            for s in range(x.shape[0]):
                if real is float:
                    hermitian_products_f32(&P[block, 0, 0], n, &x[s, 0], w, ahead)
                else:
                    hermitian_products_f64(&P[block, 0, 0], n, &x[s, 0], w, ahead)
                hermitian_apart(w, n, min(LANES, m - block * LANES), &W[s, block * LANES - first, 0])
        free(memory)


def products_on(const real[:, :, ::1] P, const Py_ssize_t[::1] support, const double[::1] x, double[:, ::1] W,
                Py_ssize_t start, Py_ssize_t stop):
    """W[i] = Σ_{j in S} H_i[:, j] x_S[j]; the support is not empty"""
    cdef Py_ssize_t m = W.shape[0], n = W.shape[1] // 2, s = support.shape[0], block
    cdef double* memory
    cdef double* w
    with nogil:
        memory = scratch(2 * padded(n) * LANES + 8)
        w = at_line(memory)
        for block in range(start, stop):
            if real is float:
                hermitian_products_on_f32(&P[block, 0, 0], n, &support[0], s, &x[0], w)
            else:
                hermitian_products_on_f64(&P[block, 0, 0], n, &support[0], s, &x[0], w)
            hermitian_apart(w, n, min(LANES, m - block * LANES), &W[block * LANES, 0])
        free(memory)


def quadratic(const real[:, :, ::1] P, Py_ssize_t n, const double[::1] z, const double[::1] v, double[::1] q,
              Py_ssize_t start, Py_ssize_t stop):
    """q[i] = <H_i, zz^* + diag(v)>; z is padded to a multiple of 8, v to one of 4, q to one of 8"""
    cdef Py_ssize_t block
    with nogil:
        for block in range(start, stop):
            if real is float:
                hermitian_quadratic_f32(&P[block, 0, 0], n, &z[0], &v[0], &q[block * LANES])
            else:
                hermitian_quadratic_f64(&P[block, 0, 0], n, &z[0], &v[0], &q[block * LANES])


def sweep(const real[:, :, ::1] P, Py_ssize_t n, const double[:, ::1] z, const double[:, ::1] v,
          double[:, ::1] r, double[:, ::1] S, Py_ssize_t start, Py_ssize_t stop):
    """r[s, i] -= <H_i, zz^* + diag(v)>, then S[s] += Σ_i r[s, i] H_i in the order of the packed entries, while the
    block is in cache; r is padded to a multiple of 8 with zeros"""
    cdef Py_ssize_t b = z.shape[0], block, s, l, cells = 2 * block_entries(n) // GROUP
    cdef double q[8]
    with nogil:
        for block in range(start, stop):
            for s in range(b):
                if real is float:
                    hermitian_quadratic_f32(&P[block, 0, 0], n, &z[s, 0], &v[s, 0], q)
                else:
                    hermitian_quadratic_f64(&P[block, 0, 0], n, &z[s, 0], &v[s, 0], q)
                for l in range(LANES):
                    r[s, block * LANES + l] -= q[l]
            for s in range(b):
                if real is float:
                    packed_weighted_again_f32(&P[block, 0, 0], cells, &r[s, block * LANES], &S[s, 0],
                                              &P[block, 0, 0] + cells * CELL)
                else:
                    packed_weighted_again_f64(&P[block, 0, 0], cells, &r[s, block * LANES], &S[s, 0],
                                              &P[block, 0, 0] + cells * CELL)


def unpack(const double[::1] packed, double[:, ::1] S):
    """S (n, 2n) = the Hermitian matrix whose entries stand in packed order, one lane"""
    cdef Py_ssize_t n = S.shape[0], j, k, e
    with nogil:
        for j in range(n):
            for k in range(j, n):
                e = 2 * entry_at(j, k, n)
                S[j, 2 * k] = S[k, 2 * j] = packed[e]
                S[j, 2 * k + 1] = packed[e + 1]
                S[k, 2 * j + 1] = -packed[e + 1]
            S[j, 2 * j + 1] = 0


def block(const real[:, :, ::1] P, Py_ssize_t n, const Py_ssize_t[::1] rows, const Py_ssize_t[::1] cols,
          double[:, :, ::1] out, Py_ssize_t start, Py_ssize_t stop):
    """out[i] = H_i[rows, cols], (m, s, 2t); neither is empty"""
    cdef Py_ssize_t m = out.shape[0], block, count
    with nogil:
        for block in range(start, stop):
            count = min(LANES, m - block * LANES)
            if real is float:
                hermitian_block_f32(&P[block, 0, 0], n, count, &rows[0], rows.shape[0], &cols[0], cols.shape[0],
                                    &out[block * LANES, 0, 0])
            else:
                hermitian_block_f64(&P[block, 0, 0], n, count, &rows[0], rows.shape[0], &cols[0], cols.shape[0],
                                    &out[block * LANES, 0, 0])


def rows(const real[:, :, ::1] P, const Py_ssize_t[::1] support, real[:, :, ::1] out, Py_ssize_t start,
         Py_ssize_t stop):
    """out[i] = H_i[support, :], (m, s, 2n); the support is not empty"""
    cdef Py_ssize_t m = out.shape[0], n = out.shape[2] // 2, block, count
    with nogil:
        for block in range(start, stop):
            count = min(LANES, m - block * LANES)
            if real is float:
                hermitian_rows_f32(&P[block, 0, 0], n, count, &support[0], support.shape[0], &out[block * LANES, 0, 0])
            else:
                hermitian_rows_f64(&P[block, 0, 0], n, count, &support[0], support.shape[0], &out[block * LANES, 0, 0])


def diagonals(const real[:, :, ::1] P, double[:, ::1] d, Py_ssize_t start, Py_ssize_t stop):
    """d[i, j] = H_i[j, j]"""
    cdef Py_ssize_t m = d.shape[0], n = d.shape[1], block, j, l
    with nogil:
        for block in range(start, stop):
            for j in range(n):
                for l in range(min(LANES, m - block * LANES)):
                    d[block * LANES + l, j] = P[block, 2 * entry_at(j, j, n), l]


# -- arrays of complex matrices as they are: A is (m, n, 2n) ------------------------------------------------------------


def sides(const real[:, :, ::1] A, const double[::1] x, double[:, ::1] right, double[:, ::1] left, Py_ssize_t start,
          Py_ssize_t stop):
    """right[i] = A_i x, left[i] = A_i^* x"""
    cdef Py_ssize_t n = A.shape[1], i
    cdef double* work
    with nogil:
        work = scratch(8 * n)
        for i in range(start, stop):
            if real is float:
                complex_sides_f32(&A[i, 0, 0], n, &x[0], &right[i, 0], &left[i, 0], work)
            else:
                complex_sides_f64(&A[i, 0, 0], n, &x[0], &right[i, 0], &left[i, 0], work)
        free(work)


def raw_products(const real[:, :, ::1] A, const double[::1] x, double[:, ::1] W, bint both, Py_ssize_t start,
                 Py_ssize_t stop):
    """W[i] = (A_i x + A_i^* x)/2; or, with `both`, W[2i] is that and W[2i + 1] = (A_i x − A_i^* x)/2i"""
    cdef Py_ssize_t n = A.shape[1], i, k
    cdef double* work
    cdef double* right
    cdef double* left
    with nogil:
        work = scratch(12 * n)
        right = work + 8 * n
        left = work + 10 * n
        for i in range(start, stop):
            if real is float:
                complex_sides_f32(&A[i, 0, 0], n, &x[0], right, left, work)
            else:
                complex_sides_f64(&A[i, 0, 0], n, &x[0], right, left, work)
            for k in range(2 * n):
                W[2 * i if both else i, k] = 0.5 * (right[k] + left[k])
            if both:
                for k in range(n):  # −i/2 (right − left)
                    W[2 * i + 1, 2 * k] = 0.5 * (right[2 * k + 1] - left[2 * k + 1])
                    W[2 * i + 1, 2 * k + 1] = 0.5 * (left[2 * k] - right[2 * k])
        free(work)


def raw_quadratic(const real[:, :, ::1] A, const double[::1] z, const double[::1] v, double[:, ::1] q,
                  Py_ssize_t start, Py_ssize_t stop):
    """q[i] = z^* A_i z + Σ_j v_j A_i[j, j], real part and imaginary part"""
    cdef Py_ssize_t n = A.shape[1], i
    cdef double* work
    with nogil:
        work = scratch(4 * n)
        for i in range(start, stop):
            if real is float:
                complex_quadratic_f32(&A[i, 0, 0], n, &z[0], &v[0], &q[i, 0], work)
            else:
                complex_quadratic_f64(&A[i, 0, 0], n, &z[0], &v[0], &q[i, 0], work)
        free(work)
