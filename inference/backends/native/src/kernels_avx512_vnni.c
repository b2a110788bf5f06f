/* The kernels with AVX-512 and its 8-bit dot product: 16 rows a register. */
#if defined(__x86_64__)
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq,avx512vnni,fma,f16c")
#include <math.h>

#include "kernels.h"
#include "lanes_avx512.h"

static inline ivec add_ints(ivec a, ivec b) { return _mm512_add_epi32(a, b); }

#include "rows.inc.h"

#include "attention.inc.h"

enum { MOST_ROWS = 8 };

static ALWAYS_INLINE __m512i columns(const int8_t *q) {
    int32_t four;
    memcpy(&four, q, sizeof four);
    return _mm512_set1_epi32(four);
}

/* The product takes unsigned weights: signed ones are moved up by 128, which is taken off again through the sum
 * of the activations, 16 times their offset. */
static ALWAYS_INLINE void tile(const uint8_t *block, const int format, const activations *x, int row, const int n,
                               float *out) {
    const format_info *info = &formats[format];
    const __m512i low = _mm512_set1_epi8(15), top = _mm512_set1_epi8((char)0x80);
    const __m512i codebook =
        _mm512_xor_si512(_mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)nf4_codebook)), top);
    __m512 results[MOST_ROWS];
#pragma GCC unroll 8
    for (int j = 0; j < n; j++) results[j] = _mm512_setzero_ps();
    for (int b = 0; b < x->blocks; b++, block += info->group_bytes) {
        const uint8_t *codes = block + info->halves * 32;
        size_t at = (size_t)row * x->blocks + b, next = (size_t)x->blocks;
        const int8_t *q = x->q + at * BLOCK;
        if (n <= 2) fetch_ahead(block, info->group_bytes);
        __m512i sums[MOST_ROWS];
#pragma GCC unroll 8
        for (int j = 0; j < n; j++) {
            sums[j] = format == Q4_1 ? _mm512_setzero_si512() : _mm512_set1_epi32(x->offset[at + j * next]);
            if (format == Q8_0 || format == NF4) sums[j] = _mm512_slli_epi32(sums[j], 4);
        }
#pragma GCC unroll 4
        for (int c = 0; c < 4; c++) {
            const int8_t *here = q + 4 * c;
            __m512i first, second;
            if (format == Q8_0) {
                first = _mm512_xor_si512(_mm512_loadu_si512(codes + 64 * c), top);
                second = _mm512_xor_si512(_mm512_loadu_si512(codes + 64 * (c + 4)), top);
            } else {
                __m512i both = _mm512_loadu_si512(codes + 64 * c);
                first = _mm512_and_si512(both, low);
                second = _mm512_and_si512(_mm512_srli_epi16(both, 4), low);
            }
            if (format == NF4) {
                first = _mm512_shuffle_epi8(codebook, first);
                second = _mm512_shuffle_epi8(codebook, second);
            }
#pragma GCC unroll 8
            for (int j = 0; j < n; j++) {
                sums[j] = _mm512_dpbusd_epi32(sums[j], first, columns(here + j * next * BLOCK));
                sums[j] = _mm512_dpbusd_epi32(sums[j], second, columns(here + j * next * BLOCK + 16));
            }
        }
        __m512 scale = _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)block));
        if (format == NF4) scale = _mm512_mul_ps(scale, _mm512_set1_ps(1.0f / 127));
        __m512 offset = scale;
        if (format == Q4_1) offset = _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(block + 32)));
#pragma GCC unroll 8
        for (int j = 0; j < n; j++) {
            __m512 both = _mm512_mul_ps(scale, _mm512_set1_ps(x->scale[at + j * next]));
            results[j] = _mm512_fmadd_ps(_mm512_cvtepi32_ps(sums[j]), both, results[j]);
            if (format == Q4_1)
                results[j] = _mm512_fmadd_ps(offset, _mm512_set1_ps(x->sum[at + j * next]), results[j]);
        }
    }
#pragma GCC unroll 8
    for (int j = 0; j < n; j++) _mm512_storeu_ps(out + j * GROUP, results[j]);
}

static ALWAYS_INLINE void multiply_as(const matrix *w, int group, const activations *x, int first, int rows,
                                      float *out, const int format) {
    const uint8_t *block = group_data(w, group);
    int m = 0;
    for (; m + 8 <= rows; m += 8) tile(block, format, x, first + m, 8, out + m * GROUP);
    if (m + 4 <= rows) {
        tile(block, format, x, first + m, 4, out + m * GROUP);
        m += 4;
    }
    if (m + 2 <= rows) {
        tile(block, format, x, first + m, 2, out + m * GROUP);
        m += 2;
    }
    if (m < rows) tile(block, format, x, first + m, 1, out + m * GROUP);
}

static void multiply(const matrix *w, int group, const activations *x, int first, int rows, float *out) {
    switch (w->format) {
    case Q4_0: multiply_as(w, group, x, first, rows, out, Q4_0); break;
    case Q4_1: multiply_as(w, group, x, first, rows, out, Q4_1); break;
    case Q8_0: multiply_as(w, group, x, first, rows, out, Q8_0); break;
    case NF4: multiply_as(w, group, x, first, rows, out, NF4); break;
    }
}

#define KERNELS kernels_avx512_vnni
#define KERNELS_NAME "AVX-512 VNNI"
#include "table.inc.h"
#endif
