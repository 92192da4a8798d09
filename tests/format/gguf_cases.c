/* GGUF files for tests, made byte by byte. */
#include "format/gguf_cases.h"

void gguf_aligned(tern_buf *b, uint32_t alignment)
{
    put_header(b, 3, 0, 1), put_key(b, "general.alignment", 4), put32(b, alignment);
}

void gguf_tensor(tern_buf *b, uint32_t type, uint64_t offset, uint32_t n_dims, const uint64_t *dims)
{
    put_header(b, 3, 1, 0);
    put_tensor(b, "t", type, offset, n_dims, dims);
    put_pad(b, 32);
    for (int i = 0; i < 8; i++) put64(b, 0);
}

void gguf_two_tensors(tern_buf *b, const char *a, uint64_t at_a, const char *z, uint64_t at_z)
{
    put_header(b, 3, 2, 0);
    put_tensor(b, a, 24, at_a, 1, (uint64_t[]){33});
    put_tensor(b, z, 24, at_z, 1, (uint64_t[]){32});
    put_pad(b, 32);
    for (int i = 0; i < 16; i++) put64(b, 0);
}
