/* What a run starts from: its data, tokenised where it is text, packed into rows, some of them held out; and a model
 * from nothing, a tokenizer that is given or learned from the data and random weights, as a folder. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/show.h"
#include "format/gguf_parts.h"
#include "format/json.h"
#include "model/init.h"
#include "text/bpe_train.h"
#include "text/chat_marks.h"
#include "train/data_layout.h"
#include "train/data_read.h"
#include "train/run_internal.h"

/* ---- data */

/* Whether the file begins with these bytes, at most 8. */
static bool begins_with(const char *path, const char *magic)
{
    char found[8] = "";
    const size_t n = strlen(magic);
    FILE *f = fopen(path, "rbe");
    if (!f) return false;
    const bool is = fread(found, 1, n, f) == n && memcmp(found, magic, n) == 0;
    fclose(f);
    return is;
}

static bool is_data_file(const char *path)
{
    return begins_with(path, TERN_TRAIN_DATA_MAGIC);
}

static bool is_jsonl(const char *path)
{
    const size_t n = strlen(path);
    return (n > 6 && strcmp(path + n - 6, ".jsonl") == 0) || (n > 7 && strcmp(path + n - 7, ".ndjson") == 0);
}

/* Files to be opened as one. */
typedef struct side {
    const char *const *paths;
    size_t n;
    const char *name; /* of the file of tokens in the run's folder */
} side;

static tern_status open_template(const tern_run *run, tern_chat_template **out, tern_error *err)
{
    const tern_tokenizer *t = tern_model_tokenizer(run->model);
    const char *source = t ? tern_tokenizer_chat_template(t) : run->o->chat_template;
    tern_error why = {0};
    *out = NULL;
    if (!source || tern_chat_template_parse(out, source, strlen(source), &why) == TERN_OK) return TERN_OK;
    if (run->o->chat_template) return tern_fail(err, why.code, "chat template: %s", why.message);
    tern_run__note(run, "the model's chat template cannot be used: %s", why.message);
    return TERN_OK;
}

static tern_train_split split_of(const tern_finetune_options *o)
{
    if (o->mark) return TERN_TRAIN_SPLIT_MARK;
    if (!o->split || strcmp(o->split, "file") == 0) return TERN_TRAIN_SPLIT_FILE;
    return strcmp(o->split, "blank") == 0 ? TERN_TRAIN_SPLIT_BLANK : TERN_TRAIN_SPLIT_LINE;
}

static void note_skipped(const tern_run *run, const tern_train_data_report *report)
{
    const uint64_t n = report->skipped[TERN_TRAIN_SHORT] + report->skipped[TERN_TRAIN_NO_LABELS];
    if (n)
        tern_run__note(run, "%llu documents left out: shorter than two tokens, or nothing in them to learn",
                       (unsigned long long)n);
    if (report->bad)
        tern_run__note(run, "%llu bad lines left out, first %s", (unsigned long long)report->bad,
                       report->first_bad.message);
}

/* Marks that are no tokens have to be learned letter by letter, and anybody's text can spell them. */
static tern_status note_marks(const tern_run *run, const tern_chat_template *template, tern_error *err)
{
    tern_buf marks = {0};
    uint32_t n;
    tern_status status;
    TERN_GOTO(tern_chat_plain_marks(template, tern_model_tokenizer(run->model), &marks, &n, err));
    if (n)
        tern_run__note(run,
                       "marks of the chat template are ordinary text in this vocabulary, slower to learn and open to "
                       "whoever writes them: %.*s; a template whose marks are tokens here is better (--template)",
                       (int)(marks.size < 200 ? marks.size : 200), marks.data);
fail:
    tern_buf_deinit(&marks);
    return status;
}

static tern_status tokenize(tern_run *run, const side *s, const char *path, tern_error *err)
{
    tern_run_progress progress = {run, "Tokenising"};
    tern_train_data_report report;
    tern_chat_template *template;
    TERN_TRY(open_template(run, &template, err));
    const tern_train_data_params params = {.maker = {.n_vocab = tern_model_config(run->model)->n_vocab,
                                                     .tokenizer = tern_model_tokenizer(run->model),
                                                     .template = template},
                                           .inputs = s->paths,
                                           .n_inputs = s->n,
                                           .split = split_of(run->o),
                                           .mark = run->o->mark,
                                           .column = run->o->column,
                                           .skip_bad = run->o->skip_bad,
                                           .progress = tern_run__progress,
                                           .context = &progress};
    tern_status status = tern_train_data_make(&params, path, &report, err);
    if (status == TERN_OK) note_skipped(run, &report);
    if (status == TERN_OK && report.conversations) status = note_marks(run, template, err);
    tern_chat_template_close(template);
    return status;
}

static tern_status match(const tern_run *run, const tern_train_data *data, const char *path, tern_error *err)
{
    const uint32_t n_vocab = tern_model_config(run->model)->n_vocab;
    if (tern_train_data_match(data, n_vocab, tern_model_tokenizer(run->model), err) == TERN_OK) return TERN_OK;
    return tern_error_prefix(err, "%s", tern_show_z(path).text);
}

