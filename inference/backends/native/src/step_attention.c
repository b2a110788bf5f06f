/* The attention of a step: spans of a sequence's keys are tasks, and their results are merged in order. */
#include <math.h>

#include "step.h"

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
void place(const step *s, pool_place *at, const layer *l, int index) {
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

void attend_all(const step *s, pool_place *at, scratch *mine, int index) {
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
