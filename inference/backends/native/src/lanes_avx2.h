/* Vectors of float32 with AVX2, FMA and F16C: eight lanes. */
#ifndef ONDOL_LANES_H
#define ONDOL_LANES_H

#include <immintrin.h>

#include "blocks.h"

enum { LANES = 8, SCORE_QUERIES = 4, SUM_QUERIES = 2 };
typedef __m256 vec;
typedef __m256i ivec;

static inline vec vec_load(const float *at) { return _mm256_loadu_ps(at); }
static inline void vec_store(float *at, vec v) { _mm256_storeu_ps(at, v); }
static inline vec vec_all(float x) { return _mm256_set1_ps(x); }
static inline vec vec_fma(vec a, vec b, vec c) { return _mm256_fmadd_ps(a, b, c); }
static inline vec vec_max(vec a, vec b) { return _mm256_max_ps(a, b); }
static inline vec vec_load_half(const uint16_t *at) {
    return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)at));
}
static inline void vec_store_half(uint16_t *at, vec v) {
    _mm_storeu_si128((__m128i *)at, _mm256_cvtps_ph(v, _MM_FROUND_TO_NEAREST_INT));
}
static inline float vec_sum(vec v) {
    __m128 r = _mm_add_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    r = _mm_add_ps(r, _mm_movehl_ps(r, r));
    return _mm_cvtss_f32(_mm_add_ss(r, _mm_movehdup_ps(r)));
}
static inline float vec_largest(vec v) {
    __m128 r = _mm_max_ps(_mm256_castps256_ps128(v), _mm256_extractf128_ps(v, 1));
    r = _mm_max_ps(r, _mm_movehl_ps(r, r));
    return _mm_cvtss_f32(_mm_max_ss(r, _mm_movehdup_ps(r)));
}
static inline ivec vec_round(vec v) { return _mm256_cvtps_epi32(v); }
static inline vec vec_from_int(ivec v) { return _mm256_cvtepi32_ps(v); }
static inline vec vec_scale2(vec v, ivec n) {
    ivec power = _mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23);
    return _mm256_mul_ps(v, _mm256_castsi256_ps(power));
}
static inline void vec_store_int8(int8_t *at, ivec v) {
    __m128i words = _mm_packs_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    _mm_storel_epi64((__m128i *)at, _mm_packs_epi16(words, words));
}
static inline int32_t vec_sum_int(ivec v) {
    __m128i r = _mm_add_epi32(_mm256_castsi256_si128(v), _mm256_extracti128_si256(v, 1));
    r = _mm_add_epi32(r, _mm_shuffle_epi32(r, 0x4e));
    return _mm_cvtsi128_si32(_mm_add_epi32(r, _mm_shuffle_epi32(r, 0xb1)));
}

#endif
