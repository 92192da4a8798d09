/* Loading piece by piece on every backend: the same tokens as from mapped files, in every encoding. */
#include <malloc.h>

#include "backend/counters.h"
#include "base/alloc.h"
#include "format/gguf.h"
#include "infer/engine/engine.h"
#include "infer/loading.h"
#include "model/package/package.h"
#include "quant/encoding.h"
#include "support/converted.h"
#include "support/gguf_cut.h"
#include "support/i2s_order.h"
#include "support/op_case.h"
#include "support/places.h"

static tern_engine_params params;

static int setup(void **state)
{
    (void)state;
    params.backend = (tern_backend_options){.n_threads = 2};
    if (test_on_gpu())
        params.backend = (tern_backend_options){.name = test_gpu_name(), .device = getenv("TERN_TEST_DEVICE")};
    return 0;
}

/* A model in every encoding that GGUF files have: of its layers, and of its tables. */
typedef struct loading_case {
    const char *model; /* in ../shared/fixtures */
    const char *linear, *head;
} loading_case;

static const loading_case loading_cases[] = {
    {"bitnet", "i2_s", NULL},         {"bitnet", "tq1_0", NULL},
    {"bitnet", "tq2_0", NULL},        {"bitnet", "t160", "f16"},
    {"bitnet-packed", "i2_s", "f32"}, {"bitnet-packed", "tq2_0", "bf16"},
    {"bitnet-packed", "t160", "f16"}, {"bitnet-packed", "f32", "f32"},
    {"llama", "q8_0", "q8_0"},        {"llama", "q6_k", "q6_k"},
    {"llama", "q4_k", "q4_k"},        {"llama", "bf16", "q6_k"},
    {"llama", "f16", "q8_0"},         {"llama", NULL, NULL},
};

enum { N_LOADING_CASES = sizeof loading_cases / sizeof *loading_cases };

static void every_encoding(void **state)
{
    (void)state;
    for (size_t i = 0; i < N_LOADING_CASES; i++) {
        if (!test_takes(i, 3, 1)) continue;
        const loading_case *c = &loading_cases[i];
        check_file(test_converted(test_fixture(c->model), c->linear, c->head), &params);
    }
}

/* Several matrices in one tensor, factors of RoPE for long contexts. */
static void joined(void **state)
{
    (void)state;
    check_file(test_converted(test_made("phi3"), "f32", NULL), &params);
}

/* Experts, which come in pieces like any rows, and their biases, which are kept. */
static void experts(void **state)
{
    (void)state;
    if (test_on_gpu()) test_skip("experts in pieces are tested on the CPU");
    check_file(test_converted(test_fixture("gpt-oss"), NULL, NULL), &params);
    check_file(test_converted(test_fixture("mixtral"), "q4_k", NULL), &params);
}

static void bundled(void **state)
{
    (void)state;
    check_file(TERN_SOURCE_DIR "/models/stories.gguf", &params);
}

static void session_moves(const char *path)
{
    tern_error err = {0};
    loading log = {0};
    const char *saved = test_scratch("loader.session");
    const int32_t ids[] = {5, 42, 79};
    tern_engine *a = map_file(path, &params), *b = load_file(path, &params, &log);
    tern_session *x = open_session(a, TERN_SIZED(tern_session_params, .n_ctx = 64)),
                 *y = open_session(b, TERN_SIZED(tern_session_params, .n_ctx = 64));
    assert_ok(tern_session_append(y, ids, 3, &err), err);
    assert_ok(tern_session_save(y, saved, &err), err);
    assert_ok(tern_session_restore(x, saved, &err), err);
    assert_int_equal(tern_session_n_tokens(x), 3);
    tern_session_close(x);
    tern_session_close(y);
    tern_engine_close(a);
    tern_engine_close(b);
    remove(saved);
}

/* Whoever saved a session, mapped or loaded: it is the same model's. */
static void sessions_move(void **state)
{
    (void)state;
    session_moves(TERN_SOURCE_DIR "/models/stories.gguf");
    session_moves(test_converted(test_fixture("bitnet"), "tq2_0", NULL));
}

static void remove_package(const char *dir)
{
    char path[4300];
    for (int i = 0; i < 100; i++) {
        snprintf(path, sizeof path, "%s/shard_%03d.bin", dir, i);
        remove(path);
    }
    snprintf(path, sizeof path, "%s/manifest.json", dir);
    remove(path);
    remove(dir);
}

