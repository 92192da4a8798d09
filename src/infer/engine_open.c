/* Opening an engine by its model's path: packages through the loader, all else as a model. */
#include "infer/engine.h"

#include "base/progress.h"
#include "base/show.h"
#include "infer/loader.h"
#include "model/package.h"

static tern_status open_model(tern_engine **engine, const char *path, const tern_model_options *options,
                              const tern_engine_params *params, tern_error *err)
{
    tern_model *model;
    tern_model_options opening = options ? *options : (tern_model_options){0};
    tern_engine_params preparing = *params;
    tern_progress_part half = {.whole = opening.progress, .context = opening.progress_context, .share = 0.5f};
    opening.progress = preparing.progress = opening.progress ? tern_progress_part_report : NULL;
    opening.progress_context = preparing.progress_context = &half;
    TERN_TRY(tern_model_open(&model, path, &opening, err));
    half.before = 0.5f;
    return tern_engine_open(engine, model, &preparing, err);
}

static tern_status take_head(void *context, const void *bytes, size_t n, uint64_t *wanted, tern_error *err)
{
    return tern_loader_head(context, bytes, n, wanted, err);
}

/* The sums were the first half. */
static tern_status report(const tern_model_options *o, double done, tern_error *err)
{
    if (!o || !o->progress || o->progress(o->progress_context, (float)(0.5 + 0.5 * done))) return TERN_OK;
    return tern_fail(err, TERN_CANCELLED, "opening the model was cancelled");
}

static tern_status give_pieces(tern_loader *loader, const tern_package *p, const tern_model_options *options,
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
    TERN_GOTO(tern_package_head(p, take_head, loader, err));
    TERN_GOTO(give_pieces(loader, p, options, err));
    TERN_GOTO(tern_loader_finish(loader, engine, err));
fail:
    tern_loader_close(loader);
    return status;
}

tern_status tern_engine_open_path(tern_engine **engine, const char *path, const tern_model_options *options,
                                  const tern_engine_params *params, tern_error *err)
{
    tern_error local = {0};
    tern_error *e = err ? err : &local;
    tern_package *p;
    *engine = NULL;
    /* A table that is to be made anew has to be whole. */
    const bool some_experts = params->experts.bytes || params->experts.per_layer; /* the others stay in memory here */
    if (params->head || some_experts || !tern_package_is(path)) return open_model(engine, path, options, params, e);
    tern_status status = tern_package_open(&p, path, options, e);
    if (status == TERN_OK) {
        status = load(engine, p, options, params, e);
        tern_package_close(p);
    }
    return status == TERN_OK ? TERN_OK : tern_error_prefix(e, "%s", tern_show_z(path).text);
}
