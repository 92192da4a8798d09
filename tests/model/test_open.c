/* Opening models: the fixtures' configurations and weights, and files that must be refused. */
#include <math.h>

#include "format/safetensors.h"
#include "model/support.h"

static void bitnet_config(void **state)
{
    (void)state;
    tern_model *model = open_model(test_fixture("bitnet"));
    const tern_config *c = tern_model_config(model);
    assert_string_equal(c->architecture, "bitnet-b1.58");
    assert_string_equal(c->name, "bitnet");
    assert_int_equal(c->n_vocab, 512);
    assert_int_equal(c->n_embd, 256);
    assert_int_equal(c->n_layers, 3);
    assert_int_equal(c->n_heads, 4);
    assert_int_equal(c->n_kv_heads, 2);
    assert_int_equal(c->head_dim, 64);
    assert_int_equal(c->n_ff, 512);
    assert_int_equal(c->n_ctx_train, 256);
    assert_float_equal(c->rms_eps, 1e-5f, 0);
    assert_float_equal(c->rope[0].base, 500000.0f, 0);
    assert_int_equal(c->activation, TERN_ACT_RELU2);
    assert_true(c->sub_norms && c->tied_head && !c->rope_adjacent);
    assert_int_equal(c->rope[0].scaling, TERN_ROPE_PLAIN);
    assert_null(tern_model_tokenizer(model));
    assert_ptr_equal(tern_model_weight(model, TERN_ROLE_OUTPUT, 0), tern_model_weight(model, TERN_ROLE_TOKEN_EMBD, 0));
    tern_model_close(model);
}

static void llama_config(void **state)
{
    (void)state;
    tern_model *model = open_model(test_fixture("llama"));
    const tern_config *c = tern_model_config(model);
    assert_string_equal(c->architecture, "llama");
    assert_int_equal(c->head_dim, 64);
    assert_int_equal(c->activation, TERN_ACT_SILU);
    assert_true(!c->sub_norms && !c->tied_head && !c->rope_adjacent);
    assert_int_equal(c->rope[0].scaling, TERN_ROPE_LLAMA3);
    assert_float_equal(c->rope[0].factor, 8.0f, 0);
    assert_float_equal(c->rope[0].low_freq_factor, 1.0f, 0);
    assert_float_equal(c->rope[0].high_freq_factor, 4.0f, 0);
    assert_int_equal(c->rope[0].original_ctx, 32);
    const tern_weight *q = tern_model_weight(model, TERN_ROLE_ATTN_Q, 2);
    assert_int_equal(q->encoding->id, TERN_ENC_BF16);
    assert_true(q->mapped);
    assert_null(tern_model_weight(model, TERN_ROLE_FFN_SUB_NORM, 0)->encoding);
    assert_int_equal(tern_model_weight(model, TERN_ROLE_OUTPUT_NORM, 0)->encoding->id, TERN_ENC_F32);
    tern_model_close(model);
}

/* bf16 master weights and packed uint8 weights of one model are the same codes; their scales differ by bf16's rounding.
 */
static void packed_equals_master(void **state)
{
    (void)state;
    tern_model *master = open_model(test_fixture("bitnet")), *packed = open_model(test_fixture("bitnet-packed"));
    for (uint32_t layer = 0; layer < 3; layer++) {
        for (int role = 0; role < TERN_ROLE_COUNT; role++) {
            const tern_weight *a = tern_model_weight(master, (tern_role)role, layer);
            const tern_weight *b = tern_model_weight(packed, (tern_role)role, layer);
            if (!a->encoding || !a->encoding->ternary) continue;
            assert_int_equal(a->encoding->id, TERN_ENC_I2_S);
            assert_same_codes(a, b);
            assert_true(fabsf(a->scale - b->scale) <= a->scale * 0x1p-8f);
        }
    }
    assert_int_equal(tern_model_parameters(master), tern_model_parameters(packed));
    tern_model_close(master);
    tern_model_close(packed);
}

/* The packed fixture's own bytes, read here without the model's code: row block i of the matrix in bits 2i. */
static void packed_codes_by_hand(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_safetensors *st = NULL;
    assert_ok(tern_safetensors_open(&st, test_fixture("bitnet-packed"), &err), err);
    const tern_st_tensor *t = tern_safetensors_find(st, "model.layers.1.mlp.down_proj.weight");
    tern_model *model = open_model(test_fixture("bitnet-packed"));
    const tern_weight *w = tern_model_weight(model, TERN_ROLE_FFN_DOWN, 1);
    assert_string_equal(w->name, "model.layers.1.mlp.down_proj.weight");
    int8_t *codes = codes_of(w);
    for (size_t row = 0; row < 256; row++)
        for (size_t col = 0; col < 512; col++)
            assert_int_equal(codes[row * 512 + col], (t->data[row % 64 * 512 + col] >> (row / 64 * 2) & 3) - 1);
    float scale;
    tern_st_to_f32(tern_safetensors_find(st, "model.layers.1.mlp.down_proj.weight_scale"), 0, 1, &scale);
    assert_float_equal(w->scale, scale, 0);
    free(codes);
    tern_model_close(model);
    tern_safetensors_close(st);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(bitnet_config),
    cmocka_unit_test(llama_config),
    cmocka_unit_test(packed_equals_master),
    cmocka_unit_test(packed_codes_by_hand),
};

TEST_GROUP(open, "web", tests);
