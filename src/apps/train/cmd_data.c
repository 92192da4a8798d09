/* tern data: text and conversations as one file of token ids to train with, and a look at such a file. */
#include <string.h>

#include "apps/chat/talk.h"
#include "apps/model.h"
#include "apps/progress.h"
#include "apps/train/data_show.h"
#include "base/parts.h"
#include "base/show.h"
#include "train/data/pack.h"
#include "train/data/read.h"

static const tern_flag flags[] = {
    {"output", 'o', TERN_FLAG_TEXT, "FILE", offsetof(tern_options, output), 0, 0,
     "The file to write; without it the one FILE is such a file, which is checked"},
    TERN_APP_FLAG_OVERWRITE('f'),
    {"split", 0, TERN_FLAG_CHOICE, "file|blank|line", offsetof(tern_options, split), 0, 0,
     "Where documents end in plain text: at the end of the file (when not given), at empty lines, at each line"},
    {"mark", 0, TERN_FLAG_TEXT, "TEXT", offsetof(tern_options, mark), 0, 0,
     "Documents in plain text end where this stands, as <|endoftext|>"},
    {"column", 0, TERN_FLAG_TEXT, "NAME", offsetof(tern_options, column), 0, 0,
     "The column of CSV and TSV with the text; text, or prompt and completion, when not given"},
    {"template", 0, TERN_FLAG_TEXT, "NAME", offsetof(tern_options, template), 0, 0,
     "Chat template for messages: " TERN_CHAT_TEMPLATES ", or a Jinja file; the model's when not given"},
    {"skip-bad", 0, TERN_FLAG_BOOL, NULL, offsetof(tern_options, skip_bad), 0, 0,
     "Leave out lines that cannot be used, and count them"},
    {"show", 0, TERN_FLAG_U32, "N", offsetof(tern_options, show), 0, 0,
     "Print the first N documents; [- -] encloses text that is not in the loss"},
    {"seq", 0, TERN_FLAG_U32, "N", offsetof(tern_options, seq), 1, 1 << 20,
     "Report the number of rows of N tokens that training packs"},
    {"json", 0, TERN_FLAG_BOOL, NULL, offsetof(tern_options, json), 0, 0, "Print JSON"},
    {0},
};

static const tern_flag_group groups[] = {{"Flags", flags}, {"Model", tern_flags_model}, {0}};

/* The state of a call. */
typedef struct job {
    const tern_options *o;
    tern_model *model;
    const tern_tokenizer *tokenizer; /* may be NULL */
    tern_chat_template *template;
    const char *family; /* its name where the model has none; NULL: that is not so */
    tern_train_data_report report;
    tern_train_data *data;
    tern_train_pack *pack;
} job;

static tern_status open_model(job *j, tern_error *err)
{
    TERN_TRY(tern_app_open_model(&j->model, j->o, true, err));
    j->tokenizer = tern_model_tokenizer(j->model);
    return TERN_OK;
}

/* The one that is named, or the model's; a model's own that cannot be used matters only for messages. */
static tern_status open_template(job *j, tern_error *err)
{
    const char *name = j->o->template;
    const char *own = j->tokenizer ? tern_tokenizer_chat_template(j->tokenizer) : NULL;
    if (j->tokenizer && !name && !own)
        name = j->family = tern_chat_template_of_family(j->tokenizer, tern_model_config(j->model)->architecture);
    if (!j->tokenizer || (!name && !own)) return TERN_OK;
    tern_status status = tern_chat_template_find(&j->template, own, name, err);
    if (status == TERN_OK || name || status == TERN_OUT_OF_MEMORY) return status;
    fprintf(stderr, "tern data: the model's chat template cannot be used: %s\n", err->message);
    return TERN_OK;
}

static tern_train_split split_of(const tern_options *o)
{
    if (o->mark) return TERN_TRAIN_SPLIT_MARK;
    if (!o->split || strcmp(o->split, "file") == 0) return TERN_TRAIN_SPLIT_FILE;
    return strcmp(o->split, "blank") == 0 ? TERN_TRAIN_SPLIT_BLANK : TERN_TRAIN_SPLIT_LINE;
}

