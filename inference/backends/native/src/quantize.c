/* Quantizing float32 matrices of safetensors models, straight into the layout of blocks.h. */
#include <math.h>

#include "blocks.h"
#include "ondol.h"

/* Halfway between NF4's neighbouring values as bitsandbytes has them, so that every weight gets the same code. */
static const float nf4_borders[15] = {-0.8480964004993439f, -0.6106329262256622f, -0.4599952697753906f,
                                      -0.33967943489551544f, -0.23460740596055984f, -0.13791173323988914f,
                                      -0.045525018125772476f, 0.03979014977812767f, 0.1202552504837513f,
                                      0.2035212516784668f,    0.2920137718319893f,  0.3893125355243683f,
                                      0.5016634166240692f,    0.6427869200706482f,  0.8614784181118011f};

static float largest(const float *x, int count) {
    float most = 0;
    for (int i = 0; i < count; i++) most = fabsf(x[i]) > most ? fabsf(x[i]) : most;
    return most;
}

static int nf4_code(float share) {
    int code = 0;
    for (int i = 0; i < 15; i++) code += share > nf4_borders[i];
    return code;
}

static void put_half(uint8_t *at, float value) {
    uint16_t half = float_to_half(value);
    memcpy(at, &half, sizeof half);
}

/* 32 columns of a row, whose scale is `most`, the largest magnitude of its 64. */
static void put_nf4(const float *x, float most, uint8_t *block, int lane) {
    float inverse = most > 0 ? 1 / most : 0;
    put_half(block + 2 * lane, most);
    uint8_t *codes = block + 32 + 4 * lane;
    for (int i = 0; i < 16; i++)
        codes[64 * (i / 4) + i % 4] = (uint8_t)(nf4_code(x[i] * inverse) | nf4_code(x[i + 16] * inverse) << 4);
}

static void put_q8_0(const float *x, uint8_t *block, int lane) {
    float most = largest(x, BLOCK), inverse = most > 0 ? 127 / most : 0;
    put_half(block + 2 * lane, most / 127);
    uint8_t *codes = block + 32 + 4 * lane;
    for (int i = 0; i < BLOCK; i++) codes[64 * (i / 4) + i % 4] = (uint8_t)(int8_t)lrintf(x[i] * inverse);
}

/* A matrix in NF4, with a scale for every 64 columns as bitsandbytes has it, or in Q8_0. NULL for any other format,
 * and when there is no memory. */
matrix *ondol_matrix_quantize(int format, int rows, int cols, const float *values, arena *room) {
    matrix *w = format == NF4 || format == Q8_0 ? ondol_matrix_empty(format, rows, cols, room) : NULL;
    for (int row = 0; w && row < rows; row++) {
        uint8_t *block = w->data + (size_t)(row / GROUP) * group_size(w);
        const float *x = values + (size_t)row * (size_t)cols;
        float most = 0;
        for (int col = 0; col < cols; col += BLOCK, block += formats[format].group_bytes) {
            if (col % (2 * BLOCK) == 0) most = largest(x + col, cols - col < 2 * BLOCK ? cols - col : 2 * BLOCK);
            if (format == NF4)
                put_nf4(x + col, most, block, row % GROUP);
            else
                put_q8_0(x + col, block, row % GROUP);
        }
    }
    return w;
}
