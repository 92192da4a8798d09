/* The library's version; loading a model by its path, saying what it is and what it has done. */
#include <string.h>

#include "backend/counters.h"
#include "base/alloc.h"
#include "base/choice.h"
#include "base/mapped.h"
#include "base/sized.h"
#include "graph/fusions.h"
#include "infer/engine/tiers.h"
#include "infer/experts/cache.h"
#include "infer/tune/file.h"
#include "quant/encoding.h"
#include "quant/weight.h"
#include "tern.h"
#include "text/tokenizer/tokenizer.h"

const char *tern_version(void)
{
    return TERN_VERSION;
}

tern_status tern_report_cut_files(tern_error *err)
{
    return tern_mapped_report(err);
}

static tern_status read_head(const char *head, tern_engine_params *params, tern_error *err)
{
    params->head_exact = head && strcmp(head, "exact") == 0;
    return params->head_exact ? TERN_OK : tern_encoding_parse("head", head, &params->head, err);
}

static tern_status read_activations(const tern_engine_options *o, tern_engine_params *params, tern_error *err)
{
    tern_engine_set_activations(params, o->activations);
    if (!params->f32_activations || !o->tune_file) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT, "option tune_file: it cannot be combined with activations \"f32\"");
}

bool tern_fusion_at(uint32_t i, tern_fusion_info *info)
{
    tern_fusion_pass pass;
    if (!info || !tern_graph_fusion_at(i, &pass)) return false;
    *info = (tern_fusion_info){.name = pass.name, .what = pass.what};
    return true;
}

static tern_status read_choices(const tern_engine_options *o, tern_tune_cache *out, tern_error *err)
{
    *out = (tern_tune_cache){0};
    if (!o->tune_file) return TERN_OK;
    if (o->kernel || o->cpu.features)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "option tune_file: it cannot be combined with %s",
                         o->kernel ? "kernel" : "cpu.features");
    return tern_tune_file_read(out, o->tune_file, err);
}

/* The caller's options as this library has them, with values that exist. */
static tern_status read_options(const tern_engine_options *options, tern_engine_options *o, tern_error *err)
{
    TERN_TRY(TERN_SIZED_READ(o, options, err));
    TERN_TRY(tern_sized_reserved(o->cpu.reserved, sizeof o->cpu.reserved, "options.cpu", err));
    TERN_TRY(tern_sized_reserved(o->gpu.reserved, sizeof o->gpu.reserved, "options.gpu", err));
    TERN_TRY(tern_sized_reserved(o->memory.reserved, sizeof o->memory.reserved, "options.memory", err));
    TERN_TRY(tern_choice_check(TERN_CHOICE_BACKEND, o->backend, err));
    TERN_TRY(tern_choice_check(TERN_CHOICE_FFN, o->cpu.ffn, err));
    return tern_choice_check(TERN_CHOICE_ACTIVATIONS, o->activations, err);
}

tern_status tern_engine_load(tern_engine **engine, const char *path, const tern_engine_options *options,
                             tern_error *err)
{
    TERN_NEED(engine, err);
    *engine = NULL;
    TERN_NEED(path, err);
    tern_engine_options o;
    TERN_TRY(read_options(options, &o, err));
    if (o.mtp && o.ranks)
        return tern_fail(err, TERN_UNSUPPORTED, "drafting by the model's own block in %u processes: one expected",
                         tern_ranks_count(o.ranks));
    tern_engine_params params = {.backend = {.name = tern_choice_word(TERN_CHOICE_BACKEND, o.backend),
                                             .n_threads = o.cpu.n_threads,
                                             .pin = o.cpu.pin,
                                             .cpu_features = o.cpu.features,
                                             .kernel = o.kernel,
                                             .ffn = o.cpu.ffn,
                                             .device = o.gpu.device,
                                             .split = o.gpu.split,
                                             .gpu_layers = o.gpu.n_layers,
                                             .validation = o.gpu.validation,
                                             .profile = o.gpu.profile},
                                 .batch_invariant = o.batch_invariant,
                                 .session = o.memory.session,
                                 .ranks = o.ranks,
                                 .kv_disk = o.memory.kv_disk,
                                 .n_stages = o.n_stages,
                                 .no_memory_check = o.memory.no_check};
    const tern_model_options how = {
        .no_tokenizer = o.no_tokenizer, .mtp = o.mtp, .progress = o.progress, .progress_context = o.progress_context};
    tern_tune_cache choices;
    TERN_TRY(read_head(o.head, &params, err));
    TERN_TRY(tern_experts_parse(o.memory.experts, &params.experts, err));
    TERN_TRY(tern_kv_room_parse(o.memory.kv, &params.kv_memory, err));
    TERN_TRY(read_activations(&o, &params, err));
    TERN_TRY(tern_graph_fusions_parse(o.no_fusion, &params.no_fusion, err));
    TERN_TRY(read_choices(&o, &choices, err));
    params.backend.choices = choices.choices;
    params.backend.n_choices = choices.n;
    const tern_status status = tern_engine_open_path(engine, path, &how, &params, err);
    tern_tune_cache_deinit(&choices);
    return status;
}

