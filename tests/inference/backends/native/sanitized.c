/* Runs every kernel on odd shapes, and whole steps on one thread and many, for the sanitizers to watch. Prints a sum
 * over the logits, and ends with 0 when it was the same for every number of threads. With an argument only the kernels
 * of that name, with one format. */
#include <stdio.h>
#include <stdlib.h>

#include "kernels.h"
#include "ondol.h"

static uint32_t state = 1;

static uint32_t draw(void) { return state = state * 1664525u + 1013904223u, state >> 8; }

static float real(void) { return (float)(draw() % 2001) / 1000 - 1; }

/* Random blocks with small scales, at an odd address of just their size. */
static matrix *random_matrix(int format, int rows, int cols, arena *room) {
    size_t block = formats[format].source_bytes, bytes = (size_t)rows * (cols / BLOCK) * block;
    uint8_t *whole = malloc(bytes + 1), *source = whole + 1;
    for (size_t i = 0; i < bytes; i++) source[i] = (uint8_t)draw();
    for (size_t b = 0; b < bytes / block; b++)
        for (int h = 0; h < formats[format].halves; h++) {
            uint16_t half = float_to_half(real() / 64);
            memcpy(source + b * block + 2 * h, &half, 2);
        }
    int32_t *order = malloc((size_t)rows * sizeof *order);
    for (int i = 0; i < rows; i++) order[i] = rows - 1 - i;
    matrix *w = ondol_matrix_pack(format, rows, cols, source, order, room);
    free(whole);
    free(order);
    return w;
}

static void vector(model *m, int layer, int slot, int count) {
    float *values = malloc((size_t)count * sizeof *values);
    for (int i = 0; i < count; i++) values[i] = real();
    if (ondol_model_set_vector(m, layer, slot, values, count)) exit(2);
    free(values);
}

static void put(model *m, int layer, int slot, matrix *w) {
    if (!w || ondol_model_set_matrix(m, layer, slot, w)) exit(2);
}

static model *random_model(const char *name, int format, int threads) {
    double frequencies[8];
    for (int i = 0; i < 8; i++) frequencies[i] = 1.0 / (1 + i);
    model_config c = {2, 96, 160, 6, 2, 16, 77, 1e-5f, frequencies, name, threads, 50000};
    model *m = ondol_model_create(&c);
    if (!m) return NULL;
    int q = c.heads * c.head_dim, kv = c.kv_heads * c.head_dim;
    state = 7;
    matrix *embedding = random_matrix(format, c.vocab, c.hidden, ondol_model_room(m));
    put(m, -1, EMBEDDING, embedding);
    put(m, -1, HEAD, embedding);
    vector(m, -1, FINAL_NORM, c.hidden);
    for (int l = 0; l < c.layers; l++) {
        put(m, l, QUERY, random_matrix(format, q, c.hidden, ondol_model_room(m)));
        put(m, l, KEY, random_matrix(format, kv, c.hidden, ondol_model_room(m)));
        put(m, l, VALUE, random_matrix(format, kv, c.hidden, ondol_model_room(m)));
        put(m, l, OUTPUT, random_matrix(format, c.hidden, q, ondol_model_room(m)));
        put(m, l, GATE, random_matrix(format, c.inner, c.hidden, ondol_model_room(m)));
        put(m, l, UP, random_matrix(format, c.inner, c.hidden, ondol_model_room(m)));
        put(m, l, DOWN, random_matrix(format, c.hidden, c.inner, ondol_model_room(m)));
        int counts[VECTOR_SLOTS] = {[ATTENTION_NORM] = c.hidden, [FEED_FORWARD_NORM] = c.hidden,
                                    [QUERY_NORM] = c.head_dim,   [KEY_NORM] = c.head_dim,
                                    [QUERY_BIAS] = q,            [KEY_BIAS] = kv,
                                    [VALUE_BIAS] = kv,           [OUTPUT_BIAS] = c.hidden,
                                    [GATE_BIAS] = c.inner,       [UP_BIAS] = c.inner,
                                    [DOWN_BIAS] = c.hidden};
        for (int slot = 0; slot < VECTOR_SLOTS; slot++)
            if (counts[slot]) vector(m, l, slot, counts[slot]);
    }
    return m;
}

/* Prompts of odd lengths, decode beside each other, copies into and out of blocks. */
static double converse(model *m) {
    enum { CHUNKS = 3, HALVES = 2 * 2 * 2 * 16 };
    kv_view views[2];
    int32_t tokens[MOST_TOKENS], runs[2];
    float *logits = malloc((size_t)MOST_TOKENS * 77 * sizeof *logits);
    double sum = 0;
    for (int i = 0; i < 2; i++)
        views[i] = (kv_view){calloc((size_t)CHUNKS * SPAN * HALVES, sizeof(uint16_t)), SPAN, 0};
    for (int i = 0; i < MOST_TOKENS; i++) tokens[i] = i * 31 % 77;
    int lengths[] = {1, 17, 140, 3}, first[] = {5, 129};
    for (int i = 0; i < 4; i++) {
        runs[0] = lengths[i];
        if (ondol_step(m, tokens, runs, views, 1, LOGITS_LAST, logits)) exit(2);
        views[0].length += runs[0];
        for (int j = 0; j < 77; j++) sum += logits[j];
    }
    for (int i = 0; i < 2; i++) {
        runs[0] = first[i];
        if (ondol_step(m, tokens, runs, views + 1, 1, LOGITS_NONE, NULL)) exit(2);
        views[1].length += runs[0];
    }
    runs[0] = 1, runs[1] = 3;
    if (ondol_step(m, tokens, runs, views, 2, LOGITS_ALL, logits)) exit(2);
    views[0].length += 1, views[1].length += 3;
    for (int j = 0; j < 4 * 77; j++) sum += logits[j];
    kv_shape shape = {2, 2, 16};
    kv_view block = {malloc(48 * HALVES * sizeof(uint16_t)), 48, 0};
    memset(block.data, 0, 48 * HALVES * sizeof(uint16_t));
    ondol_kv_copy(&shape, &views[0], 100, &block, 0, 45);
    ondol_kv_copy(&shape, &block, 3, &views[1], views[1].length, 41);
    views[1].length += 41;
    runs[0] = 1;
    if (ondol_step(m, tokens, runs, views + 1, 1, LOGITS_ALL, logits)) exit(2);
    for (int j = 0; j < 77; j++) sum += logits[j];
    tokens[0] = 77;
    if (ondol_step(m, tokens, runs, views + 1, 1, LOGITS_ALL, logits) != BAD_TOKEN) exit(2);
    for (int i = 0; i < 2; i++) free(views[i].data);
    free(block.data);
    free(logits);
    return sum;
}

int main(int count, char **arguments) {
    const char *names[] = {"plain C", "AVX2", "AVX-VNNI", "AVX-512 VNNI"};
    for (int k = 0; k < 4; k++) {
        if (!ondol_kernels_name(names[k]) || (count > 1 && strcmp(arguments[1], names[k]))) continue;
        for (int format = 0; format < (count > 1 ? 1 : FORMATS); format++) {
            double first = 0;
            for (int threads = 1; threads <= 3; threads += 2) {
                model *m = random_model(names[k], format, threads);
                if (!m) return 2;
                double sum = converse(m);
                if (threads == 1) first = sum;
                if (sum != first || sum != sum) return 3;
                ondol_model_free(m);
            }
            printf("%s, format %d: %.6f\n", names[k], format, first);
        }
    }
    return 0;
}
