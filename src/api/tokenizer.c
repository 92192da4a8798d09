/* Loading a tokenizer by its model's path, without the weights. */
#include "text/tokenizer/tokenizer.h"
#include "base/file.h"
#include "base/show.h"
#include "format/gguf_parts.h"
#include "model/package/package.h"
#include "tern.h"

typedef struct head {
    tern_tokenizer **tokenizer;
    uint64_t file_bytes;
} head;

static tern_status take_head(void *context, const void *bytes, size_t n, uint64_t *wanted, tern_error *err)
{
    const head *h = context;
    tern_gguf *gguf = NULL;
    TERN_TRY(tern_gguf_parse_head(&gguf, bytes, n, h->file_bytes, wanted, err));
    tern_status status = tern_tokenizer_open_gguf(h->tokenizer, gguf, err);
    tern_gguf_close(gguf);
    return status;
}

static tern_status open_package(const char *path, tern_tokenizer **t, tern_error *err)
{
    tern_package *p;
    TERN_TRY(tern_package_open(&p, path, NULL, err));
    head h = {t, tern_package_manifest(p)->bytes};
    tern_status status = tern_package_head(p, take_head, &h, err);
    tern_package_close(p);
    return status;
}

static tern_status open_gguf(const char *path, tern_tokenizer **t, tern_error *err)
{
    tern_gguf_file file;
    TERN_TRY(tern_gguf_file_open(&file, path, err));
    const tern_status status = tern_tokenizer_open_gguf(t, file.gguf, err);
    tern_gguf_file_close(&file);
    return status == TERN_OK ? status : tern_error_prefix(err, "%s", tern_show_z(path).text);
}

tern_status tern_tokenizer_load(tern_tokenizer **tokenizer, const char *path, tern_error *err)
{
    tern_error local = {0}, *e = err ? err : &local;
    TERN_NEED(tokenizer, err);
    *tokenizer = NULL;
    TERN_NEED(path, err);
    if (tern_package_is(path)) return open_package(path, tokenizer, e);
    if (tern_file_is_dir(path)) return tern_tokenizer_open_hf(tokenizer, path, e);
    return open_gguf(path, tokenizer, e);
}
