/* Models with experts: what their tensors become, there and back, and what is refused. */
#include <math.h>
#include <sys/stat.h>

#include "base/bytes.h"
#include "base/file.h"
#include "base/half.h"
#include "format/json.h"
#include "format/safetensors.h"
#include "model/imatrix.h"
#include "model/support.h"

enum { N_EXPERTS = 8, WIDTH = 256, MOST_TENSORS = 128 };

static tern_safetensors *open_tensors(const char *path)
{
    tern_error err = {0};
    tern_safetensors *st = NULL;
    assert_ok(tern_safetensors_open(&st, path, &err), err);
    return st;
}

static const tern_st_tensor *tensor_of(const tern_safetensors *st, const char *name)
{
    const tern_st_tensor *t = tern_safetensors_find(st, name);
    if (!t) fail_msg("%s is not in the fixture", name);
    return t;
}

/* Each expert's matrix lies behind the one before, as it is. */
static void mixtral(void **state)
{
    (void)state;
    static const struct {
        tern_role role;
        int number;
    } rows[] = {{TERN_ROLE_FFN_GATE_EXPS, 1}, {TERN_ROLE_FFN_DOWN_EXPS, 2}, {TERN_ROLE_FFN_UP_EXPS, 3}};
    tern_safetensors *st = open_tensors(test_fixture("mixtral"));
    tern_model *model = open_model(test_fixture("mixtral"));
    const tern_config *c = tern_model_config(model);
    assert_string_equal(c->architecture, "llama");
    assert_int_equal(c->n_experts, N_EXPERTS);
    assert_int_equal(c->n_experts_used, 2);
    assert_int_equal(c->route_rule, TERN_ROUTE_SOFTMAX_ALL_NORMED);
    for (uint32_t i = 0; i < 3; i++)
        for (uint32_t e = 0; e < N_EXPERTS; e++) {
            char name[96];
            snprintf(name, sizeof name, "model.layers.1.block_sparse_moe.experts.%u.w%d.weight", e, rows[i].number);
            const tern_st_tensor *t = tensor_of(st, name);
            const tern_weight *w = tern_model_weight(model, rows[i].role, 1);
            assert_int_equal(w->rows, N_EXPERTS * WIDTH);
            assert_int_equal(w->encoding->id, TERN_ENC_BF16);
            assert_memory_equal(w->data + e * t->bytes, t->data, t->bytes);
        }
    assert_int_equal(tern_model_weight(model, TERN_ROLE_ROUTER, 0)->rows, N_EXPERTS);
    tern_model_close(model);
    tern_safetensors_close(st);
}

/* One number of MXFP4 as Hugging Face's files have it: a nibble times two to the scale (OCP Microscaling, E2M1). */
static float mxfp4_value(const tern_st_tensor *blocks, const tern_st_tensor *scales, size_t row, size_t col)
{
    static const float values[16] = {0, 0.5f, 1, 1.5f, 2, 3, 4, 6, -0.0f, -0.5f, -1, -1.5f, -2, -3, -4, -6};
    const size_t n = WIDTH / 32, block = row * n + col / 32;
    const uint8_t byte = blocks->data[block * 16 + col % 32 / 2];
    return ldexpf(values[col % 2 ? byte >> 4 : byte & 15], (int)scales->data[block] - 127);
}

