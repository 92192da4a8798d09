/* Orders of the codes of I2_S tensors, and bringing one into the order of encoding.h. */
#include "quant/i2_s_order.h"

#include <string.h>

#include "base/show.h"
#include "quant/encoding.h"

static const tern_i2s_order orders[TERN_I2S_ORDERS] = {
#define TERN_I2S_ORDER_ROW(name, stride, low_first, whose) {name, stride, low_first, whose},
    TERN_I2S_ORDER_LIST(TERN_I2S_ORDER_ROW)
#undef TERN_I2S_ORDER_ROW
};

const tern_i2s_order *tern_i2s_order_at(size_t i)
{
    return &orders[i];
}

tern_status tern_i2s_order_parse(const char *name, const tern_i2s_order **order, tern_error *err)
{
    for (size_t i = 0; i < TERN_I2S_ORDERS; i++) {
        *order = &orders[i];
        if (strcmp(name, orders[i].name) == 0) return TERN_OK;
    }
    *order = NULL;
    return tern_fail(err, TERN_INVALID_ARGUMENT, "order of i2_s \"%s\": one of " TERN_I2S_ORDER_NAMES " expected",
                     tern_show_z(name).text);
}

size_t tern_i2s_order_element(const tern_i2s_order *order, size_t byte, uint32_t field, size_t cols)
{
    const size_t part = order->low_first ? 3 - field : field, stride = order->stride;
    if (stride == 0) return (byte / cols * 4 + part) * cols + byte % cols;
    return byte / stride * 4 * stride + part * stride + byte % stride;
}

tern_status tern_i2s_reorder(const tern_i2s_order *order, const uint8_t *in, uint64_t rows, uint64_t cols, uint8_t *out,
                             tern_error *err)
{
    size_t bytes;
    const tern_encoding *e = tern_encoding_find(TERN_ENC_I2_S);
    TERN_TRY(tern_encoding_bytes(e, rows, cols, &bytes, err));
    if (order->stride == 0 && rows % 4)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%llu rows in the order \"%s\": a multiple of 4 expected",
                         (unsigned long long)rows, order->name);
    const size_t n = bytes - e->tail_bytes;
    memset(out, 0, n);
    memcpy(out + n, in + n, e->tail_bytes);
    for (size_t b = 0; b < n; b++) {
        for (uint32_t field = 0; field < 4; field++) {
            const size_t i = tern_i2s_order_element(order, b, field, (size_t)cols);
            out[i / 128 * 32 + i % 32] |= (uint8_t)((in[b] >> (6 - 2 * field) & 3) << (6 - i % 128 / 32 * 2));
        }
    }
    return TERN_OK;
}
