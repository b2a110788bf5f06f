/* Quantized blocks as they lie in memory here, and the way to them from a GGUF file.
 *
 * A matrix [rows, cols] is cut into groups of 16 rows; a group is a row of blocks of 32 columns, one after the
 * other. Within a block the 16 rows are interleaved in runs of four columns, 64 bytes at a time:
 *
 *     scales   16 float16 (one a row), then for formats with an offset 16 float16 offsets
 *     codes    4-bit: 4 x 64 bytes; byte 4*row + i of the c-th holds column 4*c + i in its low and column
 *              16 + 4*c + i in its high nibble. 8-bit: 8 x 64 bytes, the c-th with columns 4*c + i.
 *
 * So one vector register holds the same four columns of 8 or 16 rows: each lane sums a row of its own, nothing is
 * ever summed across lanes, and a matrix is read from start to end. The bytes are those of the file, in another
 * order. What a GGUF block means: ggml-common.h in https://github.com/ggml-org/ggml (block_q4_0, _q4_1, _q8_0).
 */
#ifndef ONDOL_BLOCKS_H
#define ONDOL_BLOCKS_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { BLOCK = 32, GROUP = 16 };

/* A format is what a kernel has to be written for; another one is a line in `formats` and a case there. */
enum format { Q4_0 = 0, Q4_1 = 1, Q8_0 = 2, NF4 = 3, FORMATS = 4 };

typedef struct {
    uint8_t source_bytes; /* of a block of one row in the file */
    uint8_t halves;       /* float16 values at its begin: scale, or scale and offset */
    uint8_t codes;        /* runs of four bytes that follow */
    uint16_t group_bytes; /* of a block of 16 rows here */
} format_info;

extern const format_info formats[FORMATS];

/* The 16 values of bitsandbytes' NF4, from Dettmers et al., "QLoRA" (2023), appendix E, times 127. */
extern const int8_t nf4_codebook[16];

typedef struct {
    int32_t format, rows, cols, groups;
    size_t bytes;
    uint8_t *data;
    int borrowed; /* from an arena */
} matrix;

static inline size_t group_size(const matrix *w) {
    return (size_t)(w->cols / BLOCK) * formats[w->format].group_bytes;
}

static inline const uint8_t *group_data(const matrix *w, int group) {
    return w->data + (size_t)group * group_size(w);
}

static inline uint16_t load_u16(const uint8_t *at) {
    uint16_t value;
    memcpy(&value, at, sizeof value);
    return value;
}

float half_to_float(uint16_t half);
uint16_t float_to_half(float value);

#endif
