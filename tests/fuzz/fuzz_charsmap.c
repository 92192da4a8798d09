/* A byte of flags, two of a length, so many bytes as SentencePiece's character map, and text: what opens makes valid
 * UTF-8 of any text, not much longer than it. */
#include "base/alloc.h"
#include "fuzz/fuzz.h"
#include "text/tokenizer/normal/normalize.h"
#include "text/utf8.h"

enum { HEAD = 3, GROWTH = 3 * TERN_CHARSMAP_MAX_BYTES };

static void check(const tern_normalizer *norm, tern_span text, bool first)
{
    const tern_added frozen = {0};
    tern_buf out = {0};
    tern_error err = {0};
    const tern_status status = tern_normalizer__run(norm, &frozen, text, first, &out, &err);
    FUZZ_CHECK(status == TERN_OK || (err.code == status && err.message[0]));
    FUZZ_CHECK(out.size <= GROWTH * text.size + 3);
    if (status == TERN_OK && out.size)
        FUZZ_CHECK(tern_utf8__valid_run((const uint8_t *)out.data, out.size) == out.size);
    tern_buf_deinit(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const int64_t live = tern_alloc_live();
    if (size < HEAD) return 0;
    const unsigned flags = data[0];
    size_t n = tern_load_u16(data + 1);
    if (n > size - HEAD) n = size - HEAD;
    tern_normalizer norm = {.prefix = (tern_prefix)((flags & 3) % 3),
                            .prefix_once = flags & 4,
                            .escape = flags & 8,
                            .remove_extra = flags & 16,
                            .suffix = flags & 32};
    tern_error err = {0};
    const tern_status status = tern_charsmap__open(&norm.charsmap, (tern_span){data + HEAD, n}, &err);
    FUZZ_CHECK(status == TERN_OK || err.message[0]);
    if (status == TERN_OK) check(&norm, (tern_span){data + HEAD + n, size - HEAD - n}, flags & 64);
    tern_charsmap__deinit(&norm.charsmap);
    FUZZ_CHECK(tern_alloc_live() == live);
    return 0;
}
