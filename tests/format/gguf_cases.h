/* GGUF files for tests, made byte by byte. */
#ifndef TERN_TESTS_FORMAT_GGUF_CASES_H
#define TERN_TESTS_FORMAT_GGUF_CASES_H

#include "support/test.h"

#include "base/alloc.h"
#include "base/file.h"
#include "format/gguf.h"
#include "format/gguf_bytes.h"

void gguf_aligned(tern_buf *b, uint32_t alignment);

/* One tensor "t" with 64 bytes of data. */
void gguf_tensor(tern_buf *b, uint32_t type, uint64_t offset, uint32_t n_dims, const uint64_t *dims);

void gguf_two_tensors(tern_buf *b, const char *a, uint64_t at_a, const char *z, uint64_t at_z);

#endif
