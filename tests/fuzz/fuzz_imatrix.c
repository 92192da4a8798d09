/* Any bytes as an importance matrix: what is accepted has means that can be used, and nothing leaks. */
#include <math.h>

#include "base/alloc.h"
#include "fuzz/fuzz.h"
#include "model/imatrix.h"

static void look(const tern_imatrix *m)
{
    static const char *const names[] = {"blk.0.attn_q.weight", "blk.0.ffn_down.weight", "",
                                        "blk.0.ffn_down_exps.weight"};
    for (unsigned i = 0; i < 8; i++)
        for (uint32_t cols = 1; cols <= 4; cols++) {
            const uint32_t n_experts = i / 4 * 2 + 1;
            float mean[12];
            bool found;
            tern_error err = {0};
            const tern_status status = tern_imatrix_mean(m, names[i % 4], n_experts, cols, mean, &found, &err);
            FUZZ_CHECK(status == TERN_OK || (err.code == status && err.message[0]));
            for (uint32_t c = 0; status == TERN_OK && found && c < n_experts * cols; c++) FUZZ_CHECK(mean[c] >= 0);
        }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const int64_t live = tern_alloc_live();
    tern_imatrix *m;
    tern_error err = {0};
    const tern_status status = tern_imatrix_open_memory(&m, data, size, &err);
    FUZZ_CHECK((status == TERN_OK) == (m != NULL));
    if (m) look(m);
    tern_imatrix_close(m);
    FUZZ_CHECK(tern_alloc_live() == live);
    return 0;
}
