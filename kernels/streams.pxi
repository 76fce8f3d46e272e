# How streams are prefetched by the kernels of the module that includes this, each of which has settings of its own: see
# layout.h, and fastquad/measurements/dense/prefetch.py, which measures them.

cdef extern from "layout.h" nogil:
    enum: CACHE_BYTES
    stream_ahead* stream_of(size_t entry)


#: A tensor of more bytes is a stream.
cached = CACHE_BYTES


def stream(Py_ssize_t entry):
    """How a stream with entries of so many bytes is prefetched: cache lines ahead, and whether past the caches."""
    return stream_of(entry).lines, bool(stream_of(entry).once)


def set_stream(Py_ssize_t entry, int ahead, bint once):
    """Prefetch such streams `ahead` lines ahead, past the caches or not; 0 lines: as what stays in the caches."""
    stream_of(entry).lines, stream_of(entry).once = ahead, once
