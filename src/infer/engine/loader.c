/* An engine from a file that comes piece by piece: the model's pieces go where the backend wants them. */
#include "infer/engine/loader.h"

#include "base/alloc.h"
#include "format/gguf_parts.h"
#include "quant/encoding.h"

struct tern_loader {
    tern_engine_params params;
    tern_model_options model;
    uint64_t file_bytes;
    const tern_manifest *manifest;
    tern_manifest own;          /* that, where it came as a text */
    tern_expert_source *source; /* of a package by expert, until the engine has it */
    tern_gguf_heads heads;      /* of a file in parts, until all have come */
    tern_engine *engine;        /* its model is the stream's until the end */
    tern_model_stream *stream;
};

/* A backend with memory of its own takes weights piece by piece; others read them where they lie. */
static bool streams_weights(const tern_loader *l)
{
    return tern_engine_backend(l->engine)->weight_write != NULL;
}

static tern_status open_backend(tern_loader *l, tern_error *err)
{
    TERN_TRY(tern_engine__open_backend(l->engine, &l->params.backend, err));
    l->model.pool = tern_engine_backend(l->engine)->info.pool;
    if (!l->params.head || !streams_weights(l)) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED,
                     "head in %s on %s, from a file that is not whole: convert the file, or use the CPU",
                     l->params.head->name, tern_engine_backend(l->engine)->info.name);
}

tern_status tern_loader_open(tern_loader **loader, const tern_engine_params *params, uint64_t file_bytes,
                             tern_error *err)
{
    *loader = NULL;
    tern_status status;
    tern_loader *l = tern_calloc(1, sizeof *l);
    if (!l) return tern_fail_alloc(err, sizeof *l);
    l->params = *params;
    l->file_bytes = file_bytes;
    TERN_GOTO(tern_engine__begin(&l->engine, params, err));
    if (!params->backend.split) TERN_GOTO(open_backend(l, err));
    *loader = l;
    return TERN_OK;
fail:
    tern_loader_close(l);
    return status;
}

void tern_loader_expect(tern_loader *loader, const tern_manifest *manifest)
{
    loader->manifest = manifest;
}

tern_status tern_loader_expect_json(tern_loader *l, const void *json, size_t n, tern_error *err)
{
    tern_manifest_deinit(&l->own);
    l->manifest = NULL;
    TERN_TRY(tern_manifest_parse(&l->own, json, n, err));
    TERN_TRY(tern_manifest_need(&l->own, false, err));
    l->manifest = &l->own;
    return TERN_OK;
}

tern_status tern_loader_experts(tern_loader *l, tern_package *package, tern_error *err)
{
    tern_expert_source_close(l->source);
    TERN_TRY(tern_expert_source_open(&l->source, package, err));
    tern_expert_source_use(l->source, &l->params);
    l->manifest = tern_package_manifest(package);
    return TERN_OK;
}

tern_status tern_loader_parts(tern_loader *l, const uint64_t *bytes, size_t n, tern_error *err)
{
    uint64_t sum = 0;
    bool overflow = false;
    if (l->stream || l->heads.n) return tern_fail(err, TERN_INVALID_ARGUMENT, "the parts are known already");
    if (l->manifest)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "parts found together with a manifest, which has no parts");
    for (size_t i = 0; i < n; i++) overflow = __builtin_add_overflow(sum, bytes[i], &sum) || overflow;
    if (overflow || sum != l->file_bytes)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%llu bytes in %zu parts, %llu expected", (unsigned long long)sum,
                         n, (unsigned long long)l->file_bytes);
    return tern_gguf_heads_open(&l->heads, bytes, n, err);
}

static tern_status open_parts(tern_loader *l, const void *bytes, size_t n, const tern_model_stream_options *options,
                              uint64_t *wanted, tern_error *err)
{
    const tern_gguf *whole;
    TERN_TRY(tern_gguf_heads_add(&l->heads, bytes, n, wanted, &whole, err));
    if (!whole) return TERN_OK;
    const tern_status status = tern_model_stream_open_gguf(&l->stream, whole, options, err);
    tern_gguf_heads_close(&l->heads);
    return status;
}

