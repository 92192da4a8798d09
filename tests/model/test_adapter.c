/* LoRA adapters: the fixture made by PEFT, round trips between the two forms, and what must be refused. */
#include <math.h>
#include <sys/stat.h>

#include "base/file.h"
#include "format/gguf.h"
#include "format/safetensors.h"
#include "model/adapter.h"
#include "model/support.h"
#include "support/micro_model.h"

enum { MAX_TENSORS = 8, RANK = 2 };

static tern_error err;

static tern_adapter *open_adapter(const char *path, const tern_model *model)
{
    tern_adapter *adapter = NULL;
    assert_ok(tern_adapter_open(&adapter, path, model, &err), err);
    return adapter;
}

static void assert_same(const tern_adapter *a, const tern_adapter *b)
{
    const tern_adapter_info *x = tern_adapter_describe(a), *y = tern_adapter_describe(b);
    assert_int_equal(x->rank, y->rank);
    assert_memory_equal(&x->alpha, &y->alpha, sizeof x->alpha);
    assert_memory_equal(&x->dropout, &y->dropout, sizeof x->dropout);
    assert_memory_equal(&x->scale, &y->scale, sizeof x->scale);
    assert_int_equal(x->rslora, y->rslora);
    assert_int_equal(x->n_pairs, y->n_pairs);
    assert_int_equal(x->n_layers, y->n_layers);
    assert_int_equal(x->parameters, y->parameters);
    assert_string_equal(x->base, y->base);
    for (uint32_t layer = 0; layer < x->n_layers; layer++) {
        for (int role = 0; role < TERN_ROLE_COUNT; role++) {
            const tern_adapter_pair *p = tern_adapter_find(a, (tern_role)role, layer);
            const tern_adapter_pair *q = tern_adapter_find(b, (tern_role)role, layer);
            assert_int_equal(!p, !q);
            if (!p) continue;
            assert_int_equal(p->in, q->in);
            assert_int_equal(p->out, q->out);
            assert_memory_equal(p->a, q->a, (size_t)x->rank * p->in * sizeof *p->a);
            assert_memory_equal(p->b, q->b, (size_t)x->rank * p->out * sizeof *p->b);
        }
    }
}

static void assert_tensor(const tern_safetensors *st, const char *name, const float *values, size_t n)
{
    const tern_st_tensor *t = tern_safetensors_find(st, name);
    assert_non_null(t);
    assert_int_equal(t->bytes, n * sizeof *values);
    assert_memory_equal(t->data, values, t->bytes);
}

static void reads_the_fixture(void **state)
{
    (void)state;
    tern_model *model = open_model(test_fixture("bitnet-train"));
    tern_adapter *adapter = open_adapter(test_fixture("bitnet-train/lora"), model);
    const tern_adapter_info *info = tern_adapter_describe(adapter);
    assert_int_equal(info->rank, 8);
    assert_float_equal(info->alpha, 16, 0);
    assert_float_equal(info->scale, 2, 0);
    assert_float_equal(info->dropout, 0, 0);
    assert_false(info->rslora);
    assert_int_equal(info->n_layers, 2);
    assert_int_equal(info->n_pairs, 14);
    assert_int_equal(info->parameters, 32768);
    assert_string_equal(info->base, "");
    assert_null(tern_adapter_find(adapter, TERN_ROLE_ATTN_NORM, 0));
    assert_null(tern_adapter_find(adapter, TERN_ROLE_ATTN_Q, 2));
    tern_safetensors *st = NULL;
    assert_ok(tern_safetensors_open(&st, test_fixture("bitnet-train/lora/adapter_model.safetensors"), &err), err);
    const tern_adapter_pair *k = tern_adapter_find(adapter, TERN_ROLE_ATTN_K, 1);
    assert_tensor(st, "base_model.model.model.layers.1.self_attn.k_proj.lora_A.weight", k->a, 8 * 128);
    assert_tensor(st, "base_model.model.model.layers.1.self_attn.k_proj.lora_B.weight", k->b, 64 * 8);
    const tern_adapter_pair *down = tern_adapter_find(adapter, TERN_ROLE_FFN_DOWN, 0);
    assert_tensor(st, "base_model.model.model.layers.0.mlp.down_proj.lora_A.weight", down->a, 8 * 256);
    tern_safetensors_close(st);
    tern_adapter_close(adapter);
    tern_model_close(model);
}

