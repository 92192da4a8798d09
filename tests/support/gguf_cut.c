/* GGUF files cut into parts. */
#include "support/gguf_cut.h"

#include <stdlib.h>

#include "format/gguf_bytes.h"

static void put_pair(tern_buf *b, const tern_gguf_kv *kv)
{
    put64(b, kv->key.size);
    put(b, kv->key.data, kv->key.size);
    put32(b, (uint32_t)kv->kind);
    if (kv->kind == TERN_GGUF_ARRAY) put_array(b, (uint32_t)kv->element, kv->count);
    if (kv->kind == TERN_GGUF_STRING) put64(b, kv->value.size);
    put(b, kv->value.data, kv->value.size);
}

static void put_place(tern_buf *b, uint32_t i, uint32_t n, uint32_t n_tensors)
{
    put_key(b, "split.no", TERN_GGUF_U16), put8(b, (uint8_t)i), put8(b, 0);
    put_key(b, "split.count", TERN_GGUF_U16), put8(b, (uint8_t)n), put8(b, 0);
    put_key(b, "split.tensors.count", TERN_GGUF_I32), put32(b, n_tensors);
}

tern_buf gguf_cut(const tern_gguf *g, uint32_t i, uint32_t n, size_t first, size_t end)
{
    tern_buf b = {0};
    uint64_t offset = 0;
    const size_t n_kv = i == 0 ? tern_gguf_n_kv(g) : 0;
    put_header(&b, 3, end - first, n_kv + 3);
    for (size_t k = 0; k < n_kv; k++) put_pair(&b, tern_gguf_kv_at(g, k));
    put_place(&b, i, n, (uint32_t)tern_gguf_n_tensors(g));
    for (size_t k = first; k < end; k++) {
        const tern_gguf_tensor *t = tern_gguf_tensor_at(g, k);
        put64(&b, t->name.size);
        put(&b, t->name.data, t->name.size);
        put32(&b, t->n_dims);
        for (uint32_t d = 0; d < t->n_dims; d++) put64(&b, t->dims[d]);
        put32(&b, t->type);
        put64(&b, offset);
        offset += (t->bytes + 31) / 32 * 32;
    }
    for (size_t k = first; k < end; k++) {
        put_pad(&b, 32);
        put(&b, tern_gguf_tensor_at(g, k)->data, tern_gguf_tensor_at(g, k)->bytes);
    }
    put_pad(&b, 32);
    return b;
}

void gguf_cut_all(const tern_gguf *g, uint32_t n, tern_buf *parts)
{
    const size_t n_tensors = tern_gguf_n_tensors(g);
    for (uint32_t i = 0; i < n; i++) parts[i] = gguf_cut(g, i, n, n_tensors * i / n, n_tensors * (i + 1) / n);
}
