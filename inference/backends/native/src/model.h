/* A decoder: its weights, and the memory that a step works in. */
#ifndef ONDOL_MODEL_H
#define ONDOL_MODEL_H

#include "kernels.h"
#include "ondol.h"
#include "pool.h"

enum { LINE = 64, QUERY_ROWS = 16 };

typedef struct {
    const matrix *matrices[MATRIX_SLOTS];
    float *vectors[VECTOR_SLOTS];
} layer;

/* For one thread alone. */
typedef struct {
    float *tile;     /* [MOST_TOKENS][2 x GROUP] x 2 */
    float *queries;  /* [QUERY_ROWS x group][head_dim] */
    float *scores;   /* [QUERY_ROWS x group][SPAN] */
    float *wide;     /* [SPAN][head_dim] */
    float *weighted; /* [QUERY_ROWS x group][head_dim], and once more for the total */
    float *sums;     /* [QUERY_ROWS x group] x 4 */
    int32_t *lengths;
} scratch;

/* For the rows of a step; grows to the most that were asked for. */
typedef struct {
    int rows;
    float *x, *normed, *q, *k, *v, *attended; /* [rows][...] */
    float *cosines, *sines;                            /* [rows][head_dim / 2] */
    activations hidden, heads, inner;
    int32_t *sequence, *position; /* of each row */
    int32_t *tile_first, *tile_rows;
    float *partials; /* results by span where the spans of one query are shared out */
    size_t partials_size;
} workspace;

struct model {
    model_config config;
    int heads_a_group, q_size, kv_size;
    double *frequencies;
    const kernels *k;
    pool *threads;
    layer top, *layers;
    arena room;
    matrix **owned;
    int owned_count;
    scratch *scratch;
    workspace work;
};

int workspace_grow(model *m, int rows);
int workspace_partials(model *m, size_t floats);
void workspace_free(workspace *work);
void *allocate(size_t bytes);

#endif
