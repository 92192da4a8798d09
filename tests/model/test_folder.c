/* Folders given as models that are no Hugging Face folders. */
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "model/support.h"
#include "support/micro_model.h"

static char folder[256];

static void put(const char *name, const void *bytes, size_t n)
{
    tern_error err = {0};
    tern_file_writer w = {0};
    char path[400];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_ok(tern_file_writer_open(&w, path, &err), err);
    tern_file_writer_add(&w, bytes, n);
    assert_ok(tern_file_writer_commit(&w, &err), err);
}

static void take(const char *name)
{
    char path[400];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    assert_int_equal(unlink(path), 0);
}

/* The message says of what, once. */
static void path_refused(const char *path, tern_status status, const char *message)
{
    tern_model *model;
    tern_error err = {0};
    assert_int_equal(tern_model_open(&model, path, NULL, &err), status);
    assert_null(model);
    if (!strstr(err.message, message)) fail_msg("%s found, %s expected", err.message, message);
    const char *first = strstr(err.message, folder);
    if (!first || strstr(first + 1, folder)) fail_msg("%s found, %s once expected", err.message, folder);
}

static void refused(tern_status status, const char *message)
{
    path_refused(folder, status, message);
}

static void file_refused(const char *name, tern_status status, const char *message)
{
    char path[400];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    path_refused(path, status, message);
}

static void one_gguf_file_is_the_model(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_model *model;
    tern_buf file = micro_model(&(micro_change){.seed = 3});
    snprintf(folder, sizeof folder, "%s", test_scratch("a-folder"));
    assert_int_equal(mkdir(folder, 0700), 0);
    refused(TERN_NOT_FOUND, ": neither config.json nor a GGUF file found in this folder");
    put("some.gguf", file.data, file.size);
    assert_ok(tern_model_open(&model, folder, NULL, &err), err);
    tern_model_close(model);
    put("other.gguf", file.data, file.size);
    refused(TERN_INVALID_ARGUMENT, ": 2 GGUF files found, ");
    put("adapter_config.json", "{}", 2);
    refused(TERN_INVALID_ARGUMENT, ": a LoRA adapter found, a model expected: --lora takes the adapter, -m its model");
    file_refused("adapter_model.safetensors", TERN_NOT_FOUND, "adapter_model.safetensors: no such file");
    file_refused("adapter_config.json", TERN_INVALID_ARGUMENT, ": a LoRA adapter found, a model expected");
    put("config.json", "{", 1);
    refused(TERN_MALFORMED, "/config.json: line 1, column 1: ");
    put("config.json", "{\"architectures\": [\"MambaForCausalLM\"]}", 39);
    refused(TERN_UNSUPPORTED, "config.json: MambaForCausalLM is not supported (architectures); BitNetForCausalLM, ");
    static const char *const names[] = {"some.gguf", "other.gguf", "adapter_config.json", "config.json"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) take(names[i]);
    assert_int_equal(rmdir(folder), 0);
    tern_buf_deinit(&file);
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(one_gguf_file_is_the_model)};

TEST_GROUP(folder, "", tests);