/* Bytes of the experts of all layers, as the model has them. */
static uint64_t expert_weight_bytes(const tern_model *model)
{
    static const tern_role roles[] = {TERN_ROLE_FFN_GATE_EXPS, TERN_ROLE_FFN_UP_EXPS, TERN_ROLE_FFN_DOWN_EXPS};
    uint64_t bytes = 0;
    for (uint32_t layer = 0; layer < tern_model_config(model)->n_layers; layer++)
        for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
            bytes += tern_model_weight(model, roles[i], layer)->bytes;
    return bytes;
}

static void describe_experts(const tern_model *model, tern_engine_info *info)
{
    const tern_config *c = tern_model_config(model);
    if (!c->n_experts) return;
    info->layer_experts = c->n_experts;
    info->token_experts = c->n_experts_used;
    info->token_expert_bytes = expert_weight_bytes(model) / c->n_experts * c->n_experts_used;
}

static uint64_t ternary_parameters(const tern_model *model)
{
    uint64_t n = 0;
    for (uint32_t layer = 0; layer < tern_model_config(model)->n_layers; layer++)
        for (int role = 0; role < TERN_ROLE_COUNT; role++) {
            const tern_weight *w = tern_model_weight(model, (tern_role)role, layer);
            if (w->encoding && w->encoding->ternary) n += (uint64_t)w->rows * w->cols;
        }
    return n;
}

static tern_pooling pooling(const tern_config *c)
{
    switch (c->pooling) {
    case TERN_POOLS_MEAN: return TERN_POOLING_MEAN;
    case TERN_POOLS_CLS: return TERN_POOLING_CLS;
    default: return TERN_POOLING_LAST;
    }
}

/* The parts that are not all on the device at once. */
static void describe_tiers(const tern_backend *b, tern_engine_info *info)
{
    const tern_spill_info *spill = b->info.spill;
    const tern_paged_info *paged = b->info.paged;
    if (spill) info->kv_memory = spill->room;
    if (spill) info->kv_disk = spill->disk;
    if (!paged) return;
    info->experts = paged->n_all;
    info->experts_held = paged->n_slots;
    info->experts_bytes = paged->all_bytes;
    info->experts_held_bytes = paged->slot_bytes;
}

tern_status tern_engine_describe(const tern_engine *engine, tern_engine_info *info, tern_error *err)
{
    TERN_NEED(engine, err);
    const tern_model *model = tern_engine_model(engine);
    const tern_config *c = tern_model_config(model);
    const tern_tokenizer *t = tern_model_tokenizer(model);
    const tern_backend *b = tern_engine_backend(engine);
    const tern_encoding *layers = tern_model_main_encoding(model);
    tern_engine_info found = {.architecture = c->architecture,
                              .name = c->name,
                              .encoding = layers ? layers->name : "",
                              .head =
                                  tern_engine_head_exact(engine) ? "exact" : tern_engine_head(engine)->encoding->name,
                              .activations = tern_engine_activations(engine),
                              .n_vocab = c->n_vocab,
                              .n_ctx_train = c->n_ctx_train,
                              .n_embd = c->n_embd,
                              .n_layers = c->n_layers,
                              .parameters = tern_model_parameters(model),
                              .ternary_parameters = ternary_parameters(model),
                              .bytes = tern_model_bytes(model),
                              .n_unused_tensors = tern_model_unused(model)->n,
                              .unused_tensors = tern_model_unused(model)->names,
                              .bos = t ? tern_tokenizer_bos(t) : -1,
                              .eos = t ? tern_tokenizer_eos(t) : -1,
                              .adds_bos = t && tern_tokenizer_adds_bos(t),
                              .has_tokenizer = t != NULL,
                              .has_mtp = tern_model_mtp(model) != NULL,
                              .pooling = pooling(c),
                              .chat_template = t ? tern_tokenizer_chat_template(t) : NULL,
                              .backend = b->info.name,
                              .device = b->info.device,
                              .driver = b->info.driver,
                              .exchange = b->info.exchange[0] ? b->info.exchange : NULL,
                              .max_steps = b->info.max_steps};
    describe_experts(model, &found);
    describe_tiers(b, &found);
    return TERN_SIZED_WRITE(info, &found, err);
}