/* Rows of gate and up take turns in one tensor. */
static void gpt_oss(void **state)
{
    (void)state;
    static const struct {
        tern_role role, bias;
        const char *stored;
        size_t first, step;
    } rows[] = {{TERN_ROLE_FFN_GATE_EXPS, TERN_ROLE_FFN_GATE_EXPS_BIAS, "gate_up_proj", 0, 2},
                {TERN_ROLE_FFN_UP_EXPS, TERN_ROLE_FFN_UP_EXPS_BIAS, "gate_up_proj", 1, 2},
                {TERN_ROLE_FFN_DOWN_EXPS, TERN_ROLE_FFN_DOWN_EXPS_BIAS, "down_proj", 0, 1}};
    tern_safetensors *st = open_tensors(test_fixture("gpt-oss"));
    tern_model *model = open_model(test_fixture("gpt-oss"));
    const tern_config *c = tern_model_config(model);
    assert_true(c->attn_sinks && c->o_bias && c->qkv_bias && c->expert_bias);
    assert_int_equal(c->window, 16);
    assert_int_equal(tern_config_layer(c, 0).window, 16);
    assert_int_equal(tern_config_layer(c, 1).window, 0);
    assert_int_equal(c->rope[0].scaling, TERN_ROPE_YARN);
    assert_false(c->rope[0].truncate);
    assert_int_equal(c->rope[0].original_ctx, 16);
    for (uint32_t i = 0; i < 3; i++) {
        char name[96];
        snprintf(name, sizeof name, "model.layers.0.mlp.experts.%s_blocks", rows[i].stored);
        const tern_st_tensor *blocks = tensor_of(st, name);
        snprintf(name, sizeof name, "model.layers.0.mlp.experts.%s_scales", rows[i].stored);
        const tern_st_tensor *scales = tensor_of(st, name);
        snprintf(name, sizeof name, "model.layers.0.mlp.experts.%s_bias", rows[i].stored);
        const tern_st_tensor *biases = tensor_of(st, name);
        const tern_weight *w = tern_model_weight(model, rows[i].role, 0),
                          *b = tern_model_weight(model, rows[i].bias, 0);
        assert_int_equal(w->encoding->id, TERN_ENC_MXFP4);
        assert_int_equal(b->rows, N_EXPERTS);
        assert_int_equal(b->cols, WIDTH);
        float *values = values_of(w);
        for (size_t r = 0; r < w->rows; r++) {
            const size_t at = r / WIDTH * WIDTH * rows[i].step + rows[i].first + rows[i].step * (r % WIDTH);
            float bias;
            tern_st_to_f32(biases, at, 1, &bias);
            assert_float_equal(((const float *)(const void *)b->data)[r], bias, 0);
            for (size_t k = 0; k < WIDTH; k++)
                if (!(values[r * WIDTH + k] == mxfp4_value(blocks, scales, at, k))) fail_msg("row %zu, %zu", r, k);
        }
        free(values);
    }
    tern_model_close(model);
    tern_safetensors_close(st);
}

static void assert_same_model(const tern_model *a, const tern_model *b)
{
    const tern_config *c = tern_model_config(a), *d = tern_model_config(b);
    assert_int_equal(d->n_experts, c->n_experts);
    assert_int_equal(d->n_experts_used, c->n_experts_used);
    assert_int_equal(d->n_ff, c->n_ff);
    assert_int_equal(d->route_rule, c->route_rule);
    assert_int_equal(d->window, c->window);
    assert_int_equal(d->full_period, c->full_period);
    assert_int_equal(d->rope[0].truncate, c->rope[0].truncate);
    assert_float_equal(d->rope[0].size, c->rope[0].size, 1e-6);
    assert_float_equal(d->ffn_limit, c->ffn_limit, 0);
    for (uint32_t layer = 0; layer < c->n_layers; layer++)
        for (int role = 0; role < TERN_ROLE_COUNT; role++) {
            const tern_weight *v = tern_model_weight(a, (tern_role)role, layer);
            const tern_weight *w = tern_model_weight(b, (tern_role)role, layer);
            assert_int_equal(!v->encoding, !w->encoding);
            /* Q and K are permuted, and routers become F32 */
            if (!v->encoding || v->encoding != w->encoding || role == TERN_ROLE_ATTN_Q || role == TERN_ROLE_ATTN_K)
                continue;
            assert_int_equal(v->bytes, w->bytes);
            assert_memory_equal(v->data, w->data, v->bytes);
        }
}

static void gguf_round_trip(void **state)
{
    (void)state;
    static const char *const models[] = {"mixtral", "gpt-oss"};
    tern_error err = {0};
    for (size_t i = 0; i < 2; i++) {
        tern_model *model = open_model(test_fixture(models[i]));
        assert_ok(tern_model_write_gguf(model, test_scratch("experts.gguf"), NULL, &err), err);
        tern_model *back = open_model(test_scratch("experts.gguf"));
        assert_same_model(model, back);
        tern_model_close(back);
        tern_model_close(model);
    }
}

