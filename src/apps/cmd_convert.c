/* tern convert: a model into one GGUF file. */
#include <string.h>

#include "apps/open.h"
#include "apps/progress.h"
#include "base/parts.h"
#include "quant/encoding.h"
#include "quant/i2_s_order.h"
#include "quant/mix.h"
#include "quant/rsr.h"

static const tern_flag flags[] = {
    {"output", 'o', TERN_FLAG_TEXT, "FILE", offsetof(tern_options, output), 0, 0, "The GGUF file to write"},
    TERN_APP_FLAG_OVERWRITE('f'),
    {"json", 0, TERN_FLAG_BOOL, NULL, offsetof(tern_options, json), 0, 0, "Print one JSON object at the end"},
    {"type", 0, TERN_FLAG_TEXT, "TYPE", offsetof(tern_options, type), 0, 0,
     "Layers: " TERN_ENCODING_TERNARY_NAMES ", " TERN_ENCODING_DENSE_NAMES "; with the tables " TERN_MIX_NAMES},
    {"head", 0, TERN_FLAG_TEXT, "TYPE", offsetof(tern_options, head), 0, 0,
     "Embedding and output tables; as the mix has them, else as they are, when not given"},
    {"force", 0, TERN_FLAG_BOOL, NULL, offsetof(tern_options, force), 0, 0,
     "Ternarise a model that was not trained for it"},
    {"rsr", 0, TERN_FLAG_BOOL, NULL, offsetof(tern_options, rsr), 0, 0,
     "Store ternary layers sorted for --kernel rsr as well"},
    {"rsr-rows", 0, TERN_FLAG_U32, "K", offsetof(tern_options, rsr_rows), 1, TERN_RSR_MAX_K,
     "Rows of a block of --rsr; by the columns when not given"},
    {"i2s-order", 0, TERN_FLAG_TEXT, "ORDER", offsetof(tern_options, i2s_order), 0, 0,
     "Order of the codes in IN's I2_S tensors: auto (found by the weights), " TERN_I2S_ORDER_NAMES},
    {"imatrix", 0, TERN_FLAG_TEXT, "FILE", offsetof(tern_options, imatrix), 0, 0,
     "Importance of columns from tern imatrix, for types that search their scales"},
    {"kernel-config", 0, TERN_FLAG_TEXT, "FILE", offsetof(tern_options, kernel_config), 0, 0,
     "kernel_config.ini of the bitnet.cpp that wrote IN in tl1 or tl2, for shapes that are none of its presets"},
    {0},
};

static const tern_flag_group groups[] = {{"Flags", flags}, {0}};

static json_t *list(const tern_convert_result *r, bool fallbacks)
{
    json_t *out = json_array();
    for (uint32_t i = 0; i < (fallbacks ? r->n_fallbacks : r->n_own); i++)
        json_array_append_new(out, json_string(fallbacks ? r->fallbacks[i] : r->own[i]));
    return out;
}

static tern_status print_json(const char *in, const tern_options *o, const tern_convert_result *r, tern_error *err)
{
    json_t *out =
        json_pack("{s:o, s:I, s:o, s:I, s:I, s:o, s:o}", "input", tern_app_json_text(in, strlen(in)), "input_bytes",
                  (json_int_t)tern_parts_bytes(in), "output", tern_app_json_text(o->output, strlen(o->output)),
                  "output_bytes", (json_int_t)tern_parts_bytes(o->output), "parameters", (json_int_t)r->parameters,
                  "fallbacks", list(r, true), "notes", list(r, false));
    if (o->imatrix)
        json_object_update_new(out, json_pack("{s:I, s:I}", "weighted_tensors", (json_int_t)r->n_weighted,
                                              "unweighted_tensors", (json_int_t)r->n_unweighted));
    return tern_app_print_json(out, err);
}

static void print_size(const char *path, uint64_t parameters)
{
    char size[16];
    const uint64_t n = tern_parts_bytes(path);
    tern_app_say("%s: %s, %.2f bits per weight\n", path, tern_app_bytes(n, size), (double)n * 8 / (double)parameters);
}

static tern_status run(const tern_options *o, tern_error *err)
{
    tern_app_path path;
    const char *in = path.text;
    const tern_encoding *unused;
    const tern_mix *unused_mix;
    tern_progress progress = {.label = "Converting"};
    tern_convert_result result = {.size = sizeof result};
    const tern_convert_options how = {.size = sizeof how,
                                      .type = o->type,
                                      .head = o->head,
                                      .force = o->force,
                                      .rsr = o->rsr,
                                      .rsr_rows = o->rsr_rows,
                                      .i2s_order = o->i2s_order,
                                      .kernel_config = o->kernel_config,
                                      .imatrix = o->imatrix,
                                      .overwrite = o->overwrite,
                                      .progress = tern_progress_update,
                                      .progress_context = &progress};
    if (!o->output) return tern_fail(err, TERN_INVALID_ARGUMENT, "no output: give the GGUF file to write with -o");
    TERN_TRY(tern_type_parse("--type", o->type, &unused, &unused_mix, err));
    TERN_TRY(tern_encoding_parse("--head", o->head, &unused, err));
    TERN_TRY(tern_app_find_model(&(tern_options){.model = o->args.items[0]}, &path, err));
    const tern_status status = tern_convert(in, o->output, &how, &result, err);
    tern_progress_end(&progress);
    TERN_TRY(status);
    if (o->json) return print_json(in, o, &result, err);
    print_size(in, result.parameters);
    print_size(o->output, result.parameters);
    for (uint32_t i = 0; i < result.n_fallbacks; i++) tern_app_say("%s: %s\n", o->output, result.fallbacks[i]);
    if (o->imatrix)
        tern_app_say("%s: %u tensors weighed by %s, %u without an entry there\n", o->output, result.n_weighted,
                     o->imatrix, result.n_unweighted);
    for (uint32_t i = 0; i < result.n_own; i++) tern_app_say("%s: %s\n", o->output, result.own[i]);
    return TERN_OK;
}

const tern_command tern_command_convert = {
    .name = "convert",
    .usage = "IN -o OUT.gguf [--type TYPE] [--head TYPE] [--rsr] [--json]",
    .summary = "Write a model as one GGUF file",
    .detail =
        "IN is a GGUF file, a Hugging Face folder or a name of `tern list`. BF16 master weights of BitNet models are "
        "ternarised, packed\n"
        "uint8 weights unpacked. Between ternary types nothing is lost. Rows that a dense type does not fit get its\n"
        "sibling of smaller blocks, as llama.cpp has it. IN may have layers in iq1_bn, iq2_bn, iq2_bn_r4 "
        "(ik_llama.cpp),\n"
        "tl1 or tl2 (bitnet.cpp): they become i2_s.",
    .groups = groups,
    .min_args = 1,
    .max_args = 1,
    .run = run,
};