tern_status tern_engine_count(const tern_engine *engine, tern_engine_counters *counters, tern_error *err)
{
    tern_backend_counters c = {0};
    TERN_NEED(engine, err);
    const tern_backend *b = tern_engine_backend(engine);
    b->counters(b, &c);
    const tern_engine_counters found = {.runs = c.runs,
                                        .ops = c.ops,
                                        .weight_bytes = c.weight_bytes,
                                        .dispatches = c.dispatches,
                                        .barriers = c.barriers,
                                        .submits = c.submits,
                                        .layer_dispatches = c.layer_dispatches,
                                        .layer_barriers = c.layer_barriers,
                                        .uploaded_bytes = c.uploaded_bytes,
                                        .downloaded_bytes = c.downloaded_bytes,
                                        .buffers = c.buffers,
                                        .reused_buffers = c.reused,
                                        .allocations = c.allocations,
                                        .pipelines = c.pipelines,
                                        .pipeline_hits = c.pipeline_hits,
                                        .untried_kernels = c.untried,
                                        .crossed_bytes = c.crossed_bytes,
                                        .expert_hits = c.expert_hits,
                                        .expert_misses = c.expert_misses,
                                        .expert_evictions = c.expert_evictions,
                                        .expert_prefetched = c.expert_prefetched,
                                        .expert_bytes = c.expert_bytes,
                                        .kv_hits = c.kv_hits,
                                        .kv_misses = c.kv_misses,
                                        .kv_prefetched = c.kv_prefetched,
                                        .kv_evictions = c.kv_evictions,
                                        .kv_in_bytes = c.kv_in_bytes,
                                        .kv_out_bytes = c.kv_out_bytes,
                                        .kv_wait_ns = c.kv_wait_ns,
                                        .ffn_rows = c.ffn_rows,
                                        .ffn_rows_read = c.ffn_rows_read,
                                        .ffn_columns = c.ffn_columns,
                                        .ffn_columns_read = c.ffn_columns_read};
    return TERN_SIZED_WRITE(counters, &found, err);
}

tern_status tern_engine_profile(const tern_engine *engine, tern_engine_profile_row *rows, size_t cap, size_t *n,
                                tern_error *err)
{
    TERN_NEED(engine, err);
    TERN_NEED(n, err);
    if (cap) TERN_NEED(rows, err);
    const tern_backend *b = tern_engine_backend(engine);
    tern_profile_row *all = tern_calloc(cap + 1, sizeof *all);
    if (!all) return tern_fail_alloc(err, cap * sizeof *all);
    *n = b->profile(b, all, cap);
    for (size_t i = 0; i < *n && i < cap; i++) {
        rows[i] = (tern_engine_profile_row){
            .kernel = all[i].pipeline, .n = all[i].n, .ns = all[i].ns, .weight_bytes = all[i].weight_bytes};
        memcpy(rows[i].name, all[i].name, sizeof rows[i].name);
    }
    tern_free(all);
    return TERN_OK;
}

double tern_engine_read_bandwidth(tern_engine *engine, double seconds)
{
    return engine ? tern_engine_measure(engine, TERN_MEASURE_READ, seconds) : 0;
}

double tern_engine_dot_rate(tern_engine *engine, double seconds)
{
    return engine ? tern_engine_measure(engine, TERN_MEASURE_DOTS, seconds) : 0;
}
