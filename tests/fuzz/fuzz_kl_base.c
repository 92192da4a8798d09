/* Any bytes as a file of log-probabilities: of one that is taken every id and every row can be read, and each row
 * compared with; nothing is written to it. */
#include <math.h>
#include <string.h>

#include "apps/eval/kl_stats.h"
#include "base/alloc.h"
#include "fuzz/fuzz.h"

static void compare_all(const tern_kl_base *b)
{
    int32_t *ids = tern_alloc(b->window * sizeof *ids);
    float *logits = tern_calloc(b->n_vocab, sizeof *logits);
    FUZZ_CHECK(ids && logits);
    for (uint32_t w = 0; w < b->n_windows; w++) {
        tern_kl_base_ids(b, w, ids);
        for (uint32_t row = 0; row < tern_kl_rows(b->window); row++) {
            tern_kl_token t;
            tern_kl_compare(logits, tern_kl_base_row(b, w, row), b->n_vocab, ids[tern_kl_first(b->window) + row + 1],
                            &t);
            FUZZ_CHECK(isfinite(t.nll) && isfinite(t.base_nll) && isfinite(t.p_diff));
        }
    }
    tern_free(ids);
    tern_free(logits);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const int64_t live = tern_alloc_live();
    tern_error err = {0};
    tern_kl_base base;
    uint8_t *copy = tern_alloc(size + 1);
    FUZZ_CHECK(copy);
    if (size) memcpy(copy, data, size);
    const tern_status status = tern_kl_base_read(&base, copy, size, &err);
    FUZZ_CHECK(status == TERN_OK || (err.code == status && err.message[0]));
    if (status == TERN_OK) compare_all(&base);
    tern_free(copy);
    FUZZ_CHECK(tern_alloc_live() == live);
    return 0;
}
