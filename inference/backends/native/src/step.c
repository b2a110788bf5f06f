/* One step of a decoder for rows of any sequences: every thread runs `forward`, and takes tasks of each phase. */
#include <math.h>
#include <stdlib.h>

#include "step.h"

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
    EACH_TASK(group, at, w->groups, share(m, w->groups))
    project_group(s, mine, w, group, x, bias, m->work.x, 1);
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
    step s = {.m = m, .tokens = tokens, .runs = runs, .views = views, .count = count, .logits = logits};
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