/* All types of layers take experts too; the router stays F32. */
static void types(void **state)
{
    (void)state;
    static const char *const names[] = {"q8_0", "q4_k", "mxfp4", "q4_0"};
    tern_error err = {0};
    tern_model *model = open_model(test_fixture("mixtral"));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const tern_export_options options = {.linear = tern_encoding_by_name(names[i])};
        assert_ok(tern_model_write_gguf(model, test_scratch("experts.gguf"), &options, &err), err);
        tern_model *back = open_model(test_scratch("experts.gguf"));
        const tern_weight *a = tern_model_weight(model, TERN_ROLE_FFN_DOWN_EXPS, 1);
        const tern_weight *b = tern_model_weight(back, TERN_ROLE_FFN_DOWN_EXPS, 1);
        assert_ptr_equal(b->encoding, options.linear);
        assert_int_equal(tern_model_weight(back, TERN_ROLE_ROUTER, 1)->encoding->id, TERN_ENC_F32);
        float *x = values_of(a), *y = values_of(b);
        double error = 0, square = 0;
        for (size_t k = 0; k < (size_t)a->rows * a->cols; k++) {
            error += pow((double)x[k] - (double)y[k], 2);
            square += pow((double)x[k], 2);
        }
        if (!(sqrt(error / square) < 0.2)) fail_msg("%s: %g off", names[i], sqrt(error / square));
        free(x);
        free(y);
        tern_model_close(back);
    }
    tern_model_close(model);
}

static void presets(void **state)
{
    (void)state;
    static const char *const names[] = {"mixtral-tiny", "qwen3moe-tiny", "gpt-oss-tiny"};
    tern_error err = {0};
    for (size_t i = 0; i < 3; i++) {
        const tern_synth_options options = {.preset = names[i], .layers = 3, .experts = 5, .experts_used = 3};
        assert_ok(tern_synth_write(test_scratch("synth.gguf"), &options, &err), err);
        tern_model *model = open_model(test_scratch("synth.gguf"));
        assert_int_equal(tern_model_config(model)->n_layers, 3);
        assert_int_equal(tern_model_config(model)->n_experts, 5);
        assert_int_equal(tern_model_config(model)->n_experts_used, 3);
        assert_int_equal(tern_model_weight(model, TERN_ROLE_FFN_UP_EXPS, 1)->encoding->id,
                         i == 2 ? TERN_ENC_MXFP4 : TERN_ENC_Q8_0);
        assert_int_equal(tern_model_weight(model, TERN_ROLE_ATTN_Q, 1)->encoding->id, TERN_ENC_Q8_0);
        tern_model_close(model);
    }
    const tern_synth_options many = {.preset = "mixtral-tiny", .experts = 4, .experts_used = 5};
    assert_int_equal(tern_synth_write(test_scratch("synth.gguf"), &many, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "experts of a token: 5 found, 1 to 4 expected"));
    const tern_synth_options none = {.preset = "bitnet-tiny", .experts = 4};
    assert_int_equal(tern_synth_write(test_scratch("synth.gguf"), &none, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "experts in bitnet-tiny"));
}

/* A fixture with one thing changed. */
typedef struct change {
    const char *fixture;
    const char *key, *json; /* of config.json; json NULL: it is not there */
    const char *tensor;
    enum { KEEP, DROP, SHORTER, F16, TWICE } what;
    tern_status status;
    const char *words;
} change;

#define W1 "model.layers.0.block_sparse_moe.experts.3.w1.weight"
#define GU "model.layers.1.mlp.experts.gate_up_proj"

