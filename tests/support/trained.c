/* Copies of a model's weights that learn. */
#include "support/trained.h"

#include "base/rng.h"
#include "quant/encoding.h"
#include "quant/weight.h"
#include "support/test.h"

static void *room(test_trained *t, size_t n, size_t bytes)
{
    void *p = tern_arena_alloc(&t->arena, n, bytes + 64);
    assert_non_null(p);
    return (uint8_t *)p + (64 - (uintptr_t)p % 64) % 64;
}

static void copy_dense(test_trained *t, const tern_weight *from, tern_weight *to)
{
    tern_error err = {0};
    size_t n = (size_t)from->rows * from->cols;
    float *data = room(t, n + 16, sizeof(float));
    if (from->encoding->ternary) {
        int8_t *codes = room(t, n, 1);
        assert_ok(tern_decode_codes(from->encoding, from->data, from->rows, from->cols, 0, from->rows, codes, NULL,
                                    NULL, NULL, &err),
                  err);
        for (size_t i = 0; i < n; i++)
            data[i] = (float)codes[i] * (from->row_scales ? from->row_scales[i / from->cols] : from->scale);
    } else {
        assert_ok(tern_decode_rows(from->encoding, from->data, from->rows, from->cols, 0, from->rows, data, &err), err);
    }
    to->encoding = tern_encoding_by_name("f32");
    to->data = (const uint8_t *)data;
    to->bytes = n * sizeof(float);
    to->scale = 1;
    to->row_scales = NULL;
}

static void copy_ternary(test_trained *t, const tern_weight *from, tern_weight *to)
{
    tern_error err = {0};
    size_t n = (size_t)from->rows * from->cols;
    int8_t *codes = room(t, n, 1);
    assert_ok(tern_decode_codes(from->encoding, from->data, from->rows, from->cols, 0, from->rows, codes, NULL, NULL,
                                NULL, &err),
              err);
    to->encoding = tern_encoding_by_name("i2_s");
    assert_ok(tern_encoding_bytes(to->encoding, from->rows, from->cols, &to->bytes, &err), err);
    uint8_t *data = room(t, to->bytes, 1);
    assert_ok(tern_encode_codes(to->encoding, codes, from->scale, from->rows, from->cols, data, &err), err);
    float *scales = room(t, from->rows, sizeof(float));
    for (uint32_t r = 0; r < from->rows; r++) scales[r] = from->row_scales ? from->row_scales[r] : from->scale;
    to->data = data;
    to->row_scales = scales;
}

void test_trained_open(test_trained *t, const char *path, bool dense)
{
    tern_error err = {0};
    *t = (test_trained){0};
    assert_ok(tern_model_open(&t->model, path, &(tern_model_options){.no_tokenizer = true}, &err), err);
    t->config = tern_model_config(t->model);
    size_t n = (size_t)t->config->n_layers * TERN_ROLE_COUNT;
    t->copies = room(t, n, sizeof *t->copies);
    t->places = room(t, n, sizeof *t->places);
    for (size_t i = 0; i < n; i++) {
        tern_role role = (tern_role)(i % TERN_ROLE_COUNT);
        uint32_t layer = (uint32_t)(i / TERN_ROLE_COUNT);
        bool outside = role == TERN_ROLE_TOKEN_EMBD || role == TERN_ROLE_OUTPUT_NORM || role == TERN_ROLE_OUTPUT;
        const tern_weight *own = tern_model_weight(t->model, role, layer);
        bool tied = role == TERN_ROLE_OUTPUT && t->config->tied_head;
        if ((outside && layer) || tied || !own || !own->encoding) continue;
        t->copies[i] = *own;
        t->copies[i].mapped = t->copies[i].trained = false;
        if (own->encoding->ternary && !dense) copy_ternary(t, own, &t->copies[i]);
        else copy_dense(t, own, &t->copies[i]);
        test_trained_learn(t, role, layer, true);
        t->places[i].weight = &t->copies[i];
    }
}

void test_trained_close(test_trained *t)
{
    tern_model_close(t->model);
    tern_arena_deinit(&t->arena);
    *t = (test_trained){0};
}

tern_weight *test_trained_weight(const test_trained *t, tern_role role, uint32_t layer)
{
    tern_weight *w = &t->copies[(size_t)layer * TERN_ROLE_COUNT + role];
    return w->encoding ? w : NULL;
}

void test_trained_learn(test_trained *t, tern_role role, uint32_t layer, bool learns)
{
    tern_weight *w = &t->copies[(size_t)layer * TERN_ROLE_COUNT + role];
    float *values = (float *)(uintptr_t)w->data;
    if (role == TERN_ROLE_SSM_DECAY && w->trained != learns)
        for (uint32_t i = 0; i < w->cols; i++)
            values[i] = learns ? tern_role_to_trained(role, values[i]) : tern_role_from_trained(role, values[i]);
    w->trained = learns;
}

void test_trained_freeze(test_trained *t)
{
    for (uint32_t i = 0; i < t->config->n_layers * TERN_ROLE_COUNT; i++)
        test_trained_learn(t, (tern_role)(i % TERN_ROLE_COUNT), i / TERN_ROLE_COUNT, false);
}

static tern_weight *small(test_trained *t, const char *name, uint32_t rows, uint32_t cols, uint64_t seed)
{
    size_t n = (size_t)rows * cols;
    tern_weight *w = room(t, 1, sizeof *w);
    float *data = room(t, n + 16, sizeof(float));
    tern_rng rng = {seed};
    for (size_t i = 0; i < n; i++) data[i] = (tern_rng_f32(&rng) - 0.5f) * 0.2f;
    *w = (tern_weight){.encoding = tern_encoding_by_name("f32"),
                       .rows = rows,
                       .cols = cols,
                       .data = (const uint8_t *)data,
                       .bytes = n * sizeof(float),
                       .scale = 1,
                       .trained = true};
    snprintf(w->name, sizeof w->name, "%s", name);
    return w;
}

tern_graph_lora *test_trained_adapt(test_trained *t, tern_role role, uint32_t layer, uint32_t rank, float dropout)
{
    size_t at = (size_t)layer * TERN_ROLE_COUNT + role;
    tern_graph_weight *place = &t->places[at];
    const tern_weight *w = tern_model_weight(t->model, role, layer);
    tern_graph_lora *loras = room(t, place->n_loras + 1, sizeof *loras);
    if (place->n_loras) memcpy(loras, place->loras, place->n_loras * sizeof *loras);
    char name[72];
    tern_graph_lora *lora = &loras[place->n_loras];
    snprintf(name, sizeof name, "%.40s.lora%u_a", w->name, place->n_loras);
    const bool experts = role == TERN_ROLE_FFN_GATE_EXPS || role == TERN_ROLE_FFN_DOWN_EXPS;
    lora->a = small(t, name, experts ? rank * t->config->n_experts : rank, w->cols, 1000 * at + place->n_loras);
    snprintf(name, sizeof name, "%.40s.lora%u_b", w->name, place->n_loras);
    lora->b = small(t, name, w->rows, rank, 1000 * at + 500 + place->n_loras);
    lora->scale = 2;
    lora->dropout = dropout;
    place->loras = loras;
    place->n_loras++;
    return lora;
}
