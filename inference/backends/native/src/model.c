/* Making and unmaking a model, and its working memory. */
#include "model.h"

#include <stdlib.h>

#ifndef ONDOL_SOURCE_HASH
#define ONDOL_SOURCE_HASH "unknown"
#endif

const char *ondol_source_hash(void) { return ONDOL_SOURCE_HASH; }

/* Zeroed, on cache lines of its own. */
void *allocate(size_t bytes) {
    size_t whole = (bytes + LINE) / LINE * LINE;
    void *at = aligned_alloc(LINE, whole);
    if (at) memset(at, 0, whole);
    return at;
}

static void free_activations(activations *a) {
    free(a->q);
    free(a->scale);
    free(a->sum);
    free(a->offset);
}

static int make_activations(activations *a, int rows, int cols) {
    size_t blocks = (size_t)rows * (cols / BLOCK);
    *a = (activations){allocate(blocks * BLOCK), allocate(blocks * 4), allocate(blocks * 4), allocate(blocks * 4),
                       cols / BLOCK};
    return a->q && a->scale && a->sum && a->offset;
}

void workspace_free(workspace *w) {
    void *all[] = {w->x,     w->normed,   w->q,        w->k,          w->v,         w->attended, w->cosines,
                   w->sines, w->sequence, w->position, w->tile_first, w->tile_rows, w->partials};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
    free_activations(&w->hidden);
    free_activations(&w->heads);
    free_activations(&w->inner);
    *w = (workspace){0};
}

int workspace_grow(model *m, int rows) {
    workspace *w = &m->work;
    if (rows <= w->rows) return 0;
    workspace_free(w);
    const model_config *c = &m->config;
    size_t n = (size_t)rows, half = (size_t)c->head_dim / 2;
    w->x = allocate(n * c->hidden * 4);
    w->normed = allocate(n * c->hidden * 4);
    w->q = allocate(n * m->q_size * 4);
    w->k = allocate(n * m->kv_size * 4);
    w->v = allocate(n * m->kv_size * 4);
    w->attended = allocate(n * m->q_size * 4);
    w->cosines = allocate(n * half * 4);
    w->sines = allocate(n * half * 4);
    w->sequence = allocate(n * 4);
    w->position = allocate(n * 4);
    w->tile_first = allocate(n * 4);
    w->tile_rows = allocate(n * 4);
    int made = make_activations(&w->hidden, rows, c->hidden) & make_activations(&w->heads, rows, m->q_size) &
               make_activations(&w->inner, rows, c->inner);
    if (!made || !w->x || !w->normed || !w->q || !w->k || !w->v || !w->attended || !w->cosines || !w->sines ||
        !w->sequence || !w->position || !w->tile_first || !w->tile_rows) {
        workspace_free(w);
        return OUT_OF_MEMORY;
    }
    w->rows = rows;
    return 0;
}

int workspace_partials(model *m, size_t floats) {
    workspace *w = &m->work;
    if (floats <= w->partials_size) return 0;
    free(w->partials);
    w->partials = allocate(floats * 4);
    w->partials_size = w->partials ? floats : 0;
    return w->partials ? 0 : OUT_OF_MEMORY;
}

static int make_scratch(model *m, scratch *s) {
    size_t queries = (size_t)QUERY_ROWS * m->heads_a_group, dim = (size_t)m->config.head_dim;
    s->tile = allocate((size_t)MOST_TOKENS * GROUP * 4 * 4);
    s->queries = allocate(queries * dim * 4);
    s->scores = allocate(queries * SPAN * 4);
    s->wide = allocate(SPAN * dim * 4);
    s->weighted = allocate(2 * queries * dim * 4);
    s->sums = allocate(4 * queries * 4);
    s->lengths = allocate(queries * 4);
    return s->tile && s->queries && s->scores && s->wide && s->weighted && s->sums && s->lengths;
}

model *ondol_model_create(const model_config *config) {
    const kernels *k = choose_kernels(config->kernels);
    model *m = k ? calloc(1, sizeof *m) : NULL;
    if (!m) return NULL;
    m->config = *config;
    m->config.kernels = NULL;
    m->config.frequencies = NULL;
    m->k = k;
    m->heads_a_group = config->heads / config->kv_heads;
    m->q_size = config->heads * config->head_dim;
    m->kv_size = config->kv_heads * config->head_dim;
    size_t half = (size_t)config->head_dim / 2;
    m->frequencies = malloc(half * sizeof(double));
    m->layers = calloc((size_t)config->layers, sizeof *m->layers);
    m->scratch = calloc((size_t)config->threads, sizeof *m->scratch);
    m->threads = pool_create(config->threads);
    m->room = (arena){map_zeros(config->weight_bytes), config->weight_bytes, 0};
    int made = m->frequencies && m->layers && m->scratch && m->threads && m->room.base;
    for (int i = 0; made && i < config->threads; i++) made = make_scratch(m, &m->scratch[i]);
    if (!made) {
        ondol_model_free(m);
        return NULL;
    }
    memcpy(m->frequencies, config->frequencies, half * sizeof(double));
    return m;
}

static void free_layer(layer *l) {
    for (int i = 0; i < VECTOR_SLOTS; i++) free(l->vectors[i]);
}

void ondol_model_free(model *m) {
    if (!m) return;
    pool_free(m->threads);
    for (int i = 0; m->layers && i < m->config.layers; i++) free_layer(&m->layers[i]);
    free_layer(&m->top);
    for (int i = 0; i < m->owned_count; i++) ondol_matrix_free(m->owned[i]);
    for (int i = 0; m->scratch && i < m->config.threads; i++) {
        scratch *s = &m->scratch[i];
        void *all[] = {s->tile, s->queries, s->scores, s->wide, s->weighted, s->sums, s->lengths};
        for (size_t j = 0; j < sizeof all / sizeof *all; j++) free(all[j]);
    }
    unmap(m->room.base, m->room.size);
    workspace_free(&m->work);
    free(m->owned);
    free(m->layers);
    free(m->scratch);
    free(m->frequencies);
    free(m);
}

static layer *layer_at(model *m, int index) { return index < 0 ? &m->top : &m->layers[index]; }

int ondol_model_set_matrix(model *m, int index, int slot, matrix *w) {
    layer_at(m, index)->matrices[slot] = w;
    for (int i = 0; i < m->owned_count; i++)
        if (m->owned[i] == w) return 0;
    matrix **owned = realloc(m->owned, ((size_t)m->owned_count + 1) * sizeof *owned);
    if (!owned) return OUT_OF_MEMORY;
    m->owned = owned;
    m->owned[m->owned_count++] = w;
    return 0;
}

int ondol_model_set_vector(model *m, int index, int slot, const float *values, int count) {
    /* Whole groups of 16 may be read. */
    float *copy = allocate(((size_t)count + GROUP) * sizeof *copy);
    if (!copy) return OUT_OF_MEMORY;
    memcpy(copy, values, (size_t)count * sizeof *copy);
    float **place = &layer_at(m, index)->vectors[slot];
    free(*place);
    *place = copy;
    return 0;
}

arena *ondol_model_room(model *m) { return &m->room; }

const char *ondol_model_kernels(const model *m) { return m->k->name; }
