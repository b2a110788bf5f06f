/* Attention over a span of keys and values, on whatever lanes were included before. */
enum { PARTS = TILE / LANES, CHUNK = 4 };

static ALWAYS_INLINE vec load_kept(const void *from, size_t at, const int wide) {
    return wide ? vec_load((const float *)from + at) : vec_load_half((const uint16_t *)from + at);
}

/* Scores of `n` queries with the 16 keys of a tile. */
static ALWAYS_INLINE void score(const float *queries, int head_dim, const int n, const void *tile, const int wide,
                                float *scores) {
    vec sums[SCORE_QUERIES][PARTS];
#pragma GCC unroll 8
    for (int j = 0; j < n; j++)
#pragma GCC unroll 4
        for (int p = 0; p < PARTS; p++) sums[j][p] = vec_all(0);
    for (int d = 0; d < head_dim; d++) {
        if (!wide && d % 2 == 0) fetch_ahead((const uint16_t *)tile + (size_t)d * TILE, 64);
#pragma GCC unroll 4
        for (int p = 0; p < PARTS; p++) {
            vec key = load_kept(tile, (size_t)d * TILE + p * LANES, wide);
#pragma GCC unroll 8
            for (int j = 0; j < n; j++)
                sums[j][p] = vec_fma(vec_all(queries[(size_t)j * head_dim + d]), key, sums[j][p]);
        }
    }
#pragma GCC unroll 8
    for (int j = 0; j < n; j++)
#pragma GCC unroll 4
        for (int p = 0; p < PARTS; p++) vec_store(scores + (size_t)j * SPAN + p * LANES, sums[j][p]);
}

static ALWAYS_INLINE void score_all(const attention_span *s, const void *tile, const int wide, float *scores) {
    int j = 0;
    for (; j + SCORE_QUERIES <= s->count; j += SCORE_QUERIES)
        score(s->queries + (size_t)j * s->head_dim, s->head_dim, SCORE_QUERIES, tile, wide,
              scores + (size_t)j * SPAN);
    const float *queries = s->queries + (size_t)j * s->head_dim;
    float *to = scores + (size_t)j * SPAN;
    switch (s->count - j) {
#define LEFT(n) \
    case n: \
        if (n < SCORE_QUERIES) score(queries, s->head_dim, n < SCORE_QUERIES ? n : 1, tile, wide, to); \
        break;
        LEFT(1) LEFT(2) LEFT(3) LEFT(4) LEFT(5) LEFT(6) LEFT(7)
#undef LEFT
    }
}

/* Adds the values of the span's tokens, weighted, to `width` lanes of the results of `n` queries. */
static ALWAYS_INLINE void weigh(const float *weights, const int n, const void *values, const int wide, int tokens,
                                int head_dim, const int width, float *out) {
    vec sums[SUM_QUERIES][CHUNK];
#pragma GCC unroll 4
    for (int j = 0; j < n; j++)
#pragma GCC unroll 4
        for (int p = 0; p < width; p++) sums[j][p] = vec_all(0);
    for (int t = 0; t < tokens; t++) {
        vec value[CHUNK];
        if (!wide) fetch_ahead((const uint16_t *)values + (size_t)t * head_dim, 2 * width * LANES);
#pragma GCC unroll 4
        for (int p = 0; p < width; p++) value[p] = load_kept(values, (size_t)t * head_dim + p * LANES, wide);
#pragma GCC unroll 4
        for (int j = 0; j < n; j++) {
            vec weight = vec_all(weights[(size_t)j * SPAN + t]);
#pragma GCC unroll 4
            for (int p = 0; p < width; p++) sums[j][p] = vec_fma(weight, value[p], sums[j][p]);
        }
    }
#pragma GCC unroll 4
    for (int j = 0; j < n; j++)
#pragma GCC unroll 4
        for (int p = 0; p < width; p++) vec_store(out + (size_t)j * head_dim + p * LANES, sums[j][p]);
}

