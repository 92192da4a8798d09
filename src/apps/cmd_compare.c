/* tern compare: one model on two backends, op by op; a tool of developers, which looks inside both. */
#include <math.h>
#include <string.h>

#include "apps/lora.h"
#include "apps/progress.h"
#include "base/alloc.h"
#include "base/show.h"
#include "infer/compare/compare.h"

#define FIELD(name) offsetof(tern_options, name)
enum { DEFAULT_MOST = 32 }; /* tokens of the prompt that is used when none is given */
static const char default_prompt[] = "Once upon a time there was a little girl who lived near the old forest.";

static const tern_flag flags[] = {
    {"prompt", 'p', TERN_FLAG_TEXT, "TEXT", FIELD(prompt), 0, 0, "Text to compare on"},
    {"ids", 0, TERN_FLAG_TEXT, "IDS", FIELD(ids), 0, 0, "Token ids to compare on: 1,2,3"},
    {"reference", 0, TERN_FLAG_TEXT, "BACKEND", FIELD(reference), 0, 0,
     "cpu, cpu:LEVEL (cpu:scalar), vulkan, vulkan:DEVICE; cpu when not given"},
    {"tolerance", 0, TERN_FLAG_F32, "E", FIELD(tolerance), 0, 1,
     "How far an op may be off, as a share of the row's largest number; by its kind when not given"},
    {"unfused", 0, TERN_FLAG_BOOL, NULL, FIELD(unfused), 0, 0, "Every step of the definition as an op of its own"},
    TERN_APP_FLAGS_KV("Numbers in the KV cache"),
    {"verbose", 'v', TERN_FLAG_BOOL, NULL, FIELD(verbose), 0, 0, "Every op, not every layer"},
    {"json", 0, TERN_FLAG_BOOL, NULL, FIELD(json), 0, 0, "Print JSON"},
    {0},
};

static const tern_flag_group groups[] = {{"Flags", flags},
                                         {"Model", tern_flags_model},
                                         {"Adapters", tern_flags_lora},
                                         {"Numbers", tern_flags_numbers, true},
                                         {"Device that is tested", tern_flags_device},
                                         {"CPU", tern_flags_cpu},
                                         {"Kernels", tern_flags_kernel, true},
                                         {"Fusion", tern_flags_fusion, true},
                                         {0}};

/* "cpu:scalar" as the flags that it stands for. */
static tern_status read_reference(const tern_options *o, char name[16], tern_options *out, tern_error *err)
{
    const char *text = o->reference ? o->reference : "cpu";
    size_t n = strcspn(text, ":");
    const char *rest = text[n] && text[n + 1] ? text + n + 1 : NULL;
    *out = *o;
    out->device = out->gpu_layers = out->cpu_features = out->kernel = NULL;
    out->gpu_validate = false;
    out->backend = name;
    snprintf(name, 16, "%.*s", n < 15 ? (int)n : 15, text);
    if (strcmp(name, "cpu") == 0) out->cpu_features = rest;
    else if (strcmp(name, "vulkan") == 0) out->device = rest;
    else
        return tern_fail(err, TERN_INVALID_ARGUMENT, "--reference %s: cpu, cpu:LEVEL, vulkan or vulkan:DEVICE expected",
                         text);
    return TERN_OK;
}

static tern_status read_ids(const tern_options *o, const tern_engine *engine, tern_tokens *ids, tern_error *err)
{
    const char *text = o->prompt ? o->prompt : default_prompt;
    if (o->ids && o->prompt)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "--prompt and --ids: both found, one of them expected");
    if (o->ids) return tern_app_parse_ids(o->ids, ids, err);
    if (!o->prompt && !tern_engine_tokenizer(engine)) { /* ids that every vocabulary has */
        for (int32_t i = 0; i < 16; i++) TERN_TRY(tern_tokens_add(ids, (i * 7 + 3) % 60, err));
        return TERN_OK;
    }
    TERN_TRY(tern_engine_tokenize(engine, text, strlen(text), TERN_TOKENIZE_BOS, ids, err));
    if (!o->prompt && ids->n > DEFAULT_MOST) ids->n = DEFAULT_MOST;
    return TERN_OK;
}

static const char *phase_of(const tern_compare_op *op)
{
    return op->decode ? "decode" : "prompt";
}

