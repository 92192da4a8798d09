/* Exports: the manifest of a package, checked before its shards are fetched and against the file that they make. */
#include <string.h>

#include "format/manifest.h"
#include "infer/loader.h"
#include "web/web.h"

TERN_WEB tern_status tern_web_manifest(const char *json);
TERN_WEB tern_status tern_web_loader_manifest(tern_loader *loader, const char *json);

static json_t *shards_json(const tern_manifest *m)
{
    json_t *list = json_array();
    for (size_t i = 0; i < m->n_shards; i++)
        json_array_append_new(list, json_pack("{s:s, s:I, s:s}", "file", m->shards[i].file, "bytes",
                                              (json_int_t)m->shards[i].bytes, "sha256", m->shards[i].sha256));
    return list;
}

/* {name, bytes, shards: [{file, bytes, sha256}]}. Errors: those of tern_manifest_parse. */
tern_status tern_web_manifest(const char *json)
{
    tern_error *err = tern_web__error();
    tern_manifest m;
    TERN_TRY(tern_manifest_parse(&m, json, strlen(json), err));
    json_t *answer =
        json_pack("{s:s, s:I, s:o}", "name", m.name, "bytes", (json_int_t)m.bytes, "shards", shards_json(&m));
    tern_manifest_deinit(&m);
    return tern_web__answer(answer, err);
}

/* Before the head, which must agree with it. */
tern_status tern_web_loader_manifest(tern_loader *loader, const char *json)
{
    return tern_loader_expect_json(loader, json, strlen(json), tern_web__error());
}