/* The manifest goes before the file; one that says something else is refused with the header. */
static void check_manifest(const char *dir)
{
    tern_error err = {0};
    tern_buf text = {0};
    tern_loader *loader;
    tern_file_map map = {0};
    char path[4300];
    snprintf(path, sizeof path, "%s/manifest.json", dir);
    assert_ok(tern_file_read(&text, path, 1 << 20, &err), err);
    assert_ok(tern_file_map_open(&map, TERN_SOURCE_DIR "/models/stories.gguf", &err), err);
    for (int wrong = 0; wrong < 2; wrong++) {
        loading log = {0};
        if (wrong) memcpy(strstr(text.data, "\"heads\": 4"), "\"heads\": 8", 10);
        assert_ok(tern_loader_open(&loader, &params, map.size, &err), err);
        assert_ok(tern_loader_expect_json(loader, text.data, text.size, &err), err);
        tern_status status = give_heads(loader, map.data, map.size, 64, &log, &err);
        assert_int_equal(status, wrong ? TERN_MALFORMED : TERN_OK);
        if (wrong) assert_non_null(strstr(err.message, "inference.heads: 8 found, 4 expected"));
        tern_loader_close(loader);
    }
    tern_file_map_close(&map);
    tern_buf_deinit(&text);
}

static void packaged(void **state)
{
    (void)state;
#if defined(__EMSCRIPTEN__)
    test_skip("the page computes the sums");
#endif
    tern_error err = {0};
    const char *dir = test_scratch("loader-package");
    tern_engine *a = map_file(TERN_SOURCE_DIR "/models/stories.gguf", &params), *b;
    remove_package(dir);
    assert_ok(tern_package_write(TERN_SOURCE_DIR "/models/stories.gguf", dir,
                                 &(tern_package_options){.shard_bytes = 100003}, &err),
              err);
    assert_ok(tern_engine_open_path(&b, dir, NULL, &params, &err), err);
    assert_same(a, b, true);
    tern_engine_close(a);
    tern_engine_close(b);
    check_manifest(dir);
    remove_package(dir);
}

/* Where the experts of a package lie, for who has its manifest alone. */
typedef struct shelf {
    tern_package *package;
    uint32_t n;
    bool gone;
} shelf;

static tern_status bring(void *context, size_t shard, uint8_t *into, size_t bytes, tern_error *err)
{
    shelf *s = context;
    const tern_manifest_shard *of = &tern_package_manifest(s->package)->shards[shard];
    tern_package_expert e;
    if (s->gone) return tern_fail(err, TERN_IO, "nobody answers");
    TERN_TRY(tern_package_load_expert(s->package, of->layer, of->expert, &e, err));
    assert_int_equal(e.file.size, bytes);
    memcpy(into, e.file.data, bytes);
    tern_package_close_expert(&e);
    s->n++;
    return TERN_OK;
}

static tern_status load_without_experts(tern_engine **engine, const tern_file_map *file, const char *dir, shelf *from,
                                        tern_experts_size size, tern_error *err)
{
    char path[4300];
    tern_buf text = {0};
    tern_loader *loader = NULL;
    tern_package *package;
    tern_status status;
    loading log = {0};
    tern_engine_params how = params;
    how.experts = size;
    *engine = NULL;
    snprintf(path, sizeof path, "%s/manifest.json", dir);
    assert_ok(tern_file_read(&text, path, 1 << 20, err), *err);
    TERN_GOTO(tern_package_open_elsewhere(&package, text.data, text.size, bring, from, err));
    TERN_GOTO(tern_loader_open(&loader, &how, file->size, err));
    TERN_GOTO(tern_loader_experts(loader, package, err));
    TERN_GOTO(give_heads(loader, file->data, file->size, 64, &log, err));
    TERN_GOTO(give_pieces(loader, file->data, file->size, &log, err));
    TERN_GOTO(tern_loader_finish(loader, engine, err));
fail:
    tern_loader_close(loader);
    tern_buf_deinit(&text);
    return status;
}

