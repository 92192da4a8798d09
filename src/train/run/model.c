/* A model from scratch: a tokenizer that is given or learned from the data, and random weights, as a folder. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/show.h"
#include "format/gguf_parts.h"
#include "format/json.h"
#include "model/init.h"
#include "text/tokenizer/bpe_train.h"
#include "train/run/internal.h"

/* ---- learning a tokenizer */

static bool is_jsonl(const char *path)
{
    const size_t n = strlen(path);
    return (n > 6 && strcmp(path + n - 6, ".jsonl") == 0) || (n > 7 && strcmp(path + n - 7, ".ndjson") == 0);
}

/* Text without the marks between documents. */
static tern_status add_text(tern_bpe_trainer *t, const char *text, size_t n, const char *mark, tern_error *err)
{
    const size_t n_mark = mark ? strlen(mark) : 0;
    for (const char *end = text + n; text < end;) {
        const char *found = n_mark ? memmem(text, (size_t)(end - text), mark, n_mark) : NULL;
        TERN_TRY(tern_bpe_trainer_add(t, text, (size_t)((found ? found : end) - text), err));
        text = found ? found + n_mark : end;
    }
    return TERN_OK;
}

static tern_status add_string(tern_bpe_trainer *t, const json_t *object, const char *key, tern_error *err)
{
    const json_t *value = json_object_get(object, key);
    if (!json_is_string(value)) return TERN_OK;
    return tern_bpe_trainer_add(t, json_string_value(value), json_string_length(value), err);
}

/* The parser of the line of JSONL. */
static tern_status add_line(tern_bpe_trainer *t, const char *line, size_t n, const char *what, tern_error *err)
{
    static const char *const keys[] = {"text", "prompt", "completion", "instruction", "input", "output", "system"};
    json_t *root = NULL;
    TERN_TRY(tern_json_parse(&root, line, n, what, err));
    const json_t *messages = json_object_get(root, "messages"), *turns = json_object_get(root, "conversations");
    tern_status status = TERN_OK;
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) TERN_GOTO(add_string(t, root, keys[i], err));
    for (size_t i = 0; i < json_array_size(messages); i++)
        TERN_GOTO(add_string(t, json_array_get(messages, i), "content", err));
    for (size_t i = 0; i < json_array_size(turns); i++)
        TERN_GOTO(add_string(t, json_array_get(turns, i), "value", err));
fail:
    tern_json_free(root);
    return status;
}

static tern_status add_lines(tern_bpe_trainer *t, const tern_buf *file, const char *path, tern_error *err)
{
    const char *end = file->data + file->size;
    for (const char *line = file->data, *next; line < end; line = next) {
        const char *stop = memchr(line, '\n', (size_t)(end - line));
        next = stop ? stop + 1 : end;
        const size_t n = (size_t)((stop ? stop : end) - line);
        if (strspn(line, " \t\r\n") >= n) continue;
        TERN_TRY(add_line(t, line, n, path, err));
    }
    return TERN_OK;
}

static tern_status add_file(const tern_run *run, tern_bpe_trainer *t, const char *path, tern_error *err)
{
    tern_buf file = {0};
    if (tern_run__is_data_file(path))
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "%s holds ids of another tokenizer: text to learn one from, or a tokenizer expected",
                         tern_show_z(path).text);
    TERN_TRY(tern_file_read(&file, path, tern_size_of((uint64_t)1 << 34), err));
    tern_status status =
        is_jsonl(path) ? add_lines(t, &file, path, err) : add_text(t, file.data, file.size, run->o->mark, err);
    tern_buf_deinit(&file);
    return status;
}

