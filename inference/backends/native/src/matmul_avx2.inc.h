/* Products with 8 rows a register: AVX2, or with DOT_INT8 the dot product of AVX-VNNI. */
enum { MOST_ROWS = 4 };

/* Four columns of one row of activations, the same for every lane. */
static ALWAYS_INLINE __m256i columns(const int8_t *q) {
    int32_t four;
    memcpy(&four, q, sizeof four);
    return _mm256_set1_epi32(four);
}

/* The signed codes of one register of 8-bit weights, or of one half of 4-bit codes in a codebook. */
static ALWAYS_INLINE __m256i add_signed(__m256i sum, __m256i w, __m256i magnitude, __m256i x) {
#ifdef DOT_INT8
    return DOT_INT8(sum, magnitude, _mm256_sign_epi8(x, w));
#else
    /* At most 2 * 128 * 127, just within 16 bits. */
    __m256i pairs = _mm256_maddubs_epi16(magnitude, _mm256_sign_epi8(x, w));
    return _mm256_add_epi32(sum, _mm256_madd_epi16(pairs, _mm256_set1_epi16(1)));
#endif
}

/* `half` 0 is rows 0 to 7 of the group, 1 rows 8 to 15. */
static ALWAYS_INLINE void tile(const uint8_t *block, int half, const int format, const activations *x, int row,
                               const int n, float *out) {
    const format_info *info = &formats[format];
    const __m256i low = _mm256_set1_epi8(15);
    const __m256i codebook = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i *)nf4_codebook));
    __m256 results[MOST_ROWS];
#pragma GCC unroll 8
    for (int j = 0; j < n; j++) results[j] = _mm256_setzero_ps();
    for (int b = 0; b < x->blocks; b++, block += info->group_bytes) {
        const uint8_t *codes = block + info->halves * 32 + 32 * half;
        size_t at = (size_t)row * x->blocks + b, next = (size_t)x->blocks;
        const int8_t *q = x->q + at * BLOCK;
        if (n <= 2) fetch_ahead(block, info->group_bytes);
        __m256i sums[MOST_ROWS];
#pragma GCC unroll 8
        for (int j = 0; j < n; j++) sums[j] = _mm256_setzero_si256();
#pragma GCC unroll 4
        for (int c = 0; c < 4; c++) {
            const int8_t *here = q + 4 * c;
            __m256i first, second;
            if (format == Q8_0) {
                first = _mm256_loadu_si256((const __m256i *)(codes + 64 * c));
                second = _mm256_loadu_si256((const __m256i *)(codes + 64 * (c + 4)));
            } else {
                __m256i both = _mm256_loadu_si256((const __m256i *)(codes + 64 * c));
                first = _mm256_and_si256(both, low);
                second = _mm256_and_si256(_mm256_srli_epi16(both, 4), low);
            }
            if (format == NF4) {
                first = _mm256_shuffle_epi8(codebook, first);
                second = _mm256_shuffle_epi8(codebook, second);
            }
            if (format == Q8_0 || format == NF4) {
                __m256i one = _mm256_abs_epi8(first), other = _mm256_abs_epi8(second);
#pragma GCC unroll 8
                for (int j = 0; j < n; j++) {
                    sums[j] = add_signed(sums[j], first, one, columns(here + j * next * BLOCK));
                    sums[j] = add_signed(sums[j], second, other, columns(here + j * next * BLOCK + 16));
                }
                continue;
            }
#pragma GCC unroll 8
            for (int j = 0; j < n; j++) {
                __m256i x0 = columns(here + j * next * BLOCK), x1 = columns(here + j * next * BLOCK + 16);
#ifdef DOT_INT8
                sums[j] = DOT_INT8(DOT_INT8(sums[j], first, x0), second, x1);
#else
                /* Sums of 16 bits hold all eight of these: at most 8 * 2 * 15 * 127. */
                __m256i pairs = _mm256_add_epi16(_mm256_maddubs_epi16(first, x0), _mm256_maddubs_epi16(second, x1));
                sums[j] = _mm256_add_epi16(sums[j], pairs);
#endif
            }
        }
        __m256 scale = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(block + 16 * half)));
        if (format == NF4) scale = _mm256_mul_ps(scale, _mm256_set1_ps(1.0f / 127));
        __m256 offset = scale;
        if (format == Q4_1) offset = _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(block + 32 + 16 * half)));
#pragma GCC unroll 8
        for (int j = 0; j < n; j++) {
            __m256i sum = sums[j];
#ifndef DOT_INT8
            if (format == Q4_0 || format == Q4_1) sum = _mm256_madd_epi16(sum, _mm256_set1_epi16(1));
#endif
            if (format == Q4_0) sum = _mm256_add_epi32(sum, _mm256_set1_epi32(x->offset[at + j * next]));
            __m256 both = _mm256_mul_ps(scale, _mm256_set1_ps(x->scale[at + j * next]));
            results[j] = _mm256_fmadd_ps(_mm256_cvtepi32_ps(sum), both, results[j]);
            if (format == Q4_1)
                results[j] = _mm256_fmadd_ps(offset, _mm256_set1_ps(x->sum[at + j * next]), results[j]);
        }
    }
#pragma GCC unroll 8
    for (int j = 0; j < n; j++) _mm256_storeu_ps(out + j * GROUP, results[j]);
}

static ALWAYS_INLINE void multiply_as(const matrix *w, int group, const activations *x, int first, int rows,
                                      float *out, const int format) {
    const uint8_t *block = group_data(w, group);
    for (int half = 0; half < 2; half++) {
        float *to = out + 8 * half;
        int m = 0;
        for (; m + 4 <= rows; m += 4) tile(block, half, format, x, first + m, 4, to + m * GROUP);
        for (; m < rows; m++) tile(block, half, format, x, first + m, 1, to + m * GROUP);
    }
}

static void multiply(const matrix *w, int group, const activations *x, int first, int rows, float *out) {
    switch (w->format) {
    case Q4_0: multiply_as(w, group, x, first, rows, out, Q4_0); break;
    case Q4_1: multiply_as(w, group, x, first, rows, out, Q4_1); break;
    case Q8_0: multiply_as(w, group, x, first, rows, out, Q8_0); break;
    case NF4: multiply_as(w, group, x, first, rows, out, NF4); break;
    }
}
