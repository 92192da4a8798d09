/* The heads of a GGUF file's parts, one after another as they come. */
#include <string.h>

#include "base/alloc.h"
#include "format/gguf_parts.h"

tern_status tern_gguf_heads_open(tern_gguf_heads *h, const uint64_t *file_bytes, size_t n, tern_error *err)
{
    *h = (tern_gguf_heads){0};
    if (n == 0) return tern_fail(err, TERN_INVALID_ARGUMENT, "no parts found, at least 1 expected");
    if (n > TERN_GGUF_MAX_PARTS)
        return tern_fail(err, TERN_LIMIT, "%zu parts, at most %d expected", n, TERN_GGUF_MAX_PARTS);
    h->parts = tern_calloc(n, sizeof *h->parts);
    h->bytes = tern_calloc(n, sizeof *h->bytes);
    h->file_bytes = tern_calloc(n, sizeof *h->file_bytes);
    h->n = n;
    if (h->parts && h->bytes && h->file_bytes) {
        memcpy(h->file_bytes, file_bytes, n * sizeof *file_bytes);
        return TERN_OK;
    }
    tern_gguf_heads_close(h);
    return tern_fail_alloc(err, n * (2 * sizeof(void *) + sizeof(uint64_t)));
}

void tern_gguf_heads_close(tern_gguf_heads *h)
{
    for (size_t i = 0; i < h->at && h->parts && h->bytes; i++) {
        tern_gguf_close(h->parts[i]);
        tern_free(h->bytes[i]);
    }
    tern_free(h->parts);
    tern_free(h->bytes);
    tern_free(h->file_bytes);
    *h = (tern_gguf_heads){0};
}

/* Parsed values point into its bytes, so that a copy of them is parsed. */
static tern_status parse(tern_gguf_heads *h, const void *head, size_t n, uint64_t *wanted, tern_error *err)
{
    uint8_t *copy = tern_alloc(n);
    if (!copy) return tern_fail_alloc(err, n);
    if (n) memcpy(copy, head, n);
    const tern_status status = tern_gguf_parse_head(&h->parts[h->at], copy, n, h->file_bytes[h->at], wanted, err);
    if (status == TERN_OK) h->bytes[h->at++] = copy;
    else tern_free(copy);
    return status;
}

tern_status tern_gguf_heads_add(tern_gguf_heads *h, const void *head, size_t n, uint64_t *wanted,
                                const tern_gguf **whole, tern_error *err)
{
    tern_error local;
    if (!err) err = &local;
    *whole = NULL;
    if (h->at == h->n) return tern_fail(err, TERN_INVALID_ARGUMENT, "the heads of all %zu parts are there", h->n);
    const tern_status status = parse(h, head, n, wanted, err);
    if (status == TERN_PENDING) return status;
    if (status != TERN_OK) return h->n == 1 ? status : tern_error_prefix(err, "part %zu of %zu", h->at + 1, h->n);
    if (h->at < h->n) return TERN_OK;
    TERN_TRY(tern_gguf_join(h->parts, h->n, err));
    *whole = h->parts[0];
    return TERN_OK;
}
