/* Trials of attention and of the kernels that work on rows: forward, backward, optimiser. */
#include <math.h>
#include <string.h>

#include "backend/cpu/selftest/selftest_internal.h"

enum { HEAD = 64, QUERIES = 2 };

/* A page of one head, as the definition stores it. */
static void fill_page(tern_dtype type, const float *x, uint8_t *page)
{
    const tern_kv_store_fn store = tern_ref_kv_store(type);
    for (uint32_t i = 0; i < TERN_PAGE_SIZE; i++) store(x + i, HEAD, page + i * tern_cache_bytes(type, HEAD));
}

static void attend(const tern_selftest__trial *t, tern_attention_fn fn, tern_cache_types types, float *out)
{
    static uint8_t cache[2][TERN_PAGE_SIZE * HEAD * sizeof(float)];
    float *m = out, *l = m + QUERIES, *acc = l + QUERIES;
    uint32_t page = 0, lo[QUERIES] = {0, 3}, hi[QUERIES] = {20, 32};
    fill_page(types.k, t->x[0], cache[0]);
    fill_page(types.v, t->x[1], cache[1]);
    m[0] = m[1] = -INFINITY;
    tern_attention_args args = {.q = t->x[2],
                                .q_stride = HEAD,
                                .n_queries = QUERIES,
                                .head_dim = HEAD,
                                .types = types,
                                .k = cache[0],
                                .v = cache[1],
                                .k_page_bytes = sizeof cache[0],
                                .v_page_bytes = sizeof cache[1],
                                .pages = &page,
                                .lo = lo,
                                .hi = hi,
                                .n = TERN_PAGE_SIZE,
                                .scale = 0.25f,
                                .m = m,
                                .l = l,
                                .acc = acc};
    fn(&args);
}

void tern_selftest__attention(tern_selftest__trial *t, const tern_cpu_kernels *k, float *out)
{
    tern_cache_types types = {.k = TERN_DTYPE_F16};
    for (size_t i = 0; tern_cache_type_at(i); i++, types.k = types.v, out += QUERIES * (HEAD + 2)) {
        types.v = tern_cache_type_at(i)->dtype;
        attend(t, k->attention, types, out);
    }
}

void tern_selftest__quantize(tern_selftest__trial *t, tern_quantize_fn fn, uint8_t *out)
{
    fn(t->x[0], COLS - 3, (int8_t *)out, COLS, (float *)(void *)(out + COLS), (int32_t *)(void *)(out + COLS + 4));
}

void tern_selftest__quantize_blocks(tern_selftest__trial *t, tern_quantize_blocks_fn fn, uint8_t *out)
{
    float *scales = (float *)(void *)(out + COLS);
    fn(t->x[0], COLS, 32, (int8_t *)out, scales, (int32_t *)(void *)(scales + COLS / 32));
}

void tern_selftest__rope(tern_selftest__trial *t, tern_rope_fn fn, void *out)
{
    memcpy(out, t->x[0], sizeof t->x[0]);
    fn(out, COLS / 64, 64, t->x[1]);
}

void tern_selftest__conv(tern_selftest__trial *t, tern_conv_fn fn, void *out)
{
    const float *const taps[] = {t->x[0], t->x[1], t->x[2] + 3, t->x[0] + 5};
    const tern_conv_args args = {.taps = taps, .weight = t->x[1], .n_taps = 4, .n = 83, .y = out};
    fn(&args);
}

void tern_selftest__delta(tern_selftest__trial *t, tern_delta_fn fn, float *out)
{
    enum { KEYS = 4, VALUES = 88 };
    const tern_delta_args args = {.state = t->x[0],
                                  .next = out,
                                  .q = t->x[1],
                                  .k = t->x[1] + KEYS,
                                  .v = t->x[2],
                                  .decay = 0.9f,
                                  .beta = 0.4f,
                                  .keys = KEYS,
                                  .values = VALUES,
                                  .y = out + KEYS * VALUES};
    fn(&args);
}

void tern_selftest__conv_backward(tern_selftest__trial *t, tern_conv_backward_fn fn, float *out)
{
    enum { N = 83, TAPS = 3 };
    const float *const taps[TAPS] = {t->x[0], t->x[1], t->x[2] + 3};
    float *const dtaps[TAPS] = {NULL, out, out + N};
    const tern_conv_backward_args args = {
        .taps = taps, .weight = t->x[1], .n_taps = TAPS, .n = N, .dy = t->x[2], .dtaps = dtaps, .dweight = out + 2 * N};
    fn(&args);
}

