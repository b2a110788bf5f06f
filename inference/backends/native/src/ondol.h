/* The C ABI that Python calls through ctypes. Nothing here keeps a pointer into the caller's memory beyond a call,
 * except the model, which keeps its matrices and vectors. A model is used by one thread at a time. */
#ifndef ONDOL_H
#define ONDOL_H

#include "blocks.h"
#include "memory.h"

/* SHA-256 of the sources that this library was compiled from. */
const char *ondol_source_hash(void);

/* The name of the kernels that run here: the fastest for NULL or "", else those asked for; NULL if they cannot. */
const char *ondol_kernels_name(const char *wanted);

/* `room`: of the model that the matrix is for (`ondol_model_room`); NULL, or a full one, for memory of its own. */
matrix *ondol_matrix_pack(int format, int rows, int cols, const uint8_t *source, const int32_t *order, arena *room);
matrix *ondol_matrix_empty(int format, int rows, int cols, arena *room);
matrix *ondol_matrix_quantize(int format, int rows, int cols, const float *values, arena *room);
void ondol_matrix_free(matrix *w);
void ondol_matrix_row(const matrix *w, int row, float *out);

typedef struct {
    int32_t layers, hidden, inner, heads, kv_heads, head_dim, vocab;
    float epsilon;
    const double *frequencies; /* [head_dim / 2], radians per token; copied */
    const char *kernels;       /* a name, or NULL for the fastest */
    int32_t threads;
    size_t weight_bytes; /* that matrices will take together */
} model_config;

typedef struct model model;

enum matrix_slot { EMBEDDING, HEAD, QUERY, KEY, VALUE, OUTPUT, GATE, UP, DOWN, MATRIX_SLOTS };
enum vector_slot {
    FINAL_NORM,
    ATTENTION_NORM,
    FEED_FORWARD_NORM,
    QUERY_NORM,
    KEY_NORM,
    QUERY_BIAS,
    KEY_BIAS,
    VALUE_BIAS,
    OUTPUT_BIAS,
    GATE_BIAS,
    UP_BIAS,
    DOWN_BIAS,
    VECTOR_SLOTS
};

/* NULL when memory is short or the kernels are not there. */
model *ondol_model_create(const model_config *config);
void ondol_model_free(model *m);
arena *ondol_model_room(model *m);
/* The model owns the matrix from now on (the same one may be given twice). layer -1 for what belongs to none. */
int ondol_model_set_matrix(model *m, int layer, int slot, matrix *w);
int ondol_model_set_vector(model *m, int layer, int slot, const float *values, int count);
const char *ondol_model_kernels(const model *m);

/* Keys and values of one sequence, in chunks of tokens that follow each other: [chunk][layer][kv head][keys, values]
 * [chunk tokens][head_dim] float16, keys in tiles of 16 tokens, [head_dim][16] each. Memory grows at its end, and
 * what attention reads of a head at a time lies together. chunk: tokens of one; SPAN (kernels.h) for a step. */
typedef struct {
    uint16_t *data;
    int64_t chunk, length;
} kv_view;

enum { LOGITS_NONE = 0, LOGITS_LAST = 1, LOGITS_ALL = 2, MOST_TOKENS = 256 };
enum { OUT_OF_MEMORY = 1, BAD_TOKEN = 2, BAD_RUN = 3 };

/* Append runs[i] tokens to sequence i, at most MOST_TOKENS together; there has to be room for them. `logits` gets a
 * row of `vocab` for each run's last token, or for every token. The views' lengths are the caller's to raise.
 * 0, or what went wrong. */
int ondol_step(model *m, const int32_t *tokens, const int32_t *runs, const kv_view *views, int count, int want,
               float *logits);

/* Copy `length` tokens from one place to another, both in the layout above, with chunks of their own. */
typedef struct {
    int32_t layers, kv_heads, head_dim;
} kv_shape;
void ondol_kv_copy(const kv_shape *shape, const kv_view *from, int64_t from_token, const kv_view *to,
                   int64_t to_token, int64_t length);

/* One kernel at a time, for tests: see kernels.h. Return nonzero when the kernels are not there. */
int ondol_test_multiply(const char *kernels_name, const matrix *w, const float *x, int rows, float *out);
int ondol_test_attend(const char *kernels_name, const float *queries, const int32_t *lengths, int count,
                      int head_dim, const kv_view *one_head, float *out);
int ondol_test_row(const char *kernels_name, int what, float *x, const float *other, int count, float epsilon);

#endif
