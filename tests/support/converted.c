/* Models written as GGUF for a test. */
#include "support/converted.h"

#include <unistd.h>

#include "model/model.h"
#include "quant/encoding.h"
#include "support/test.h"

enum { MAX_FILES = 32 };
static char *files[MAX_FILES];
static size_t n_files;

static void remove_files(void)
{
    for (size_t i = 0; i < n_files; i++) {
        unlink(files[i]);
        free(files[i]);
    }
}

static void remove_at_end(const char *path)
{
    for (size_t i = 0; i < n_files; i++)
        if (strcmp(files[i], path) == 0) return;
    if (n_files == 0) atexit(remove_files);
    assert_true(n_files < MAX_FILES);
    files[n_files++] = strdup(path);
}

static const char *convert(const char *from, const char *name, bool tokenizer, const char *linear, const char *head)
{
    tern_error err = {0};
    tern_model *model;
    const char *path = test_scratch(name);
    tern_export_options options = {.linear = linear ? tern_encoding_by_name(linear) : NULL,
                                   .head = head ? tern_encoding_by_name(head) : NULL};
    assert_ok(tern_model_open(&model, from, &(tern_model_options){.no_tokenizer = !tokenizer}, &err), err);
    assert_ok(tern_model_write_gguf(model, path, &options, &err), err);
    tern_model_close(model);
    remove_at_end(path);
    return path;
}

const char *test_converted(const char *from, const char *linear, const char *head)
{
    char name[64];
    snprintf(name, sizeof name, "converted-%d-%s.gguf", (int)getpid(), linear ? linear : "kept");
    return convert(from, name, false, linear, head);
}

const char *test_small_model(void)
{
    static char path[1024];
    char name[64];
    if (path[0]) return path;
    snprintf(name, sizeof name, "small-%d.gguf", (int)getpid());
    snprintf(path, sizeof path, "%s", convert(test_model("tiny-stories-bitnet"), name, true, NULL, NULL));
    return path;
}