static json_t *op_json(const tern_compare_op *op)
{
    json_t *layer = op->layer == UINT32_MAX ? json_null() : json_integer((json_int_t)op->layer);
    json_t *run = op->run_error < 0 ? json_null() : tern_app_json_number(op->run_error);
    return json_pack("{s:s, s:s, s:s, s:o, s:b, s:o, s:f, s:I, s:o}", "name", op->name, "op", tern_op_name(op->kind),
                     "graph", phase_of(op), "layer", layer, "ok", (int)op->ok, "error", tern_app_json_number(op->error),
                     "tolerance", op->tolerance, "int8_flips", (json_int_t)op->n_flips, "run_error", run);
}

static json_t *logits_json(const tern_compare_logits *l)
{
    return json_pack("{s:o, s:o, s:b, s:b}", "error", tern_app_json_number(l->error), "cosine",
                     tern_app_json_number(l->cosine), "same_top", (int)l->same_top, "tied_top", (int)l->tied_top);
}

static tern_status print_json(const tern_compare_result *r, const char *names[2], size_t n_ids, tern_error *err)
{
    json_t *ops = json_array();
    for (size_t i = 0; i < r->n_ops; i++) json_array_append_new(ops, op_json(&r->ops[i]));
    json_t *first = r->first_bad < r->n_ops ? op_json(&r->ops[r->first_bad]) : json_null();
    return tern_app_print_json(json_pack("{s:s, s:s, s:i, s:b, s:b, s:o, s:o, s:o, s:o}", "reference", names[0],
                                         "tested", names[1], "tokens", (int)n_ids, "ok", (int)r->ok, "identical",
                                         (int)r->identical, "first_difference", first, "logits", logits_json(&r->run),
                                         "cached_logits", logits_json(&r->cached), "ops", ops),
                               err);
}

static bool worse(double a, double b)
{
    return !(a <= b);
}

/* An op's error in its tolerances, of which some are 0. */
static double excess(const tern_compare_op *op)
{
    return op->error == 0 ? 0 : op->error / op->tolerance;
}

/* The worst of a run of ops of one layer. */
typedef struct row {
    const tern_compare_op *worst;
    double run_error;
    uint64_t n_flips;
} row;

static size_t gather(const tern_compare_result *r, size_t at, row *out)
{
    const tern_compare_op *first = &r->ops[at];
    *out = (row){.worst = first};
    for (; at < r->n_ops && r->ops[at].layer == first->layer && r->ops[at].decode == first->decode; at++) {
        const tern_compare_op *op = &r->ops[at];
        if (worse(excess(op), excess(out->worst))) out->worst = op;
        if (op->run_error >= 0 || isnan(op->run_error)) out->run_error = op->run_error;
        out->n_flips += op->n_flips;
    }
    return at;
}

static void print_row(const row *r)
{
    char layer[16] = "-";
    const tern_compare_op *op = r->worst;
    if (op->layer != UINT32_MAX) snprintf(layer, sizeof layer, "%u", op->layer);
    printf("%-7s %5s  %-22s %-14s %10.3g %10.3g %6llu%s\n", phase_of(op), layer, op->name, tern_op_name(op->kind),
           op->error, r->run_error, (unsigned long long)r->n_flips, op->ok ? "" : "  differs");
}

static void print_table(const tern_compare_result *r, bool every_op)
{
    printf("%-7s %5s  %-22s %-14s %10s %10s %6s\n", "graph", "layer", every_op ? "makes" : "worst op makes", "by",
           "op error", "run error", "flips");
    for (size_t at = 0; at < r->n_ops;) {
        row line;
        if (!every_op) {
            at = gather(r, at, &line);
        } else {
            const tern_compare_op *op = &r->ops[at++];
            line = (row){op, op->run_error < 0 ? 0 : op->run_error, op->n_flips};
        }
        print_row(&line);
    }
}

static const char *top_of(const tern_compare_logits *l)
{
    return l->same_top ? "the same top token" : l->tied_top ? "another top token, as likely" : "another top token";
}

static void print_verdict(const tern_compare_result *r, const char *names[2])
{
    const tern_compare_op *bad = r->first_bad < r->n_ops ? &r->ops[r->first_bad] : NULL;
    printf("\nlogits of the last token, %s against %s: error %.3g, cosine %.7f, %s\n", names[1], names[0], r->run.error,
           r->run.cosine, top_of(&r->run));
    printf("logits of %s, one by one against all at once: error %.3g, cosine %.7f, %s\n", names[1], r->cached.error,
           r->cached.cosine, top_of(&r->cached));
    if (bad)
        printf("first op that differs: %s, which makes %s in the graph of the %s: error %.3g, at most %.3g expected\n",
               tern_op_name(bad->kind), bad->name, bad->decode ? "decoded token" : "prompt", bad->error,
               bad->tolerance);
    else if (r->identical) puts("all bits are the same");
    else if (r->ok) puts("every op agrees");
    else puts("every op agrees when it runs alone, but the logits of whole graphs do not");
}