static tern_status make(job *j, tern_error *err)
{
    tern_progress progress = {.label = "Tokenising"};
    tern_app_path model;
    if (j->o->mark && j->o->split)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "--split and --mark: both found, one of them expected");
    TERN_TRY(tern_app_find_model(j->o, &model, err));
    TERN_TRY(tern_app_check_output(j->o, model.text, j->o->output, false, err));
    TERN_TRY(open_model(j, err));
    TERN_TRY(open_template(j, err));
    const tern_train_data_params params = {
        .maker = {.n_vocab = tern_model_config(j->model)->n_vocab, .tokenizer = j->tokenizer, .template = j->template},
        .inputs = j->o->args.items,
        .n_inputs = j->o->args.n,
        .split = split_of(j->o),
        .mark = j->o->mark,
        .column = j->o->column,
        .skip_bad = j->o->skip_bad,
        .progress = tern_progress_update,
        .context = &progress};
    tern_status status = tern_train_data_make(&params, j->o->output, &j->report, err);
    tern_progress_end(&progress);
    if (status == TERN_OK && j->family && j->report.conversations)
        tern_chat_template_note_family(j->family, tern_model_config(j->model)->architecture);
    return status == TERN_OK ? tern_train_data_open(&j->data, j->o->output, err) : status;
}

/* A file that is there: its model is needed only to show text. */
static tern_status look(job *j, tern_error *err)
{
    const char *path = j->o->args.items[0];
    if (j->o->args.n > 1)
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "%zu files and no -o: the file to write expected, or one that tern data has written",
                         j->o->args.n);
    TERN_TRY(tern_train_data_open(&j->data, path, err));
    tern_status status = tern_train_data_check(j->data, err);
    if (status == TERN_OK && j->o->show) {
        TERN_TRY(open_model(j, err));
        status = tern_train_data_match(j->data, tern_model_config(j->model)->n_vocab, j->tokenizer, err);
    }
    return status == TERN_OK ? status : tern_error_prefix(err, "%s", tern_show_z(path).text);
}

static tern_status report_json(const job *j, tern_error *err)
{
    const tern_train_data_info *i = tern_train_data_about(j->data);
    char fingerprint[17];
    snprintf(fingerprint, sizeof fingerprint, "%016llx", (unsigned long long)i->fingerprint);
    json_t *out = json_pack("{s:I, s:I, s:I, s:I, s:b, s:s}", "documents", (json_int_t)i->n_documents, "tokens",
                            (json_int_t)i->n_tokens, "labels", (json_int_t)i->n_loss, "vocabulary",
                            (json_int_t)i->n_vocab, "sequences", i->sequences, "fingerprint", fingerprint);
    if (j->o->output)
        json_object_update_new(
            out, json_pack("{s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "longest", (json_int_t)j->report.longest,
                           "skipped_short", (json_int_t)j->report.skipped[TERN_TRAIN_SHORT], "skipped_unlabelled",
                           (json_int_t)j->report.skipped[TERN_TRAIN_NO_LABELS], "bad_lines", (json_int_t)j->report.bad,
                           "empty_answers", (json_int_t)j->report.empty_answers, "unlike_answers",
                           (json_int_t)j->report.unlike_answers, "joined", (json_int_t)j->report.joined));
    if (j->report.bad) json_object_set_new(out, "first_bad", json_string(j->report.first_bad.message));
    if (j->pack) {
        const tern_train_pack_info *p = tern_train_pack_about(j->pack);
        json_object_update_new(out, json_pack("{s:I, s:I, s:I, s:I}", "seq", (json_int_t)p->seq, "rows",
                                              (json_int_t)p->n_rows, "pieces", (json_int_t)p->n_pieces, "positions",
                                              (json_int_t)p->n_positions));
    }
    json_t *documents;
    tern_status status = j->o->show ? tern_data_show_json(j->data, j->tokenizer, j->o->show, &documents, err) : TERN_OK;
    if (status == TERN_OK && j->o->show) json_object_set_new(out, "shown", documents);
    if (status == TERN_OK) return tern_app_print_json(out, err);
    json_decref(out);
    return status;
}