/* Every way to name the same adapter. */
static void opens_by_each_path(void **state)
{
    (void)state;
    static const char *const paths[] = {"bitnet-train/lora", "bitnet-train/lora/adapter_config.json",
                                        "bitnet-train/lora/adapter_model.safetensors"};
    for (size_t i = 0; i < 3; i++) {
        tern_adapter *adapter = open_adapter(test_fixture(paths[i]), NULL);
        assert_int_equal(tern_adapter_describe(adapter)->n_pairs, 14);
        assert_int_equal(tern_adapter_write_gguf(adapter, test_scratch("never.gguf"), &err), TERN_INVALID_ARGUMENT);
        assert_false(tern_file_exists(test_scratch("never.gguf")));
        tern_adapter_close(adapter);
    }
}

static void round_trips(void **state)
{
    (void)state;
    tern_model *model = open_model(test_fixture("bitnet-train"));
    tern_adapter *first = open_adapter(test_fixture("bitnet-train/lora"), model);
    assert_ok(tern_adapter_write_gguf(first, test_scratch("lora.gguf"), &err), err);
    tern_adapter *gguf = open_adapter(test_scratch("lora.gguf"), model);
    assert_string_equal(tern_adapter_describe(gguf)->format, "GGUF");
    assert_same(first, gguf);
    assert_ok(tern_adapter_write_peft(gguf, test_scratch("lora-peft"), &err), err);
    tern_adapter *peft = open_adapter(test_scratch("lora-peft"), model);
    assert_string_equal(tern_adapter_describe(peft)->format, "PEFT");
    assert_same(first, peft);
    tern_adapter_close(peft);
    tern_adapter_close(gguf);
    tern_adapter_close(first);
    tern_model_close(model);
}

/* ---- made-up adapters of the micro model: width 16, K 8 rows, rank 2 */

typedef struct folder {
    const char *config; /* all of adapter_config.json */
    tern_st_tensor tensors[MAX_TENSORS];
    char names[MAX_TENSORS][128];
    size_t n;
    float values[MAX_TENSORS][64];
} folder;

static void add(folder *f, const char *name, uint32_t rows, uint32_t cols)
{
    tern_st_tensor *t = &f->tensors[f->n];
    snprintf(f->names[f->n], sizeof *f->names, "%s", name);
    for (uint32_t i = 0; i < 64; i++) f->values[f->n][i] = (float)(i + 1) / 8.0f;
    *t = (tern_st_tensor){.name = f->names[f->n],
                          .dtype = TERN_ST_F32,
                          .n_dims = 2,
                          .dims = {rows, cols},
                          .n_elements = (uint64_t)rows * cols,
                          .data = (const uint8_t *)f->values[f->n],
                          .bytes = (size_t)rows * cols * 4};
    assert_true(t->bytes <= sizeof *f->values);
    f->n++;
}

#define PLAIN "{\"peft_type\": \"LORA\", \"r\": 2, \"lora_alpha\": 3"
#define Q_A   "base_model.model.model.layers.0.self_attn.q_proj.lora_A.weight"
#define Q_B   "base_model.model.model.layers.0.self_attn.q_proj.lora_B.weight"

static folder sound(const char *config)
{
    folder f = {.config = config};
    add(&f, Q_A, RANK, 16);
    add(&f, Q_B, 16, RANK);
    return f;
}