static const change changes[] = {
    {"mixtral", "num_local_experts", "0", NULL, KEEP, TERN_LIMIT, "num_local_experts: 0 found, 1 to 1024 expected"},
    {"mixtral", "num_local_experts", NULL, NULL, KEEP, TERN_NOT_FOUND, "num_local_experts"},
    {"mixtral", "num_local_experts", "1025", NULL, KEEP, TERN_LIMIT, "experts: 1025 found, 1 to 1024 expected"},
    {"mixtral", "num_local_experts", "-1", NULL, KEEP, TERN_MALFORMED, "num_local_experts"},
    {"mixtral", "num_local_experts", "9", NULL, KEEP, TERN_MALFORMED,
     "block_sparse_moe.gate.weight: 8 rows of 256 found, 9 rows of 256 expected"},
    {"mixtral", "num_local_experts", "7", NULL, KEEP, TERN_UNSUPPORTED,
     "experts.7.w1.weight: found, models of llama have no such tensor"},
    {"mixtral", "num_experts_per_tok", "0", NULL, KEEP, TERN_LIMIT, "experts of a token: 0 found, 1 to 8 expected"},
    {"mixtral", "num_experts_per_tok", "9", NULL, KEEP, TERN_LIMIT, "experts of a token: 9 found, 1 to 8 expected"},
    {"mixtral", "num_experts_per_tok", NULL, NULL, KEEP, TERN_NOT_FOUND, "num_experts_per_tok"},
    {"mixtral", "architectures", "[\"LlamaForCausalLM\"]", NULL, KEEP, TERN_UNSUPPORTED,
     "num_local_experts: 8 found, 0 expected in models of this class"},
    {"mixtral", "mlp_only_layers", "[0]", NULL, KEEP, TERN_UNSUPPORTED, "mlp_only_layers: 1 found, none expected"},
    {"mixtral", "decoder_sparse_step", "2", NULL, KEEP, TERN_UNSUPPORTED, "decoder_sparse_step: 2 found, 1 expected"},
    {"mixtral", "intermediate_size", "[256, 128]", NULL, KEEP, TERN_UNSUPPORTED, "intermediate_size: a list found"},
    {"mixtral", NULL, NULL, W1, DROP, TERN_MALFORMED, W1 ": no such tensor found, one expected"},
    {"mixtral", NULL, NULL, W1, SHORTER, TERN_MALFORMED, W1 ": shape [255, 256] found, [256, 256] expected"},
    {"mixtral", NULL, NULL, W1, F16, TERN_UNSUPPORTED, W1 ": F16 found, BF16 expected"},
    {"mixtral", NULL, NULL, "model.layers.0.mlp.up_proj.weight", TWICE, TERN_UNSUPPORTED,
     "model.layers.0.mlp.up_proj.weight: found, models of llama"},
    {"gpt-oss", "swiglu_limit", "0", NULL, KEEP, TERN_MALFORMED, "SwiGLU limit: 0 found, a positive number expected"},
    {"gpt-oss", "attention_bias", "false", NULL, KEEP, TERN_UNSUPPORTED, "attention_bias: false found, true expected"},
    {"gpt-oss", "num_experts_per_tok", "17", NULL, KEEP, TERN_LIMIT, "experts of a token: 17 found, 1 to 8 expected"},
    {"gpt-oss", "layer_types", "[\"full_attention\", \"sliding_attention\"]", NULL, KEEP, TERN_UNSUPPORTED,
     "layer_types: sliding_attention found at 1"},
    {"gpt-oss", NULL, NULL, GU "_scales", DROP, TERN_MALFORMED, GU "_scales: no such tensor found"},
    {"gpt-oss", NULL, NULL, GU "_blocks", DROP, TERN_MALFORMED, GU ": no such tensor found, one expected"},
    {"gpt-oss", NULL, NULL, GU "_blocks", SHORTER, TERN_MALFORMED,
     GU "_blocks: shape [7, 512, 8, 16] found, [8, 512, 8, 16] expected"},
    {"gpt-oss", NULL, NULL, GU "_scales", SHORTER, TERN_MALFORMED,
     GU "_scales: shape [7, 512, 8] found, [8, 512, 8] expected"},
    {"gpt-oss", NULL, NULL, GU "_bias", SHORTER, TERN_MALFORMED, GU "_bias: shape [7, 512] found, [8, 512] expected"},
    {"gpt-oss", NULL, NULL, "model.layers.0.self_attn.sinks", DROP, TERN_MALFORMED, "self_attn.sinks: no such tensor"},
    {"gpt-oss", NULL, NULL, "model.layers.0.mlp.router.bias", SHORTER, TERN_MALFORMED,
     "router.bias: 1 rows of 7 found"},
};

