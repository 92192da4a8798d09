/* tern export-lora: adapters merged into a model's weights. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "apps/lora.h"
#include "apps/merge/verdict.h"
#include "apps/model.h"
#include "apps/progress.h"
#include "base/alloc.h"
#include "base/show.h"
#include "model/adapter/merge.h"

static const tern_flag flags[] = {
    {"output", 'o', TERN_FLAG_TEXT, "OUT", offsetof(tern_options, output), 0, 0,
     "The output: FILE.gguf, or a folder in the Hugging Face layout with bf16 masters"},
    TERN_APP_FLAG_OVERWRITE('f'),
    {"force", 0, TERN_FLAG_BOOL, NULL, offsetof(tern_options, force), 0, 0,
     "Writes FILE.gguf also where much of what the adapters do is lost in it"},
    {"type", 0, TERN_FLAG_TEXT, "TYPE", offsetof(tern_options, type), 0, 0,
     "Layers of a GGUF file: " TERN_ENCODING_TERNARY_NAMES ", " TERN_ENCODING_DENSE_NAMES
     "; with the tables " TERN_MIX_NAMES "; as they are when not given"},
    {"json", 0, TERN_FLAG_BOOL, NULL, offsetof(tern_options, json), 0, 0, "The report as JSON"},
    {0},
};

static const tern_flag_group groups[] = {
    {"Flags", flags}, {"Adapters", tern_flags_lora}, {"Model", tern_flags_model}, {0}};

typedef struct job {
    const tern_options *o;
    tern_model *base, *merged;
    tern_adapter *adapters[TERN_APP_MAX_LORAS];
    tern_merge_item items[TERN_APP_MAX_LORAS];
    uint32_t n;
    tern_merge merge;
    tern_export_report report;
    tern_merge_verdict verdict;
    tern_progress progress;
} job;

static tern_status open_adapter(job *j, const char *text, tern_error *err)
{
    char *path;
    tern_merge_item *item = &j->items[j->n];
    TERN_TRY(tern_app_check_lora_room(j->n, text, err));
    TERN_TRY(tern_app_parse_lora(text, &path, &item->scale, err));
    const tern_status status = tern_adapter_open(&j->adapters[j->n], path, j->base, err);
    free(path);
    TERN_TRY(status);
    item->adapter = j->adapters[j->n++];
    return TERN_OK;
}

/* A merged model has the weights that the base's layers compute with: no block that drafts tokens, no part for images.
 */
static void note_left_out(const job *j)
{
    const tern_unused_tensors *unused = tern_model_unused(j->base);
    if (!unused->n) return;
    fprintf(stderr, "tern: %s will not have %llu tensor%s of the model: %s\n", tern_show_z(j->o->output).text,
            (unsigned long long)unused->n, unused->n == 1 ? "" : "s", unused->names);
}

static tern_status open_all(job *j, tern_error *err)
{
    const tern_encoding *unused;
    const tern_mix *unused_mix;
    tern_app_path model;
    if (!j->o->output)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "no output: give FILE.gguf or a folder to write with -o");
    if (j->o->loras.n == 0) return tern_fail(err, TERN_INVALID_ARGUMENT, "no adapter: give one with --lora");
    if (j->o->type && !tern_path_ends(j->o->output, ".gguf"))
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "--type %s: only GGUF files have a type; -o %s is a folder, which gets bf16 masters",
                         j->o->type, j->o->output);
    TERN_TRY(tern_app_type(j->o->type, &unused, &unused_mix, err));
    TERN_TRY(tern_app_find_model(j->o, &model, err));
    TERN_TRY(tern_app_check_output(j->o, model.text, j->o->output, !tern_path_ends(j->o->output, ".gguf"), err));
    TERN_TRY(tern_app_open_model(&j->base, j->o, true, err));
    note_left_out(j);
    for (size_t i = 0; i < j->o->loras.n; i++) TERN_TRY(open_adapter(j, j->o->loras.items[i], err));
    j->merge = (tern_merge){
        .base = j->base, .items = j->items, .n_items = j->n, .bf16 = !tern_path_ends(j->o->output, ".gguf")};
    return TERN_OK;
}