static void print_skipped(const tern_train_data_report *r)
{
    static const char *const reasons[TERN_TRAIN_SKIPS] = {[TERN_TRAIN_SHORT] = "shorter than two tokens",
                                                          [TERN_TRAIN_NO_LABELS] =
                                                              "without anything that counts in the loss"};
    for (int i = 1; i < TERN_TRAIN_SKIPS; i++)
        if (r->skipped[i]) printf("left out       %llu documents %s\n", (unsigned long long)r->skipped[i], reasons[i]);
    if (r->empty_answers) printf("not learned    %llu empty answers\n", (unsigned long long)r->empty_answers);
    if (r->unlike_answers)
        printf("not learned    %llu answers that the chat template renders differently once more messages follow\n",
               (unsigned long long)r->unlike_answers);
    if (r->joined)
        printf("joined         %llu conversations: the chat template renders earlier answers differently once more "
               "messages follow; each is learned as it is rendered when it is the last\n",
               (unsigned long long)r->joined);
    if (r->bad) printf("left out       %llu bad lines, first %s\n", (unsigned long long)r->bad, r->first_bad.message);
}

static tern_status print_report(const job *j, tern_error *err)
{
    const tern_train_data_info *i = tern_train_data_about(j->data);
    const char *path = j->o->output ? j->o->output : j->o->args.items[0];
    char size[16];
    if (j->o->show) TERN_TRY(tern_data_show(j->data, j->tokenizer, j->o->show, err));
    printf("documents      %llu%s\ntokens         %llu\nin the loss    %llu (%.1f %%)\n",
           (unsigned long long)i->n_documents, i->sequences ? " sequences of ready-made ids" : "",
           (unsigned long long)i->n_tokens, (unsigned long long)i->n_loss,
           100 * (double)i->n_loss / (double)i->n_tokens);
    if (j->report.longest) printf("longest        %llu tokens\n", (unsigned long long)j->report.longest);
    print_skipped(&j->report);
    if (j->pack) {
        const tern_train_pack_info *p = tern_train_pack_about(j->pack);
        printf("rows of %-6u %u, %.1f %% full\n", p->seq, p->n_rows,
               100 * (double)p->n_positions / ((double)p->n_rows * p->seq));
    }
    printf("%s: %s\n", path, tern_app_bytes(tern_parts_bytes(path), size));
    return TERN_OK;
}

static tern_status run(const tern_options *o, tern_error *err)
{
    job j = {.o = o};
    const tern_train_pack_params rows = {.seq = o->seq};
    tern_status status;
    TERN_GOTO(o->output ? make(&j, err) : look(&j, err));
    if (o->seq) TERN_GOTO(tern_train_pack_open(&j.pack, j.data, &rows, err));
    TERN_GOTO(o->json ? report_json(&j, err) : print_report(&j, err));
fail:
    tern_train_pack_close(j.pack);
    tern_train_data_close(j.data);
    tern_chat_template_close(j.template);
    tern_model_close(j.model);
    return status;
}

const tern_command tern_command_data = {
    .name = "data",
    .usage = "[-m MODEL] FILE... -o OUT [--show N]",
    .summary = "Tokenise text and conversations into a file to train with",
    .detail =
        "A FILE is plain text, JSONL (one object a line), JSON (an array of objects), CSV or TSV. An object has\n"
        "\"text\", \"prompt\" and \"completion\", \"messages\", ShareGPT's \"conversations\", Alpaca's\n"
        "\"instruction\" and \"output\", or \"ids\". Messages go through the chat template, with their calls and\n"
        "reasoning and the line's \"tools\"; only what the assistant says counts in the loss, of prompt and\n"
        "completion only the completion.",
    .groups = groups,
    .min_args = 1,
    .max_args = UINT32_MAX,
    .run = run,
};