static const char *write_made(folder *f)
{
    const char *dir = test_scratch("lora-made");
    char path[1100];
    mkdir(dir, 0777);
    snprintf(path, sizeof path, "%s/adapter_config.json", dir);
    test_write_text(path, f->config);
    snprintf(path, sizeof path, "%s/adapter_model.safetensors", dir);
    for (size_t i = 0; i < f->n; i++) f->tensors[i].name = f->names[i], f->tensors[i].data = (uint8_t *)f->values[i];
    assert_ok(tern_safetensors_write(path, f->tensors, f->n, NULL, &err), err);
    return dir;
}

static tern_model *open_micro(const char *architecture, tern_buf *bytes)
{
    tern_model *model = NULL;
    micro_change change = {.architecture = architecture};
    *bytes = micro_model(&change);
    assert_ok(tern_model_open_memory(&model, bytes->data, bytes->size, NULL, &err), err);
    return model;
}

static void assert_refused(folder *f, tern_status status, const char *words)
{
    tern_buf bytes;
    tern_model *model = open_micro(NULL, &bytes);
    tern_adapter *adapter = NULL;
    tern_status found = tern_adapter_open(&adapter, write_made(f), model, &err);
    assert_null(adapter);
    if (!strstr(err.message, words)) fail_msg("\"%s\" found, \"%s\" expected", err.message, words);
    assert_int_equal(found, status);
    tern_model_close(model);
    tern_buf_deinit(&bytes);
}

