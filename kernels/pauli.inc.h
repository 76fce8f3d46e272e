/* The leaves of pauli.h, compiled once a level of SIMD. */

/* out_t = Σ_j (−1)^{|z_t & j|} a_j for ascending z_lo, …, z_{hi−1}; `a` has `size` numbers, and room for as many after it.
   Strings that agree in their leading bits share the sums over these: n numbers a string, and at most n log n for all. */
static void AT(pauli_fold)(double *a, ptrdiff_t size, const uint32_t *z, ptrdiff_t lo, ptrdiff_t hi, double *out)
{
    while (size > 1) {
        const ptrdiff_t half = size >> 1;
        double *restrict child = a + size;
        const double *restrict low = a, *restrict high = a + half;
        ptrdiff_t split = lo;
        while (split < hi && !(z[split] & (uint32_t)half)) split++;
        if (split < hi && split > lo) { /* both: the first by a call */
            for (ptrdiff_t j = 0; j < half; j++) child[j] = low[j] + high[j];
            AT(pauli_fold)(child, half, z, lo, split, out);
            lo = split;
        }
        if (lo == split)
            for (ptrdiff_t j = 0; j < half; j++) child[j] = low[j] - high[j];
        else
            for (ptrdiff_t j = 0; j < half; j++) child[j] = low[j] + high[j];
        a = child;
        size = half;
    }
    for (ptrdiff_t t = lo; t < hi; t++) out[t] = a[0];
}

/* a_j = Σ_t w_t (−1)^{|z_t & j|}: the transpose of pauli_fold, for at least one string. */
static void AT(pauli_unfold)(double *restrict a, ptrdiff_t size, const uint32_t *z, ptrdiff_t lo, ptrdiff_t hi,
                             const double *w)
{
    if (size == 1) {
        double sum = 0;
        for (ptrdiff_t t = lo; t < hi; t++) sum += w[t];
        a[0] = sum;
        return;
    }
    const ptrdiff_t half = size >> 1;
    double *restrict child = a + size;
    ptrdiff_t split = lo;
    while (split < hi && !(z[split] & (uint32_t)half)) split++;
    if (split > lo) {
        AT(pauli_unfold)(child, half, z, lo, split, w);
        for (ptrdiff_t j = 0; j < half; j++) a[j] = a[half + j] = child[j];
    }
    if (split < hi) {
        AT(pauli_unfold)(child, half, z, split, hi, w);
        if (split > lo)
            for (ptrdiff_t j = 0; j < half; j++) {
                a[j] += child[j];
                a[half + j] -= child[j];
            }
        else
            for (ptrdiff_t j = 0; j < half; j++) {
                a[j] = child[j];
                a[half + j] = -child[j];
            }
    }
}

/* a_j = Re(conj(l_{j^x}) r_j), or its imaginary part; `l` has 8 copies of the signal, copy c moved by c: see pauli.h. */
static void AT(pauli_pairs)(const double *l, const double *r, ptrdiff_t n, uint32_t x, int imaginary, double *restrict a)
{
    const ptrdiff_t block = n < 8 ? n : 8;
    const double *copy = l + 2 * n * (x & (uint32_t)(block - 1));
    const ptrdiff_t far = x & ~(uint32_t)(block - 1);
    const double *restrict rr = r, *restrict ri = r + n;
    for (ptrdiff_t j = 0; j < n; j += block) {
        const double *restrict lr = copy + (j ^ far), *restrict li = lr + n;
        if (block == 8) {
            if (imaginary)
                for (ptrdiff_t k = 0; k < 8; k++) a[j + k] = lr[k] * ri[j + k] - li[k] * rr[j + k];
            else
                for (ptrdiff_t k = 0; k < 8; k++) a[j + k] = lr[k] * rr[j + k] + li[k] * ri[j + k];
        } else
            for (ptrdiff_t k = 0; k < block; k++)
                a[j + k] = imaginary ? lr[k] * ri[j + k] - li[k] * rr[j + k] : lr[k] * rr[j + k] + li[k] * ri[j + k];
    }
}

/* g_{j^x} += (a_j + i b_j) v_j in copy x & 7 of g, which stands there at j ^ (x & ~7): see pauli.h. */
static void AT(pauli_scatter)(const double *restrict a, const double *restrict b, const double *v, ptrdiff_t n, uint32_t x,
                              double *g)
{
    const ptrdiff_t block = n < 8 ? n : 8;
    double *copy = g + 2 * n * (x & (uint32_t)(block - 1));
    const ptrdiff_t far = x & ~(uint32_t)(block - 1);
    const double *restrict vr = v, *restrict vi = v + n;
    for (ptrdiff_t j = 0; j < n; j += block) {
        double *restrict gr = copy + (j ^ far), *restrict gi = gr + n;
        if (block == 8)
            for (ptrdiff_t k = 0; k < 8; k++) {
                gr[k] += a[j + k] * vr[j + k] - b[j + k] * vi[j + k];
                gi[k] += a[j + k] * vi[j + k] + b[j + k] * vr[j + k];
            }
        else
            for (ptrdiff_t k = 0; k < block; k++) {
                gr[k] += a[j + k] * vr[j + k] - b[j + k] * vi[j + k];
                gi[k] += a[j + k] * vi[j + k] + b[j + k] * vr[j + k];
            }
    }
}
