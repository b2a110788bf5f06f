/* The kernels in C alone: for CPUs without AVX2, and what the others are compared with. */
#include <math.h>

#include "kernels.h"
#include "lanes_plain.h"

static inline ivec add_ints(ivec a, ivec b) { return a + b; }

#include "rows.inc.h"

#include "attention.inc.h"

/* The code in a row's block as a whole number; `i` counts its columns. */
static ALWAYS_INLINE int code_at(const uint8_t *codes, int lane, int i, const int format) {
    if (format == Q8_0) return (int8_t)codes[64 * (i / 4) + 4 * lane + i % 4];
    uint8_t both = codes[64 * (i % 16 / 4) + 4 * lane + i % 4];
    int code = i < 16 ? both & 15 : both >> 4;
    return format == NF4 ? nf4_codebook[code] : code;
}

static ALWAYS_INLINE void multiply_as(const matrix *w, int group, const activations *x, int first, int rows,
                                      float *out, const int format) {
    const format_info *info = &formats[format];
    for (int m = first; m < first + rows; m++, out += GROUP) {
        const uint8_t *block = group_data(w, group);
        memset(out, 0, GROUP * sizeof *out);
        for (int b = 0; b < x->blocks; b++, block += info->group_bytes) {
            size_t at = (size_t)m * x->blocks + b;
            const int8_t *q = x->q + at * BLOCK;
            for (int lane = 0; lane < GROUP; lane++) {
                int32_t sum = format == Q4_0 ? x->offset[at] : 0;
                for (int i = 0; i < BLOCK; i++)
                    sum += code_at(block + info->halves * 32, lane, i, format) * q[i];
                float scale = half_to_float(load_u16(block + 2 * lane));
                if (format == NF4) scale *= 1.0f / 127;
                out[lane] += (float)sum * (scale * x->scale[at]);
                if (format == Q4_1) out[lane] += half_to_float(load_u16(block + 32 + 2 * lane)) * x->sum[at];
            }
        }
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

#define KERNELS kernels_plain
#define KERNELS_NAME "plain C"
#include "table.inc.h"