static bool update(void *context, double done)
{
    return tern_progress_update(context, (float)done) && !tern_app_interrupted();
}

static const char *device_name(const tern_engine *engine, char out[160], const char *features)
{
    snprintf(out, 160, "%s%s%s", tern_engine_backend(engine)->info.name, features ? ":" : "", features ? features : "");
    return out;
}

static tern_status report(const tern_compare_result *r, const char *names[2], size_t n_ids, const tern_options *o,
                          tern_error *err)
{
    if (o->json) TERN_TRY(print_json(r, names, n_ids, err));
    if (!o->json) print_table(r, o->verbose);
    if (!o->json) print_verdict(r, names);
    TERN_TRY(tern_app_flush(err));
    return r->ok ? TERN_OK : tern_fail(err, TERN_INTERNAL, "%s does not compute what %s does", names[1], names[0]);
}

static tern_status compare_with(tern_engine *reference, tern_engine *tested, const tern_app_loras loras[2],
                                const char *names[2], const tern_options *o, tern_error *err)
{
    tern_tokens ids = {0};
    tern_compare_result result = {0};
    tern_progress progress = {.label = "Comparing"};
    tern_status status;
    TERN_GOTO(read_ids(o, tested, &ids, err));
    const tern_compare_params params = {.ids = ids.ids,
                                        .n_ids = (uint32_t)ids.n,
                                        .kv = tern_app_kv(o),
                                        .tolerance = (double)o->tolerance,
                                        .unfused = o->unfused,
                                        .reference_loras = loras[0].uses,
                                        .tested_loras = loras[1].uses,
                                        .n_loras = loras[0].n,
                                        .progress = update,
                                        .context = &progress};
    status = tern_compare(reference, tested, &params, &result, err);
    tern_progress_end(&progress);
    if (status == TERN_OK) status = report(&result, names, ids.n, o, err);
fail:
    tern_compare_result_deinit(&result);
    tern_tokens_deinit(&ids);
    return status;
}

static tern_status compare(tern_engine *reference, tern_engine *tested, const char *names[2], const tern_options *o,
                           tern_error *err)
{
    tern_app_loras loras[2] = {0};
    tern_status status;
    TERN_GOTO(tern_app_load_loras(&loras[0], o, reference, err));
    TERN_GOTO(tern_app_load_loras(&loras[1], o, tested, err));
    TERN_GOTO(compare_with(reference, tested, loras, names, o, err));
fail:
    tern_app_close_loras(&loras[1]);
    tern_app_close_loras(&loras[0]);
    return status;
}

static tern_status run(const tern_options *o, tern_error *err)
{
    tern_options other;
    char backend[16], a[160], b[160];
    tern_engine *reference = NULL, *tested = NULL;
    TERN_TRY(read_reference(o, backend, &other, err));
    if (o->gpu_layers && strcmp(o->gpu_layers, "all") != 0)
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "--gpu-layers %s: ops are compared one by one on a whole device, --gpu-layers all expected",
                         tern_show_z(o->gpu_layers).text);
    tern_status status;
    TERN_GOTO(tern_app_open_engine(&reference, &other, false, err));
    TERN_GOTO(tern_app_open_engine(&tested, o, true, err));
    const char *names[2] = {device_name(reference, a, other.cpu_features ? other.cpu_features : other.device),
                            device_name(tested, b, o->cpu_features ? o->cpu_features : o->device)};
    TERN_GOTO(compare(reference, tested, names, o, err));
fail:
    tern_engine_close(tested);
    tern_engine_close(reference);
    return status;
}

const tern_command tern_command_compare = {
    .name = "compare",
    .usage = "-m MODEL --backend vulkan [--reference cpu] [-p TEXT]",
    .summary = "Find the first op that two backends compute differently",
    .detail =
        "Each op of the tested backend runs on what the reference has computed (op error); then the whole graphs run\n"
        "(run error). Exit status 1 when an op differs by more than the tolerance, or the logits do. Dense layers\n"
        "multiply f32 on both backends, f16 in prompts where the tested one is CUDA, unless --activations is given.",
    .groups = groups,
    .run = run,
};