static tern_status merge(job *j, tern_error *err)
{
    const tern_master_source source = tern_merge_source(&j->merge);
    const tern_derivation how = {.has = tern_merge_has,
                                 .context = &j->merge,
                                 .source = &source,
                                 .progress = tern_progress_update,
                                 .progress_context = &j->progress};
    j->progress = (tern_progress){.label = "Merging"};
    tern_status status = tern_model_derive(&j->merged, j->base, &how, err);
    tern_progress_end(&j->progress);
    return status;
}

static tern_status write_out(job *j, tern_error *err)
{
    tern_status status;
    j->progress = (tern_progress){.label = "Writing"};
    if (tern_path_ends(j->o->output, ".gguf")) {
        tern_export_options how = {
            .report = &j->report, .progress = tern_progress_update, .progress_context = &j->progress};
        TERN_TRY(tern_app_type(j->o->type, &how.linear, &how.mix, err));
        status = tern_model_write_gguf(j->merged, j->o->output, &how, err);
        tern_app_say_fallbacks(j->o->output, &j->report);
    } else {
        const tern_master_source source = tern_merge_source(&j->merge);
        const tern_derivation how = {.has = tern_merge_has, .context = &j->merge, .source = &source};
        tern_derived_masters masters = {.base = j->base, .how = &how};
        const tern_master_source all = tern_derived_source(&masters);
        const tern_hf_options options = {.progress = tern_progress_update, .progress_context = &j->progress};
        status =
            tern_hf_write(j->o->output, tern_model_config(j->base), tern_model_tokenizer(j->base), &all, &options, err);
    }
    tern_progress_end(&j->progress);
    return status;
}

/* Over all weights: counts add up, norms as the roots of sums of squares. */
static void add_to(tern_merge_change *total, const tern_merge_change *c)
{
    double product = total->kept * total->wanted * total->achieved + c->kept * c->wanted * c->achieved;
    total->ternary |= c->ternary;
    total->n += c->n;
    total->n_changed += c->n_changed;
    total->weight = hypot(total->weight, c->weight);
    total->wanted = hypot(total->wanted, c->wanted);
    total->achieved = hypot(total->achieved, c->achieved);
    total->kept = total->wanted > 0 && total->achieved > 0 ? product / (total->wanted * total->achieved) : 0;
}

static double share(double part, double whole)
{
    return whole > 0 ? part / whole : 0;
}

static json_t *row_json(const char *name, const tern_merge_change *c)
{
    json_t *row = json_pack("{s:s, s:I, s:I, s:f, s:f, s:f}", "name", name, "elements", (json_int_t)c->n, "changed",
                            (json_int_t)c->n_changed, "adapter_norm", share(c->wanted, c->weight), "change_norm",
                            share(c->achieved, c->weight), "kept", c->kept);
    if (c->scale_before > 0) {
        json_object_set_new(row, "scale_before", json_real((double)c->scale_before));
        json_object_set_new(row, "scale_after", json_real((double)c->scale_after));
    }
    return row;
}

static void print_row(const char *name, const tern_merge_change *c)
{
    printf("%-46s %8.3f %% %9.2f %% %9.2f %% %6.2f", name, 100 * share((double)c->n_changed, (double)c->n),
           100 * share(c->wanted, c->weight), 100 * share(c->achieved, c->weight), c->kept);
    if (c->scale_before > 0) printf("  %.5g -> %.5g", (double)c->scale_before, (double)c->scale_after);
    printf("\n");
}

/* Looks at every weight that the adapters have, with a progress bar; rows [n_layers][TERN_ROLE_COUNT], n 0 elsewhere.
 */
static tern_status look(job *j, tern_merge_change *rows, tern_error *err)
{
    const uint32_t n_layers = tern_model_config(j->base)->n_layers;
    j->progress = (tern_progress){.label = "Comparing"};
    for (uint32_t layer = 0; layer < n_layers; layer++) {
        for (int role = 0; role < TERN_ROLE_COUNT; role++)
            if (tern_merge_has(&j->merge, (tern_role)role, layer))
                TERN_TRY(tern_merge_look(&j->merge, j->merged, (tern_role)role, layer,
                                         &rows[(size_t)layer * TERN_ROLE_COUNT + (size_t)role], err));
        if (!tern_progress_update(&j->progress, (float)(layer + 1) / (float)n_layers))
            return tern_app_fail_interrupted(err);
    }
    return TERN_OK;
}

