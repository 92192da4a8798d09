/* Any bytes as a GGUF file: what is accepted can be read whole, and nothing leaks. */
#include <string.h>

#include "base/alloc.h"
#include "format/gguf.h"
#include "fuzz/fuzz.h"

static volatile uint64_t sink; /* keeps the reads */

static void touch(const uint8_t *data, size_t size)
{
    if (size == 0) return;
    uint64_t sum = data[0];
    for (size_t i = 0; i < size; i += 64) sum += data[i];
    sink += sum + data[size - 1];
}

static void read_strings(const tern_gguf_kv *kv)
{
    tern_cursor c = tern_cursor_open(kv->value.data, kv->value.size);
    for (uint64_t i = 0; i < kv->count; i++) {
        tern_span s = tern_gguf_next_string(&c);
        touch(s.data, s.size);
    }
    FUZZ_CHECK(!c.bad && c.at == c.size);
}

static void read_kv(const tern_gguf *g, const tern_gguf_kv *kv)
{
    touch(kv->key.data, kv->key.size);
    touch(kv->value.data, kv->value.size);
    if (kv->kind == TERN_GGUF_ARRAY && kv->element == TERN_GGUF_STRING) read_strings(kv);
    if (kv->kind == TERN_GGUF_ARRAY && kv->count) sink += (uint64_t)tern_gguf_array_int(kv, kv->count - 1);
    char key[64];
    if (kv->key.size >= sizeof key || memchr(kv->key.data, 0, kv->key.size)) return;
    memcpy(key, kv->key.data, kv->key.size);
    key[kv->key.size] = 0;
    FUZZ_CHECK(tern_gguf_find(g, key) == kv);
    tern_error err;
    uint32_t u;
    float f;
    bool flag;
    tern_span s;
    (void)tern_gguf_get_u32(g, key, &u, &err);
    (void)tern_gguf_get_f32(g, key, &f, &err);
    (void)tern_gguf_get_bool(g, key, &flag, &err);
    (void)tern_gguf_get_string(g, key, &s, &err);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t live = tern_alloc_live();
    tern_gguf *g = NULL;
    tern_error err = {0};
    tern_status status = tern_gguf_parse(&g, data, size, &err);
    FUZZ_CHECK((status == TERN_OK) == (g != NULL));
    FUZZ_CHECK(status == TERN_OK || (err.code == status && err.message[0]));
    for (size_t i = 0; g && i < tern_gguf_n_kv(g); i++) read_kv(g, tern_gguf_kv_at(g, i));
    for (size_t i = 0; g && i < tern_gguf_n_tensors(g); i++) {
        const tern_gguf_tensor *t = tern_gguf_tensor_at(g, i);
        FUZZ_CHECK(t->data >= data && t->bytes <= size && t->data + t->bytes <= data + size);
        touch(t->data, t->bytes);
    }
    tern_gguf_close(g);
    FUZZ_CHECK(tern_alloc_live() == live);
    return 0;
}