static void write_config(const change *x)
{
    tern_error err = {0};
    json_t *root = NULL;
    assert_ok(tern_json_read_in(&root, test_fixture(x->fixture), "config.json", 1 << 20, &err), err);
    if (x->key && x->json) json_object_set_new(root, x->key, json_loads(x->json, JSON_DECODE_ANY, NULL));
    else if (x->key) json_object_del(root, x->key);
    assert_ok(tern_json_write_in(root, test_scratch("experts"), "config.json", 0, &err), err);
}

static void write_tensors(const change *x)
{
    tern_error err = {0};
    tern_st_tensor tensors[MOST_TENSORS];
    tern_safetensors *st = open_tensors(test_fixture(x->fixture));
    size_t n = 0;
    for (size_t i = 0; i < tern_safetensors_count(st); i++) {
        tern_st_tensor t = *tern_safetensors_at(st, i);
        const bool meant = x->tensor && strcmp(t.name, x->tensor) == 0;
        if (meant && x->what == DROP) continue;
        if (meant && x->what == F16) t.dtype = TERN_ST_F16;
        if (meant && x->what == SHORTER) {
            t.bytes -= t.bytes / t.dims[0];
            t.n_elements -= t.n_elements / t.dims[0];
            t.dims[0]--;
        }
        assert_true(n + 2 <= MOST_TENSORS);
        tensors[n++] = t;
    }
    if (x->what == TWICE) {
        tensors[n] = *tensor_of(st, "model.norm.weight");
        tensors[n++].name = x->tensor;
    }
    assert_ok(tern_safetensors_write(test_scratch("experts/model.safetensors"), tensors, n, NULL, &err), err);
    tern_safetensors_close(st);
}

static void refusals(void **state)
{
    (void)state;
    mkdir(test_scratch("experts"), 0777);
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        tern_error err = {0};
        tern_model *model = NULL;
        write_config(&changes[i]);
        write_tensors(&changes[i]);
        const tern_status status = tern_model_open(&model, test_scratch("experts"), NULL, &err);
        if (status == TERN_OK || !strstr(err.message, changes[i].words))
            fail_msg("%zu: '%s' is not in '%s'", i, changes[i].words, err.message);
        assert_int_equal(status, changes[i].status);
        assert_null(model);
    }
}

