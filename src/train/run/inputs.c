/* The data that a run learns from, tokenised where it is text, packed into rows, some of them held out. */
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/form.h"
#include "base/show.h"
#include "text/chat/marks.h"
#include "train/data/layout.h"
#include "train/data/read.h"
#include "train/run/internal.h"

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

bool tern_run__is_data_file(const char *path)
{
    return begins_with(path, TERN_TRAIN_DATA_MAGIC);
}

/* Files to be opened as one. */
typedef struct data_side {
    const char *const *paths;
    size_t n;
    const char *name; /* of the file of tokens in the run's folder */
} data_side;

/* *family: the name of the one taken where the model has none and no flag names one, else NULL. */
static tern_status open_template(const tern_run *run, tern_chat_template **out, const char **family, tern_error *err)
{
    const tern_tokenizer *t = tern_model_tokenizer(run->model);
    const char *source = t ? tern_tokenizer_chat_template(t) : run->o->chat_template;
    tern_error why = {0};
    *out = NULL;
    *family = source ? NULL : tern_chat_template_of_family(t, tern_model_config(run->model)->architecture);
    if (*family) source = tern_chat_template_builtin(*family);
    if (!source || tern_chat_template_parse(out, source, strlen(source), &why) == TERN_OK) return TERN_OK;
    if (run->o->chat_template) return tern_fail(err, why.code, "chat template: %s", why.message);
    tern_run__note(run, "the model's chat template cannot be used: %s", why.message);
    return TERN_OK;
}

static tern_train_split split_of(const tern_finetune_options *o)
{
    if (o->mark) return TERN_TRAIN_SPLIT_MARK;
    switch (o->split) {
    case TERN_FINETUNE_SPLIT_BLANK: return TERN_TRAIN_SPLIT_BLANK;
    case TERN_FINETUNE_SPLIT_LINE: return TERN_TRAIN_SPLIT_LINE;
    default: return TERN_TRAIN_SPLIT_FILE;
    }
}

/* How the chat template bears on the answers. */
static void note_answers(const tern_run *run, const tern_train_data_report *report)
{
    if (report->empty_answers)
        tern_run__note(run, "%llu empty answers are not learned", (unsigned long long)report->empty_answers);
    if (report->unlike_answers)
        tern_run__note(run,
                       "%llu answers are not learned: the chat template renders them differently once more messages "
                       "follow",
                       (unsigned long long)report->unlike_answers);
    if (report->joined)
        tern_run__note(run,
                       "%llu conversations are joined: the chat template renders earlier answers differently once more "
                       "messages follow; each is learned as it is rendered when it is the last",
                       (unsigned long long)report->joined);
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

/* Marks that are not tokens have to be learned letter by letter, and anybody's text can spell them. */
static tern_status note_marks(const tern_run *run, const tern_chat_template *template, tern_error *err)
{
    tern_buf marks = {0};
    uint32_t n;
    tern_status status;
    TERN_GOTO(tern_chat_plain_marks(template, tern_model_tokenizer(run->model), &marks, &n, err));
    if (n)
        tern_run__note(run,
                       "marks of the chat template are ordinary text in this vocabulary, slower to learn and open to "
                       "whoever writes them: %.*s; --add-tokens makes them tokens, or take a template whose marks are "
                       "(--template)",
                       (int)(marks.size < 200 ? marks.size : 200), marks.data);
fail:
    tern_buf_deinit(&marks);
    return status;
}

/* Conversations were read by the family's template: the result is talked to by it. */
static tern_status take_family(tern_run *run, const char *name, tern_error *err)
{
    run->chat_template = tern_chat_template_builtin(name);
    tern_run__note(run, "the model has no chat template: %s, by its family (%s); --template takes another", name,
                   tern_model_config(run->model)->architecture);
    return tern_model_set_chat_template(run->model, run->chat_template, err);
}

static tern_status tokenize(tern_run *run, const data_side *s, const char *path, tern_error *err)
{
    tern_run_progress progress = {run, "Tokenising"};
    tern_train_data_report report;
    tern_chat_template *template;
    const char *family;
    TERN_TRY(open_template(run, &template, &family, err));
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
    if (status == TERN_OK) note_answers(run, &report);
    if (status == TERN_OK && report.conversations && family) status = take_family(run, family, err);
    if (status == TERN_OK && report.conversations) status = note_marks(run, template, err);
    tern_chat_template_close(template);
    return status;
}

static tern_status check_match(const tern_run *run, const tern_train_data *data, const char *path, tern_error *err)
{
    const uint32_t n_vocab = tern_model_config(run->model)->n_vocab;
    if (tern_train_data_match(data, n_vocab, tern_model_tokenizer(run->model), err) == TERN_OK) return TERN_OK;
    return tern_error_prefix(err, "%s", tern_show_z(path).text);
}

static tern_status open_side(tern_run *run, const data_side *s, tern_train_data **data, tern_error *err)
{
    for (size_t i = 0; i < s->n; i++) {
        const char *form = begins_with(s->paths[i], "GGUF") ? "a model" : tern_form_of_folder(s->paths[i]);
        if (form)
            return tern_fail(err, TERN_INVALID_ARGUMENT, "%s is %s: text, JSONL or a file of `tern data` expected",
                             tern_show_z(s->paths[i]).text, form);
    }
    for (size_t i = 0; i < s->n; i++)
        if (s->n > 1 && tern_run__is_data_file(s->paths[i]))
            return tern_fail(err, TERN_INVALID_ARGUMENT,
                             "%s and other files: one file of `tern data`, or files of text expected",
                             tern_show_z(s->paths[i]).text);
    if (tern_run__is_data_file(s->paths[0])) {
        TERN_TRY(tern_train_data_open(data, s->paths[0], err));
        return check_match(run, *data, s->paths[0], err);
    }
    char *path = tern_run__path(run, s->name);
    tern_status status;
    if (!path) TERN_GOTO(tern_fail_alloc(err, strlen(s->name)));
    if (tern_run__is_first(run)) TERN_GOTO(tokenize(run, s, path, err));
    TERN_GOTO(tern_run__wait_for_first(run, err));
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
    if (o->split && o->mark)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "split and mark: both found, one of them expected");
    if (o->validation_data && o->validation_split > 0)
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "validation data and a validation split: both found, one of them expected");
    TERN_TRY(tern_run__make_folders(run, err));
    const tern_status status = open_side(run, &(data_side){o->data, o->n_data, "data.tern"}, &run->data, err);
    if (status != TERN_OK) tern_run__remove_empty_folders(run);
    TERN_TRY(status);
    if (o->validation_data)
        TERN_TRY(open_side(run, &(data_side){&o->validation_data, 1, "validation.tern"}, &run->validation_data, err));
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