static tern_status open_side(tern_run *run, const side *s, tern_train_data **data, tern_error *err)
{
    for (size_t i = 0; i < s->n; i++)
        if (begins_with(s->paths[i], "GGUF"))
            return tern_fail(err, TERN_INVALID_ARGUMENT, "%s is a model: text, JSONL or a file of `tern data` expected",
                             tern_show_z(s->paths[i]).text);
    for (size_t i = 0; i < s->n; i++)
        if (s->n > 1 && is_data_file(s->paths[i]))
            return tern_fail(err, TERN_INVALID_ARGUMENT,
                             "%s beside other files: one file of `tern data`, or files of text expected",
                             tern_show_z(s->paths[i]).text);
    if (is_data_file(s->paths[0])) {
        TERN_TRY(tern_train_data_open(data, s->paths[0], err));
        return match(run, *data, s->paths[0], err);
    }
    char *path = tern_run__path(run, s->name);
    tern_status status;
    TERN_GOTO(path ? tokenize(run, s, path, err) : tern_fail_alloc(err, strlen(s->name)));
    TERN_GOTO(tern_train_data_open(data, path, err));
fail:
    tern_free(path);
    return status;
}

static tern_status pack(const tern_run *run, const tern_train_data *data, double held_out, bool validation,
                        tern_train_pack **out, tern_error *err)
{
    const tern_train_pack_params params = {
        .seq = run->params.seq, .held_out = held_out, .seed = run->o->seed, .validation = validation};
    return tern_train_pack_open(out, data, &params, err);
}

/* The part that is held out when nobody says. */
static tern_status choose_split(const tern_run *run, double *split, tern_error *err)
{
    tern_train_pack *all;
    *split = run->o->validation_split;
    if (*split >= 0) return TERN_OK;
    TERN_TRY(pack(run, run->data, 0, false, &all, err));
    const uint32_t n = tern_train_pack_about(all)->n_rows;
    tern_train_pack_close(all);
    *split = tern_train_pack_default_held_out(n);
    if (*split == 0)
        tern_run__note(run, "no validation: %u rows are too few to hold some out (a split or other data turns it on)",
                       n);
    return TERN_OK;
}

static tern_status pack_both(tern_run *run, tern_error *err)
{
    double split = 0;
    if (run->validation_data) TERN_TRY(pack(run, run->validation_data, 0, false, &run->validation, err));
    else TERN_TRY(choose_split(run, &split, err));
    if (split > 0) TERN_TRY(pack(run, run->data, split, true, &run->validation, err));
    TERN_TRY(pack(run, run->data, split, false, &run->pack, err));
    run->order = (tern_train_order){
        .n_rows = tern_train_pack_about(run->pack)->n_rows, .shuffled = !run->o->sequential, .seed = run->o->seed};
    return TERN_OK;
}

tern_status tern_run__open_data(tern_run *run, tern_error *err)
{
    const tern_finetune_options *o = run->o;
    if (o->split && o->mark) return tern_fail(err, TERN_INVALID_ARGUMENT, "split and mark: one of them expected");
    if (o->validation_data && o->validation_split > 0)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "validation data and a validation split: one of them expected");
    TERN_TRY(tern_run__make_folders(run, err));
    TERN_TRY(open_side(run, &(side){o->data, o->n_data, "data.tern"}, &run->data, err));
    if (o->validation_data)
        TERN_TRY(open_side(run, &(side){&o->validation_data, 1, "validation.tern"}, &run->validation_data, err));
    return pack_both(run, err);
}

tern_status tern_run__alloc_rows(tern_run *run, tern_error *err)
{
    tern_run_rows *r = &run->rows;
    const size_t seq = run->params.seq, per_row = 3 * seq;
    r->n = (size_t)run->params.batch * run->params.accumulate;
    r->rows = tern_calloc(r->n, sizeof *r->rows);
    r->numbers = tern_calloc(r->n, per_row * sizeof *r->numbers);
    if (!r->rows || !r->numbers) return tern_fail_alloc(err, r->n * per_row * sizeof *r->numbers);
    for (size_t i = 0; i < r->n; i++) {
        int32_t *at = r->numbers + i * per_row;
        r->rows[i] = (tern_train_row){.ids = at, .labels = at + seq, .starts = (uint32_t *)(at + 2 * seq)};
    }
    return TERN_OK;
}

/* ---- learning a tokenizer */

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

/* What the line of JSONL has to read. */
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
    if (is_data_file(path))
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "%s holds ids of another tokenizer: text to learn one from, or a tokenizer expected",
                         tern_show_z(path).text);
    TERN_TRY(tern_file_read(&file, path, tern_size_of((uint64_t)1 << 34), err));
    tern_status status =
        is_jsonl(path) ? add_lines(t, &file, path, err) : add_text(t, file.data, file.size, run->o->mark, err);
    tern_buf_deinit(&file);
    return status;
}

static tern_status learn(const tern_run *run, uint32_t n_vocab, tern_tokenizer **out, tern_error *err)
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
    if (!given) return learn(run, n_vocab, out, err);
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
    tern_init init;
    char name[64];
    name_of(run, name);
    *path = tern_run__path(run, name);
    char *weights = *path ? tern_path_join(*path, "model.safetensors") : NULL;
    if (!weights) return tern_fail_alloc(err, strlen(run->folder) + 32);
    /* Written last: where it is, all is. */
    tern_status status = TERN_OK;
    if (run->o->resume && tern_file_exists(weights)) goto fail;
    TERN_GOTO(tern_init_read(&init, run->o->config, err));
    init.seed = run->o->seed;
    TERN_GOTO(tern_run__make_folders(run, err));
    TERN_GOTO(write_model(run, *path, &init, err));
fail:
    tern_free(weights);
    return status;
}