static tern_status learn_tokenizer(const tern_run *run, uint32_t n_vocab, tern_tokenizer **out, tern_error *err)
{
    tern_bpe_trainer *t;
    tern_run_progress progress = {run, "Learning a tokenizer"};
    TERN_TRY(tern_bpe_trainer_open(&t, err));
    tern_status status = TERN_OK;
    for (size_t i = 0; i < run->o->n_data; i++) TERN_GOTO(add_file(run, t, run->o->data[i], err));
    if (tern_bpe_trainer_n_pieces(t)) /* ids alone need none */
        TERN_GOTO(tern_bpe_trainer_finish(t, n_vocab, tern_run__progress, &progress, out, err));
fail:
    tern_bpe_trainer_close(t);
    return status;
}

/* ---- one that is given */

static tern_status open_gguf(const char *path, tern_tokenizer **out, tern_error *err)
{
    tern_gguf_file file;
    TERN_TRY(tern_gguf_file_open(&file, path, err));
    const tern_status status = tern_tokenizer_open_gguf(out, file.gguf, err);
    tern_gguf_file_close(&file);
    return status == TERN_OK ? status : tern_error_prefix(err, "%s", tern_show_z(path).text);
}

static tern_status find_tokenizer(const tern_run *run, const tern_init *init, tern_tokenizer **out, tern_error *err)
{
    const char *given = run->o->tokenizer;
    const uint32_t n_vocab = init->config.n_vocab;
    *out = NULL;
    if (run->o->n_data == 0) return TERN_OK; /* a dry run */
    if (!given) return learn_tokenizer(run, n_vocab, out, err);
    TERN_TRY(tern_path_ends(given, ".gguf") ? open_gguf(given, out, err) : tern_tokenizer_open_hf(out, given, err));
    if (tern_tokenizer_size(*out) <= n_vocab) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT, "a tokenizer of %u tokens: at most the vocab_size of %u expected",
                     tern_tokenizer_size(*out), n_vocab);
}

static tern_status write_model(const tern_run *run, const char *dir, const tern_init *init, tern_error *err)
{
    tern_tokenizer *tokenizer;
    const tern_master_source source = tern_init_source(init);
    tern_status status;
    TERN_GOTO(find_tokenizer(run, init, &tokenizer, err));
    TERN_GOTO(tern_hf_write(dir, &init->config, tokenizer, &source, NULL, err));
fail:
    tern_tokenizer_close(tokenizer);
    return status;
}

static tern_status make_new(const tern_run *run, const char *dir, tern_error *err)
{
    tern_init init;
    TERN_TRY(tern_init_read(&init, run->o->config, err));
    init.seed = run->o->seed;
    return write_model(run, dir, &init, err);
}

/* A model is called as its folder: as the output, without its folder and suffix. */
static void name_of(const tern_run *run, char out[64])
{
    const char *output = run->o->output ? run->o->output : "model";
    const char *slash = strrchr(output, '/'), *name = slash && slash[1] ? slash + 1 : output;
    size_t n = strcspn(name, "/"), suffix = run->to_gguf ? strlen(".gguf") : 0;
    snprintf(out, 64, "%.*s", (int)(n - suffix), name);
    if (strcmp(out, "checkpoint") == 0) snprintf(out, 64, "start"); /* that name is taken */
}

tern_status tern_run__make_model(tern_run *run, char **path, tern_error *err)
{
    char name[64];
    name_of(run, name);
    *path = tern_run__path(run, name);
    char *weights = *path ? tern_path_join(*path, "model.safetensors") : NULL;
    if (!weights) return tern_fail_alloc(err, strlen(run->folder) + 32);
    /* Written last: where it is, all is. */
    tern_status status = TERN_OK;
    const bool there = (run->o->resume && tern_file_exists(weights)) || !tern_run__is_first(run);
    if (!there) TERN_GOTO(tern_run__make_folders(run, err));
    if (!there) TERN_GOTO(run->o->model ? tern_run__add_tokens(run, *path, err) : make_new(run, *path, err));
    TERN_GOTO(tern_run__wait_for_first(run, err));
fail:
    tern_free(weights);
    return status;
}