/* The rest in pieces, experts when a step needs them: the same bits with every number of them in memory. */
static void experts_elsewhere(void **state)
{
    (void)state;
#if defined(__EMSCRIPTEN__)
    test_skip("the page computes the sums");
#endif
    if (test_on_gpu()) test_skip("experts in pieces are tested on the CPU");
    tern_error err = {0};
    shelf from = {0};
    tern_file_map map;
    tern_engine *a, *b;
    const char *dir = test_scratch("loader-experts"), *path = test_converted(test_fixture("mixtral"), "q4_k", NULL);
    remove_package(dir);
    assert_ok(tern_package_write(path, dir, &(tern_package_options){0}, &err), err);
    assert_ok(tern_package_open(&from.package, dir, NULL, &err), err);
    assert_ok(tern_file_map_open(&map, path, &err), err);
    a = map_file(path, &params);
    const uint32_t n = tern_engine_config(a)->n_experts, used = tern_engine_config(a)->n_experts_used;
    for (uint32_t held = used; held <= n; held += 3) {
        from.n = 0;
        const tern_experts_size size = {.per_layer = held == n ? 0 : held};
        assert_ok(load_without_experts(&b, &map, dir, &from, size, &err), err);
        assert_int_equal(from.n, 0);
        assert_same(a, b, true);
        const tern_backend *backend = tern_engine_backend(b);
        assert_int_equal(backend->info.paged->n_slots, held * tern_engine_config(a)->n_layers);
        tern_backend_counters c = {0};
        tern_engine_backend(b)->counters(tern_engine_backend(b), &c);
        assert_int_equal(from.n, c.expert_misses + c.expert_prefetched);
        assert_true(from.n > 0);
        tern_engine_close(b);
    }
    const int64_t live = tern_alloc_live();
    assert_int_equal(load_without_experts(&b, &map, dir, &from, (tern_experts_size){.per_layer = used - 1}, &err),
                     TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "of them at least"));
    assert_int_equal(tern_alloc_live(), live);
    tern_engine_close(a);
    tern_file_map_close(&map);
    tern_package_close(from.package);
    remove_package(dir);
}

/* A file that is read through has all of its experts in memory. */
static void experts_of_files(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_engine *engine;
    tern_file_map map;
    loading log = {0};
    tern_engine_params how = params;
    how.experts.per_layer = 2;
    assert_ok(tern_file_map_open(&map, TERN_SOURCE_DIR "/models/stories.gguf", &err), err);
    assert_int_equal(load_bytes(&engine, map.data, map.size, 4096, &how, &log, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "option experts: a package by expert expected"));
    tern_file_map_close(&map);
}

/* Rows that do not begin at a byte of their own, and factors for each row, which come after the rows. */
static void extras(void **state)
{
    (void)state;
    static const micro_change changes[] = {{.seed = 7},
                                           {.seed = 7, .extra = "blk.0.ffn_up.scale", .extra_cols = 1},
                                           {.seed = 7, .extra = "blk.0.ffn_up.scale", .extra_cols = 16},
                                           {.seed = 7,
                                            .width = 256,
                                            .tensor = "blk.0.ffn_up.weight",
                                            .type = 35,
                                            .extra = "blk.0.ffn_up.scale",
                                            .extra_cols = 256},
                                           {.seed = 7, .extra = "rope_freqs.weight", .extra_cols = 4},
                                           {.seed = 7, .extra = "nobody.wants.this", .extra_cols = 7}};
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) check_micro(&changes[i], &params);
}

/* What is wrong with a tensor's values is found in its pieces as well; the rest of the file before any device is asked.
 */
static void refused(void **state)
{
    (void)state;
    for (size_t i = 0; i < micro_n_refusals; i++) {
        if (test_on_gpu() && !micro_refusals[i].change.n) continue;
        const int64_t live = tern_alloc_live();
        refuse_loading(&micro_refusals[i], &params);
        assert_int_equal(tern_alloc_live(), live);
    }
}

/* Rows with several scales become q2_0 (model/open/regroup.c), in a model that comes in pieces too. */
static void scales_of_blocks(void **state)
{
    (void)state;
    static const micro_change several[] = {
        {.width = 512, .tensor = "blk.0.ffn_down.weight", .type = 35, .at = 64, .n = 2, .bytes = {0, 0x40}},
        {.width = 512, .tensor = "blk.0.ffn_down.weight", .type = 34, .at = 52, .n = 2, .bytes = {0, 0x40}}};
    for (size_t i = 0; i < sizeof several / sizeof *several; i++) check_micro(&several[i], &params);
}

/* I2_S layers in the order of another program are found out when all pieces are there. */
static void other_orders(void **state)
{
    (void)state;
    for (size_t o = 0; o < 3; o++) {
        tern_error err = {0};
        tern_engine *engine;
        loading log = {0};
        tern_buf file = test_i2s_file(TERN_SOURCE_DIR "/models/stories.gguf", test_i2s_orders[o]);
        const tern_status status =
            load_bytes(&engine, (const uint8_t *)file.data, file.size, 4096, &params, &log, &err);
        assert_int_equal(status, o ? TERN_UNSUPPORTED : TERN_OK);
        assert_int_equal(!engine, o != 0);
        if (o) assert_non_null(strstr(err.message, test_i2s_orders[o]));
        tern_engine_close(engine);
        tern_buf_deinit(&file);
    }
}

enum { PARTS = 3 };

