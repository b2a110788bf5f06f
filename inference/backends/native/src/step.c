/* One step of a decoder for rows of any sequences: every thread runs `forward`, and takes tasks of each phase. */
#include <math.h>
#include <stdlib.h>

#include "model.h"

typedef struct {
    model *m;
    const int32_t *tokens, *runs;
    const kv_view *views;
    int count, rows, want, tiles, shared_out;
    int spans; /* of the longest sequence */
    const int32_t *wanted;
    int wanted_count;
    float *logits;
} step;

/* So many tasks at a time that each thread comes several times and the last one is not waited for long. */
static int share(const model *m, int count) {
    int size = count / (4 * m->config.threads);
    return size < 1 ? 1 : size;
}

static float *row_of(float *base, int row, int size) { return base + (size_t)row * size; }

static void add_bias(float *tile, int rows, const float *bias, int first) {
    if (!bias) return;
    for (int m = 0; m < rows; m++)
        for (int i = 0; i < GROUP; i++) tile[m * GROUP + i] += bias[first + i];
}

/* out[rows][size] = or += a group's results; `lanes` of them are there. */
static void put(const float *tile, int rows, int first, int lanes, float *out, int size, int add) {
    for (int m = 0; m < rows; m++) {
        float *to = row_of(out, m, size) + first;
        if (add)
            for (int i = 0; i < lanes; i++) to[i] += tile[m * GROUP + i];
        else
            memcpy(to, tile + m * GROUP, (size_t)lanes * sizeof *to);
    }
}

static void project_group(const step *s, scratch *mine, const matrix *w, int group, const activations *x,
                          const float *bias, float *out, int add) {
    int first = group * GROUP, lanes = w->rows - first < GROUP ? w->rows - first : GROUP;
    s->m->k->multiply(w, group, x, 0, s->rows, mine->tile);
    add_bias(mine->tile, s->rows, bias, first);
    put(mine->tile, s->rows, first, lanes, out, w->rows, add);
}

/* x += w * activations, a phase. */
static void project_onto(const step *s, pool_place *at, scratch *mine, const matrix *w, const activations *x, const float *bias) {
    model *m = s->m;
    EACH_TASK(group, at, w->groups, share(m, w->groups)) project_group(s, mine, w, group, x, bias, m->work.x, 1);
}

static void normalize(const step *s, pool_place *at, const float *weight) {
    model *m = s->m;
    int size = m->config.hidden;
    EACH_TASK(row, at, s->rows, share(m, s->rows)) {
        float *normed = row_of(m->work.normed, row, size);
        m->k->rms_norm(row_of(m->work.x, row, size), weight, size, m->config.epsilon, normed);
        m->k->quantize(normed, &m->work.hidden, row);
    }
}

static void project_heads(const step *s, pool_place *at, scratch *mine, const layer *l) {
    model *m = s->m;
    const matrix *const *w = l->matrices;
    int q = w[QUERY]->groups, k = q + w[KEY]->groups, v = k + w[VALUE]->groups;
    EACH_TASK(task, at, v, share(m, v)) {
        if (task < q)
            project_group(s, mine, w[QUERY], task, &m->work.hidden, l->vectors[QUERY_BIAS], m->work.q, 0);
        else if (task < k)
            project_group(s, mine, w[KEY], task - q, &m->work.hidden, l->vectors[KEY_BIAS], m->work.k, 0);
        else
            project_group(s, mine, w[VALUE], task - k, &m->work.hidden, l->vectors[VALUE_BIAS], m->work.v, 0);
    }
}

static void turn(const step *s, float *head, const float *norm, int row) {
    const model *m = s->m;
    int dim = m->config.head_dim;
    if (norm) m->k->rms_norm(head, norm, dim, m->config.epsilon, head);
    m->k->rotate(head, row_of(m->work.cosines, row, dim / 2), row_of(m->work.sines, row, dim / 2), dim / 2);
}

/* A span of a head's keys or values in layer `index`. */
static uint16_t *kept(const step *s, const kv_view *view, int span, int index, int values, int head) {
    const model_config *c = &s->m->config;
    size_t part = (((size_t)span * c->layers + index) * c->kv_heads + head) * 2 + values;
    return view->data + part * SPAN * (size_t)c->head_dim;
}

