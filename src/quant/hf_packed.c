/* The packed BitNet weights of HF checkpoints: four row blocks in one uint8 tensor (transformers
 * integrations/bitnet.py). */
#include <string.h>

#include "quant/encoding.h"

size_t tern_hf_unpack(const uint8_t *in, uint64_t rows, uint64_t cols, int8_t *codes)
{
    size_t packed_rows = (size_t)((rows + 3) / 4), n_bad = 0;
    for (size_t r = 0; r < rows; r++) {
        const uint8_t *from = in + r % packed_rows * cols;
        unsigned shift = (unsigned)(r / packed_rows) * 2;
        for (size_t c = 0; c < cols; c++) {
            int raw = from[c] >> shift & 3;
            codes[r * cols + c] = (int8_t)(raw == 3 ? 0 : raw - 1);
            n_bad += raw == 3;
        }
    }
    return n_bad;
}

void tern_hf_pack(const int8_t *codes, uint64_t rows, uint64_t cols, uint8_t *out)
{
    size_t packed_rows = (size_t)((rows + 3) / 4);
    memset(out, 0, packed_rows * (size_t)cols);
    for (size_t r = 0; r < rows; r++) {
        uint8_t *to = out + r % packed_rows * cols;
        unsigned shift = (unsigned)(r / packed_rows) * 2;
        for (size_t c = 0; c < cols; c++) to[c] |= (uint8_t)((codes[r * cols + c] + 1) << shift);
    }
}
