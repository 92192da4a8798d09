/* Files whose I2_S tensors are in the orders of other programs. */
#ifndef TERN_TESTS_SUPPORT_I2S_ORDER_H
#define TERN_TESTS_SUPPORT_I2S_ORDER_H

#include "base/bytes.h"

enum { TEST_I2S_ORDERS = 7 };

extern const char *const test_i2s_orders[TEST_I2S_ORDERS]; /* the first is Tern's own */

/* Codes [rows][cols] to rows * cols / 4 bytes, by where each element goes. */
void test_i2s_pack(const char *order, const int8_t *codes, size_t rows, size_t cols, uint8_t *out);
/* The bytes of a GGUF file, all of its I2_S tensors in this order; the caller's to deinit. */
tern_buf test_i2s_file(const char *path, const char *order);

#endif