/* Rotate queries and keys, and put keys and values where they stay. */
static void place(const step *s, pool_place *at, const layer *l, int index) {
    model *m = s->m;
    const model_config *c = &m->config;
    float scale = 1.0f / sqrtf((float)c->head_dim);
    EACH_TASK(row, at, s->rows, share(m, s->rows)) {
        float *q = row_of(m->work.q, row, m->q_size), *k = row_of(m->work.k, row, m->kv_size);
        float *v = row_of(m->work.v, row, m->kv_size);
        const kv_view *view = &s->views[m->work.sequence[row]];
        for (int h = 0; h < c->heads; h++) turn(s, q + h * c->head_dim, l->vectors[QUERY_NORM], row);
        for (int i = 0; i < m->q_size; i++) q[i] *= scale;
        for (int h = 0; h < c->kv_heads; h++) {
            float *key = k + h * c->head_dim;
            turn(s, key, l->vectors[KEY_NORM], row);
            int position = m->work.position[row], span = position / SPAN;
            m->k->keep(key, v + h * c->head_dim, c->head_dim, kept(s, view, span, index, 0, h),
                       kept(s, view, span, index, 1, h), position % SPAN);
        }
    }
}

/* The queries of a tile of rows and one head of keys, gathered; the span still has to be set. */
static attention_span gather(const step *s, scratch *mine, int tile, int head) {
    const model *m = s->m;
    int group = m->heads_a_group, dim = m->config.head_dim, rows = m->work.tile_rows[tile];
    for (int r = 0; r < rows; r++) {
        int row = m->work.tile_first[tile] + r;
        memcpy(mine->queries + (size_t)r * group * dim,
               row_of(m->work.q, row, m->q_size) + (size_t)head * group * dim, (size_t)group * dim * 4);
        for (int g = 0; g < group; g++) mine->lengths[r * group + g] = m->work.position[row] + 1;
    }
    int most = QUERY_ROWS * group;
    return (attention_span){
        .queries = mine->queries,
        .lengths = mine->lengths,
        .count = rows * group,
        .head_dim = dim,
        .scores = mine->scores,
        .wide = mine->wide,
        .largest = mine->sums,
        .sum = mine->sums + most,
        .weighted = mine->weighted,
    };
}

static int last_length(const step *s, int tile) {
    return s->m->work.position[s->m->work.tile_first[tile] + s->m->work.tile_rows[tile] - 1] + 1;
}

static void compute_span(const step *s, attention_span *span, int index, int tile, int head, int number) {
    const kv_view *view = &s->views[s->m->work.sequence[s->m->work.tile_first[tile]]];
    int length = last_length(s, tile);
    span->keys = kept(s, view, number, index, 0, head);
    span->values = kept(s, view, number, index, 1, head);
    span->first = number * SPAN;
    span->last = span->first + SPAN < length ? span->first + SPAN : length;
    s->m->k->attend(span);
}

static float *attended_at(const step *s, int tile, int head, int query) {
    const model *m = s->m;
    int row = m->work.tile_first[tile] + query / m->heads_a_group;
    int at = head * m->heads_a_group + query % m->heads_a_group;
    return row_of(m->work.attended, row, m->q_size) + (size_t)at * m->config.head_dim;
}

/* All spans of a tile, merged as they come. */
static void attend_whole(const step *s, scratch *mine, int index, int tile, int head) {
    const model *m = s->m;
    int dim = m->config.head_dim, most = QUERY_ROWS * m->heads_a_group, length = last_length(s, tile);
    attention_span span = gather(s, mine, tile, head);
    float *largest = mine->sums + 2 * most, *sum = mine->sums + 3 * most;
    float *total = mine->weighted + (size_t)most * dim;
    for (int number = 0; number * SPAN < length; number++) {
        compute_span(s, &span, index, tile, head, number);
        for (int j = 0; j < span.count; j++) {
            float *here = row_of(total, j, dim);
            if (number == 0) {
                largest[j] = span.largest[j];
                sum[j] = span.sum[j];
                memcpy(here, row_of(span.weighted, j, dim), (size_t)dim * 4);
            } else if (span.lengths[j] > span.first) {
                m->k->merge(&largest[j], &sum[j], here, span.largest[j], span.sum[j],
                            row_of(span.weighted, j, dim), dim);
            }
        }
    }
    for (int j = 0; j < span.count; j++)
        m->k->divide(row_of(total, j, dim), sum[j], dim, attended_at(s, tile, head, j));
}

/* Where one span's results of one query lie: largest, sum, weighted. */
static float *partial(const step *s, int tile, int head, int query, int number) {
    const model *m = s->m;
    size_t row = (size_t)m->work.tile_first[tile] + (size_t)(query / m->heads_a_group);
    size_t at = row * (size_t)m->config.heads + (size_t)(head * m->heads_a_group + query % m->heads_a_group);
    return m->work.partials + (at * (size_t)s->spans + (size_t)number) * (size_t)(m->config.head_dim + GROUP);
}

