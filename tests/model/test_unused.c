/* Tensors of a file that nothing uses are counted and named. */
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "format/safetensors.h"
#include "model/model.h"
#include "support/converted.h"
#include "support/micro_model.h"
#include "support/places.h"
#include "support/test.h"

static tern_error err;

static void check(const char *path, uint64_t n, const char *names)
{
    tern_model *model;
    assert_ok(tern_model_open(&model, path, &(tern_model_options){.no_tokenizer = true}, &err), err);
    assert_int_equal(tern_model_unused(model)->n, n);
    assert_string_equal(tern_model_unused(model)->names, names);
    tern_model_close(model);
}

static void check_micro(const micro_change *change, uint64_t n, const char *names)
{
    tern_buf bytes = micro_model(change);
    const char *path = test_scratch("unused.gguf");
    test_write_file(path, bytes.data, bytes.size);
    check(path, n, names);
    unlink(path);
    tern_buf_deinit(&bytes);
}

static void gguf(void **state)
{
    (void)state;
    check_micro(&(micro_change){0}, 0, "");
    check_micro(&(micro_change){.extra = "blk.0.attn_q.scale", .extra_cols = 1}, 0, "");
    check_micro(&(micro_change){.extra = "rope_freqs.weight", .extra_cols = 4}, 0, "");
    check_micro(&(micro_change){.extra = "blk.1.attn_q.weight", .extra_cols = 16}, 1, "blk.1.attn_q.weight");
    check_micro(&(micro_change){.extra = "a\x1b[31mb", .extra_cols = 3}, 1, "a\\x1b[31mb");
}

/* Scales of packed matrices are used; `n` tensors more are not. */
static void folder(const char *fixture, size_t n, const char *names)
{
    static const float zeros[4];
    tern_safetensors *st;
    tern_buf config = {0};
    char from[256], dir[256], path[300];
    snprintf(from, sizeof from, "%s", test_fixture(fixture));
    snprintf(dir, sizeof dir, "%s", test_scratch("unused"));
    mkdir(dir, 0777);
    assert_ok(tern_safetensors_open(&st, from, &err), err);
    const size_t count = tern_safetensors_count(st);
    tern_st_tensor *tensors = calloc(count + n, sizeof *tensors);
    for (size_t i = 0; i < count; i++) tensors[i] = *tern_safetensors_at(st, i);
    char extra[8][32];
    for (size_t i = 0; i < n; i++) {
        snprintf(extra[i], sizeof extra[i], "extra.%zu", i);
        tensors[count + i] = (tern_st_tensor){.name = extra[i],
                                              .dtype = TERN_ST_F32,
                                              .n_dims = 1,
                                              .dims = {4},
                                              .n_elements = 4,
                                              .data = (const uint8_t *)zeros,
                                              .bytes = sizeof zeros};
    }
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    assert_ok(tern_safetensors_write(path, tensors, count + n, NULL, &err), err);
    free(tensors);
    tern_safetensors_close(st);
    snprintf(path, sizeof path, "%s/config.json", from);
    assert_ok(tern_file_read(&config, path, 1 << 20, &err), err);
    snprintf(path, sizeof path, "%s/config.json", dir);
    test_write_file(path, config.data, config.size);
    tern_buf_deinit(&config);
    check(dir, n, names);
    unlink(path);
    snprintf(path, sizeof path, "%s/model.safetensors", dir);
    unlink(path);
    rmdir(dir);
}

static void folders(void **state)
{
    (void)state;
    folder("bitnet", 0, "");
    folder("bitnet-packed", 2, "extra.0, extra.1");
    folder("bitnet", 3, "extra.0, extra.1, extra.2");
    folder("llama", 5, "extra.0, extra.1, extra.2, ...");
}

static void converted_files_have_none(void **state)
{
    (void)state;
    check(test_converted(test_fixture("bitnet"), "tq2_0", NULL), 0, "");
    check(TERN_SOURCE_DIR "/models/stories.gguf", 0, "");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(gguf),
    cmocka_unit_test(folders),
    cmocka_unit_test(converted_files_have_none),
};

TEST_GROUP(unused, "", tests);
