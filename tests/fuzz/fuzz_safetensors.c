/* Any bytes as a SafeTensors file: what is accepted can be read whole, and nothing leaks. */
#include "base/alloc.h"
#include "format/safetensors.h"
#include "fuzz/fuzz.h"

static volatile float sink; /* keeps the reads */

static void read_tensor(const tern_safetensors *st, const tern_st_tensor *t, const uint8_t *data, size_t size)
{
    FUZZ_CHECK(t->data >= data && t->bytes <= size && t->data + t->bytes <= data + size);
    FUZZ_CHECK(t->bytes == t->n_elements * tern_st_dtype_bytes(t->dtype));
    FUZZ_CHECK(tern_safetensors_find(st, t->name) == t);
    float v = 0;
    if (t->n_elements) tern_st_to_f32(t, 0, 1, &v);
    if (t->n_elements) tern_st_to_f32(t, t->n_elements - 1, 1, &v);
    sink = v;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t live = tern_alloc_live();
    tern_safetensors *st = NULL;
    tern_error err = {0};
    tern_status status = tern_safetensors_parse(&st, data, size, &err);
    FUZZ_CHECK((status == TERN_OK) == (st != NULL));
    FUZZ_CHECK(status == TERN_OK || (err.code == status && err.message[0]));
    for (size_t i = 0; st && i < tern_safetensors_count(st); i++)
        read_tensor(st, tern_safetensors_at(st, i), data, size);
    tern_safetensors_close(st);
    FUZZ_CHECK(tern_alloc_live() == live);
    return 0;
}
