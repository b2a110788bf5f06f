/* Single kernels, laid open to the tests. */
#include <math.h>
#include <stdlib.h>

#include "model.h"

int ondol_test_multiply(const char *kernels_name, const matrix *w, const float *x, int rows, float *out) {
    const kernels *k = choose_kernels(kernels_name);
    if (!k) return 1;
    size_t blocks = (size_t)rows * (w->cols / BLOCK);
    activations a = {allocate(blocks * BLOCK), allocate(blocks * 4), allocate(blocks * 4), allocate(blocks * 4),
                     w->cols / BLOCK};
    float *tile = allocate((size_t)rows * GROUP * 4);
    for (int m = 0; m < rows; m++) k->quantize(x + (size_t)m * w->cols, &a, m);
    for (int group = 0; group < w->groups; group++) {
        k->multiply(w, group, &a, 0, rows, tile);
        for (int m = 0; m < rows; m++)
            for (int i = 0; i < GROUP && group * GROUP + i < w->rows; i++)
                out[(size_t)m * w->rows + group * GROUP + i] = tile[m * GROUP + i];
    }
    free(a.q);
    free(a.scale);
    free(a.sum);
    free(a.offset);
    free(tile);
    return 0;
}

/* All spans of one head, merged; the view has one layer and one head. */
int ondol_test_attend(const char *kernels_name, const float *queries, const int32_t *lengths, int count,
                      int head_dim, const kv_view *one_head, float *out) {
    const kernels *k = choose_kernels(kernels_name);
    if (!k) return 1;
    float *work = allocate(((size_t)count * (SPAN + head_dim + 4) + (size_t)SPAN * head_dim) * 4);
    float *sums = work, *scores = sums + 4 * count, *weighted = scores + (size_t)count * SPAN;
    attention_span span = {
        .queries = queries,
        .lengths = lengths,
        .count = count,
        .head_dim = head_dim,
        .scores = scores,
        .wide = weighted + (size_t)count * head_dim,
        .largest = sums,
        .sum = sums + count,
        .weighted = weighted,
    };
    float *largest = sums + 2 * count, *sum = sums + 3 * count;
    for (int first = 0; first < one_head->length; first += SPAN) {
        span.first = first;
        span.last = first + SPAN < one_head->length ? first + SPAN : (int)one_head->length;
        span.keys = one_head->data + (size_t)first * 2 * head_dim;
        span.values = span.keys + (size_t)SPAN * head_dim;
        k->attend(&span);
        for (int j = 0; j < count; j++) {
            float *total = out + (size_t)j * head_dim, *here = weighted + (size_t)j * head_dim;
            if (first == 0) {
                largest[j] = span.largest[j];
                sum[j] = span.sum[j];
                memcpy(total, here, (size_t)head_dim * 4);
            } else if (lengths[j] > first) {
                k->merge(&largest[j], &sum[j], total, span.largest[j], span.sum[j], here, head_dim);
            }
        }
    }
    for (int j = 0; j < count; j++) k->divide(out + (size_t)j * head_dim, sum[j], head_dim, out + (size_t)j * head_dim);
    free(work);
    return 0;
}

/* what: 0 norm with the weights `other`, 1 silu(x) * other, 2 rotation by cosines and then sines. In place. */
int ondol_test_row(const char *kernels_name, int what, float *x, const float *other, int count, float epsilon) {
    const kernels *k = choose_kernels(kernels_name);
    if (!k) return 1;
    if (what == 0) k->rms_norm(x, other, count, epsilon, x);
    if (what == 1) k->gate(x, other, count);
    if (what == 2) k->rotate(x, other, other + count / 2, count / 2);
    return 0;
}
