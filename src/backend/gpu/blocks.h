/* How blocks of encodings are rearranged for a device: scales apart from what they scale, so that loads are whole
 * words.
 */
#ifndef TERN_BACKEND_GPU_BLOCKS_H
#define TERN_BACKEND_GPU_BLOCKS_H

#include <stddef.h>

#include "backend/gpu/layout.h"
#include "quant/encoding_id.h"

enum { TERN_GPU_BLOCK_PIECES = 4 };

/* Pieces of a block of the file, in the order in which they lie on the device. A row there has regions one after the
 * other: region i holds the pieces of region i of all its blocks, and `pad` zero bytes behind those of region 0. A
 * piece may be there twice. */
typedef struct tern_gpu_blocks {
    tern_encoding_id encoding;
    tern_gpu_format format;
    struct {
        uint8_t region, at, bytes; /* at: in the block of the file; bytes 0 ends the list */
    } pieces[TERN_GPU_BLOCK_PIECES];
    uint32_t pad;
} tern_gpu_blocks;

/* NULL for encodings without blocks, and for ternary ones. Those without a row of their own have that of the encoding
 * that they are rewritten as (tern_encoding.rewrite); its blocks are then what is split and joined. */
const tern_gpu_blocks *tern_gpu_blocks_of(const tern_encoding *e);
/* Bytes of a block on the device. */
uint32_t tern_gpu_blocks_bytes(const tern_gpu_blocks *b);
/* Whether blocks lie there as in the file. */
bool tern_gpu_blocks_are_file(const tern_gpu_blocks *b);
/* One row of n blocks, from the file's order and back. */
void tern_gpu_blocks_split(const tern_gpu_blocks *b, const uint8_t *in, size_t n, uint8_t *out);
void tern_gpu_blocks_join(const tern_gpu_blocks *b, const uint8_t *in, size_t n, uint8_t *out);

#endif
