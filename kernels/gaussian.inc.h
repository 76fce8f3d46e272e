/* The leaves of gaussian.h for one level of SIMD: the same bits at each. */

INLINE float AT(as_float)(int32_t bits) { float x; memcpy(&x, &bits, 4); return x; }
INLINE int32_t AT(as_bits)(float x) { int32_t bits; memcpy(&bits, &x, 4); return bits; }
INLINE float AT(chosen)(int32_t mask, float yes, float no) { return AT(as_float)((AT(as_bits)(yes) & mask) | (AT(as_bits)(no) & ~mask)); }
INLINE uint32_t AT(rotated)(uint32_t x, int by) { return x << by | x >> (32 - by); }

/* Four rounds of Threefry-4x32 with their rotations, and the key words that are added after them; on two counters at
   once, because each alone is a chain of dependent operations. */
INLINE void AT(four_rounds)(uint32_t x[2][4], const int by[8], const uint32_t key[5], int turn) {
    for (int r = 0; r < 4; r++) { /* words 0, 1 and 2, 3 are mixed, and in every second round 0, 3 and 2, 1 */
        int one = r % 2 ? 3 : 1, three = 4 - one;
        for (int c = 0; c < 2; c++) x[c][0] += x[c][one], x[c][2] += x[c][three];
        for (int c = 0; c < 2; c++) x[c][one] = AT(rotated)(x[c][one], by[2 * r]) ^ x[c][0];
        for (int c = 0; c < 2; c++) x[c][three] = AT(rotated)(x[c][three], by[2 * r + 1]) ^ x[c][2];
    }
    for (int c = 0; c < 2; c++) {
        for (int w = 0; w < 4; w++) x[c][w] += key[(turn + w) % 5];
        x[c][3] += (uint32_t)turn;
    }
}

/* x = Threefry-4x32-20 of two counters; key[4] is the parity word. */
INLINE void AT(threefry)(uint32_t x[2][4], const uint32_t key[5]) {
    static const int odd[8] = {10, 26, 11, 21, 13, 27, 23, 5}, even[8] = {6, 20, 17, 11, 25, 10, 18, 20};
    for (int c = 0; c < 2; c++)
        for (int w = 0; w < 4; w++) x[c][w] += key[w];
    AT(four_rounds)(x, odd, key, 1);
    AT(four_rounds)(x, even, key, 2);
    AT(four_rounds)(x, odd, key, 3);
    AT(four_rounds)(x, even, key, 4);
    AT(four_rounds)(x, odd, key, 5);
}

/* −ln u with u = (a + ½) / 2^32 */
INLINE float AT(minus_log)(uint32_t a) {
    int32_t high = (int32_t)a >> 31;                             /* all ones where u > ½ */
    float v = ((float)((int32_t)a ^ high) + 0.5f) * 0x1p-32f;    /* min(u, 1 − u) */
    int32_t e = (AT(as_bits)(v) - 0x3f400000) >> 23;                 /* v = m 2^e, ¾ <= m < 1½ */
    float m = AT(as_float)(AT(as_bits)(v) - e * (1 << 23));
    float s = AT(chosen)(high, 0.0f - v, m - 1.0f) / AT(chosen)(high, 2.0f - v, m + 1.0f), q = s * s;
    float series = 1.0f + q * (0.33333155f + q * (0.20012557f + q * (0.13978833f + q * 0.14095773f)));
    return 0.0f - (AT(chosen)(high, 0.0f, (float)e) * 0.693147181f + 2.0f * s * series);
}

