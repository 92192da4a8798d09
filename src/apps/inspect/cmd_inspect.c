/* tern inspect: what a model file or an adapter holds, and what running it would do. */
#include <stdlib.h>
#include <string.h>

#include "apps/inspect/inspect.h"
#include "apps/model.h"
#include "base/file.h"
#include "base/parts.h"
#include "base/show.h"
#include "graph/stages.h"
#include "infer/session/session.h"
#include "model/package/package.h"
#include "ops/op.h"
#include "tern/text.h"
#include "text/tokenizer/tokenizer.h"

static const tern_flag flags[] = {
    {"graph", 0, TERN_FLAG_BOOL, NULL, offsetof(tern_options, graph), 0, 0, "The steps of a token, after fusion"},
    {"kernels", 0, TERN_FLAG_BOOL, NULL, offsetof(tern_options, kernels), 0, 0,
     "The GPU's kernels: of a token and of a batch, by op and encoding"},
    {"memory", 0, TERN_FLAG_BOOL, NULL, offsetof(tern_options, memory), 0, 0, "The memory plan of a step"},
    {"tp", 0, TERN_FLAG_TEXT, "RANK/N", offsetof(tern_options, tp), 0, 0,
     "The part of one of N processes (mpirun), or its --graph or --memory; 0/4: the first of 4"},
    {"pp", 0, TERN_FLAG_TEXT, "STAGE/N", offsetof(tern_options, pp), 0, 0,
     "The part of one of N stages of layers (--pp N under mpirun)"},
    {"experts", 0, TERN_FLAG_TEXT, "SIZE", offsetof(tern_options, experts), 0, 0,
     "Plan --memory with so many experts on the device"},
    {"kv-memory", 0, TERN_FLAG_TEXT, "SIZE", offsetof(tern_options, kv_memory), 0, 0,
     "Plan --memory with this much of the KV cache on the device"},
    {"kv-disk", 0, TERN_FLAG_TEXT, "DIR", offsetof(tern_options, kv_disk), 0, 0,
     "Plan --memory with the rest of the KV cache in this folder"},
    {"json", 0, TERN_FLAG_BOOL, NULL, offsetof(tern_options, json), 0, 0, "Print JSON"},
    {0},
};

static const tern_flag_group groups[] = {{"Flags", flags},
                                         {"Model", tern_flags_model},
                                         {"Context (for --graph, --memory and --kernels)", tern_flags_session},
                                         {0}};

tern_status tern_app_build_graph(tern_graph *graph, const tern_model *model, const tern_options *o, uint32_t n_tokens,
                                 tern_backend *gpu, tern_error *err)
{
    const tern_config *c = tern_model_config(model);
    const bool whole = o->ctx_given || c->n_ctx_train < 2048;
    const uint32_t n_ctx = o->ctx ? o->ctx : whole ? c->n_ctx_train : 2048;
    tern_graph_options how = {.max_tokens = n_tokens, .max_outputs = 1, .n_ctx = n_ctx, .n_sequences = 1};
    TERN_TRY(tern_kv_resolve(tern_app_kv(o), c, n_ctx, gpu, &how.kv, err));
    const uint32_t n_batch = o->batch ? o->batch : TERN_SESSION_DEFAULT_BATCH;
    tern_graph_size_caches(&how, c, n_batch < n_ctx ? n_batch : n_ctx);
    TERN_TRY(tern_graph_build(graph, model, &how, err));
    TERN_TRY(tern_graph_fuse(graph, gpu, err));
    TERN_TRY(tern_graph_take_stage(graph, tern_model_stages(model), err));
    return tern_graph_plan(graph, gpu ? 0 : TERN_FUSION_IN_PLACE, err);
}

static tern_status print_graph(const tern_model *model, const tern_options *o, tern_error *err)
{
    tern_graph graph = {0};
    tern_buf text = {0};
    tern_status status;
    TERN_GOTO(tern_app_build_graph(&graph, model, o, o->batch ? o->batch : 1, NULL, err));
    if (o->memory) TERN_GOTO(tern_app_print_tiers(model, &graph, o, err));
    if (o->graph) TERN_GOTO(tern_graph_print(&graph, &text, err));
    if (o->memory) TERN_GOTO(tern_graph_print_memory(&graph, &text, err));
    if (o->memory) TERN_GOTO(tern_graph_print_bounds(&graph, &text, err));
    tern_app_write_text(text.data, text.size);
fail:
    tern_buf_deinit(&text);
    tern_graph_deinit(&graph);
    return status;
}

static tern_status add_memory(const tern_model *model, const tern_options *o, json_t *out, tern_error *err)
{
    tern_graph graph = {0};
    tern_status status;
    TERN_GOTO(tern_app_build_graph(&graph, model, o, o->batch ? o->batch : 1, NULL, err));
    status = tern_app_tiers_json(model, &graph, o, out, err);
fail:
    tern_graph_deinit(&graph);
    return status;
}

/* "0/4": which and how many there are. */
static tern_status read_place(const char *flag, const char *form, const char *text, uint32_t *which, uint32_t *of,
                              tern_error *err)
{
    *which = *of = 0;
    if (!text) return TERN_OK;
    char *slash, *end = NULL;
    const unsigned long at = strtoul(text, &slash, 10);
    const unsigned long n = slash > text && *slash == '/' ? strtoul(slash + 1, &end, 10) : 0;
    if (strspn(text, "0123456789/") != strlen(text) || !end || *end || n < 1 || n > TERN_MAX_RANKS || at >= n)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "--%s %s: %s/N expected, N up to %d and %s below it", flag,
                         tern_show_z(text).text, form, TERN_MAX_RANKS, form);
    *which = (uint32_t)at;
    *of = (uint32_t)n;
    return TERN_OK;
}

