/* Packages by expert: every byte in one shard, experts by themselves, and what is said of one that is missing or
 * damaged. */
#include "model/package_cases.h"

#include "base/alloc.h"
#include "model/model.h"
#include "quant/weight.h"

enum { N_ROLES = 6 };

static const tern_role roles[N_ROLES] = {TERN_ROLE_FFN_GATE_EXPS,    TERN_ROLE_FFN_UP_EXPS,
                                         TERN_ROLE_FFN_DOWN_EXPS,    TERN_ROLE_FFN_GATE_EXPS_BIAS,
                                         TERN_ROLE_FFN_UP_EXPS_BIAS, TERN_ROLE_FFN_DOWN_EXPS_BIAS};

static char file[4200];

/* A model of random weights and its package, in package_dir. */
static void make(const char *preset)
{
    const tern_synth_options how = {.preset = preset};
    snprintf(file, sizeof file, "%s", test_scratch("experts.gguf"));
    snprintf(package_dir, sizeof package_dir, "%s", test_scratch("experts"));
    package_remove_package();
    assert_ok(tern_synth_write(file, &how, &package_err), package_err);
    assert_ok(tern_package_write(file, package_dir, &(tern_package_options){.shard_bytes = SHARD}, &package_err),
              package_err);
}

static void check_ranges(const tern_manifest *m, const tern_buf *whole)
{
    for (size_t i = 0; i < m->n_ranges; i++) {
        const tern_manifest_range *r = &m->ranges[i];
        tern_buf shard = package_read_all(package_in_dir(m->shards[r->shard].file));
        assert_int_equal(shard.size, m->shards[r->shard].bytes);
        assert_memory_equal(shard.data + r->at, whole->data + r->offset, r->bytes);
        tern_buf_deinit(&shard);
    }
}

/* An expert's parts are its rows of the model's weights. */
static void check_expert(const tern_model *model, tern_package *p, uint32_t layer, uint32_t expert)
{
    tern_package_expert e;
    uint32_t n = 0;
    assert_ok(tern_package_load_expert(p, layer, expert, &e, &package_err), package_err);
    for (int i = 0; i < N_ROLES; i++) {
        const tern_weight *w = tern_model_weight(model, roles[i], layer);
        if (!w->encoding) continue;
        const size_t bytes = w->bytes / tern_model_config(model)->n_experts;
        assert_int_equal(e.bytes[n], bytes);
        assert_memory_equal(e.parts[n], w->data + expert * bytes, bytes);
        n++;
    }
    assert_int_equal(e.n_parts, n);
    tern_package_close_expert(&e);
}

static void check_experts(const tern_model *model)
{
    tern_package *p;
    tern_package_expert none;
    const tern_config *c = tern_model_config(model);
    assert_ok(tern_package_open_dense(&p, package_dir, NULL, &package_err), package_err);
    for (uint32_t layer = 0; layer < c->n_layers; layer++)
        for (uint32_t expert = 0; expert < c->n_experts; expert++) check_expert(model, p, layer, expert);
    assert_int_equal(tern_package_load_expert(p, 0, c->n_experts, &none, &package_err), TERN_NOT_FOUND);
    assert_int_equal(tern_package_load_expert(p, c->n_layers, 0, &none, &package_err), TERN_NOT_FOUND);
    tern_package_close(p);
}

static void check_same(const tern_model *a, const tern_model *b, bool experts)
{
    for (uint32_t layer = 0; layer < tern_model_config(a)->n_layers; layer++)
        for (int role = 0; role < TERN_ROLE_COUNT; role++) {
            const tern_weight *x = tern_model_weight(a, (tern_role)role, layer),
                              *y = tern_model_weight(b, (tern_role)role, layer);
            const bool of_expert = role >= TERN_ROLE_FFN_GATE_EXPS && role <= TERN_ROLE_FFN_DOWN_EXPS_BIAS;
            assert_ptr_equal(x->encoding, y->encoding);
            assert_int_equal(x->bytes, y->bytes);
            if (x->encoding && of_expert && !experts) assert_null(y->data);
            else if (x->encoding) assert_memory_equal(x->data, y->data, x->bytes);
        }
}

