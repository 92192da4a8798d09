/* Exports: opening an engine from a file that comes piece by piece; manifests of packages. */
#include <string.h>

#include "base/alloc.h"
#include "format/manifest.h"
#include "infer/engine/loader.h"
#include "infer/experts/cache.h"
#include "web/host.h"
#include "web/web.h"
#include "web/web_engine.h"

TERN_WEB tern_status tern_web_loader_open(tern_loader **loader, const char *options, double file_bytes);
TERN_WEB tern_status tern_web_loader_parts(tern_loader *loader, const double *bytes, size_t n);
TERN_WEB tern_status tern_web_loader_head(tern_loader *loader, const void *bytes, size_t n, double *wanted);
TERN_WEB tern_status tern_web_loader_describe(tern_loader *loader, uint32_t n_ctx, uint32_t kv);
TERN_WEB tern_status tern_web_loader_next(tern_loader *loader, double *offset, size_t *bytes, uint8_t **into);
TERN_WEB tern_status tern_web_loader_accept(tern_loader *loader);
TERN_WEB tern_status tern_web_loader_finish(tern_engine **engine, tern_loader *loader);
TERN_WEB void tern_web_loader_close(tern_loader *loader);

/* Options: backend ("cpu", "webgpu"), threads, activations (as --activations), experts (as --experts). */
tern_status tern_web_loader_open(tern_loader **loader, const char *options, double file_bytes)
{
    tern_error *err = tern_web__error();
    tern_engine_params params = {0};
    const char *experts = NULL, *activations = NULL;
    uint32_t mode;
    const tern_web_option known[] = {{"backend", TERN_WEB_STRING, &params.backend.name},
                                     {"threads", TERN_WEB_U32, &params.backend.n_threads},
                                     {"activations", TERN_WEB_STRING, &activations},
                                     {"experts", TERN_WEB_STRING, &experts}};
    json_t *root;
    *loader = NULL;
    TERN_TRY(tern_web__read_options(options, known, sizeof known / sizeof *known, &root, err));
    params.head_exact = !params.backend.name || strcmp(params.backend.name, "cpu") == 0; /* the same tokens, sooner */
    tern_status status;
    TERN_GOTO(tern_choice_parse(TERN_CHOICE_ACTIVATIONS, activations, &mode, err));
    tern_engine_set_activations(&params, (tern_activation_mode)mode);
    TERN_GOTO(tern_experts_parse(experts, &params.experts, err));
    TERN_GOTO(tern_loader_open(loader, &params, (uint64_t)file_bytes, err));
fail:
    json_decref(root);
    return status;
}

/* Before the head, of a file in n parts of these sizes: then a head of each part comes, in their order
 * (tern_loader_parts). */
tern_status tern_web_loader_parts(tern_loader *loader, const double *bytes, size_t n)
{
    tern_error *err = tern_web__error();
    uint64_t *sizes = tern_calloc(n, sizeof *sizes);
    if (!sizes) return tern_fail_alloc(err, n * sizeof *sizes);
    for (size_t i = 0; i < n; i++) sizes[i] = (uint64_t)bytes[i];
    const tern_status status = tern_loader_parts(loader, sizes, n, err);
    tern_free(sizes);
    return status;
}

/* PENDING: the header is longer than n bytes; *wanted are likely to be enough. */
tern_status tern_web_loader_head(tern_loader *loader, const void *bytes, size_t n, double *wanted)
{
    uint64_t more = 0;
    tern_status status = tern_loader_head(loader, bytes, n, &more, tern_web__error());
    *wanted = (double)more;
    return status;
}

/* After the head: {model, memory}, the memory for a context of n_ctx positions (0: the default) with a cache of type kv
 * (tern_kv_type). */
tern_status tern_web_loader_describe(tern_loader *loader, uint32_t n_ctx, uint32_t kv)
{
    tern_error *err = tern_web__error();
    const tern_model *model = tern_loader_model(loader);
    json_t *plan;
    TERN_TRY(tern_web__plan(model, tern_loader_backend(loader), n_ctx, kv, &plan, err));
    return tern_web__answer(json_pack("{s:o, s:o}", "model", tern_web__describe(model), "memory", plan), err);
}

/* NOT_FOUND: there are no more pieces. */
tern_status tern_web_loader_next(tern_loader *loader, double *offset, size_t *bytes, uint8_t **into)
{
    tern_loader_piece piece = {0};
    tern_status status = tern_loader_next(loader, &piece, tern_web__error());
    *offset = (double)piece.offset;
    *bytes = piece.bytes;
    *into = piece.into;
    return status;
}

tern_status tern_web_loader_accept(tern_loader *loader)
{
    return tern_loader_accept(loader, tern_web__error());
}

/* The loader is to be closed all the same. */
tern_status tern_web_loader_finish(tern_engine **engine, tern_loader *loader)
{
    return tern_loader_finish(loader, engine, tern_web__error());
}

void tern_web_loader_close(tern_loader *loader)
{
    tern_loader_close(loader);
}

TERN_WEB tern_status tern_web_manifest(const char *json);
TERN_WEB tern_status tern_web_loader_manifest(tern_loader *loader, const char *json);
TERN_WEB tern_status tern_web_loader_experts(tern_loader *loader, const char *json, uint32_t source);

static json_t *shards_json(const tern_manifest *m)
{
    json_t *list = json_array();
    for (size_t i = 0; i < m->n_shards; i++)
        json_array_append_new(list, json_pack("{s:s, s:I, s:s}", "file", m->shards[i].file, "bytes",
                                              (json_int_t)m->shards[i].bytes, "sha256", m->shards[i].sha256));
    return list;
}

/* {name, bytes, shards: [{file, bytes, sha256}]} of a model's. Errors: those of tern_manifest_parse and _need. */
tern_status tern_web_manifest(const char *json)
{
    tern_error *err = tern_web__error();
    tern_manifest m;
    TERN_TRY(tern_manifest_parse(&m, json, strlen(json), err));
    const tern_status status = tern_manifest_need(&m, false, err);
    json_t *answer = status == TERN_OK ? json_pack("{s:s, s:I, s:o}", "name", m.name, "bytes", (json_int_t)m.bytes,
                                                   "shards", shards_json(&m))
                                       : NULL;
    tern_manifest_deinit(&m);
    return status == TERN_OK ? tern_web__answer(answer, err) : status;
}

/* Before the head, which must agree with it. */
tern_status tern_web_loader_manifest(tern_loader *loader, const char *json)
{
    return tern_loader_expect_json(loader, json, strlen(json), tern_web__error());
}

/* A shard's bytes, from JavaScript, by the number of the source that it was told (src/web/host.js). */
static tern_status bring(void *context, size_t shard, uint8_t *into, size_t bytes, tern_error *err)
{
    char message[sizeof err->message] = "";
    const int status =
        tern_web_host_expert((uint32_t)(uintptr_t)context, (uint32_t)shard, into, bytes, message, sizeof message);
    return status == TERN_OK ? TERN_OK : tern_fail(err, (tern_status)status, "%s", message);
}

/* Before the head, of a package by expert: its dense shards come as pieces, those of experts from this source of
 * JavaScript's when they are needed. */
tern_status tern_web_loader_experts(tern_loader *loader, const char *json, uint32_t source)
{
    tern_error *err = tern_web__error();
    tern_package *package;
    TERN_TRY(tern_package_open_elsewhere(&package, json, strlen(json), bring, (void *)(uintptr_t)source, err));
    return tern_loader_experts(loader, package, err);
}
