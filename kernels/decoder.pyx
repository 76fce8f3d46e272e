"""Adam through a fully connected network: see decoder.h for how the products and activations are made.

`layers` has a row (inputs, outputs, activation) for each layer. `parameters` holds for each its weights in panels, the
panels of their transpose, and its biases, filled up to whole panels.
"""

from libc.math cimport sqrt

cdef extern from "decoder.h" nogil:
    enum: PANEL
    Py_ssize_t padded(Py_ssize_t n)
    void panel_product(const float* panels, Py_ssize_t inputs, Py_ssize_t outputs, const float* input,
                       Py_ssize_t stride, const float* first, float* out, Py_ssize_t rows)
    void activate(int kind, const float* a, float* h, float* slope, Py_ssize_t count)
    void scale_by(const float* slope, float* d, Py_ssize_t count)
    void pull(const float* G, const float* v, Py_ssize_t n, bint unit, float* d)

PANEL_WIDTH = PANEL


cdef Py_ssize_t widest(const Py_ssize_t[:, ::1] layers) noexcept nogil:
    """The largest number of columns of h or of its derivative."""
    cdef Py_ssize_t l, width = padded(layers[0, 0])
    for l in range(layers.shape[0]):
        width = max(width, padded(layers[l, 1]))
    return width


def work_size(const Py_ssize_t[:, ::1] layers, Py_ssize_t rows):
    """How many floats of memory `gradients` and `descend` need."""
    cdef Py_ssize_t l, per_row = 2 * widest(layers) + padded(layers[0, 0])
    for l in range(layers.shape[0]):
        per_row += 2 * padded(layers[l, 1])
    return per_row * rows + widest(layers)


cdef const float* forward(const float[::1] parameters, const Py_ssize_t[:, ::1] layers, const float* h,
                          Py_ssize_t stride, Py_ssize_t rows, float* out) noexcept nogil:
    """out = h_1, f_1', h_2, f_2', ... one after the other; what comes back is the last h."""
    cdef const float* W = &parameters[0]
    cdef Py_ssize_t l, inputs, outputs, width
    for l in range(layers.shape[0]):
        inputs, outputs = layers[l, 0], layers[l, 1]
        width = padded(outputs)
        panel_product(W, inputs, width, h, stride, W + inputs * width + padded(inputs) * outputs, out, rows)
        activate(<int>layers[l, 2], out, out, out + rows * width, rows * width)
        h, stride = out, width
        out += 2 * rows * width
        W += inputs * width + padded(inputs) * outputs + width
    return h


cdef float* backward(const float[::1] parameters, const Py_ssize_t[:, ::1] layers, const float* end_of_slopes,
                     const float* zeros, Py_ssize_t rows, float* d, float* other) noexcept nogil:
    """J^T d, given where the slopes of the last layer end; it is where the returned pointer says, d or `other`."""
    cdef const float* W = &parameters[0] + parameters.shape[0]
    cdef const float* slope = end_of_slopes
    cdef Py_ssize_t l, inputs, outputs, width
    for l in range(layers.shape[0] - 1, -1, -1):
        inputs, outputs = layers[l, 0], layers[l, 1]
        width = padded(outputs)
        slope -= rows * width
        W -= width + padded(inputs) * outputs
        scale_by(slope, d, rows * width)
        panel_product(W, outputs, padded(inputs), d, width, zeros, other, rows)
        d, other = other, d
        slope -= rows * width
        W -= inputs * width
    return d


cdef const float* gradient(const float[::1] parameters, const Py_ssize_t[:, ::1] layers, bint unit, const float* Z,
                           Py_ssize_t stride, const float[:, ::1] targets, float[::1] work) noexcept nogil:
    """The derivatives by the codes of `½‖g(z) − v‖²`, in rows as wide as padded codes, somewhere in `work`."""
    cdef Py_ssize_t rows = targets.shape[0], n = targets.shape[1], width = padded(n), room = widest(layers), r, i
    cdef float* zeros = &work[0]
    cdef float* d = zeros + room
    cdef float* other = d + rows * room
    cdef float* values = other + rows * room
    cdef const float* G = forward(parameters, layers, Z, stride, rows, values)
    for i in range(room):
        zeros[i] = 0
    for r in range(rows):
        pull(G + r * width, &targets[r, 0], n, unit, d + r * width)
        for i in range(n, width):
            d[r * width + i] = 0
    return backward(parameters, layers, G + 2 * rows * width, zeros, rows, d, other)


def signals(const float[::1] parameters, const Py_ssize_t[:, ::1] layers, const float[:, ::1] Z, float[:, ::1] out,
            float[::1] work):
    """out = G(z) of the rows z of Z"""
    cdef Py_ssize_t rows = Z.shape[0], n = out.shape[1], r, i
    cdef const float* G
    with nogil:
        G = forward(parameters, layers, &Z[0, 0], Z.shape[1], rows, &work[0])
        for r in range(rows):
            for i in range(n):
                out[r, i] = G[r * padded(n) + i]


def gradients(const float[::1] parameters, const Py_ssize_t[:, ::1] layers, bint unit, const float[:, ::1] Z,
              const float[:, ::1] targets, float[:, ::1] out, float[::1] work):
    """out = the derivative by z of `½‖g(z) − v‖²` for the rows z of Z and v of targets; g = G/‖G‖ where `unit`"""
    cdef Py_ssize_t rows = Z.shape[0], k = Z.shape[1], r, j
    cdef const float* slope
    with nogil:
        slope = gradient(parameters, layers, unit, &Z[0, 0], k, targets, work)
        for r in range(rows):
            for j in range(k):
                out[r, j] = slope[r * padded(k) + j]


def descend(const float[::1] parameters, const Py_ssize_t[:, ::1] layers, bint unit, float[:, :, ::1] state,
            const float[:, ::1] targets, const double[:, ::1] schedule, const double[::1] shares, float[::1] work):
    """For each row (ℓ, c) of schedule, `μ += p (∇ − μ)`, `s += q (∇² − s)`, then `z −= ℓ μ / (sqrt(c s) + ε)`

    with (p, q, ε) = shares; state[r] has the rows z, μ and s, and ∇ is the derivative of `gradients`.
    """
    cdef Py_ssize_t rows = state.shape[0], k = state.shape[2], step, r, j
    cdef const float* slopes
    cdef float slope
    cdef float p = <float>shares[0], q = <float>shares[1], epsilon = <float>shares[2], length, correction
    with nogil:
        for step in range(schedule.shape[0]):
            slopes = gradient(parameters, layers, unit, &state[0, 0, 0], 3 * k, targets, work)
            length, correction = <float>schedule[step, 0], <float>schedule[step, 1]
            for r in range(rows):
                for j in range(k):
                    slope = slopes[r * padded(k) + j]
                    state[r, 1, j] += p * (slope - state[r, 1, j])
                    state[r, 2, j] += q * (slope * slope - state[r, 2, j])
                    state[r, 0, j] -= length * state[r, 1, j] / (<float>sqrt(correction * state[r, 2, j]) + epsilon)
