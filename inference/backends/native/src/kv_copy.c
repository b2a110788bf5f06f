/* Copies between a running sequence's keys and values and the prefix cache's blocks. */
#include "kernels.h"
#include "ondol.h"

static uint16_t *part(const kv_shape *shape, const kv_view *view, int index) {
    return view->data + (size_t)index * view->capacity * shape->head_dim;
}

static void copy_key(uint16_t *to, int64_t to_token, const uint16_t *from, int64_t from_token, int head_dim) {
    to += to_token / TILE * TILE * head_dim + to_token % TILE;
    from += from_token / TILE * TILE * head_dim + from_token % TILE;
    for (int d = 0; d < head_dim; d++) to[(size_t)d * TILE] = from[(size_t)d * TILE];
}

void ondol_kv_copy(const kv_shape *shape, const kv_view *from, int64_t from_token, const kv_view *to,
                   int64_t to_token, int64_t length) {
    int dim = shape->head_dim;
    /* Whole tiles move as they are; only what is cut across tiles moves token by token. */
    int64_t whole = from_token % TILE || to_token % TILE ? 0 : length / TILE * TILE;
    for (int index = 0; index < shape->layers * 2 * shape->kv_heads; index++) {
        const uint16_t *source = part(shape, from, index);
        uint16_t *target = part(shape, to, index);
        int values = index / shape->kv_heads % 2;
        int64_t plain = values ? length : whole;
        memcpy(target + to_token * dim, source + from_token * dim, (size_t)plain * dim * sizeof *source);
        for (int64_t t = plain; t < length; t++) copy_key(target, to_token + t, source, from_token + t, dim);
    }
}