static void attend_part(const step *s, scratch *mine, int index, int tile, int head, int number) {
    int dim = s->m->config.head_dim;
    if (number * SPAN >= last_length(s, tile)) return;
    attention_span span = gather(s, mine, tile, head);
    compute_span(s, &span, index, tile, head, number);
    for (int j = 0; j < span.count; j++) {
        float *to = partial(s, tile, head, j, number);
        to[0] = span.largest[j];
        to[1] = span.sum[j];
        memcpy(to + GROUP, row_of(span.weighted, j, dim), (size_t)dim * 4);
    }
}

static void merge_parts(const step *s, int tile, int head) {
    const model *m = s->m;
    int dim = m->config.head_dim;
    for (int j = 0; j < m->work.tile_rows[tile] * m->heads_a_group; j++) {
        int length = m->work.position[m->work.tile_first[tile] + j / m->heads_a_group] + 1;
        float *total = partial(s, tile, head, j, 0);
        for (int number = 1; number * SPAN < length; number++) {
            const float *later = partial(s, tile, head, j, number);
            m->k->merge(&total[0], &total[1], total + GROUP, later[0], later[1], later + GROUP, dim);
        }
        m->k->divide(total + GROUP, total[1], dim, attended_at(s, tile, head, j));
    }
}

static void attend_all(const step *s, pool_place *at, scratch *mine, int index) {
    model *m = s->m;
    int heads = m->config.kv_heads, tasks = s->tiles * heads;
    if (!s->shared_out) {
        EACH_TASK(task, at, tasks, 1) attend_whole(s, mine, index, task / heads, task % heads);
    } else {
        /* In the order in which keys and values lie. */
        EACH_TASK(task, at, tasks * s->spans, share(m, tasks * s->spans))
        attend_part(s, mine, index, task / heads % s->tiles, task % heads, task / tasks);
        EACH_TASK(task, at, tasks, 1) merge_parts(s, task / heads, task % heads);
    }
    EACH_TASK(row, at, s->rows, share(m, s->rows))
    m->k->quantize(row_of(m->work.attended, row, m->q_size), &m->work.heads, row);
}

/* silu(gate) * up, in int8, two groups at a time: a block of 32. */
static void feed_block(const step *s, scratch *mine, const layer *l, int block) {
    model *m = s->m;
    activations *out = &m->work.inner;
    for (int part = 0; part < 2; part++) {
        int group = 2 * block + part;
        float *gates = mine->tile, *ups = mine->tile + (size_t)MOST_TOKENS * GROUP;
        float *both = mine->tile + (size_t)2 * MOST_TOKENS * GROUP;
        m->k->multiply(l->matrices[GATE], group, &m->work.hidden, 0, s->rows, gates);
        m->k->multiply(l->matrices[UP], group, &m->work.hidden, 0, s->rows, ups);
        add_bias(gates, s->rows, l->vectors[GATE_BIAS], group * GROUP);
        add_bias(ups, s->rows, l->vectors[UP_BIAS], group * GROUP);
        m->k->gate(gates, ups, s->rows * GROUP);
        for (int row = 0; row < s->rows; row++)
            memcpy(both + row * BLOCK + part * GROUP, gates + row * GROUP, GROUP * sizeof *gates);
    }
    const float *both = mine->tile + (size_t)2 * MOST_TOKENS * GROUP;
    for (int row = 0; row < s->rows; row++) {
        /* One block of a row, as a row of one block that lies there. */
        size_t at = (size_t)row * out->blocks + block;
        activations one = {out->q + at * BLOCK, out->scale + at, out->sum + at, out->offset + at, 1};
        m->k->quantize(both + row * BLOCK, &one, 0);
    }
}

static void feed_forward(const step *s, pool_place *at, scratch *mine, const layer *l) {
    model *m = s->m;
    int blocks = m->config.inner / BLOCK;
    EACH_TASK(block, at, blocks, share(m, blocks)) feed_block(s, mine, l, block);
    project_onto(s, at, mine, l->matrices[DOWN], &m->work.inner, l->vectors[DOWN_BIAS]);
}

