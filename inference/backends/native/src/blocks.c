/* Packing matrices from a GGUF file's blocks, and single rows back to float32. */
#include "blocks.h"
#include "memory.h"
#include "ondol.h"

const format_info formats[FORMATS] = {
    [Q4_0] = {18, 1, 4, 32 + 256},
    [Q4_1] = {20, 2, 4, 64 + 256},
    [Q8_0] = {34, 1, 8, 32 + 512},
    [NF4] = {18, 1, 4, 32 + 256},
};

const int8_t nf4_codebook[16] = {-127, -88, -67, -50, -36, -23, -12, 0, 10, 20, 31, 43, 56, 71, 92, 127};

float half_to_float(uint16_t half) {
    uint32_t sign = (uint32_t)(half & 0x8000) << 16, exponent = (half >> 10) & 31, mantissa = half & 0x3ff;
    union {
        uint32_t bits;
        float value;
    } out;
    if (exponent == 31) {
        out.bits = sign | 0x7f800000 | mantissa << 13;
    } else if (exponent) {
        out.bits = sign | (exponent + 112) << 23 | mantissa << 13;
    } else { /* zero or subnormal: mantissa / 2^24, exactly */
        out.value = (float)mantissa * 0x1p-24f;
        out.bits |= sign;
    }
    return out.value;
}

/* Rounds to the nearest, ties to even, as the F16C instruction does. */
uint16_t float_to_half(float value) {
    union {
        float value;
        uint32_t bits;
    } in = {value};
    uint32_t sign = in.bits >> 16 & 0x8000, magnitude = in.bits & 0x7fffffff;
    if (magnitude > 0x7f800000) return (uint16_t)(sign | 0x7e00);
    if (magnitude >= 0x477ff000) return (uint16_t)(sign | 0x7c00); /* 65,520 and more round to infinity */
    if (magnitude < 0x38800000) {                                  /* subnormal: adding 0.5 aligns and rounds */
        in.bits = magnitude;
        in.value += 0.5f;
        return (uint16_t)(sign | (in.bits - 0x3f000000));
    }
    uint32_t rounded = magnitude + 0xfff + (magnitude >> 13 & 1);
    return (uint16_t)(sign | (rounded - 0x38000000) >> 13);
}

/* `source` holds `rows` rows of blocks. order: the row of the source that becomes row i, or NULL for i itself.
 * Rows beyond the last fill their group with scales of zero. NULL when there is no memory. */
matrix *ondol_matrix_pack(int format, int rows, int cols, const uint8_t *source, const int32_t *order,
                          arena *room) {
    const format_info *info = &formats[format];
    int blocks = cols / BLOCK, head = info->halves * 2;
    size_t row_bytes = (size_t)blocks * info->source_bytes;
    matrix *w = ondol_matrix_empty(format, rows, cols, room);
    if (!w) return NULL;
    for (int row = 0; row < rows; row++) {
        const uint8_t *in = source + (size_t)(order ? order[row] : row) * row_bytes;
        uint8_t *out = w->data + (size_t)(row / GROUP) * group_size(w);
        int lane = row % GROUP;
        for (int b = 0; b < blocks; b++, in += info->source_bytes, out += info->group_bytes) {
            for (int h = 0; h < info->halves; h++) memcpy(out + h * 32 + 2 * lane, in + 2 * h, 2);
            for (int c = 0; c < info->codes; c++)
                memcpy(out + head * GROUP + 64 * c + 4 * lane, in + head + 4 * c, 4);
        }
    }
    return w;
}

matrix *ondol_matrix_empty(int format, int rows, int cols, arena *room) {
    matrix *w = malloc(sizeof *w);
    if (!w) return NULL;
    *w = (matrix){.format = format, .rows = rows, .cols = cols, .groups = (rows + GROUP - 1) / GROUP};
    w->bytes = (size_t)w->groups * group_size(w);
    w->data = take_from(room, w->bytes);
    w->borrowed = w->data != NULL;
    if (!w->borrowed) w->data = map_zeros(w->bytes);
    if (w->data) return w;
    free(w);
    return NULL;
}

void ondol_matrix_free(matrix *w) {
    if (!w) return;
    if (!w->borrowed) unmap(w->data, w->bytes);
    free(w);
}

/* One row as float32, by the formulas of ggml's own dequantization. */
void ondol_matrix_row(const matrix *w, int row, float *out) {
    const format_info *info = &formats[w->format];
    const uint8_t *in = group_data(w, row / GROUP);
    int lane = row % GROUP;
    for (int b = 0; b < w->cols / BLOCK; b++, in += info->group_bytes, out += BLOCK) {
        float scale = half_to_float(load_u16(in + 2 * lane));
        float offset = info->halves == 2 ? half_to_float(load_u16(in + 32 + 2 * lane)) : 0;
        const uint8_t *codes = in + info->halves * 32 + 4 * lane;
        for (int i = 0; i < BLOCK; i++) {
            if (w->format == Q8_0) {
                out[i] = (float)(int8_t)codes[64 * (i / 4) + i % 4] * scale;
                continue;
            }
            uint8_t both = codes[64 * (i % 16 / 4) + i % 4];
            int code = i < 16 ? both & 15 : both >> 4;
            if (w->format == Q4_0) out[i] = (float)(code - 8) * scale;
            if (w->format == Q4_1) out[i] = (float)code * scale + offset;
            if (w->format == NF4) out[i] = (float)nf4_codebook[code] * (scale * (1.0f / 127));
        }
    }
}
