/* Special tokens that are added to a tokenizer. */
#include <string.h>

#include "base/show.h"
#include "text/tokenizer/internal.h"

tern_status tern_tokenizer_add_special(tern_tokenizer *t, const char *text, tern_error *err)
{
    tern_vocab *v = &t->vocab;
    const size_t n = strlen(text);
    if (n == 0 || n > TERN_ADDED_MAX_BYTES)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "a special token of %zu bytes: 1 to %d expected", n,
                         TERN_ADDED_MAX_BYTES);
    const int32_t there = tern_vocab__find_piece(v, text, n);
    if (there >= 0 && v->entries[there].type == TERN_TOKEN_CONTROL)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%s is a special token already, %d", tern_show_z(text).text,
                         there);
    const uint32_t id = there >= 0 ? (uint32_t)there : v->n;
    if (there < 0) {
        TERN_TRY(tern_vocab__resize(v, (size_t)id + 1, err));
        TERN_TRY(tern_vocab__set(v, id, text, n, TERN_TOKEN_CONTROL, 0, err));
    }
    tern_vocab__mark(v, id, TERN_TOKEN_CONTROL, 0);
    TERN_TRY(tern_tokenizer__index(t, err));
    return tern_tokenizer__finish(t, err);
}
