/* GGUF tensors whose type id means two layouts: which one a file has, by the room that its tensors take. */
#include <stdlib.h>

#include "base/alloc.h"
#include "format/gguf_internal.h"
#include "quant/encoding.h"

static int ascending(const void *a, const void *b)
{
    const uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return x < y ? -1 : x > y;
}

/* From `offset` to the next tensor, or to the end of the data. `order`: all offsets, ascending. */
static uint64_t room_at(const uint64_t *order, size_t n, uint64_t offset, uint64_t end)
{
    size_t low = 0, high = n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (order[middle] > offset) high = middle;
        else low = middle + 1;
    }
    const uint64_t next = low < n && order[low] < end ? order[low] : end;
    return next > offset ? next - offset : 0;
}

typedef enum verdict {
    EITHER, /* both sizes take the same room, or neither fits */
    SMALL,
    LARGE
} verdict;

/* What the room of one tensor says: groups of 64 take more bytes than groups of 128. */
static verdict judge(const tern_gguf *g, const tern_gguf_tensor *t, uint64_t room)
{
    size_t small = t->bytes, large;
    if (tern_encoding_bytes(tern_encoding_find(TERN_ENC_PQ2_0), t->rows, t->cols, &large, NULL) != TERN_OK)
        return SMALL;
    const uint64_t padding = g->alignment - 1;
    if ((small + padding) / g->alignment == (large + padding) / g->alignment) return EITHER;
    return room >= small ? SMALL : room >= large ? LARGE : EITHER;
}

static bool are_large(const tern_gguf *g, const uint64_t *offsets, const uint64_t *order, uint64_t end)
{
    bool large = false;
    for (size_t i = 0; i < g->n_tensors; i++) {
        if (g->tensors[i].type != TERN_ENC_Q2_0) continue;
        const verdict v = judge(g, &g->tensors[i], room_at(order, g->n_tensors, offsets[i], end));
        if (v == SMALL) return false;
        large = large || v == LARGE;
    }
    return large;
}

tern_status tern_gguf__settle_groups(tern_gguf *g, const uint64_t *offsets, uint64_t data_bytes, tern_error *err)
{
    size_t n = 0;
    for (size_t i = 0; i < g->n_tensors; i++) n += g->tensors[i].type == TERN_ENC_Q2_0;
    if (n == 0) return TERN_OK;
    uint64_t *order = tern_alloc(g->n_tensors * sizeof *order);
    if (!order) return tern_fail_alloc(err, g->n_tensors * sizeof *order);
    for (size_t i = 0; i < g->n_tensors; i++) order[i] = offsets[i];
    qsort(order, g->n_tensors, sizeof *order, ascending);
    tern_status status = TERN_OK;
    const bool large = are_large(g, offsets, order, data_bytes);
    for (size_t i = 0; large && i < g->n_tensors && status == TERN_OK; i++) {
        if (g->tensors[i].type != TERN_ENC_Q2_0) continue;
        g->tensors[i].type = TERN_ENC_PQ2_0;
        status = tern_gguf__tensor_size(&g->tensors[i], err);
    }
    tern_free(order);
    return status;
}