static tern_status give_parts(tern_loader *loader, const tern_buf *parts, tern_error *err)
{
    const uint64_t sizes[PARTS] = {parts[0].size, parts[1].size, parts[2].size};
    tern_status status = tern_loader_parts(loader, sizes, PARTS, err);
    for (int i = 0; i < PARTS && status == TERN_OK; i++) {
        loading log = {0};
        assert_null(tern_loader_model(loader));
        status = give_heads(loader, (const uint8_t *)parts[i].data, parts[i].size, 64, &log, err);
    }
    return status;
}

/* A file in parts: heads come part by part, and pieces from the parts one behind another. */
static tern_status load_parts(tern_engine **engine, const tern_buf *parts, tern_error *err)
{
    tern_loader *loader = NULL;
    tern_buf all = {0};
    loading log = {0};
    tern_status status;
    *engine = NULL;
    for (int i = 0; i < PARTS; i++) assert_ok(tern_buf_add(&all, parts[i].data, parts[i].size, err), *err);
    TERN_GOTO(tern_loader_open(&loader, &params, all.size, err));
    TERN_GOTO(give_parts(loader, parts, err));
    TERN_GOTO(give_pieces(loader, (const uint8_t *)all.data, all.size, &log, err));
    TERN_GOTO(tern_loader_finish(loader, engine, err));
fail:
    tern_loader_close(loader);
    tern_buf_deinit(&all);
    return status;
}

static void in_parts(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_gguf *g;
    tern_buf parts[PARTS], file = micro_model(&(micro_change){.seed = 5});
    tern_model *model;
    tern_engine *a, *b;
    assert_ok(tern_gguf_parse(&g, file.data, file.size, &err), err);
    gguf_cut_all(g, PARTS, parts);
    assert_ok(tern_model_open_memory(&model, file.data, file.size, NULL, &err), err);
    assert_ok(tern_engine_open(&a, model, &params, &err), err);
    assert_ok(load_parts(&b, parts, &err), err);
    assert_same(a, b, true);
    tern_engine_close(a);
    tern_engine_close(b);
    const tern_buf again[PARTS] = {parts[0], parts[1], parts[1]};
    assert_int_equal(load_parts(&b, again, &err), TERN_MALFORMED);
    assert_string_equal(err.message, "part 3 of 3: split.no 1 found, 2 expected");
    for (int i = 0; i < PARTS; i++) tern_buf_deinit(&parts[i]);
    tern_gguf_close(g);
    tern_buf_deinit(&file);
}

/* What the parts are said to be must be the file. */
static void parts_refused(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_loader *loader;
    assert_ok(tern_loader_open(&loader, &params, 1000, &err), err);
    assert_int_equal(tern_loader_parts(loader, (uint64_t[]){400, 500}, 2, &err), TERN_INVALID_ARGUMENT);
    assert_string_equal(err.message, "900 bytes in 2 parts, 1000 expected");
    assert_int_equal(tern_loader_parts(loader, (uint64_t[]){UINT64_MAX, 1001}, 2, &err), TERN_INVALID_ARGUMENT);
    assert_ok(tern_loader_parts(loader, (uint64_t[]){400, 600}, 2, &err), err);
    assert_int_equal(tern_loader_parts(loader, (uint64_t[]){400, 600}, 2, &err), TERN_INVALID_ARGUMENT);
    tern_loader_close(loader);
}

/* A GPU would need the whole table to encode it anew. */
static void head_encodings(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_loader *loader;
    tern_engine_params how = params;
    how.head = tern_encoding_find(TERN_ENC_Q8_0);
    const tern_status status = tern_loader_open(&loader, &how, 1000, &err);
    if (test_on_gpu()) {
        char words[64];
        snprintf(words, sizeof words, "head in q8_0 on %s", test_gpu_name());
        assert_int_equal(status, TERN_UNSUPPORTED);
        assert_non_null(strstr(err.message, words));
        assert_null(loader);
    } else {
        assert_ok(status, err);
        tern_loader_close(loader);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(extras),           cmocka_unit_test(refused),        cmocka_unit_test(other_orders),
    cmocka_unit_test(scales_of_blocks), cmocka_unit_test(other_orders),   cmocka_unit_test(head_encodings),
    cmocka_unit_test(bundled),          cmocka_unit_test(joined),         cmocka_unit_test(experts),
    cmocka_unit_test(packaged),         cmocka_unit_test(every_encoding), cmocka_unit_test(sessions_move),
    cmocka_unit_test(in_parts),         cmocka_unit_test(parts_refused),  cmocka_unit_test(experts_elsewhere),
    cmocka_unit_test(experts_of_files),
};

TEST_GROUP(loader, "backends slow long", tests, .setup = setup);