static void check_preset(const char *preset, uint32_t n_dense)
{
    tern_manifest m;
    tern_model *a, *b;
    tern_package *p;
    make(preset);
    assert_ok(tern_manifest_read(&m, package_in_dir("manifest.json"), &package_err), package_err);
    assert_ok(tern_model_open(&a, file, NULL, &package_err), package_err);
    const tern_config *c = tern_model_config(a);
    assert_int_equal(m.version, 2);
    assert_int_equal(m.n_experts, c->n_experts);
    assert_true(m.n_shards >= n_dense + c->n_layers * c->n_experts);
    tern_buf whole = package_read_all(file);
    check_ranges(&m, &whole);
    tern_buf_deinit(&whole);
    tern_manifest_deinit(&m);
    check_experts(a);
    assert_ok(tern_model_open(&b, package_dir, NULL, &package_err), package_err);
    check_same(a, b, true);
    tern_model_close(b);
    assert_ok(tern_package_open_dense(&p, package_dir, NULL, &package_err), package_err);
    assert_ok(tern_package_model_without_experts(&b, p, NULL, &package_err), package_err);
    check_same(a, b, false);
    assert_int_equal(tern_model_bytes(a), tern_model_bytes(b));
    tern_model_close(b);
    tern_package_close(p);
    tern_model_close(a);
}

static void round_trips(void **state)
{
    (void)state;
    check_preset("mixtral-tiny", 2);
    check_preset("gpt-oss-tiny", 2);
    check_preset("qwen3moe-tiny", 2);
}

static void expect(tern_package *p, tern_status status, const char *says)
{
    tern_package_expert e;
    assert_int_equal(tern_package_load_expert(p, 1, 3, &e, &package_err), status);
    if (says && !strstr(package_err.message, says)) fail_msg("%s: %s expected", package_err.message, says);
    assert_null(e.file.data);
}

/* Each fault is seen when the expert is asked for, and gone when it is mended. */
static void faults(void **state)
{
    (void)state;
    tern_package *p;
    tern_model *model;
    tern_error err = {0};
    make("mixtral-tiny");
    assert_ok(tern_model_open(&model, file, NULL, &err), err);
    assert_ok(tern_package_open_dense(&p, package_dir, NULL, &err), err);
    const tern_manifest_shard *s = tern_manifest_expert(tern_package_manifest(p), 1, 3);
    assert_non_null(s);
    char path[4300];
    snprintf(path, sizeof path, "%s", package_in_dir(s->file));
    tern_buf right = package_read_all(path);
    check_expert(model, p, 1, 3);
    assert_int_equal(unlink(path), 0);
    expect(p, TERN_NOT_FOUND, s->file);
    assert_ok(tern_file_write(path, right.data, right.size - 1, &err), err);
    expect(p, TERN_MALFORMED, "bytes found");
    right.data[right.size / 2] ^= 1;
    assert_ok(tern_file_write(path, right.data, right.size, &err), err);
    expect(p, TERN_MALFORMED, "SHA-256");
    right.data[right.size / 2] ^= 1;
    assert_ok(tern_file_write(path, right.data, right.size, &err), err);
    check_expert(model, p, 1, 3);
    tern_buf_deinit(&right);
    tern_package_close(p);
    tern_model_close(model);
}

/* Reads the shard's file, unless it is not to be had. */
typedef struct place {
    const tern_manifest *manifest;
    bool gone;
    size_t n;
} place;

static tern_status bring(void *context, size_t shard, uint8_t *into, size_t bytes, tern_error *err)
{
    place *p = context;
    if (p->gone) return tern_fail(err, TERN_IO, "nobody answers");
    tern_buf data = package_read_all(package_in_dir(p->manifest->shards[shard].file));
    assert_int_equal(data.size, bytes);
    memcpy(into, data.data, bytes);
    tern_buf_deinit(&data);
    p->n++;
    return TERN_OK;
}

