/* Vectors of float32 for any CPU: four lanes, which every compiler maps to what there is. */
#ifndef ONDOL_LANES_H
#define ONDOL_LANES_H

#include "blocks.h"

enum { LANES = 4, SCORE_QUERIES = 2, SUM_QUERIES = 2 };
typedef float vec __attribute__((vector_size(16)));
typedef int32_t ivec __attribute__((vector_size(16)));

static inline vec vec_load(const float *at) {
    vec v;
    memcpy(&v, at, sizeof v);
    return v;
}
static inline void vec_store(float *at, vec v) { memcpy(at, &v, sizeof v); }
static inline vec vec_all(float x) { return (vec){x, x, x, x}; }
static inline vec vec_fma(vec a, vec b, vec c) { return a * b + c; }
static inline vec vec_max(vec a, vec b) {
    ivec greater = a > b; /* as maxps: b where either is not a number */
    return (vec)(((ivec)a & greater) | ((ivec)b & ~greater));
}
static inline vec vec_load_half(const uint16_t *at) {
    return (vec){half_to_float(at[0]), half_to_float(at[1]), half_to_float(at[2]), half_to_float(at[3])};
}
static inline void vec_store_half(uint16_t *at, vec v) {
    for (int i = 0; i < LANES; i++) at[i] = float_to_half(v[i]);
}
static inline float vec_sum(vec v) { return (v[0] + v[2]) + (v[1] + v[3]); }
static inline float vec_largest(vec v) {
    float a = v[0] > v[2] ? v[0] : v[2], b = v[1] > v[3] ? v[1] : v[3];
    return a > b ? a : b;
}
/* To the nearest whole number, ties to even, for magnitudes below 2^22. */
static inline ivec vec_round(vec v) {
    const vec shift = {0x1.8p23f, 0x1.8p23f, 0x1.8p23f, 0x1.8p23f};
    vec moved = v + shift;
    return (ivec)moved - (ivec)shift;
}
static inline vec vec_from_int(ivec v) { return __builtin_convertvector(v, vec); }
/* v * 2^n for normal results. */
static inline vec vec_scale2(vec v, ivec n) { return v * (vec)((n + 127) << 23); }
static inline void vec_store_int8(int8_t *at, ivec v) {
    for (int i = 0; i < LANES; i++) at[i] = (int8_t)v[i];
}
static inline int32_t vec_sum_int(ivec v) { return v[0] + v[1] + v[2] + v[3]; }

#endif