/* Two independent normals times `scale` from two words. */
INLINE void AT(normal_pair)(uint32_t a, uint32_t b, float scale, float *first, float *second) {
    float radius = sqrtf(AT(minus_log)(a)) * scale;
    int32_t odd = 2 * (int32_t)(b & 0x3fffffff) - 0x3fffffff;    /* odd, so that ±t are equally likely */
    float t = (float)odd * (0.785398163f * 0x1p-30f), q = t * t;
    float sine = t * (0.999999997f + q * (-0.166666507f + q * (0.00833203688f - q * 0.00019504022f)));
    float cosine = 1.0f + q * (-0.499999996f + q * (0.0416666167f + q * (-0.00138866192f + q * 2.43799293e-5f)));
    *first = AT(as_float)(AT(as_bits)(radius * (cosine - sine)) ^ (int32_t)(b & 0x80000000u));
    *second = AT(as_float)(AT(as_bits)(radius * (cosine + sine)) ^ (int32_t)(b << 1 & 0x80000000u));
}

/* out[p, l] = Ã_{8 block + l}[j_p, k_p] for AT_ONCE pairs, j and k in any order; zero where j_p < 0. */
INLINE void AT(fill_some)(const uint32_t key[5], uint32_t block, const int32_t *j, const int32_t *k, double *out) {
    uint32_t words[LANES][AT_ONCE];
    float z[LANES][AT_ONCE];
    for (int p = 0; p < AT_ONCE; p++) {
        uint32_t high = (uint32_t)(j[p] < k[p] ? k[p] : j[p]), low = (uint32_t)(j[p] < k[p] ? j[p] : k[p]);
        uint32_t x[2][4] = {{high, low, 2 * block, 0}, {high, low, 2 * block + 1, 0}};
        AT(threefry)(x, key);
        for (int l = 0; l < LANES; l++) words[l][p] = x[l / 4][l % 4];
    }
    for (int l = 0; l < LANES; l += 2)
        for (int p = 0; p < AT_ONCE; p++) {
            float scale = j[p] < 0 ? 0.0f : j[p] == k[p] ? 1.0f : OFF_DIAGONAL;
            AT(normal_pair)(words[l][p], words[l + 1][p], scale, &z[l][p], &z[l + 1][p]);
        }
    for (int p = 0; p < AT_ONCE; p += 4)
        for (int l = 0; l < LANES; l += 4) {
            vec a[4];
            for (int i = 0; i < 4; i++) a[i] = vec_load_f32(&z[l + i][p]);
            vec_transpose(a);
            for (int i = 0; i < 4; i++) vec_store_f64(out + (p + i) * LANES + l, a[i]);
        }
}

/* The same for `count` pairs. */
static void AT(gaussian_fill)(
    uint64_t seed, uint32_t block, const int32_t *j, const int32_t *k, ptrdiff_t count, double *out) {
    uint32_t low = (uint32_t)seed, high = (uint32_t)(seed >> 32);
    const uint32_t key[5] = {low, high, 0, 0, 0x1BD11BDAu ^ low ^ high};
    ptrdiff_t p = 0, rest;
    for (; p + AT_ONCE <= count; p += AT_ONCE) AT(fill_some)(key, block, j + p, k + p, out + p * LANES);
    rest = count - p;
    if (rest > 0) {
        int32_t last_j[AT_ONCE] = {0}, last_k[AT_ONCE] = {0};
        double last[AT_ONCE * LANES];
        memcpy(last_j, j + p, rest * sizeof *j);
        memcpy(last_k, k + p, rest * sizeof *k);
        AT(fill_some)(key, block, last_j, last_k, last);
        memcpy(out + p * LANES, last, rest * LANES * sizeof *out);
    }
}

/* words = Threefry-4x32-20 of one counter and key. */
static void AT(threefry_one)(const uint32_t counter[4], const uint32_t key[4], uint32_t words[4]) {
    const uint32_t full[5] = {key[0], key[1], key[2], key[3], 0x1BD11BDAu ^ key[0] ^ key[1] ^ key[2] ^ key[3]};
    uint32_t x[2][4];
    for (int w = 0; w < 4; w++) x[0][w] = x[1][w] = counter[w];
    AT(threefry)(x, full);
    memcpy(words, x[0], sizeof x[0]);
}
