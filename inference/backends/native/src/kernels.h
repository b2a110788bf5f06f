/* What the CPU's fastest code is asked for. Every function computes a row in one order of operations, whatever
 * rows are computed beside it: a sequence's numbers never depend on its company or on how its prompt was cut. */
#ifndef ONDOL_KERNELS_H
#define ONDOL_KERNELS_H

#include "blocks.h"

/* Keys that are attended to in one go; partial results of longer contexts are merged in order. */
enum { SPAN = 128, TILE = 16 };

/* Rows of activations in int8, blocks of 32: x is nearly q * scale, within scale / 2, and scale is the block's
 * largest magnitude / 127. sum: scale * (sum of q). offset: -8 * (sum of q), what a code's zero at 8 adds up to. */
typedef struct {
    int8_t *q;
    float *scale, *sum;
    int32_t *offset;
    int blocks;
} activations;

/* Attention of some queries over one span of one head's keys and values. keys: tiles of 16 tokens,
 * [head_dim][16] each, so that a lane is a token. values: [tokens][head_dim]. lengths: how many tokens, from the
 * sequence's first, each query sees. Results, for the span alone: the largest score, the sum of exponentials, and
 * the values weighted by them. */
typedef struct {
    const float *queries; /* [count][head_dim], scaled */
    const int32_t *lengths;
    const uint16_t *keys, *values; /* of the head, from the span's first token */
    int count, head_dim, first, last;
    float *scores; /* [count][SPAN], to work in */
    float *wide;   /* [SPAN][head_dim], to work in */
    float *largest, *sum, *weighted;
} attention_span;

typedef struct {
    const char *name;
    /* out[rows][16]: activations `first`.. times the 16 rows of a group. */
    void (*multiply)(const matrix *w, int group, const activations *x, int first, int rows, float *out);
    void (*quantize)(const float *x, const activations *out, int row);
    void (*rms_norm)(const float *x, const float *weight, int count, float epsilon, float *out);
    void (*rotate)(float *head, const float *cosines, const float *sines, int half);
    /* gate = silu(gate) * up */
    void (*gate)(float *gate, const float *up, int count);
    void (*attend)(const attention_span *span);
    /* Adds a later span's result to the total of those before it. */
    void (*merge)(float *largest, float *sum, float *weighted, float later_largest, float later_sum,
                  const float *later, int head_dim);
    void (*divide)(const float *weighted, float sum, int count, float *out);
    /* One token's key and value of one head, as float16, to where they stay. */
    void (*keep)(const float *key, const float *value, int head_dim, uint16_t *keys, uint16_t *values, int at);
} kernels;

extern const kernels kernels_plain;
#if defined(__x86_64__)
extern const kernels kernels_avx2, kernels_avx_vnni, kernels_avx512_vnni;
#endif

/* The fastest that this CPU runs, or the one of that name; NULL when it cannot. */
const kernels *choose_kernels(const char *name);

#endif