static void refuses_configs(void **state)
{
    (void)state;
    static const struct {
        const char *config;
        tern_status status;
        const char *words;
    } cases[] = {
        {"[]", TERN_MALFORMED, "array found, an object expected"},
        {"{\"r\": 2, \"lora_alpha\": 3}", TERN_MALFORMED, "peft_type: not found"},
        {"{\"peft_type\": \"IA3\", \"r\": 2}", TERN_UNSUPPORTED, "peft_type: \"IA3\" found"},
        {PLAIN ", \"use_dora\": true}", TERN_UNSUPPORTED, "use_dora: true found"},
        {PLAIN ", \"bias\": \"all\"}", TERN_UNSUPPORTED, "bias: all found"},
        {PLAIN ", \"rank_pattern\": {\"q_proj\": 4}}", TERN_UNSUPPORTED, "rank_pattern: object found"},
        {PLAIN ", \"modules_to_save\": [\"lm_head\"]}", TERN_UNSUPPORTED, "modules_to_save: array found"},
        {"{\"peft_type\": \"LORA\", \"lora_alpha\": 3}", TERN_MALFORMED, "r: not found"},
        {"{\"peft_type\": \"LORA\", \"r\": 2}", TERN_MALFORMED, "lora_alpha: not found"},
        {"{\"peft_type\": \"LORA\", \"r\": 0, \"lora_alpha\": 3}", TERN_LIMIT, "rank 0 found, 1 to 4096"},
        {"{\"peft_type\": \"LORA\", \"r\": 4097, \"lora_alpha\": 3}", TERN_LIMIT, "rank 4097 found"},
        {"{\"peft_type\": \"LORA\", \"r\": 2, \"lora_alpha\": 0}", TERN_MALFORMED, "alpha 0 found"},
        {PLAIN ", \"lora_dropout\": 1.5}", TERN_MALFORMED, "dropout 1.5 found"},
        {"{\"peft_type\": \"LORA\", \"r\": 3, \"lora_alpha\": 3}", TERN_MALFORMED, "[2][16] found, [3][16] expected"},
        {PLAIN ", \"target_modules\": [\"q_proj\", \"c_attn\"]}", TERN_MALFORMED, "\"c_attn\" found"},
        {PLAIN ", \"target_modules\": [\"proj\"]}", TERN_MALFORMED, "\"proj\" found"},
        {PLAIN ", \"target_modules\": [3]}", TERN_MALFORMED, "target_modules: number found"},
        {PLAIN ", \"base_model_name_or_path\": \"a\\u0000b\"}", TERN_MALFORMED, "base_model_name_or_path: a NUL"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        folder f = sound(cases[i].config);
        assert_refused(&f, cases[i].status, cases[i].words);
    }
}

static void refuses_tensors(void **state)
{
    (void)state;
    static const struct {
        const char *name;
        uint32_t rows, cols;
        tern_status status;
        const char *words;
    } cases[] = {
        {"base_model.model.model.layers.0.self_attn.k_proj.lora_A.weight", RANK, 16, TERN_MALFORMED,
         "without its lora_B"},
        {"base_model.model.model.layers.0.self_attn.k_proj.lora_B.weight", 8, RANK, TERN_MALFORMED,
         "without its lora_A"},
        {"base_model.model.model.layers.0.self_attn.k_proj.lora_A.weight", RANK, 15, TERN_MALFORMED,
         "k_proj.lora_A.weight: shape [2][15] found, [2][16] expected"},
        {"base_model.model.model.layers.0.self_attn.k_proj.lora_B.weight", 16, RANK, TERN_MALFORMED,
         "k_proj.lora_B.weight: shape [16][2] found, [8][2] expected"},
        {"base_model.model.model.layers.1.self_attn.k_proj.lora_A.weight", RANK, 16, TERN_MALFORMED,
         "layer 1 found, a layer below 1 expected"},
        {"base_model.model.model.layers.9999999999.self_attn.k_proj.lora_A.weight", RANK, 16, TERN_LIMIT,
         "the layer's number is too large"},
        {"base_model.model.model.layers.00.self_attn.k_proj.lora_A.weight", RANK, 16, TERN_UNSUPPORTED, "layers.00"},
        {"base_model.model.model.layers.0.self_attn.c_proj.lora_A.weight", RANK, 16, TERN_UNSUPPORTED, "c_proj"},
        {"base_model.model.model.layers.0.input_layernorm.lora_A.weight", RANK, 16, TERN_UNSUPPORTED,
         "input_layernorm"},
        {"base_model.model.lm_head.lora_A.weight", RANK, 16, TERN_UNSUPPORTED, "lm_head"},
        {"base_model.model.model.layers.0.self_attn.q_proj.lora_magnitude_vector", 1, 16, TERN_UNSUPPORTED,
         "magnitude"},
        {"model.layers.0.self_attn.k_proj.lora_A.weight", RANK, 16, TERN_UNSUPPORTED, "\"base_model.model.\""},
        {"base_model.model.model.layers.0.self_attn.q_proj.lora_A.default.weight", RANK, 16, TERN_MALFORMED, "twice"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        folder f = sound(PLAIN "}");
        add(&f, cases[i].name, cases[i].rows, cases[i].cols);
        assert_refused(&f, cases[i].status, cases[i].words);
    }
}

static void refuses_values(void **state)
{
    (void)state;
    folder f = sound(PLAIN "}");
    f.values[1][5] = NAN;
    assert_refused(&f, TERN_MALFORMED, "nan found at element 5");
    f.values[1][5] = -INFINITY;
    assert_refused(&f, TERN_MALFORMED, "-inf found at element 5");
    f = sound(PLAIN "}");
    f.tensors[1].dtype = TERN_ST_I32;
    assert_refused(&f, TERN_UNSUPPORTED, "I32 found, F32, F16 or BF16 expected");
    f = (folder){.config = PLAIN "}"};
    assert_refused(&f, TERN_MALFORMED, "no tensors found");
}

/* BF16 and F16, the adapter's name in the tensors, rslora, dropout and a base: all of it through GGUF and back. */
static void keeps_settings(void **state)
{
    (void)state;
    folder f = {.config =
                    PLAIN ", \"use_rslora\": true, \"lora_dropout\": 0.05, \"target_modules\": [\"self_attn.q_proj\"], "
                          "\"base_model_name_or_path\": \"some/base\"}"};
    add(&f, "base_model.model.model.layers.0.self_attn.q_proj.lora_A.default.weight", RANK, 16);
    add(&f, "base_model.model.model.layers.0.self_attn.q_proj.lora_B.default.weight", 16, RANK);
    f.tensors[0].dtype = TERN_ST_BF16, f.tensors[1].dtype = TERN_ST_F16;
    f.tensors[0].bytes /= 2, f.tensors[1].bytes /= 2;
    uint16_t *a = (uint16_t *)f.values[0], *b = (uint16_t *)f.values[1];
    for (int i = 0; i < 32; i++) a[i] = 0x3fc0, b[i] = 0x3e00; /* 1.5 in both */
    tern_buf bytes;
    tern_model *model = open_micro(NULL, &bytes);
    tern_adapter *first = open_adapter(write_made(&f), model);
    const tern_adapter_info *info = tern_adapter_describe(first);
    assert_true(info->rslora);
    assert_float_equal(info->scale, 3.0f / sqrtf(2.0f), 0);
    assert_string_equal(info->base, "some/base");
    const tern_adapter_pair *q = tern_adapter_find(first, TERN_ROLE_ATTN_Q, 0);
    for (int i = 0; i < 32; i++) assert_true(q->a[i] == 1.5f && q->b[i] == 1.5f);
    assert_ok(tern_adapter_write_gguf(first, test_scratch("lora-rs.gguf"), &err), err);
    tern_adapter *gguf = open_adapter(test_scratch("lora-rs.gguf"), model);
    assert_same(first, gguf);
    assert_ok(tern_adapter_write_peft(gguf, test_scratch("lora-rs"), &err), err);
    tern_adapter *peft = open_adapter(test_scratch("lora-rs"), model);
    assert_same(first, peft);
    tern_adapter_close(peft);
    tern_adapter_close(gguf);
    tern_adapter_close(first);
    tern_model_close(model);
    tern_buf_deinit(&bytes);
}

/* The row of a tensor in a GGUF file. */
static float gguf_value(const char *path, const char *name, size_t at)
{
    tern_file_map map = {0};
    tern_gguf *g = NULL;
    assert_ok(tern_file_map_open(&map, path, &err), err);
    assert_ok(tern_gguf_parse(&g, map.data, map.size, &err), err);
    const tern_gguf_tensor *t = tern_gguf_find_tensor(g, name);
    assert_non_null(t);
    assert_true((at + 1) * 4 <= t->bytes);
    float v = tern_load_f32(t->data + at * 4);
    tern_gguf_close(g);
    tern_file_map_close(&map);
    return v;
}

/* llama GGUF files hold Q and K in adjacent pairs: row 2 i + h of a head is row h * 4 + i of the PEFT one (heads of 8).
 */
static void permutes_llama(void **state)
{
    (void)state;
    tern_buf bytes;
    tern_model *model = open_micro("llama", &bytes);
    assert_true(tern_model_config(model)->rope_adjacent);
    assert_int_equal(tern_model_config(model)->head_dim, 8);
    folder f = sound(PLAIN "}");
    add(&f, "base_model.model.model.layers.0.self_attn.v_proj.lora_A.weight", RANK, 16);
    add(&f, "base_model.model.model.layers.0.self_attn.v_proj.lora_B.weight", 8, RANK);
    tern_adapter *first = open_adapter(write_made(&f), model);
    const tern_adapter_pair *q = tern_adapter_find(first, TERN_ROLE_ATTN_Q, 0);
    for (int row = 0; row < 16; row++) {
        int source = row / 8 * 8 + row % 2 * 4 + row % 8 / 2;
        assert_float_equal(q->b[row * RANK + 1], f.values[1][source * RANK + 1], 0);
    }
    assert_memory_equal(q->a, f.values[0], RANK * 16 * sizeof(float));
    assert_memory_equal(tern_adapter_find(first, TERN_ROLE_ATTN_V, 0)->b, f.values[3], RANK * 8 * sizeof(float));
    const char *path = test_scratch("lora-llama.gguf");
    assert_ok(tern_adapter_write_gguf(first, path, &err), err);
    assert_float_equal(gguf_value(path, "blk.0.attn_q.weight.lora_b", RANK), f.values[1][4 * RANK], 0);
    tern_adapter *gguf = open_adapter(path, model);
    assert_same(first, gguf);
    assert_ok(tern_adapter_write_peft(gguf, test_scratch("lora-llama"), &err), err);
    tern_safetensors *st = NULL;
    assert_ok(tern_safetensors_open(&st, test_scratch("lora-llama/adapter_model.safetensors"), &err), err);
    assert_tensor(st, Q_B, f.values[1], 16 * RANK);
    tern_safetensors_close(st);
    tern_adapter_close(gguf);
    tern_adapter_close(first);
    tern_model_close(model);
    tern_buf_deinit(&bytes);
}

/* A llama adapter does not go with a BitNet model, nor a model where an adapter is expected. */
static void refuses_other_files(void **state)
{
    (void)state;
    tern_buf bytes;
    tern_model *llama = open_micro("llama", &bytes);
    folder f = sound(PLAIN "}");
    tern_adapter *adapter = open_adapter(write_made(&f), llama), *none = NULL;
    assert_ok(tern_adapter_write_gguf(adapter, test_scratch("lora-other.gguf"), &err), err);
    tern_adapter_close(adapter);
    tern_buf other;
    tern_model *bitnet = open_micro(NULL, &other);
    assert_int_equal(tern_adapter_open(&none, test_scratch("lora-other.gguf"), bitnet, &err), TERN_MALFORMED);
    assert_non_null(strstr(err.message, "\"llama\" found, the model's \"bitnet-b1.58\" expected"));
    assert_int_equal(tern_adapter_open(&none, test_fixture("tokenizers/ggml-vocab-gpt-2.gguf"), bitnet, &err),
                     TERN_MALFORMED);
    assert_non_null(strstr(err.message, "general.type"));
    assert_int_equal(tern_adapter_open(&none, "/nothing/here.gguf", bitnet, &err), TERN_NOT_FOUND);
    assert_null(none);
    tern_model_close(bitnet);
    tern_model_close(llama);
    tern_buf_deinit(&other);
    tern_buf_deinit(&bytes);
}

/* A file that ends anywhere is refused, whichever kind it is. */
static void refuses_truncations(void **state)
{
    (void)state;
    static const char *const files[] = {"lora-cut.gguf", "lora-made/adapter_model.safetensors",
                                        "lora-made/adapter_config.json"};
    tern_buf micro, whole = {0};
    tern_model *model = open_micro(NULL, &micro);
    folder f = sound(PLAIN "}");
    tern_adapter *adapter = open_adapter(write_made(&f), model);
    assert_ok(tern_adapter_write_gguf(adapter, test_scratch(files[0]), &err), err);
    tern_adapter_close(adapter);
    for (size_t i = 0; i < 3; i++) {
        const char *path = test_scratch(files[i]);
        assert_ok(tern_file_read(&whole, path, 1 << 20, &err), err);
        for (size_t n = 0; n < whole.size; n += test_quick() ? 7 : 1) {
            test_write_file(path, whole.data, n);
            adapter = NULL;
            assert_int_not_equal(tern_adapter_open(&adapter, path, model, &err), TERN_OK);
            assert_null(adapter);
        }
        test_write_file(path, whole.data, whole.size);
        tern_adapter_close(open_adapter(path, model));
    }
    tern_buf_deinit(&whole);
    tern_model_close(model);
    tern_buf_deinit(&micro);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(reads_the_fixture),   cmocka_unit_test(opens_by_each_path), cmocka_unit_test(round_trips),
    cmocka_unit_test(refuses_configs),     cmocka_unit_test(refuses_tensors),    cmocka_unit_test(refuses_values),
    cmocka_unit_test(keeps_settings),      cmocka_unit_test(permutes_llama),     cmocka_unit_test(refuses_other_files),
    cmocka_unit_test(refuses_truncations),
};

TEST_GROUP(adapter, "web", tests);
