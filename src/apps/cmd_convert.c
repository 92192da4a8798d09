/* tern convert: a model into one GGUF file. */
#include <stdlib.h>
#include <string.h>

#include "apps/app.h"
#include "apps/progress.h"
#include "base/show.h"
#include "quant/rsr.h"

static const tern_flag flags[] = {
    {"output", 'o', TERN_FLAG_TEXT, "FILE", offsetof(tern_options, output), 0, 0, "The GGUF file to write"},
    {"type", 0, TERN_FLAG_TEXT, "TYPE", offsetof(tern_options, type), 0, 0,
     "Layers: " TERN_ENCODING_TERNARY_NAMES ", " TERN_ENCODING_DENSE_NAMES},
    {"head", 0, TERN_FLAG_TEXT, "TYPE", offsetof(tern_options, head), 0, 0,
     "Embedding and output tables; both as they are when not given"},
    {"force", 0, TERN_FLAG_BOOL, NULL, offsetof(tern_options, force), 0, 0,
     "Ternarise a model that was not trained for it"},
    {"rsr", 0, TERN_FLAG_BOOL, NULL, offsetof(tern_options, rsr), 0, 0,
     "Store ternary layers sorted for --kernel rsr as well"},
    {"rsr-rows", 0, TERN_FLAG_U32, "K", offsetof(tern_options, rsr_rows), 1, TERN_RSR_MAX_K,
     "Rows of a block of --rsr; by the columns when not given"},
    {0},
};

static const tern_flag_group groups[] = {{"Flags", flags}, {0}};

static tern_status check_names(const char *in, const char *out, tern_error *err)
{
    if (!out) return tern_fail(err, TERN_INVALID_ARGUMENT, "no output: give the GGUF file to write with -o");
    char *a = realpath(in, NULL), *b = realpath(out, NULL);
    bool same = a && b && strcmp(a, b) == 0;
    free(a);
    free(b);
    return same ? tern_fail(err, TERN_INVALID_ARGUMENT, "%s: input and output are the same file", tern_show_z(in).text)
                : TERN_OK;
}

static void print_sizes(const char *in, const char *out, const tern_model *model)
{
    char before[16], after[16];
    uint64_t n_before = tern_app_file_bytes(in), n_after = tern_app_file_bytes(out),
             parameters = tern_model_parameters(model);
    fprintf(stderr, "%s: %s, %.2f bits per weight\n%s: %s, %.2f bits per weight\n", in,
            tern_app_bytes(n_before, before), (double)n_before * 8 / (double)parameters, out,
            tern_app_bytes(n_after, after), (double)n_after * 8 / (double)parameters);
}

static tern_status write_model(const tern_model *model, const tern_options *o, tern_error *err)
{
    tern_progress progress = {.label = "Converting"};
    tern_export_options how = {.force = o->force,
                               .rsr = o->rsr || o->rsr_rows,
                               .rsr_rows = o->rsr_rows,
                               .progress = tern_progress_update,
                               .progress_context = &progress};
    TERN_TRY(tern_app_encoding("type", o->type, &how.linear, err));
    TERN_TRY(tern_app_encoding("head", o->head, &how.head, err));
    tern_status status = tern_model_write_gguf(model, o->output, &how, err);
    tern_progress_end(&progress);
    if (status == TERN_UNSUPPORTED && how.linear && how.linear->ternary && !o->force) {
        size_t n = strlen(err->message);
        snprintf(err->message + n, sizeof err->message - n, " (--force does it all the same)");
    }
    return status;
}

static tern_status run(const tern_options *o, tern_error *err)
{
    const tern_encoding *unused;
    tern_options input = {.model = o->args.items[0]};
    tern_model *model;
    TERN_TRY(check_names(input.model, o->output, err));
    TERN_TRY(tern_app_encoding("type", o->type, &unused, err));
    TERN_TRY(tern_app_encoding("head", o->head, &unused, err));
    TERN_TRY(tern_app_open_model(&model, &input, true, err));
    tern_status status = write_model(model, o, err);
    if (status == TERN_OK) print_sizes(input.model, o->output, model);
    tern_model_close(model);
    return status;
}

const tern_command tern_command_convert = {
    .name = "convert",
    .usage = "IN -o OUT.gguf [--type TYPE] [--head TYPE] [--rsr]",
    .summary = "Write a model as one GGUF file",
    .detail =
        "IN is a GGUF file or a Hugging Face folder. BF16 master weights of BitNet models are ternarised, packed\n"
        "uint8 weights unpacked. Between ternary types nothing is lost.",
    .groups = groups,
    .min_args = 1,
    .max_args = 1,
    .run = run,
};
