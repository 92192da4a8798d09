/* Packages: what is written is the same everywhere, what is read is the model, and what is damaged is said. */
#include "model/package_cases.h"

#include "quant/encoding.h"
#include "quant/weight.h"

/* The published sums of FIPS 180-2, and of nothing. */
static void sums(void **state)
{
    (void)state;
    char digits[TERN_SHA256_DIGITS + 1];
    assert_ok(tern_sha256("abc", 3, digits, &package_err), package_err);
    assert_string_equal(digits, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
    assert_ok(tern_sha256("", 0, digits, &package_err), package_err);
    assert_string_equal(digits, "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

static void shards_are_the_file(void **state)
{
    (void)state;
    tern_manifest m;
    tern_buf file = package_read_all(package_bundled);
    size_t at = 0;
    assert_ok(tern_manifest_read(&m, package_in_dir("manifest.json"), &package_err), package_err);
    assert_int_equal(m.bytes, file.size);
    assert_int_equal(m.n_shards, (file.size + SHARD - 1) / SHARD);
    assert_string_equal(m.name, "stories");
    for (size_t i = 0; i < m.n_shards; i++) {
        char digits[TERN_SHA256_DIGITS + 1];
        tern_buf shard = package_read_all(package_in_dir(m.shards[i].file));
        assert_int_equal(m.shards[i].offset, at);
        assert_int_equal(shard.size, m.shards[i].bytes);
        assert_memory_equal(shard.data, file.data + at, shard.size);
        assert_ok(tern_sha256(shard.data, shard.size, digits, &package_err), package_err);
        assert_string_equal(digits, m.shards[i].sha256);
        at += shard.size;
        tern_buf_deinit(&shard);
    }
    assert_int_equal(at, file.size);
    tern_manifest_deinit(&m);
    tern_buf_deinit(&file);
}

/* Every tensor is where the manifest says, across shards. */
static void tensors_are_where_it_says(void **state)
{
    (void)state;
    tern_manifest m;
    tern_file_map map = {0};
    tern_gguf *g;
    assert_ok(tern_manifest_read(&m, package_in_dir("manifest.json"), &package_err), package_err);
    assert_ok(tern_file_map_open(&map, package_bundled, &package_err), package_err);
    assert_ok(tern_gguf_parse(&g, map.data, map.size, &package_err), package_err);
    const json_t *tensors = json_object_get(m.root, "tensors");
    assert_int_equal(json_array_size(tensors), tern_gguf_n_tensors(g));
    for (size_t i = 0; i < json_array_size(tensors); i++) {
        const json_t *t = json_array_get(tensors, i);
        int64_t shard, offset, bytes;
        assert_true(tern_json_int(json_object_get(t, "shard"), &shard));
        assert_true(tern_json_int(json_object_get(t, "offset"), &offset));
        assert_true(tern_json_int(json_object_get(t, "bytes"), &bytes));
        const tern_gguf_tensor *want = tern_gguf_find_tensor(g, json_string_value(json_object_get(t, "name")));
        assert_non_null(want);
        assert_ptr_equal(map.data + m.shards[shard].offset + offset, want->data);
        assert_int_equal(bytes, want->bytes);
    }
    tern_gguf_close(g);
    tern_file_map_close(&map);
    tern_manifest_deinit(&m);
}

static void same_bytes_again(void **state)
{
    (void)state;
    char first[2000];
    tern_buf a = package_read_all(package_in_dir("manifest.json"));
    assert_true(snprintf(first, sizeof first, "%s", package_dir) < (int)sizeof first);
    snprintf(package_dir, sizeof package_dir, "%s-again", first);
    package_remove_package();
    assert_int_equal(mkdir(package_dir, 0777), 0); /* an empty folder is taken */
    assert_ok(
        tern_package_write(package_bundled, package_dir, &(tern_package_options){.shard_bytes = SHARD}, &package_err),
        package_err);
    tern_buf b = package_read_all(package_in_dir("manifest.json"));
    assert_int_equal(a.size, b.size);
    assert_memory_equal(a.data, b.data, a.size);
    assert_int_equal(tern_package_write(package_bundled, package_dir, NULL, &package_err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(package_err.message, " exists"));
    package_remove_package();
    snprintf(package_dir, sizeof package_dir, "%s", first);
    tern_buf_deinit(&a);
    tern_buf_deinit(&b);
}

static void models_are_the_same(void **state)
{
    (void)state;
    tern_model *a, *b;
    const char *const paths[] = {package_dir, package_in_dir("manifest.json")};
    assert_ok(tern_model_open(&a, package_bundled, NULL, &package_err), package_err);
    for (int i = 0; i < 2; i++) {
        assert_ok(tern_model_open(&b, paths[i], NULL, &package_err), package_err);
        assert_memory_equal(tern_model_config(a), tern_model_config(b), sizeof(tern_config));
        assert_int_equal(tern_model_bytes(a), tern_model_bytes(b));
        for (uint32_t layer = 0; layer < tern_model_config(a)->n_layers; layer++)
            for (int role = 0; role < TERN_ROLE_COUNT; role++) {
                const tern_weight *x = tern_model_weight(a, (tern_role)role, layer),
                                  *y = tern_model_weight(b, (tern_role)role, layer);
                assert_ptr_equal(x->encoding, y->encoding);
                assert_int_equal(x->bytes, y->bytes);
                assert_float_equal(x->scale, y->scale, 0);
                if (x->encoding) assert_memory_equal(x->data, y->data, x->bytes);
            }
        tern_model_close(b);
    }
    tern_model_close(a);
}

static void sampling_is_the_default(void **state)
{
    (void)state;
    const tern_sampler_params d = TERN_SAMPLER_DEFAULTS;
    tern_manifest m;
    assert_ok(tern_manifest_read(&m, package_in_dir("manifest.json"), &package_err), package_err);
    const json_t *s = json_object_get(json_object_get(m.root, "inference"), "sampling");
    assert_float_equal(json_number_value(json_object_get(s, "temperature")), d.temperature, 1e-6);
    assert_float_equal(json_number_value(json_object_get(s, "top_k")), d.top_k, 0);
    assert_float_equal(json_number_value(json_object_get(s, "top_p")), d.top_p, 1e-6);
    assert_float_equal(json_number_value(json_object_get(s, "min_p")), d.min_p, 1e-6);
    tern_manifest_deinit(&m);
}

/* Gemma: layers with a window, two bases of RoPE and norms behind blocks. The models are the same to the last field. */
static void windows(void **state)
{
    (void)state;
    char file[4200], dir[4000];
    const tern_synth_options options = {.preset = "gemma3-270m",
                                        .layers = 2,
                                        .linear = tern_encoding_by_name("q1_0"),
                                        .head = tern_encoding_by_name("q1_0")};
    const tern_package_options over = {.overwrite = true};
    tern_manifest m;
    tern_model *a, *b;
    snprintf(file, sizeof file, "%s", test_scratch("windows.gguf"));
    snprintf(dir, sizeof dir, "%s", test_scratch("windows"));
    assert_ok(tern_synth_write(file, &options, &package_err), package_err);
    assert_ok(tern_package_write(file, dir, &over, &package_err), package_err);
    assert_ok(tern_model_open(&a, file, NULL, &package_err), package_err);
    assert_ok(tern_model_open(&b, dir, NULL, &package_err), package_err);
    assert_int_equal(tern_model_config(b)->window, 512);
    assert_memory_equal(tern_model_config(a), tern_model_config(b), sizeof(tern_config));
    snprintf(file, sizeof file, "%s/manifest.json", dir);
    assert_ok(tern_manifest_read(&m, file, &package_err), package_err);
    const json_t *window = json_object_get(json_object_get(m.root, "inference"), "sliding_window");
    assert_float_equal(json_number_value(window), 512, 0);
    tern_manifest_deinit(&m);
    tern_model_close(b);
    tern_model_close(a);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(sums),
    cmocka_unit_test(shards_are_the_file),
    cmocka_unit_test(tensors_are_where_it_says),
    cmocka_unit_test(same_bytes_again),
    cmocka_unit_test(models_are_the_same),
    cmocka_unit_test(sampling_is_the_default),
    cmocka_unit_test(windows),
};

TEST_GROUP(package, "", tests, .setup = package_setup, .teardown = package_teardown);
