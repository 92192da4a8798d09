/* Ternary weights by columns, in plain C. */
#include "ops/ref/columns.h"

void tern_ref_columns(const uint8_t *panel, size_t col_bytes, const uint32_t *cols, const int8_t *x, uint32_t n,
                      int32_t *dots)
{
    for (uint32_t i = 0; i < n; i++) {
        const uint8_t *codes = panel + cols[i] * col_bytes;
        for (uint32_t r = 0; r < TERN_COLUMNS_ROWS; r++)
            dots[r] += (codes[r % TERN_COLUMNS_BYTES] >> (r / TERN_COLUMNS_BYTES * 2) & 3) * x[i];
    }
}
