"""Adam through a fully connected network: see decoder.h for how the products and activations are made.

Each function checks nothing and lets go of the GIL; fastquad.decoders.compiled calls it once a chunk of rows.
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


cdef class Layers:
    """A network: a row (inputs, outputs, activation) of `shapes` for each layer, and the parameters of all of them.

    The parameters of a layer are its weights in panels, the panels of their transpose, and its biases, filled up to
    whole panels.
    """

    cdef const float[::1] parameters
    cdef const Py_ssize_t[:, ::1] shapes

    def __init__(self, const float[::1] parameters, const Py_ssize_t[:, ::1] shapes):
        self.parameters, self.shapes = parameters, shapes

    def work_size(self, Py_ssize_t rows):
        """How many floats of memory `gradients` and `descend` need."""
        cdef Py_ssize_t l, per_row = 2 * widest(self) + padded(self.shapes[0, 0])
        for l in range(self.shapes.shape[0]):
            per_row += 2 * padded(self.shapes[l, 1])
        return per_row * rows + widest(self)


cdef class Adam:
    """Steps of Adam: a length ℓ and a correction c for each, and the shares p, q and the ε of all."""

    cdef const double[::1] lengths, corrections
    cdef float mean_share, square_share, epsilon

    def __init__(self, const double[::1] lengths, const double[::1] corrections, double mean_share,
                 double square_share, double epsilon):
        self.lengths, self.corrections = lengths, corrections
        self.mean_share, self.square_share, self.epsilon = <float>mean_share, <float>square_share, <float>epsilon


cdef Py_ssize_t widest(Layers net) noexcept nogil:
    """The largest number of columns of h or of its derivative."""
    cdef Py_ssize_t l, width = padded(net.shapes[0, 0])
    for l in range(net.shapes.shape[0]):
        width = max(width, padded(net.shapes[l, 1]))
    return width


cdef const float* forward(Layers net, const float* h, Py_ssize_t stride, Py_ssize_t rows, float* out) noexcept nogil:
    """out = h_1, f_1', h_2, f_2', ... one after the other; what comes back is the last h."""
    cdef const float* W = &net.parameters[0]
    cdef Py_ssize_t l, inputs, outputs, width
    for l in range(net.shapes.shape[0]):
        inputs, outputs = net.shapes[l, 0], net.shapes[l, 1]
        width = padded(outputs)
        panel_product(W, inputs, width, h, stride, W + inputs * width + padded(inputs) * outputs, out, rows)
        activate(<int>net.shapes[l, 2], out, out, out + rows * width, rows * width)
        h, stride = out, width
        out += 2 * rows * width
        W += inputs * width + padded(inputs) * outputs + width
    return h


cdef float* backward(Layers net, const float* end_of_slopes, const float* zeros, Py_ssize_t rows, float* d,
                     float* other) noexcept nogil:
    """J^T d, given where the slopes of the last layer end; it is where the returned pointer says, d or `other`."""
    cdef const float* W = &net.parameters[0] + net.parameters.shape[0]
    cdef const float* slope = end_of_slopes
    cdef Py_ssize_t l, inputs, outputs, width
    for l in range(net.shapes.shape[0] - 1, -1, -1):
        inputs, outputs = net.shapes[l, 0], net.shapes[l, 1]
        width = padded(outputs)
        slope -= rows * width
        W -= width + padded(inputs) * outputs
        scale_by(slope, d, rows * width)
        panel_product(W, outputs, padded(inputs), d, width, zeros, other, rows)
        d, other = other, d
        slope -= rows * width
        W -= inputs * width
    return d


cdef const float* gradient(Layers net, bint unit, const float[:, ::1] Z, const float[:, ::1] targets,
                           float[::1] work) noexcept nogil:
    """The derivatives by the codes of `½‖g(z) − v‖²`, in rows as wide as padded codes, somewhere in `work`."""
    cdef Py_ssize_t rows = targets.shape[0], n = targets.shape[1], width = padded(n), room = widest(net), r, i
    cdef float* zeros = &work[0]
    cdef float* d = zeros + room
    cdef float* other = d + rows * room
    cdef float* values = other + rows * room
    cdef const float* G = forward(net, &Z[0, 0], Z.shape[1], rows, values)
    for i in range(room):
        zeros[i] = 0
    for r in range(rows):
        pull(G + r * width, &targets[r, 0], n, unit, d + r * width)
        for i in range(n, width):
            d[r * width + i] = 0
    return backward(net, G + 2 * rows * width, zeros, rows, d, other)


def signals(Layers net, const float[:, ::1] Z, float[:, ::1] out, float[::1] work):
    """out = G(z) of the rows z of Z"""
    cdef Py_ssize_t rows = Z.shape[0], n = out.shape[1], r, i
    cdef const float* G
    with nogil:
        G = forward(net, &Z[0, 0], Z.shape[1], rows, &work[0])
        for r in range(rows):
            for i in range(n):
                out[r, i] = G[r * padded(n) + i]


def gradients(Layers net, bint unit, const float[:, ::1] Z, const float[:, ::1] targets, float[:, ::1] out,
              float[::1] work):
    """out = the derivative by z of `½‖g(z) − v‖²` for the rows z of Z and v of targets; g = G/‖G‖ where `unit`"""
    cdef Py_ssize_t rows = Z.shape[0], k = Z.shape[1], r, j
    cdef const float* slope
    with nogil:
        slope = gradient(net, unit, Z, targets, work)
        for r in range(rows):
            for j in range(k):
                out[r, j] = slope[r * padded(k) + j]


def descend(Layers net, bint unit, Adam adam, const float[:, ::1] targets, float[:, ::1] Z, float[:, ::1] mean,
            float[:, ::1] square, float[::1] work):
    """In each step `μ += p (∇ − μ)`, `s += q (∇² − s)`, then `z −= ℓ μ / (sqrt(c s) + ε)`, in place

    for the rows z of Z, μ of mean and s of square; ∇ is the derivative of `gradients`.
    """
    cdef Py_ssize_t rows = Z.shape[0], k = Z.shape[1], step, r, j
    cdef const float* slopes
    cdef float slope
    cdef float p = adam.mean_share, q = adam.square_share, epsilon = adam.epsilon, length, correction
    with nogil:
        for step in range(adam.lengths.shape[0]):
            slopes = gradient(net, unit, Z, targets, work)
            length, correction = <float>adam.lengths[step], <float>adam.corrections[step]
            for r in range(rows):
                for j in range(k):
                    slope = slopes[r * padded(k) + j]
                    mean[r, j] += p * (slope - mean[r, j])
                    square[r, j] += q * (slope * slope - square[r, j])
                    Z[r, j] -= length * mean[r, j] / (<float>sqrt(correction * square[r, j]) + epsilon)
