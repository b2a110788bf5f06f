/* What the parts of a step share. */
#ifndef ONDOL_STEP_H
#define ONDOL_STEP_H

#include "model.h"

typedef struct {
    model *m;
    const int32_t *tokens, *runs;
    const kv_view *views;
    int count, rows, tiles, shared_out;
    int spans; /* of the longest sequence */
    const int32_t *wanted;
    int wanted_count;
    float *logits;
} step;

/* So many tasks at a time that each thread comes several times and the last one is not waited for long. */
static inline int share(const model *m, int count) {
    int size = count / (4 * m->config.threads);
    return size < 1 ? 1 : size;
}

static inline float *row_of(float *base, int row, int size) { return base + (size_t)row * size; }

/* Phases: rotate queries and keys of layer `index` and put keys and values where they stay, and attend to them. */
void place(const step *s, pool_place *at, const layer *l, int index);
void attend_all(const step *s, pool_place *at, scratch *mine, int index);

#endif
