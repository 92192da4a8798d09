/* Any bytes as an RSR matrix: what is accepted can be multiplied with, and nothing leaks. */
#include <string.h>

#include "base/alloc.h"
#include "fuzz/fuzz.h"
#include "ops/ref/rsr.h"
#include "quant/rsr.h"

static volatile int32_t sink; /* keeps the sums */

static void multiply(const tern_rsr_slices *s)
{
    int8_t *x = tern_alloc((size_t)s->panel_cols + 4);
    FUZZ_CHECK(x);
    for (uint32_t u = 0; u < s->n_blocks * s->n_panels; u++) {
        const uint32_t width = tern_rsr_panel_width(s->cols, s->panel_cols, u % s->n_panels);
        const tern_rsr_unit unit = tern_rsr_unit_of(s, u);
        int32_t y[16] = {0};
        memset(x, 1, width);
        memset(x + width, 0, 4);
        tern_ref_rsr_i8(&unit, x, y);
        for (uint32_t r = 0; r < s->k; r++) FUZZ_CHECK((uint32_t)(y[r] < 0 ? -y[r] : y[r]) <= width);
        sink += y[0];
    }
    tern_free(x);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const int64_t live = tern_alloc_live();
    tern_error err = {0};
    tern_rsr_slices s;
    uint8_t *copy = tern_alloc_aligned(size, 64);
    FUZZ_CHECK(copy);
    if (size) memcpy(copy, data, size);
    const tern_status status = tern_rsr_slices_open(&s, copy, size, &err);
    FUZZ_CHECK(status == TERN_OK || (err.code == status && err.message[0] && !s.bytes));
    if (status == TERN_OK) multiply(&s);
    tern_rsr_slices_deinit(&s);
    tern_free_aligned(copy);
    FUZZ_CHECK(tern_alloc_live() == live);
    return 0;
}
