/* Copies between a running sequence's keys and values and the prefix cache's blocks. */
#include "kernels.h"
#include "ondol.h"

/* The first token of a head's keys or values in the chunk that `token` lies in. */
static uint16_t *part(const kv_shape *shape, const kv_view *view, int64_t token, int index) {
    int parts = shape->layers * 2 * shape->kv_heads;
    size_t at = (size_t)(token / view->chunk) * (size_t)parts + (size_t)index;
    return view->data + at * (size_t)view->chunk * (size_t)shape->head_dim;
}

static void copy_key(uint16_t *to, int64_t to_token, const uint16_t *from, int64_t from_token, int head_dim) {
    to += to_token / TILE * TILE * head_dim + to_token % TILE;
    from += from_token / TILE * TILE * head_dim + from_token % TILE;
    for (int d = 0; d < head_dim; d++) to[(size_t)d * TILE] = from[(size_t)d * TILE];
}

/* Tokens that lie in one chunk on either side. */
static void copy_piece(const kv_shape *shape, const kv_view *from, int64_t from_token, const kv_view *to,
                       int64_t to_token, int64_t length) {
    int dim = shape->head_dim;
    int64_t first = from_token % from->chunk, target_first = to_token % to->chunk;
    /* Whole tiles move as they are; only what is cut across tiles moves token by token. */
    int64_t whole = first % TILE || target_first % TILE ? 0 : length / TILE * TILE;
    for (int index = 0; index < shape->layers * 2 * shape->kv_heads; index++) {
        const uint16_t *source = part(shape, from, from_token, index);
        uint16_t *target = part(shape, to, to_token, index);
        int64_t plain = index % 2 ? length : whole; /* values follow their head's keys */
        memcpy(target + target_first * dim, source + first * dim, (size_t)(plain * dim) * sizeof *source);
        for (int64_t t = plain; t < length; t++) copy_key(target, target_first + t, source, first + t, dim);
    }
}

void ondol_kv_copy(const kv_shape *shape, const kv_view *from, int64_t from_token, const kv_view *to,
                   int64_t to_token, int64_t length) {
    while (length > 0) {
        int64_t piece = length;
        if (piece > from->chunk - from_token % from->chunk) piece = from->chunk - from_token % from->chunk;
        if (piece > to->chunk - to_token % to->chunk) piece = to->chunk - to_token % to->chunk;
        copy_piece(shape, from, from_token, to, to_token, piece);
        from_token += piece;
        to_token += piece;
        length -= piece;
    }
}
