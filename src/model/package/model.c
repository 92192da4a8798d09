/* The model in a package, whole in memory. */
#include "model/package/package.h"

#include "base/show.h"
#include "model/stream/stream.h"

typedef struct reading {
    tern_model_stream *stream;
    tern_model_stream_options options;
    tern_model_options model; /* the caller's, the checking of sums being the first half of its progress */
    const tern_model_options *asked;
} reading;

static bool report(void *context, float done)
{
    const reading *r = context;
    return r->asked->progress(r->asked->progress_context, 0.5f + 0.5f * done);
}

static tern_status take_head(void *context, const void *bytes, size_t n, uint64_t *wanted, tern_error *err)
{
    reading *r = context;
    return tern_model_stream_open(&r->stream, bytes, n, &r->options, wanted, err);
}

static tern_status read_pieces(const tern_package *p, tern_model_stream *stream, tern_error *err)
{
    tern_model_piece piece;
    tern_model_part unused;
    tern_status status;
    while ((status = tern_model_stream_next(stream, &piece, err)) == TERN_OK) {
        tern_package_read(p, piece.offset, piece.bytes, piece.into);
        TERN_TRY(tern_model_stream_accept(stream, &unused, err));
    }
    if (status != TERN_NOT_FOUND) return status;
    *err = (tern_error){0};
    return TERN_OK;
}

static tern_status read_model(tern_model **model, const tern_package *p, bool experts,
                              const tern_model_options *options, tern_error *err)
{
    reading r = {.asked = options, .model = options ? *options : (tern_model_options){0}};
    r.model.mtp = false; /* pieces are those of the layers alone */
    if (r.model.progress) r.model.progress = report, r.model.progress_context = &r;
    r.options = (tern_model_stream_options){.file_bytes = tern_package_manifest(p)->bytes,
                                            .keep = true,
                                            .no_experts = !experts,
                                            .manifest = tern_package_manifest(p),
                                            .model = &r.model};
    tern_status status;
    TERN_GOTO(tern_package_head(p, take_head, &r, err));
    TERN_GOTO(read_pieces(p, r.stream, err));
    TERN_GOTO(tern_model_stream_finish(r.stream, model, err));
fail:
    tern_model_stream_close(r.stream);
    return status;
}

tern_status tern_package_open_model(tern_model **model, const char *path, const tern_model_options *options,
                                    tern_error *err)
{
    tern_error local = {0};
    tern_error *e = err ? err : &local;
    tern_package *p;
    *model = NULL;
    tern_status status = tern_package_open(&p, path, options, e);
    if (status != TERN_OK) return tern_error_prefix(e, "%s", tern_show_z(path).text);
    status = read_model(model, p, true, options, e);
    tern_package_close(p);
    return status == TERN_OK ? TERN_OK : tern_error_prefix(e, "%s", tern_show_z(path).text);
}

tern_status tern_package_model_without_experts(tern_model **model, const tern_package *p,
                                               const tern_model_options *options, tern_error *err)
{
    tern_error local = {0};
    *model = NULL;
    if (tern_package_manifest(p)->version == TERN_MANIFEST_EXPERTS_VERSION)
        return read_model(model, p, false, options, err ? err : &local);
    return tern_fail(err, TERN_UNSUPPORTED, "package of version %u found, one with a shard for each expert expected",
                     tern_package_manifest(p)->version);
}
