/* Weights of the CPU backend: used where they lie in the file, since reading a mapped file is as fast as any copy of
 * it. */
#include <string.h>

#include "backend/cpu/candidates/candidates.h"
#include "base/alloc.h"
#include "quant/encoding.h"
#include "quant/weight.h"

static bool is_scalar(const char *level)
{
    return strcmp(level, "scalar") == 0;
}

/* clang-format off */
static void choose_kernel(const tern_cpu_kernels *k, tern_buffer *buffer)
{
#define DENSE(name)   buffer->dense = k->name, buffer->decode = k->decode_##name
#define TERNARY(name) buffer->ternary = k->name, buffer->decode = k->decode_##name
#define BLOCKS(X, name, NAME, elements, bytes)                                                                         \
    case TERN_ENC_##NAME: DENSE(name); decodes_first = is_scalar(k->name##_level); break;
#define INT8(X, name, NAME, elements, bytes) case TERN_ENC_##NAME: buffer->blocks = k->int8_##name; break;
    bool decodes_first = false;
    switch (buffer->weight->encoding->id) {
    case TERN_ENC_F32: buffer->dense = k->f32; break;
    case TERN_ENC_F16: DENSE(f16); break;
    case TERN_ENC_BF16: DENSE(bf16); break;
    TERN_ENCODING_BLOCK_LIST(BLOCKS, )
    case TERN_ENC_TQ1_0: TERNARY(tq1_0); break;
    case TERN_ENC_TQ2_0: TERNARY(tq2_0); break;
    case TERN_ENC_I2_S: TERNARY(i2_s); break;
    case TERN_ENC_T160: TERNARY(t160); break;
    }
    switch (buffer->weight->encoding->id) {
    TERN_ENCODING_INT8_LIST(INT8, )
    default: break;
    }
    buffer->decodes_first = decodes_first && !is_scalar(k->f32_level);
#undef DENSE
#undef TERNARY
#undef BLOCKS
#undef INT8
}
/* clang-format on */

/* Rows that do not start at a whole block (i2_s with an odd width) are packed again with each row padded by zero codes.
 */
static tern_status repack(tern_buffer *buffer, tern_error *err)
{
    const tern_weight *w = buffer->weight;
    uint32_t block = w->encoding->block_elements;
    size_t n_blocks = ((size_t)w->cols + block - 1) / block;
    buffer->cols = (uint32_t)(n_blocks * block);
    buffer->row_bytes = n_blocks * w->encoding->block_bytes;
    buffer->bytes = (uint64_t)buffer->row_bytes * w->rows;
    buffer->data = tern_alloc_aligned(tern_size_of(buffer->bytes), 64);
    int8_t *codes = tern_calloc(buffer->cols, 1);
    tern_status status = TERN_OK;
    if (!buffer->data || !codes) status = tern_fail_alloc(err, buffer->bytes);
    buffer->owned = true;
    for (uint32_t r = 0; r < w->rows && status == TERN_OK; r++) {
        size_t bad;
        bool uniform;
        status = tern_decode_codes(w->encoding, w->data, w->rows, w->cols, r, 1, codes, NULL, &uniform, &bad, err);
        w->encoding->pack_codes(codes, n_blocks, w->scale, buffer->data + r * buffer->row_bytes);
    }
    tern_free(codes);
    return status;
}

/* The layout that the chosen candidate makes of a ternary weight. */
static tern_status lay_out(tern_cpu *cpu, tern_buffer *buffer, tern_error *err)
{
    const tern_weight *w = buffer->weight;
    const tern_cpu__choice choice = tern_cpu__choose(cpu, w);
    if (!w->encoding->ternary) return TERN_OK;
    buffer->task_rows = choice.task_rows;
    if (!choice.candidate->make) return TERN_OK;
    TERN_TRY(choice.candidate->make(cpu, w, choice.n, &buffer->layout, err));
    return buffer->layout && buffer->layout->stored ? tern_cpu__layout_check(buffer, err) : TERN_OK;
}

tern_status tern_cpu__weight_create(tern_backend *b, const tern_weight *w, tern_buffer **out, tern_error *err)
{
    tern_buffer *buffer = tern_calloc(1, sizeof *buffer);
    if (!buffer) return tern_fail_alloc(err, sizeof *buffer);
    *buffer = (tern_buffer){.data = (uint8_t *)(uintptr_t)w->data, .bytes = w->bytes, .weight = w, .cols = w->cols};
    choose_kernel(&((tern_cpu *)b)->kernels, buffer);
    tern_status status = TERN_OK;
    if (w->encoding->linear && w->cols % w->encoding->block_elements != 0) status = repack(buffer, err);
    else status = tern_encoding_row_bytes(w->encoding, w->cols, &buffer->row_bytes, err);
    if (status == TERN_OK) status = lay_out((tern_cpu *)b, buffer, err);
    if (status == TERN_OK) *out = buffer;
    else b->buffer_free(b, buffer);
    return status;
}
