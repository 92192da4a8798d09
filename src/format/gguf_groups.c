/* GGUF tensors whose type id means two layouts: which one a file has, by the room that its tensors take. */
#include <stdlib.h>

#include "base/alloc.h"
#include "format/gguf_internal.h"
#include "quant/encoding.h"
#include "quant/foreign.h"

/* A type id and what it means in most files (the larger layout), and the id of the smaller layout here; of several for
 * one id the largest first. */
static const struct {
    uint32_t usual, smaller;
} pairs[] = {
    {TERN_ENC_Q2_0, TERN_ENC_PQ2_0},
    {TERN_ENC_Q2_0, TERN_FOREIGN_TL2},
    {TERN_ENC_MXFP4, TERN_FOREIGN_TL2},
};

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
    USUAL,
    SMALLER
} verdict;

/* The description of one tensor's room. */
static verdict judge(const tern_gguf *g, const tern_gguf_tensor *t, uint32_t smaller, uint64_t room)
{
    tern_gguf_tensor other = *t;
    tern_error ignored;
    other.type = smaller;
    if (tern_gguf__tensor_size(&other, &ignored) != TERN_OK) return USUAL;
    const uint64_t padding = g->alignment - 1;
    if ((t->bytes + padding) / g->alignment == (other.bytes + padding) / g->alignment) return EITHER;
    return room >= t->bytes ? USUAL : room >= other.bytes ? SMALLER : EITHER;
}

static bool are_smaller(const tern_gguf *g, size_t pair, const uint64_t *offsets, const uint64_t *order, uint64_t end)
{
    bool smaller = false;
    for (size_t i = 0; i < g->n_tensors; i++) {
        if (g->tensors[i].type != pairs[pair].usual) continue;
        const uint64_t room = room_at(order, g->n_tensors, offsets[i], end);
        const verdict v = judge(g, &g->tensors[i], pairs[pair].smaller, room);
        if (v == USUAL) return false;
        smaller = smaller || v == SMALLER;
    }
    return smaller;
}

static tern_status settle(tern_gguf *g, size_t pair, const uint64_t *offsets, const uint64_t *order, uint64_t end,
                          tern_error *err)
{
    if (!are_smaller(g, pair, offsets, order, end)) return TERN_OK;
    for (size_t i = 0; i < g->n_tensors; i++) {
        if (g->tensors[i].type != pairs[pair].usual) continue;
        g->tensors[i].type = pairs[pair].smaller;
        TERN_TRY(tern_gguf__tensor_size(&g->tensors[i], err));
    }
    return TERN_OK;
}

static bool has_any(const tern_gguf *g, uint32_t type)
{
    for (size_t i = 0; i < g->n_tensors; i++)
        if (g->tensors[i].type == type) return true;
    return false;
}

tern_status tern_gguf__settle_groups(tern_gguf *g, const uint64_t *offsets, uint64_t data_bytes, tern_error *err)
{
    bool any = false;
    for (size_t p = 0; p < sizeof pairs / sizeof *pairs; p++) any = any || has_any(g, pairs[p].usual);
    if (!any) return TERN_OK;
    uint64_t *order = tern_alloc(g->n_tensors * sizeof *order);
    if (!order) return tern_fail_alloc(err, g->n_tensors * sizeof *order);
    for (size_t i = 0; i < g->n_tensors; i++) order[i] = offsets[i];
    qsort(order, g->n_tensors, sizeof *order, ascending);
    tern_status status = TERN_OK;
    for (size_t p = 0; p < sizeof pairs / sizeof *pairs && status == TERN_OK; p++)
        status = settle(g, p, offsets, order, data_bytes, err);
    tern_free(order);
    return status;
}
