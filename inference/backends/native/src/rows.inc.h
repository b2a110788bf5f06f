/* Arithmetic on single rows, on whatever lanes were included before. */
#define ALWAYS_INLINE inline __attribute__((always_inline))

/* Weights and kept values are read once a step, as fast as memory gives them: asked for this many bytes ahead, they
 * come up to twice as fast as the CPU's own guesses bring them (measured on one core). */
enum { AHEAD = 2048 };

static ALWAYS_INLINE void fetch_ahead(const void *at, size_t bytes) {
    for (size_t i = 0; i < bytes; i += 64) __builtin_prefetch((const char *)at + AHEAD + i, 0, 3);
}

/* e^x within 2 units in the last place for -87 <= x <= 88; x is brought into that range first. Cody and Waite's
 * reduction by multiples of ln 2, then the Taylor series, whose rest is below 2^-24 for |r| <= ln 2 / 2. */
static ALWAYS_INLINE vec vec_exp(vec x) {
    x = vec_max(vec_all(-87.0f), x); /* in this order, what is not a number stays so */
    x = -vec_max(vec_all(-88.0f), -x);
    ivec n = vec_round(x * vec_all(1.44269504f));
    vec whole = vec_from_int(n);
    vec r = vec_fma(whole, vec_all(-0.693359375f), x);
    r = vec_fma(whole, vec_all(2.12194440e-4f), r);
    vec sum = vec_all(1.0f / 5040);
    sum = vec_fma(sum, r, vec_all(1.0f / 720));
    sum = vec_fma(sum, r, vec_all(1.0f / 120));
    sum = vec_fma(sum, r, vec_all(1.0f / 24));
    sum = vec_fma(sum, r, vec_all(1.0f / 6));
    sum = vec_fma(sum, r, vec_all(0.5f));
    sum = vec_fma(sum, r, vec_all(1.0f));
    sum = vec_fma(sum, r, vec_all(1.0f));
    return vec_scale2(sum, n);
}

static void quantize(const float *x, const activations *out, int row) {
    int8_t *q = out->q + (size_t)row * out->blocks * BLOCK;
    for (int b = 0; b < out->blocks; b++, x += BLOCK, q += BLOCK) {
        vec largest = vec_all(0), total = vec_all(0);
        for (int i = 0; i < BLOCK; i += LANES) {
            vec v = vec_load(x + i);
            largest = vec_max(vec_max(v, -v), largest);
            total = total + v;
        }
        float most = vec_largest(largest), inverse = most > 0 ? 127.0f / most : 0;
        float check = vec_sum(total) * 0.0f; /* not a number when any of them is none; maxima can lose it */
        ivec sum = vec_round(vec_all(0));
        for (int i = 0; i < BLOCK; i += LANES) {
            ivec rounded = vec_round(vec_load(x + i) * vec_all(inverse));
            vec_store_int8(q + i, rounded);
            sum = (ivec)add_ints(sum, rounded);
        }
        size_t at = (size_t)row * out->blocks + b;
        int32_t whole = check == 0 ? vec_sum_int(sum) : 0;
        out->scale[at] = most / 127.0f + check;
        out->sum[at] = out->scale[at] * (float)whole;
        out->offset[at] = -8 * whole;
    }
}

static void rms_norm(const float *x, const float *weight, int count, float epsilon, float *out) {
    vec squares = vec_all(0);
    for (int i = 0; i < count; i += LANES) {
        vec v = vec_load(x + i);
        squares = vec_fma(v, v, squares);
    }
    vec scale = vec_all(1.0f / sqrtf(vec_sum(squares) / (float)count + epsilon));
    for (int i = 0; i < count; i += LANES) vec_store(out + i, vec_load(x + i) * scale * vec_load(weight + i));
}

/* Rotary embedding of Su et al. (2021) on the halves of a head, as transformers arranges it. */
static void rotate(float *head, const float *cosines, const float *sines, int half) {
    for (int i = 0; i < half; i += LANES < 8 ? LANES : 8) {
        for (int j = i; j < i + (LANES < 8 ? LANES : 8); j++) {
            float a = head[j], b = head[j + half];
            head[j] = a * cosines[j] - b * sines[j];
            head[j + half] = b * cosines[j] + a * sines[j];
        }
    }
}

static void gate(float *gates, const float *up, int count) {
    for (int i = 0; i < count; i += LANES) {
        vec g = vec_load(gates + i);
        vec_store(gates + i, g / (vec_all(1) + vec_exp(-g)) * vec_load(up + i));
    }
}

static void divide(const float *weighted, float sum, int count, float *out) {
    vec inverse = vec_all(1.0f / sum);
    for (int i = 0; i < count; i += LANES) vec_store(out + i, vec_load(weighted + i) * inverse);
}

static void keep(const float *key, const float *value, int head_dim, uint16_t *keys, uint16_t *values, int at) {
    uint16_t halves[LANES];
    uint16_t *tile = keys + (size_t)(at / TILE) * TILE * head_dim + at % TILE;
    for (int i = 0; i < head_dim; i += LANES) {
        vec_store_half(values + (size_t)at * head_dim + i, vec_load(value + i));
        vec_store_half(halves, vec_load(key + i));
        for (int j = 0; j < LANES; j++) tile[(size_t)(i + j) * TILE] = halves[j];
    }
}