/* A package of which only the manifest is at hand: each expert is brought when it is asked for. */
static void elsewhere(void **state)
{
    (void)state;
    tern_package *p;
    tern_model *model;
    tern_error err = {0};
    place from = {0};
    make("gpt-oss-tiny");
    assert_ok(tern_model_open(&model, file, NULL, &err), err);
    tern_buf text = package_read_all(package_in_dir("manifest.json"));
    const int64_t live = tern_alloc_live();
    assert_ok(tern_package_open_elsewhere(&p, text.data, text.size, bring, &from, &err), err);
    from.manifest = tern_package_manifest(p);
    const tern_config *c = tern_model_config(model);
    for (uint32_t layer = 0; layer < c->n_layers; layer++)
        for (uint32_t expert = 0; expert < c->n_experts; expert++) check_expert(model, p, layer, expert);
    assert_int_equal(from.n, (size_t)c->n_layers * c->n_experts);
    from.gone = true;
    expect(p, TERN_IO, "nobody answers");
    assert_non_null(strstr(package_err.message, tern_manifest_expert(from.manifest, 1, 3)->file));
    from.gone = false;
    check_expert(model, p, 1, 3);
    tern_package_close(p);
    assert_int_equal(tern_package_open_elsewhere(&p, text.data, text.size - 9, bring, &from, &err), TERN_MALFORMED);
    assert_null(p);
    assert_int_equal(tern_alloc_live(), live);
    tern_buf_deinit(&text);
    tern_model_close(model);
}

/* What the manifest says is changed as text. */
static void check_change(const char *from, const char *to, tern_status status, const char *says)
{
    tern_manifest m;
    tern_buf text = package_read_all(package_in_dir("manifest.json")), changed = {0};
    assert_ok(tern_buf_add(&text, "", 1, &package_err), package_err);
    const char *at = strstr((const char *)text.data, from);
    if (!at) {
        fail_msg("the manifest has no %s", from);
        return;
    }
    const size_t before = (size_t)(at - (const char *)text.data);
    assert_ok(tern_buf_add(&changed, text.data, before, &package_err), package_err);
    assert_ok(tern_buf_add(&changed, to, strlen(to), &package_err), package_err);
    assert_ok(tern_buf_add(&changed, at + strlen(from), strlen(at + strlen(from)), &package_err), package_err);
    assert_int_equal(tern_manifest_parse(&m, changed.data, changed.size, &package_err), status);
    if (!strstr(package_err.message, says)) fail_msg("%s: %s expected", package_err.message, says);
    tern_buf_deinit(&text);
    tern_buf_deinit(&changed);
}

static void manifests(void **state)
{
    (void)state;
    static const struct {
        const char *from, *to;
        tern_status status;
        const char *says;
    } cases[] = {
        {"\"shardingStrategy\": \"expert\"", "\"shardingStrategy\": \"column\"", TERN_UNSUPPORTED, "\"column\" found"},
        {"\"version\": 2", "\"version\": 3", TERN_UNSUPPORTED, "version: 3 found, 1 or 2 expected"},
        {"\"version\": 2", "\"version\": 1", TERN_UNSUPPORTED, "inference.experts"},
        {"\"numExperts\": 8", "\"numExperts\": 0", TERN_MALFORMED, "moeConfig.numExperts: 0 found"},
        {"\"numExperts\": 8", "\"numExperts\": 7", TERN_MALFORMED, "expertKey: 0_7 found"},
        {"\"numExperts\": 8", "\"numExperts\": 9", TERN_MALFORMED, "of experts found"},
        {"\"numExpertsPerTok\": 2", "\"numExpertsPerTok\": 9", TERN_MALFORMED, "9 found, 1 to 8 expected"},
        {"\"expertKey\": \"0_3\"", "\"expertKey\": \"0_03\"", TERN_MALFORMED, "0_03 found"},
        {"\"expertKey\": \"0_3\"", "\"expertKey\": \"2_3\"", TERN_MALFORMED, "2_3 found"},
        {"\"expertKey\": \"0_3\"", "\"expertKey\": \"0_2\"", TERN_MALFORMED, "a second time"},
        {"\"0_3\": ", "\"0_3\": 1", TERN_MALFORMED, "expertShardMap.0_3"},
        {"\"type\": \"dense\"", "\"type\": \"thin\"", TERN_MALFORMED, "\"dense\" or \"expert\" expected"},
        {"\"type\": \"expert\"", "\"type\": \"dense\"", TERN_MALFORMED, "of experts found"},
        {"\"rule\": ", "\"order\": 1, \"rule\": ", TERN_UNSUPPORTED, "inference.experts.order"},
        {"\"shardingStrategy\": \"expert\",", "", TERN_MALFORMED, "shardingStrategy: missing"},
    };
    make("mixtral-tiny");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        check_change(cases[i].from, cases[i].to, cases[i].status, cases[i].says);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(round_trips),
    cmocka_unit_test(faults),
    cmocka_unit_test(elsewhere),
    cmocka_unit_test(manifests),
};

TEST_GROUP(package_experts, "", tests);