void tern_selftest__delta_backward(tern_selftest__trial *t, tern_delta_backward_fn fn, float *out)
{
    enum { KEYS = 3, VALUES = 80 };
    float *dq = out + KEYS * VALUES, *dk = dq + KEYS;
    memcpy(out, t->x[0], KEYS * VALUES * sizeof *out);
    const tern_delta_backward_args args = {.state = t->x[1],
                                           .q = t->x[2],
                                           .k = t->x[2] + KEYS,
                                           .v = t->x[0],
                                           .dy = t->x[1] + 7,
                                           .decay = 0.9f,
                                           .beta = 0.4f,
                                           .keys = KEYS,
                                           .values = VALUES,
                                           .dstate = out,
                                           .dq = dq,
                                           .dk = dk,
                                           .dv = dk + KEYS,
                                           .dlog = dk + KEYS + VALUES,
                                           .dbeta = dk + KEYS + VALUES + 1};
    fn(&args);
}

void tern_selftest__product(tern_selftest__trial *t, tern_product_fn fn, void *out)
{
    const tern_product_args args = {.a = t->x[0],
                                    .a_row = 21,
                                    .a_step = 1,
                                    .b = t->x[1],
                                    .b_step = 19,
                                    .c = out,
                                    .c_row = 77,
                                    .m = 7,
                                    .n = 77,
                                    .steps = 20};
    fn(&args);
}

void tern_selftest__softmax(tern_selftest__trial *t, const tern_cpu_kernels *k, float *out)
{
    tern_softmax_row row = {.scale = 0.5f, .delta = 0.25f};
    memcpy(out, t->x, sizeof t->x);
    k->softmax(out, 0, COLS, &row);
    out[3 * COLS] = row.m;
    out[3 * COLS + 1] = row.l;
    k->softmax_backward(out + COLS, out + 2 * COLS, 0, COLS, &row);
}

void tern_selftest__cross_entropy(tern_selftest__trial *t, tern_cross_entropy_fn fn, float *out)
{
    memcpy(out, t->x[0], sizeof t->x[0]);
    out[COLS] = fn(out, COLS - 3, 5, 0.5f);
}

void tern_selftest__norm_backward(tern_selftest__trial *t, const tern_cpu_kernels *k, float *out)
{
    const tern_norm_weight_args args = {
        .x = t->x[0], .dy = t->x[1], .r = t->x[2], .x_stride = COLS, .dy_stride = COLS, .n = 2, .cols = COLS - 3};
    out[0] = k->rms_norm_backward(t->x[0], t->x[1], 1e-5f, COLS - 3, t->x[2], out + 1, NULL);
    k->norm_weight_backward(&args, out + COLS);
}

/* Few bits everywhere; any two bytes are a bf16. */
void tern_selftest__update(tern_selftest__trial *t, tern_update_fn fn, uint8_t *out)
{
    const tern_train_params p = {.clip = 0.5f,
                                 .keep = 0.99f,
                                 .blend1 = 0.1f,
                                 .beta2 = 0.99f,
                                 .blend2 = 0.01f,
                                 .root = 0.2f,
                                 .eps = 1e-8f,
                                 .pace = 0.01f};
    float *g = (float *)(void *)out, *scales = g + COLS;
    uint8_t *w = (uint8_t *)(scales + 4), *m = w + COLS * 2, *v = m + COLS;
    memcpy(g, t->x[0], sizeof t->x[0]);
    memcpy(scales, t->x[1], 4 * sizeof *scales);
    memcpy(w, t->q, COLS * 2);
    memcpy(m, t->q[1], COLS);
    memcpy(v, t->q[2], COLS);
    fn(&(tern_update_args){.params = &p,
                           .optimizer = TERN_OPTIMIZER_ADAMW,
                           .decays = true,
                           .seed = 7,
                           .n = COLS - 3,
                           .w_dtype = TERN_DTYPE_BF16,
                           .m_dtype = TERN_DTYPE_M8,
                           .v_dtype = TERN_DTYPE_V8,
                           .w = w,
                           .m = m,
                           .v = v,
                           .g = g,
                           .m_scales = scales,
                           .v_scales = scales + 2});
}

void tern_selftest__exponent(tern_selftest__trial *t, tern_requantize_exponent_fn fn, uint32_t *out)
{
    memcpy(out + 1, t->x[0], sizeof t->x[0]);
    out[0] = fn(TERN_DTYPE_F32, out + 1, COLS - 3, 0.75f);
}
