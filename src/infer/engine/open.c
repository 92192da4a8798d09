/* Opening an engine by its model's path: packages through the loader, all else as a model. */
#include "infer/engine/engine.h"

#include <stdio.h>

#include "base/progress.h"
#include "base/show.h"
#include "infer/engine/loader.h"
#include "infer/experts/source.h"
#include "infer/follow/follow.h"
#include "model/package/package.h"
#include "ranks/ranks.h"

/* Stage by stage, ranks that follow each other have the same layers. */
static tern_status choose_layers(tern_model_options *o, const tern_ranks *ranks, uint32_t n_stages, tern_error *err)
{
    o->n_stages = n_stages ? n_stages : 1;
    if (ranks->n % o->n_stages)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%u stages of %u processes: as many processes in each expected",
                         o->n_stages, ranks->n);
    o->n_ranks = ranks->n / o->n_stages;
    o->rank = ranks->rank % o->n_ranks;
    o->stage = ranks->rank / o->n_ranks;
    return TERN_OK;
}

static tern_status open_model(tern_engine **engine, const char *path, const tern_model_options *options,
                              const tern_engine_params *params, tern_error *err)
{
    tern_model *model;
    tern_model_options opening = options ? *options : (tern_model_options){0};
    tern_engine_params preparing = *params;
    tern_progress_part half = {.whole = opening.progress, .context = opening.progress_context, .share = 0.5f};
    if (params->ranks) TERN_TRY(choose_layers(&opening, params->ranks, params->n_stages, err));
    opening.n_threads = params->backend.n_threads;
    opening.progress = preparing.progress = opening.progress ? tern_progress_part_report : NULL;
    opening.progress_context = preparing.progress_context = &half;
    tern_backend_start *start = params->ranks ? NULL : tern_backend_start_begin(&params->backend);
    const tern_status status = tern_model_open(&model, path, &opening, err);
    tern_backend_start_end(start);
    TERN_TRY(status);
    half.before = 0.5f;
    return tern_engine_open(engine, model, &preparing, err);
}

static tern_status accept_header(void *context, const void *bytes, size_t n, uint64_t *wanted, tern_error *err)
{
    return tern_loader_head(context, bytes, n, wanted, err);
}

/* The sums were the first half. */
static tern_status report(const tern_model_options *o, double done, tern_error *err)
{
    if (!o || !o->progress || o->progress(o->progress_context, (float)(0.5 + 0.5 * done))) return TERN_OK;
    return tern_fail(err, TERN_CANCELLED, "opening the model was cancelled");
}

static tern_status load_pieces(tern_loader *loader, const tern_package *p, const tern_model_options *options,
                               tern_error *err)
{
    tern_loader_piece piece;
    tern_status status;
    while ((status = tern_loader_next(loader, &piece, err)) == TERN_OK) {
        tern_package_read(p, piece.offset, piece.bytes, piece.into);
        TERN_TRY(tern_loader_accept(loader, err));
        TERN_TRY(report(options, (double)piece.offset / (double)tern_package_manifest(p)->bytes, err));
    }
    if (status != TERN_NOT_FOUND) return status;
    *err = (tern_error){0};
    return TERN_OK;
}

static tern_status load(tern_engine **engine, const tern_package *p, const tern_model_options *options,
                        const tern_engine_params *params, tern_error *err)
{
    tern_loader *loader;
    TERN_TRY(tern_loader_open(&loader, params, tern_package_manifest(p)->bytes, err));
    tern_loader_expect(loader, tern_package_manifest(p));
    tern_status status;
    TERN_GOTO(tern_package_head(p, accept_header, loader, err));
    TERN_GOTO(load_pieces(loader, p, options, err));
    TERN_GOTO(tern_loader_finish(loader, engine, err));
fail:
    tern_loader_close(loader);
    return status;
}

static tern_status open_with_source(tern_engine **engine, tern_expert_source *s, const tern_model_options *options,
                                    const tern_engine_params *params, tern_error *err)
{
    tern_model *model;
    tern_engine_params fetching = *params;
    tern_expert_source_use(s, &fetching);
    TERN_TRY(tern_package_model_without_experts(&model, tern_expert_source_package(s), options, err));
    TERN_TRY(tern_engine_open(engine, model, &fetching, err));
    tern_engine__close_with(*engine, s, tern_expert_source_close);
    return TERN_OK;
}

/* Its experts stay where they are until they are needed. */
static tern_status open_without_experts(tern_engine **engine, const char *path, const tern_model_options *options,
                                        const tern_engine_params *params, tern_error *err)
{
    tern_package *package;
    tern_expert_source *s;
    TERN_TRY(tern_package_open_dense(&package, path, options, err));
    TERN_TRY(tern_expert_source_open(&s, package, err));
    const tern_status status = open_with_source(engine, s, options, params, err);
    if (status != TERN_OK) tern_expert_source_close(s);
    return status;
}

/* All of it goes to the device, if it fits there. */
static tern_status open_whole(tern_engine **engine, const char *path, const tern_model_options *options,
                              const tern_engine_params *params, bool *by_expert, tern_error *err)
{
    tern_package *p;
    TERN_TRY(tern_package_open(&p, path, options, err));
    *by_expert = tern_package_manifest(p)->n_experts > 0;
    const tern_status status = load(engine, p, options, params, err);
    tern_package_close(p);
    return status;
}

/* Whether it is a package of which some experts may stay where they are. */
static tern_status is_by_expert(const char *path, bool *by_expert, tern_error *err)
{
    tern_manifest m;
    char manifest[4200];
    snprintf(manifest, sizeof manifest, "%s%s", path, tern_file_is_dir(path) ? "/" TERN_MANIFEST_NAME : "");
    TERN_TRY(tern_manifest_read(&m, manifest, err));
    const tern_status status = tern_manifest_need(&m, false, err);
    *by_expert = m.n_experts > 0;
    tern_manifest_deinit(&m);
    return status;
}

static tern_status open_package(tern_engine **engine, const char *path, const tern_model_options *options,
                                const tern_engine_params *params, tern_error *err)
{
    const bool some_experts = params->experts.bytes || params->experts.per_layer;
    bool by_expert = false;
    if (!some_experts) {
        const tern_status status = open_whole(engine, path, options, params, &by_expert, err);
        if (status != TERN_OUT_OF_MEMORY || !by_expert || params->backend.split || params->experts.all) return status;
        *err = (tern_error){0};
        return open_without_experts(engine, path, options, params, err);
    }
    TERN_TRY(is_by_expert(path, &by_expert, err));
    if (by_expert) return open_without_experts(engine, path, options, params, err);
    return open_model(engine, path, options, params, err); /* its experts stay in memory of the host */
}

tern_status tern_engine_open_path(tern_engine **engine, const char *path, const tern_model_options *options,
                                  const tern_engine_params *params, tern_error *err)
{
    tern_error local = {0};
    tern_error *e = err ? err : &local;
    *engine = NULL;
    if (params->ranks) TERN_TRY(tern_follow__agree(params->ranks, path, e));
    /* A table that is to be made anew has to be whole. */
    if (params->head || params->ranks || !tern_package_is(path)) return open_model(engine, path, options, params, e);
    const tern_status status = open_package(engine, path, options, params, e);
    return status == TERN_OK ? TERN_OK : tern_error_prefix(e, "%s", tern_show_z(path).text);
}