static tern_status read_places(const tern_options *o, tern_model_options *how, tern_error *err)
{
    TERN_TRY(read_place("tp", "RANK", o->tp, &how->rank, &how->n_ranks, err));
    return read_place("pp", "STAGE", o->pp, &how->stage, &how->n_stages, err);
}

static tern_status inspect_graph(const tern_options *o, const char *path, tern_error *err)
{
    tern_model *model;
    tern_options input = {.model = path};
    tern_model_options place = {0};
    TERN_TRY(read_places(o, &place, err));
    TERN_TRY(tern_app_open_model_of(&model, &input, false, &place, err));
    tern_app_print_plan(model);
    tern_status status = o->graph || o->memory ? print_graph(model, o, err) : TERN_OK;
    if (status == TERN_OK && o->kernels) status = tern_app_print_kernels(model, o, err);
    tern_model_close(model);
    return status;
}

/* One of several processes, without its graph; with --json, its memory. */
static tern_status inspect_plan(const tern_options *o, const char *path, tern_error *err)
{
    tern_model *model;
    const tern_options input = {.model = path};
    tern_model_options place = {0};
    tern_status status = TERN_OK;
    TERN_TRY(read_places(o, &place, err));
    TERN_TRY(tern_app_open_model_of(&model, &input, false, &place, err));
    if (o->json) {
        json_t *out = json_pack("{s:o}", "file", tern_app_json_text(path, strlen(path)));
        if (o->tp || o->pp) tern_app_plan(model, out);
        if (o->memory) status = add_memory(model, o, out, err);
        if (status == TERN_OK) status = tern_app_print_json(out, err);
        else json_decref(out);
    } else {
        tern_app_print_plan(model);
    }
    tern_model_close(model);
    return status;
}

/* Why conversations will be refused, where the model's own chat template cannot be read. */
static void note_template(const char *path, json_t *out)
{
    tern_tokenizer *t = NULL;
    tern_chat_template *parsed = NULL;
    tern_error why = {0};
    const char *source = tern_tokenizer_load(&t, path, NULL) == TERN_OK ? tern_tokenizer_chat_template(t) : NULL;
    if (source && tern_chat_template_parse(&parsed, source, strlen(source), &why) != TERN_OK)
        json_object_set_new(out, "chat_template_problem", json_string(tern_show_z(why.message).text));
    tern_chat_template_close(parsed);
    tern_tokenizer_close(t);
}

/* A model's properties; a file that cannot run is described all the same, with the reason. */
static tern_status describe(const char *path, json_t *out, tern_error *err)
{
    tern_model *model = NULL;
    tern_error problem = {0};
    tern_model_options how = {.no_tokenizer = true, .no_check = true, .mtp = true};
    tern_status status = tern_model_open(&model, path, &how, &problem);
    bool folder = tern_file_is_dir(path);
    if (status != TERN_OK && (folder || tern_app_describe_gguf(path, out, err) != TERN_OK)) {
        *err = problem;
        return status;
    }
    if (status != TERN_OK) json_object_set_new(out, "problem", json_string(problem.message));
    else tern_app_describe_model(model, out);
    if (status == TERN_OK && !folder && tern_app_describe_gguf(path, out, err) != TERN_OK) *err = (tern_error){0};
    note_template(path, out);
    tern_model_close(model);
    return TERN_OK;
}

static tern_status run(const tern_options *o, tern_error *err)
{
    tern_app_path path;
    tern_options input = {.model = o->args.n ? o->args.items[0] : o->model};
    TERN_TRY(tern_app_find_model(&input, &path, err));
    if (o->graph || o->memory || o->kernels) {
        if (o->json && (o->graph || o->kernels))
            return tern_fail(err, TERN_INVALID_ARGUMENT, "--json: %s found, which has no JSON form",
                             o->graph ? "--graph" : "--kernels");
        if (o->json) return inspect_plan(o, path.text, err);
        return inspect_graph(o, path.text, err);
    }
    if (o->tp || o->pp) return inspect_plan(o, path.text, err);
    json_t *out = json_pack("{s:o, s:I}", "file", tern_app_json_text(path.text, strlen(path.text)), "file_bytes",
                            (json_int_t)tern_parts_bytes(path.text));
    const char *base = o->args.n ? o->model : NULL; /* beside an adapter -m names the model that it should fit */
    tern_status status;
    if (tern_app_is_adapter(path.text)) status = tern_app_describe_adapter(path.text, base, out, err);
    else if (tern_package_is(path.text)) status = tern_app_describe_package(path.text, o->json, out, err);
    else status = describe(path.text, out, err);
    if (status == TERN_OK && o->json) return tern_app_print_json(out, err);
    if (status == TERN_OK) tern_app_print_description(out);
    json_decref(out);
    return status;
}

const tern_command tern_command_inspect = {
    .name = "inspect",
    .usage = "[MODEL | PACKAGE | ADAPTER [-m MODEL]] [--graph | --memory | --kernels] [--json]",
    .summary = "Show what a model, a package or an adapter holds",
    .groups = groups,
    .max_args = 1,
    .run = run,
};
