/* MXFP4 as two tensors, the way Hugging Face's files hold experts: blocks of nibbles, and scales. */
#ifndef TERN_QUANT_MXFP4_H
#define TERN_QUANT_MXFP4_H

#include <stddef.h>
#include <stdint.h>

enum { TERN_MXFP4_ELEMENTS = 32, TERN_MXFP4_CODE_BYTES = 16, TERN_MXFP4_BYTES = 1 + TERN_MXFP4_CODE_BYTES };

/* `*_blocks` and `*_scales` to blocks of the encoding mxfp4, and back: every bit is kept, only its place changes.
 * n_blocks is rows * cols / 32 of the tensor, or of a part of its rows.
 *
 *   codes   [n_blocks][16]: byte j holds element 2j in its low nibble, 2j + 1 in its high one
 *   scales  [n_blocks]: e of the scale 2^(e - 127)
 *   blocks  [n_blocks][17], as the encoding has them: docs/reference/formats/encodings.md; may not overlap the others
 *
 * No errors: any bytes are taken; tern_encoding_check finds scales that are not finite (e = 255). Source: transformers,
 * integrations/mxfp4.py, convert_moe_packed_tensors. */
void tern_mxfp4_join(const uint8_t *codes, const uint8_t *scales, size_t n_blocks, uint8_t *blocks);
void tern_mxfp4_split(const uint8_t *blocks, size_t n_blocks, uint8_t *codes, uint8_t *scales);

#endif