static ALWAYS_INLINE void weigh_all(const attention_span *s, const void *values, const int wide, int tokens,
                                    int from, const int width) {
    const void *column = wide ? (const void *)((const float *)values + from) : (const uint16_t *)values + from;
    int j = 0;
    for (; j + SUM_QUERIES <= s->count; j += SUM_QUERIES)
        weigh(s->scores + (size_t)j * SPAN, SUM_QUERIES, column, wide, tokens, s->head_dim, width,
              s->weighted + (size_t)j * s->head_dim + from);
    const float *weights = s->scores + (size_t)j * SPAN;
    float *out = s->weighted + (size_t)j * s->head_dim + from;
    switch (s->count - j) {
#define LEFT(n) \
    case n: \
        if (n < SUM_QUERIES) \
            weigh(weights, n < SUM_QUERIES ? n : 1, column, wide, tokens, s->head_dim, width, out); \
        break;
        LEFT(1) LEFT(2) LEFT(3)
#undef LEFT
    }
}

/* Scores to exponentials of their distance from the largest; tokens that a query does not see weigh 0 exactly,
 * so that it makes no difference how many of them are computed for its neighbours. */
static void soften(const attention_span *s, int tokens) {
    int padded = (tokens + TILE - 1) / TILE * TILE;
    for (int j = 0; j < s->count; j++) {
        float *scores = s->scores + (size_t)j * SPAN;
        int seen = s->lengths[j] - s->first;
        seen = seen < 0 ? 0 : seen > tokens ? tokens : seen;
        for (int t = seen; t < padded; t++) scores[t] = -INFINITY;
        vec largest = vec_all(-INFINITY), sum = vec_all(0);
        for (int t = 0; t < padded; t += LANES) largest = vec_max(vec_load(scores + t), largest);
        s->largest[j] = vec_largest(largest);
        vec most = vec_all(s->largest[j]);
        for (int t = 0; t < seen; t += LANES) vec_store(scores + t, vec_exp(vec_load(scores + t) - most));
        for (int t = seen; t < padded; t++) scores[t] = 0;
        for (int t = 0; t < padded; t += LANES) sum = sum + vec_load(scores + t);
        s->sum[j] = vec_sum(sum);
    }
}

static void widen(const uint16_t *halves, size_t count, float *out) {
    for (size_t i = 0; i < count; i += LANES) vec_store(out + i, vec_load_half(halves + i));
}

static void attend(const attention_span *s) {
    int tokens = s->last - s->first, tiles = (tokens + TILE - 1) / TILE;
    /* Many queries share one conversion to float32. */
    int wide = s->count > SCORE_QUERIES;
    size_t tile_size = (size_t)TILE * s->head_dim;
    const uint16_t *keys = s->keys, *values = s->values;
    for (int t = 0; t < tiles; t++) {
        if (wide) {
            widen(keys + t * tile_size, tile_size, s->wide);
            score_all(s, s->wide, 1, s->scores + t * TILE);
        } else {
            score_all(s, keys + t * tile_size, 0, s->scores + t * TILE);
        }
    }
    soften(s, tokens);
    if (wide) widen(values, (size_t)tokens * s->head_dim, s->wide);
    int from = 0;
    for (; from + CHUNK * LANES <= s->head_dim; from += CHUNK * LANES) {
        if (wide)
            weigh_all(s, s->wide, 1, tokens, from, CHUNK);
        else
            weigh_all(s, values, 0, tokens, from, CHUNK);
    }
    for (; from < s->head_dim; from += LANES) {
        if (wide)
            weigh_all(s, s->wide, 1, tokens, from, 1);
        else
            weigh_all(s, values, 0, tokens, from, 1);
    }
}

static void merge(float *largest, float *sum, float *weighted, float later_largest, float later_sum,
                  const float *later, int head_dim) {
    float most = *largest > later_largest ? *largest : later_largest;
    vec keep_old = vec_exp(vec_all(*largest - most)), keep_new = vec_exp(vec_all(later_largest - most));
    float one[LANES], other[LANES];
    vec_store(one, keep_old);
    vec_store(other, keep_new);
    *largest = most;
    *sum = *sum * one[0] + later_sum * other[0];
    for (int i = 0; i < head_dim; i += LANES)
        vec_store(weighted + i, vec_fma(vec_load(later + i), keep_new, vec_load(weighted + i) * keep_old));
}