/* Its layers are known: what is left is to find out where they go. */
static tern_status plan_destinations(tern_loader *l, tern_error *err)
{
    const uint32_t n_layers = tern_model_config(tern_loader_model(l))->n_layers;
    if (l->params.backend.split) {
        if (l->params.backend.gpu_layers > n_layers) l->params.backend.split = false;
        TERN_TRY(open_backend(l, err));
    }
    tern_model *model = (tern_model *)(uintptr_t)tern_loader_model(l); /* it is only looked at */
    tern_engine_params params = l->params;
    if (!l->source) params.experts = (tern_experts_size){.all = true}; /* nothing could bring them later */
    TERN_TRY(tern_engine__open_tiers(l->engine, model, &params, err));
    TERN_TRY(tern_engine__check_memory(l->engine, model, l->params.session, err));
    return tern_engine__reserve_slots(l->engine, n_layers, err);
}

/* All experts of a file that is read through are in memory. */
static tern_status check_experts(const tern_loader *l, tern_error *err)
{
    const tern_experts_size *size = &l->params.experts;
    if (l->source || (!size->bytes && !size->per_layer)) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT, "option experts: a package by expert expected, as tern package makes");
}

tern_status tern_loader_head(tern_loader *l, const void *bytes, size_t n, uint64_t *wanted, tern_error *err)
{
    if (l->stream) return tern_fail(err, TERN_INVALID_ARGUMENT, "the head is there already");
    TERN_TRY(check_experts(l, err));
    tern_model_stream_options options = {
        .file_bytes = l->file_bytes, .manifest = l->manifest, .no_experts = l->source != NULL, .model = &l->model};
    options.keep = l->params.backend.split || !streams_weights(l);
    if (l->heads.n) TERN_TRY(open_parts(l, bytes, n, &options, wanted, err));
    else TERN_TRY(tern_model_stream_open(&l->stream, bytes, n, &options, wanted, err));
    return l->stream ? plan_destinations(l, err) : TERN_OK;
}

const tern_model *tern_loader_model(const tern_loader *l)
{
    return l->stream ? tern_model_stream_model(l->stream) : NULL;
}

const tern_backend *tern_loader_backend(const tern_loader *l)
{
    return l->stream ? tern_engine_backend(l->engine) : NULL;
}

static tern_status need_head(const tern_loader *l, tern_error *err)
{
    return l->stream ? TERN_OK : tern_fail(err, TERN_INVALID_ARGUMENT, "the file's head is expected first");
}

tern_status tern_loader_next(tern_loader *l, tern_loader_piece *piece, tern_error *err)
{
    TERN_TRY(need_head(l, err));
    return tern_model_stream_next(l->stream, piece, err);
}

static tern_status stream_weight(tern_loader *l, const tern_weight *w, const tern_weight *part, uint32_t first,
                                 tern_error *err)
{
    tern_backend *b = tern_engine_backend(l->engine);
    TERN_TRY(tern_engine__reserve_weight(l->engine, w, err));
    return b->weight_write(b, tern_engine__weight_buffer(l->engine, w), part, first, err);
}

tern_status tern_loader_accept(tern_loader *l, tern_error *err)
{
    tern_model_part part;
    TERN_TRY(need_head(l, err));
    TERN_TRY(tern_model_stream_accept(l->stream, &part, err));
    return part.weight ? stream_weight(l, part.weight, &part.rows, part.first, err) : TERN_OK;
}

/* Only now are all factors of a row's scale known. */
static tern_status write_scales(tern_loader *l, tern_error *err)
{
    const tern_model *model = tern_loader_model(l);
    const uint32_t n_layers = tern_model_config(model)->n_layers;
    for (uint32_t layer = 0; layer < n_layers; layer++)
        for (int role = 0; role < TERN_ROLE_COUNT; role++) {
            const tern_weight *w = tern_model_weight(model, (tern_role)role, layer);
            if (w->encoding && !w->data && w->row_scales) TERN_TRY(stream_weight(l, w, w, 0, err));
        }
    return TERN_OK;
}

tern_status tern_loader_finish(tern_loader *l, tern_engine **engine, tern_error *err)
{
    tern_model *model = NULL;
    TERN_TRY(need_head(l, err));
    TERN_TRY(write_scales(l, err));
    TERN_TRY(tern_model_stream_finish(l->stream, &model, err));
    TERN_TRY(tern_engine__end(l->engine, model, l->params.head, l->params.backend.n_threads, err));
    if (l->source) tern_engine__close_with(l->engine, l->source, tern_expert_source_close);
    *engine = l->engine;
    l->engine = NULL;
    l->source = NULL;
    return TERN_OK;
}

void tern_loader_close(tern_loader *l)
{
    if (!l) return;
    tern_engine_close(l->engine); /* before its weights' model */
    tern_model_stream_close(l->stream);
    tern_gguf_heads_close(&l->heads);
    tern_expert_source_close(l->source);
    tern_manifest_deinit(&l->own);
    tern_free(l);
}
