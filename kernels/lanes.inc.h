/* From lanes side by side to one row a measurement, for one level of SIMD. */

/* out[l, k] = W[k, l] for k < count and l < lanes: from lanes side by side to one row a measurement. */
static void AT(lanes_apart)(const double *W, ptrdiff_t count, ptrdiff_t lanes, double *out) {
    ptrdiff_t k = 0;
    for (; lanes == LANES && k + 4 <= count; k += 4)
        for (int h = 0; h < LANES; h += 4) {
            vec tile[4];
            for (int i = 0; i < 4; i++) tile[i] = vec_load_f64(W + (k + i) * LANES + h);
            vec_transpose(tile);
            for (int l = 0; l < 4; l++) vec_store_f64(out + (h + l) * count + k, tile[l]);
        }
    for (; k < count; k++)
        for (ptrdiff_t l = 0; l < lanes; l++) out[l * count + k] = W[k * LANES + l];
}
