/* The orders that programs give to the codes of an I2_S tensor. All use the same type id, the same codes and the same
 * size, and nothing in a file says which it is. Source: bitnet.cpp's src/ggml-bitnet-mad.cpp, quantize_i2_s. */
#ifndef TERN_QUANT_I2_S_ORDER_H
#define TERN_QUANT_I2_S_ORDER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

/* X(name, stride, low bits first, whose it is). A byte has elements j, j + stride, j + 2 stride, j + 3 stride of a
 * group of 4 stride; stride 0: of one column of four rows. The first is that of encoding.h, in which Tern reads and
 * writes. */
#define TERN_I2S_ORDER_LIST(X)                                                                                         \
    X("x86", 32, false, "bitnet.cpp on x86")                                                                           \
    X("arm", 16, false, "bitnet.cpp on ARM")                                                                           \
    X("rows", 0, false, "bitnet.cpp on x86 without ACT_PARALLEL")                                                      \
    X("lsb", 1, true, "four neighbours in a byte, the first in the lowest bits")                                       \
    X("msb", 1, false, "four neighbours in a byte, the first in the top bits")                                         \
    X("x86-lsb", 32, true, "as x86, the first in the lowest bits")                                                     \
    X("arm-lsb", 16, true, "as arm, the first in the lowest bits")

enum { TERN_I2S_ORDERS = 7 };

/* For help texts and messages. */
#define TERN_I2S_ORDER_NAMES "x86, arm, rows, lsb, msb, x86-lsb, arm-lsb"

typedef struct tern_i2s_order {
    const char *name;
    uint32_t stride;
    bool low_first;
    const char *whose;
} tern_i2s_order;

/* i < TERN_I2S_ORDERS; 0 is Tern's own. */
const tern_i2s_order *tern_i2s_order_at(size_t i);
/* Errors: INVALID_ARGUMENT, with all names. */
tern_status tern_i2s_order_parse(const char *name, const tern_i2s_order **order, tern_error *err);

/* The element (row * cols + column) whose code is in bits 6 - 2 field up of the tensor's byte `byte`. */
size_t tern_i2s_order_element(const tern_i2s_order *order, size_t byte, uint32_t field, size_t cols);
/* A tensor [rows][cols] in this order to the bytes of encoding.h, tail included; `out` is not `in`. Errors:
 * INVALID_ARGUMENT (a shape that I2_S does not fit, or rows that are not a multiple of 4 for "rows"). */
tern_status tern_i2s_reorder(const tern_i2s_order *order, const uint8_t *in, uint64_t rows, uint64_t cols, uint8_t *out,
                             tern_error *err);

#endif
