/* Any bytes as the parts of a GGUF file (a byte for how many, then of each its length as u16 and its bytes, the last
 * one the rest): what is joined has its tensors within the parts, and heads that come one by one say the same. */
#include <string.h>

#include "base/alloc.h"
#include "format/gguf_parts.h"
#include "fuzz/fuzz.h"

enum { MOST = 4 };

typedef struct part {
    uint8_t *bytes; /* in a block of its own */
    size_t n;
} part;

static size_t take_parts(part *parts, const uint8_t *data, size_t size)
{
    const size_t n = 1 + data[0] % MOST;
    size_t at = 1;
    for (size_t i = 0; i < n; i++) {
        size_t bytes = size - at;
        if (i + 1 < n && bytes >= 2) {
            const size_t said = data[at] | (size_t)data[at + 1] << 8;
            at += 2;
            bytes = said < bytes - 2 ? said : bytes - 2;
        }
        parts[i] = (part){malloc(bytes ? bytes : 1), bytes};
        if (!parts[i].bytes) abort();
        if (bytes) memcpy(parts[i].bytes, data + at, bytes);
        at += bytes;
    }
    return n;
}

/* Every tensor lies in a part, at the place that its offset says. */
static void check(const tern_gguf *g, const part *parts, size_t n)
{
    FUZZ_CHECK(tern_gguf_n_parts(g) == n);
    for (size_t i = 0; i < tern_gguf_n_tensors(g); i++) {
        const tern_gguf_tensor *t = tern_gguf_tensor_at(g, i);
        uint64_t at = t->offset;
        size_t k = 0;
        while (k < n && at >= parts[k].n) at -= parts[k++].n;
        FUZZ_CHECK(k < n && t->bytes <= parts[k].n - at);
        FUZZ_CHECK(t->data == parts[k].bytes + at);
    }
}

static tern_status join(const part *parts, size_t n, size_t *n_tensors)
{
    tern_gguf *g[MOST] = {0};
    tern_error err = {0};
    tern_status status = TERN_OK;
    for (size_t i = 0; i < n && status == TERN_OK; i++)
        status = tern_gguf_parse(&g[i], parts[i].bytes, parts[i].n, &err);
    if (status == TERN_OK) status = tern_gguf_join(g, n, &err);
    FUZZ_CHECK(status == TERN_OK || (err.code == status && err.message[0]));
    if (status == TERN_OK) check(g[0], parts, n);
    if (status == TERN_OK) *n_tensors = tern_gguf_n_tensors(g[0]);
    for (size_t i = 0; i < n; i++) tern_gguf_close(g[i]);
    return status;
}

static tern_status give_heads(const part *parts, size_t n, size_t first, size_t *n_tensors)
{
    tern_gguf_heads heads;
    uint64_t sizes[MOST];
    const tern_gguf *whole = NULL;
    tern_error err = {0};
    tern_status status = TERN_OK;
    for (size_t i = 0; i < n; i++) sizes[i] = parts[i].n;
    FUZZ_CHECK(tern_gguf_heads_open(&heads, sizes, n, &err) == TERN_OK);
    for (size_t i = 0; i < n && status == TERN_OK; i++) {
        uint64_t cut = first < parts[i].n ? first : parts[i].n, wanted = 0;
        while ((status = tern_gguf_heads_add(&heads, parts[i].bytes, (size_t)cut, &wanted, &whole, &err)) ==
               TERN_PENDING) {
            FUZZ_CHECK(wanted > cut && wanted <= parts[i].n);
            cut = wanted;
        }
    }
    FUZZ_CHECK((status == TERN_OK) == (whole != NULL));
    if (whole) *n_tensors = tern_gguf_n_tensors(whole);
    tern_gguf_heads_close(&heads);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) return 0;
    const int64_t live = tern_alloc_live();
    part parts[MOST];
    const size_t n = take_parts(parts, data, size);
    size_t joined = 0, came = 0;
    const tern_status status = join(parts, n, &joined);
    FUZZ_CHECK(give_heads(parts, n, data[0] / MOST * 7u, &came) == status);
    FUZZ_CHECK(joined == came);
    for (size_t i = 0; i < n; i++) free(parts[i].bytes);
    FUZZ_CHECK(tern_alloc_live() == live);
    return 0;
}