/* A GGUF file of a fixture, with one number of its metadata changed. */
static void gguf_refusals(void **state)
{
    (void)state;
    static const struct {
        const char *fixture, *key;
        uint32_t value;
        tern_status status;
        const char *words;
    } rows[] = {
        {"mixtral", "llama.expert_count", 0, TERN_UNSUPPORTED, "ffn_gate_inp.weight: found, models of llama"},
        {"mixtral", "llama.expert_count", 7, TERN_MALFORMED,
         "ffn_gate_inp.weight: 8 rows of 256 found, 7 rows of 256 expected"},
        {"mixtral", "llama.expert_count", UINT32_MAX, TERN_LIMIT, "experts: 4294967295 found, 1 to 1024 expected"},
        {"mixtral", "llama.expert_used_count", 0, TERN_LIMIT, "experts of a token: 0 found, 1 to 8 expected"},
        {"mixtral", "llama.expert_used_count", 9, TERN_LIMIT, "experts of a token: 9 found, 1 to 8 expected"},
        {"gpt-oss", "gpt-oss.expert_count", 0, TERN_LIMIT, "gpt-oss.expert_count: 0 found, 1 to 1024 expected"},
        {"gpt-oss", "gpt-oss.expert_feed_forward_length", 128, TERN_MALFORMED,
         "blk.0.ffn_gate_exps.weight: 2048 rows of 256 found, 1024 rows of 256 expected"},
        {"gpt-oss", "gpt-oss.rope.scaling.original_context_length", 0, TERN_LIMIT,
         "RoPE original context length: 0 found"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        tern_error err = {0};
        tern_buf bytes = {0};
        tern_model *model = open_model(test_fixture(rows[i].fixture)), *back = NULL;
        assert_ok(tern_model_write_gguf(model, test_scratch("experts.gguf"), NULL, &err), err);
        tern_model_close(model);
        assert_ok(tern_file_read(&bytes, test_scratch("experts.gguf"), 1 << 24, &err), err);
        const size_t n = strlen(rows[i].key);
        char *at = bytes.data;
        while (memcmp(at, rows[i].key, n) != 0) at++;
        tern_store_u32((uint8_t *)at + n + 4, rows[i].value); /* behind the type */
        const tern_status status = tern_model_open_memory(&back, bytes.data, bytes.size, NULL, &err);
        if (status == TERN_OK || !strstr(err.message, rows[i].words))
            fail_msg("'%s' is not in '%s'", rows[i].words, err.message);
        assert_int_equal(status, rows[i].status);
        tern_buf_deinit(&bytes);
    }
}

/* Each expert has sums of its own; routers have none. */
static void imatrix(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_imatrix_sums *sums = NULL;
    size_t n = 0;
    tern_model *model = open_model(test_fixture("mixtral"));
    assert_ok(tern_imatrix_sums_make(&sums, &n, model, &err), err);
    assert_int_equal(n, 7 * tern_model_config(model)->n_layers);
    for (size_t i = 0; i < n; i++) assert_int_equal(sums[i].n_experts, strstr(sums[i].name, "_exps.") ? 8 : 1);
    tern_imatrix_sums_free(sums, n);
    tern_model_close(model);
}

/* GPT-OSS's experts as floats are stored the other way round, [n_experts][columns][rows]. */
static void transposed(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_st_tensor tensors[MOST_TENSORS];
    tern_safetensors *st = open_tensors(test_fixture("gpt-oss"));
    uint8_t *data[4] = {0};
    char names[4][80];
    size_t n = 0, made = 0;
    for (size_t i = 0; i < tern_safetensors_count(st); i++) {
        const tern_st_tensor *t = tern_safetensors_at(st, i);
        const char *end = strstr(t->name, "_blocks");
        if (strstr(t->name, "_scales")) continue;
        tensors[n++] = *t;
        if (!end) continue;
        const uint64_t rows = t->dims[1], elements = N_EXPERTS * rows * WIDTH;
        snprintf(names[made], sizeof *names, "%.*s", (int)(end - t->name), t->name);
        data[made] = malloc(elements * 2);
        /* a bf16 number that says its expert, row and column, of 8 bits */
        for (uint64_t k = 0; k < elements; k++) {
            const uint64_t e = k / (rows * WIDTH), c = k / rows % WIDTH, r = k % rows;
            tern_store_u16(data[made] + 2 * k, tern_f32_to_bf16((float)((e * 131 + c * 7 + r * 3) % 256)));
        }
        tensors[n - 1] = (tern_st_tensor){.name = names[made],
                                          .dtype = TERN_ST_BF16,
                                          .n_dims = 3,
                                          .dims = {N_EXPERTS, WIDTH, rows},
                                          .n_elements = elements,
                                          .data = data[made],
                                          .bytes = elements * 2};
        made++;
    }
    mkdir(test_scratch("experts"), 0777);
    write_config(&(change){.fixture = "gpt-oss"});
    assert_ok(tern_safetensors_write(test_scratch("experts/model.safetensors"), tensors, n, NULL, &err), err);
    tern_model *model = open_model(test_scratch("experts"));
    for (uint32_t part = 0; part < 3; part++) {
        const tern_role role = part == 0   ? TERN_ROLE_FFN_GATE_EXPS
                               : part == 1 ? TERN_ROLE_FFN_UP_EXPS
                                           : TERN_ROLE_FFN_DOWN_EXPS;
        const tern_weight *w = tern_model_weight(model, role, 1);
        float *values = values_of(w);
        for (size_t k = 0; k < (size_t)w->rows * WIDTH; k++) {
            const size_t e = k / WIDTH / WIDTH, c = k % WIDTH, at = k / WIDTH % WIDTH,
                         r = part == 2 ? at : 2 * at + part;
            assert_float_equal(values[k], (float)((e * 131 + c * 7 + r * 3) % 256), 0);
        }
        free(values);
    }
    tern_model_close(model);
    for (size_t i = 0; i < made; i++) free(data[i]);
    tern_safetensors_close(st);
}

/* Matrices of all experts, one behind the other, in one tensor [experts][parts * rows][cols]. */
static tern_st_tensor joined(const tern_safetensors *st, uint32_t n_experts, const char *const *parts, uint32_t n_parts,
                             const char *name)
{
    tern_st_tensor all = {0};
    uint8_t *to = NULL;
    for (uint32_t e = 0; e < n_experts; e++)
        for (uint32_t p = 0; p < n_parts; p++) {
            char one[96];
            snprintf(one, sizeof one, "model.layers.0.mlp.experts.%u.%s_proj.weight", e, parts[p]);
            const tern_st_tensor *t = tensor_of(st, one);
            if (!to) {
                all = (tern_st_tensor){.name = name,
                                       .dtype = t->dtype,
                                       .n_dims = 3,
                                       .dims = {n_experts, n_parts * t->dims[0], t->dims[1]},
                                       .n_elements = t->n_elements * n_experts * n_parts,
                                       .bytes = t->bytes * n_experts * n_parts};
                all.data = to = malloc(all.bytes);
            }
            memcpy(to, t->data, t->bytes);
            to += t->bytes;
        }
    return all;
}

/* Published folders of Qwen 3.5 have gate and up of all experts as halves of one tensor. */
static void halves(void **state)
{
    (void)state;
    static const char *const gate_up[] = {"gate", "up"}, *const down[] = {"down"};
    tern_error err = {0};
    tern_st_tensor tensors[MOST_TENSORS];
    size_t n = 0;
    if (test_on_shared()) test_skip("the layers are those of the made model");
    tern_safetensors *st = open_tensors(test_fixture("qwen3_5_moe"));
    for (size_t i = 0; i < tern_safetensors_count(st); i++) {
        const tern_st_tensor *t = tern_safetensors_at(st, i);
        const bool of_layer = strncmp(t->name, "model.layers.0.", 15) == 0;
        if ((strstr(t->name, ".layers.") && !of_layer) || strstr(t->name, "mlp.experts.")) continue;
        tensors[n++] = *t;
    }
    tensors[n++] = joined(st, 6, gate_up, 2, "model.layers.0.mlp.experts.gate_up_proj");
    tensors[n++] = joined(st, 6, down, 1, "model.layers.0.mlp.experts.down_proj");
    mkdir(test_scratch("experts"), 0777);
    write_config(&(change){.fixture = "qwen3_5_moe", .key = "num_hidden_layers", .json = "1"});
    json_t *root = NULL;
    assert_ok(tern_json_read_in(&root, test_scratch("experts"), "config.json", 1 << 20, &err), err);
    json_object_set_new(root, "layer_types", json_loads("[\"linear_attention\"]", 0, NULL));
    assert_ok(tern_json_write_in(root, test_scratch("experts"), "config.json", 0, &err), err);
    assert_ok(tern_safetensors_write(test_scratch("experts/model.safetensors"), tensors, n, NULL, &err), err);
    tern_model *whole = open_model(test_fixture("qwen3_5_moe")), *model = open_model(test_scratch("experts"));
    static const tern_role roles[] = {TERN_ROLE_FFN_GATE_EXPS, TERN_ROLE_FFN_UP_EXPS, TERN_ROLE_FFN_DOWN_EXPS};
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++) {
        const tern_weight *w = tern_model_weight(whole, roles[i], 0), *v = tern_model_weight(model, roles[i], 0);
        assert_int_equal(v->bytes, w->bytes);
        assert_memory_equal(v->data, w->data, w->bytes);
    }
    tern_model_close(whole);
    tern_model_close(model);
    for (size_t i = n - 2; i < n; i++) free((void *)(uintptr_t)tensors[i].data);
    tern_safetensors_close(st);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(mixtral),    cmocka_unit_test(gpt_oss),       cmocka_unit_test(gguf_round_trip),
    cmocka_unit_test(types),      cmocka_unit_test(presets),       cmocka_unit_test(refusals),
    cmocka_unit_test(transposed), cmocka_unit_test(gguf_refusals), cmocka_unit_test(imatrix),
    cmocka_unit_test(halves),
};

TEST_GROUP(experts, "", tests);