static json_t *verdict_json(const tern_merge_verdict *v)
{
    return json_pack("{s:s, s:o, s:o, s:f, s:i}", "word", tern_merge_word_name(tern_merge_judge(v)), "kl_merged",
                     tern_app_json_number(v->merged), "kl_base", tern_app_json_number(v->base), "same_top1",
                     v->same_top, "tokens", (int)v->n_tokens);
}

static tern_status show(const job *j, const tern_merge_change *rows, size_t n, tern_error *err)
{
    const bool json = j->o->json;
    tern_merge_change total = {0};
    json_t *list = json_array();
    if (!json) printf("%-46s %10s %11s %11s %6s  %s\n", "weight", "changed", "|s B A|", "|change|", "kept", "scale");
    for (size_t i = 0; i < n; i++) {
        char name[TERN_ROLE_NAME_BYTES];
        if (rows[i].n == 0) continue;
        tern_role_hf_name(NULL, rows[i].role, rows[i].layer, name);
        if (json) json_array_append_new(list, row_json(name, &rows[i]));
        else print_row(name, &rows[i]);
        add_to(&total, &rows[i]);
    }
    if (json)
        return tern_app_print_json(json_pack("{s:o, s:o, s:o}", "weights", list, "total", row_json("total", &total),
                                             "verdict", verdict_json(&j->verdict)),
                                   err);
    json_decref(list);
    print_row("total", &total);
    tern_merge_say(&j->verdict, stdout);
    return TERN_OK;
}

static tern_status report(job *j, tern_error *err)
{
    const size_t n = (size_t)tern_model_config(j->base)->n_layers * TERN_ROLE_COUNT;
    tern_merge_change *rows = tern_calloc(n, sizeof *rows);
    if (!rows) return tern_fail_alloc(err, n * sizeof *rows);
    tern_status status = look(j, rows, err);
    tern_progress_end(&j->progress);
    if (status == TERN_OK) status = show(j, rows, n, err);
    tern_free(rows);
    return status;
}

/* A folder keeps the masters, in which nothing is lost. */
static tern_status check_verdict(const job *j, tern_error *err)
{
    const bool ruined = tern_merge_judge(&j->verdict) == TERN_MERGE_RUINED;
    if (!ruined || j->o->force || !tern_path_ends(j->o->output, ".gguf")) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED,
                     "%s was not written: its ternary weights would lose much of what the adapters do; --force writes "
                     "it, -o FOLDER writes the masters to train further, and --lora uses the adapters unchanged",
                     tern_show_z(j->o->output).text);
}

static tern_status run(const tern_options *o, tern_error *err)
{
    job j = {.o = o};
    tern_status status;
    TERN_GOTO(open_all(&j, err));
    TERN_GOTO(merge(&j, err));
    TERN_GOTO(tern_merge_measure(&j.merge, j.merged, &j.verdict, err));
    TERN_GOTO(report(&j, err));
    TERN_GOTO(check_verdict(&j, err));
    TERN_GOTO(write_out(&j, err));
fail:
    for (uint32_t i = 0; i < j.n; i++) tern_adapter_close(j.adapters[i]);
    tern_model_close(j.merged);
    tern_model_close(j.base);
    return status;
}

const tern_command tern_command_export_lora = {
    .name = "export-lora",
    .usage = "-m MODEL --lora FILE[:SCALE]... -o OUT",
    .summary = "Merge LoRA adapters into a model's weights",
    .detail =
        "Adapters are added to the master weights (of files that hold only codes: to codes times their scale),\n"
        "which are then ternarised anew. The table says, for each weight: how many of its codes changed; how\n"
        "large the adapter is, and the change, beside the weight; how much of the adapter's direction is kept. The\n"
        "verdict is measured: how far the merged model is from the model with the adapters beside it, over\n"
        "texts that the latter writes.",
    .groups = groups,
    .max_args = 0,
    .run = run,
};
