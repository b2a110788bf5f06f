/* Vectors of float32 with AVX-512: sixteen lanes. */
#ifndef ONDOL_LANES_H
#define ONDOL_LANES_H

#include <immintrin.h>

#include "blocks.h"

enum { LANES = 16, SCORE_QUERIES = 8, SUM_QUERIES = 4 };
typedef __m512 vec;
typedef __m512i ivec;

static inline vec vec_load(const float *at) { return _mm512_loadu_ps(at); }
static inline void vec_store(float *at, vec v) { _mm512_storeu_ps(at, v); }
static inline vec vec_all(float x) { return _mm512_set1_ps(x); }
static inline vec vec_fma(vec a, vec b, vec c) { return _mm512_fmadd_ps(a, b, c); }
static inline vec vec_max(vec a, vec b) { return _mm512_max_ps(a, b); }
static inline vec vec_load_half(const uint16_t *at) {
    return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)at));
}
static inline void vec_store_half(uint16_t *at, vec v) {
    _mm256_storeu_si256((__m256i *)at, _mm512_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
static inline float vec_sum(vec v) { return _mm512_reduce_add_ps(v); }
static inline float vec_largest(vec v) { return _mm512_reduce_max_ps(v); }
static inline ivec vec_round(vec v) { return _mm512_cvtps_epi32(v); }
static inline vec vec_from_int(ivec v) { return _mm512_cvtepi32_ps(v); }
static inline vec vec_scale2(vec v, ivec n) { return _mm512_scalef_ps(v, _mm512_cvtepi32_ps(n)); }
static inline void vec_store_int8(int8_t *at, ivec v) {
    _mm_storeu_si128((__m128i *)at, _mm512_cvtsepi32_epi8(v));
}
static inline int32_t vec_sum_int(ivec v) { return _mm512_reduce_add_epi32(v); }

#endif
