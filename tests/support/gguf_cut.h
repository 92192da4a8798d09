/* Cuts a GGUF file into parts as llama.cpp's gguf-split does, without the writer under test. */
#ifndef TERN_TESTS_SUPPORT_GGUF_CUT_H
#define TERN_TESTS_SUPPORT_GGUF_CUT_H

#include "base/bytes.h"
#include "format/gguf.h"

/* Part i of n of a file that was parsed: with tensors [first, end), the first part with all metadata. The caller's to
 * deinit. */
tern_buf gguf_cut(const tern_gguf *g, uint32_t i, uint32_t n, size_t first, size_t end);
/* n parts of about as many tensors each. */
void gguf_cut_all(const tern_gguf *g, uint32_t n, tern_buf *parts);

#endif