static void embed(const step *s, pool_place *at) {
    model *m = s->m;
    int half = m->config.head_dim / 2;
    EACH_TASK(row, at, s->rows, 1) {
        ondol_matrix_row(m->top.matrices[EMBEDDING], s->tokens[row], row_of(m->work.x, row, m->config.hidden));
        for (int i = 0; i < half; i++) {
            double angle = m->work.position[row] * m->frequencies[i];
            row_of(m->work.cosines, row, half)[i] = (float)cos(angle);
            row_of(m->work.sines, row, half)[i] = (float)sin(angle);
        }
    }
}

static void predict(const step *s, pool_place *at, scratch *mine) {
    model *m = s->m;
    int size = m->config.hidden;
    const matrix *head = m->top.matrices[HEAD];
    EACH_TASK(i, at, s->wanted_count, 1) {
        float *normed = row_of(m->work.normed, i, size);
        m->k->rms_norm(row_of(m->work.x, s->wanted[i], size), m->top.vectors[FINAL_NORM], size, m->config.epsilon,
                       normed);
        m->k->quantize(normed, &m->work.hidden, i);
    }
    EACH_TASK(group, at, head->groups, share(m, head->groups)) {
        int first = group * GROUP, lanes = head->rows - first < GROUP ? head->rows - first : GROUP;
        m->k->multiply(head, group, &m->work.hidden, 0, s->wanted_count, mine->tile);
        put(mine->tile, s->wanted_count, first, lanes, s->logits, head->rows, 0);
    }
}

static void forward(const void *argument, pool_place *at) {
    const step *s = argument;
    model *m = s->m;
    scratch *mine = &m->scratch[at->thread];
    embed(s, at);
    for (int index = 0; index < m->config.layers; index++) {
        const layer *l = &m->layers[index];
        normalize(s, at, l->vectors[ATTENTION_NORM]);
        project_heads(s, at, mine, l);
        place(s, at, l, index);
        attend_all(s, at, mine, index);
        project_onto(s, at, mine, l->matrices[OUTPUT], &m->work.heads, l->vectors[OUTPUT_BIAS]);
        normalize(s, at, l->vectors[FEED_FORWARD_NORM]);
        feed_forward(s, at, mine, l);
    }
    if (s->wanted_count) predict(s, at, mine);
}

/* Rows one by one, and tiles of rows of one sequence. */
static void lay_out(step *s) {
    workspace *work = &s->m->work;
    int row = 0, longest = 0;
    for (int i = 0; i < s->count; i++) {
        for (int r = 0; r < s->runs[i]; r++, row++) {
            work->sequence[row] = i;
            work->position[row] = (int32_t)s->views[i].length + r;
            if (r % QUERY_ROWS) {
                work->tile_rows[s->tiles - 1]++;
            } else {
                work->tile_first[s->tiles] = row;
                work->tile_rows[s->tiles++] = 1;
            }
        }
        if (work->position[row - 1] + 1 > longest) longest = work->position[row - 1] + 1;
    }
    s->spans = (longest + SPAN - 1) / SPAN;
}

enum { MOST_PARTIALS = 1 << 24 };
_Static_assert(sizeof(step) <= MOST_ARGUMENT, "every thread copies the step");

int ondol_step(model *m, const int32_t *tokens, const int32_t *runs, const kv_view *views, int count, int want,
               float *logits) {
    step s = {.m = m, .tokens = tokens, .runs = runs, .views = views, .count = count, .want = want, .logits = logits};
    int32_t wanted[MOST_TOKENS];
    for (int i = 0; i < count; i++) {
        if (runs[i] < 1 || runs[i] > MOST_TOKENS - s.rows) return BAD_RUN;
        for (int r = 0; r < runs[i]; r++)
            if (want == LOGITS_ALL || (want == LOGITS_LAST && r + 1 == runs[i])) wanted[s.wanted_count++] = s.rows + r;
        s.rows += runs[i];
    }
    for (int row = 0; row < s.rows; row++)
        if (tokens[row] < 0 || tokens[row] >= m->config.vocab) return BAD_TOKEN;
    s.wanted = wanted;
    if (workspace_grow(m, s.rows)) return OUT_OF_MEMORY;
    lay_out(&s);
    /* Few tasks for many threads: then the spans of a sequence are tasks of their own. The numbers are the same. */
    size_t partials = (size_t)s.rows * m->config.heads * s.spans * (m->config.head_dim + GROUP);
    s.shared_out = m->config.threads > 1 && s.spans > 1 && partials <= MOST_PARTIALS &&
                   s.tiles * m->config.kv_heads < 4 * m->config.threads;
    if (s.shared_out && workspace_partials(m, partials)) return OUT_OF_MEMORY;
    pool_run(m->threads, forward, &s, sizeof s);
    return 0;
}
