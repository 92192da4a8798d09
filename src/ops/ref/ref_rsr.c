/* RSR in plain C, slice by slice. */
#include "ops/ref/lanes.h"
#include "ops/ref/ref.h"
#include "ops/ref/rsr.h"

void tern_ref_rsr_i8(const tern_rsr_unit *u, const int8_t *x, int32_t *y)
{
    const uint16_t *masks = u->masks, *index = u->index;
    uint32_t rows[16] = {0}; /* unsigned: sums of the numbers of a damaged file may wrap */
    for (uint32_t slice = 0; slice < u->n_slices; slice++, masks += 2 * u->k) {
        uint32_t sums[TERN_LANES] = {0};
        for (uint32_t s = 0; s < u->lengths[slice]; s++, index += TERN_LANES)
            for (int l = 0; l < TERN_LANES; l++) {
                const int32_t value = x[index[l]];
                sums[l] += (uint32_t)value;
            }
        for (uint32_t r = 0; r < u->k; r++)
            for (int l = 0; l < TERN_LANES; l++) {
                const uint32_t plus = masks[r] >> l & 1u, minus = masks[u->k + r] >> l & 1u;
                rows[r] += (plus - minus) * sums[l];
            }
    }
    for (uint32_t r = 0; r < u->k; r++) y[r] = (int32_t)((uint32_t)y[r] + rows[r]);
}

/* Adds one slice's sums of 4 tokens to a row of each. */
static void add_slice(const uint32_t sums[TERN_LANES][4], uint16_t pos, uint16_t neg, uint32_t row[4])
{
    for (int l = 0; l < TERN_LANES; l++) {
        const uint32_t sign = (pos >> l & 1u) - (neg >> l & 1u);
        for (int t = 0; t < 4; t++) row[t] += sign * sums[l][t];
    }
}

void tern_ref_rsr_i8x4(const tern_rsr_unit *u, const int8_t *x, int32_t *y)
{
    const uint16_t *masks = u->masks, *index = u->index;
    uint32_t rows[16][4] = {{0}};
    for (uint32_t slice = 0; slice < u->n_slices; slice++, masks += 2 * u->k) {
        uint32_t sums[TERN_LANES][4] = {{0}};
        for (uint32_t s = 0; s < u->lengths[slice]; s++, index += TERN_LANES)
            for (int l = 0; l < TERN_LANES; l++)
                for (int t = 0; t < 4; t++) {
                    const int32_t value = x[4 * (size_t)index[l] + (size_t)t];
                    sums[l][t] += (uint32_t)value;
                }
        for (uint32_t r = 0; r < u->k; r++) add_slice(sums, masks[r], masks[u->k + r], rows[r]);
    }
    for (uint32_t t = 0; t < 4; t++)
        for (uint32_t r = 0; r < u->k; r++)
            y[t * TERN_RSR_Y + r] = (int32_t)((uint32_t)y[t * TERN_RSR_Y + r] + rows[r][t]);
}
