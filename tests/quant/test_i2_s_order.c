/* Orders of I2_S codes: every one into Tern's own, against a packer that goes by elements. */
#include "base/alloc.h"
#include "base/rng.h"
#include "quant/encoding.h"
#include "quant/i2_s_order.h"
#include "support/i2s_order.h"
#include "support/test.h"

static void into_ours(void **state)
{
    (void)state;
    static const struct {
        size_t rows, cols;
    } shapes[] = {{4, 128}, {8, 256}, {4, 32}, {12, 2560}, {128, 4}};
    static int8_t codes[12 * 2560];
    static uint8_t in[12 * 2560 / 4 + 32], out[sizeof in], want[sizeof in];
    const tern_encoding *e = tern_encoding_find(TERN_ENC_I2_S);
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        const size_t rows = shapes[s].rows, cols = shapes[s].cols, n = rows * cols;
        tern_rng rng = {11 + s};
        for (size_t i = 0; i < n; i++) codes[i] = (int8_t)((int)tern_rng_below(&rng, 3) - 1);
        tern_error err = {0};
        assert_ok(tern_encode_codes(e, codes, 0.75f, rows, cols, want, &err), err);
        for (size_t o = 0; o < TERN_I2S_ORDERS; o++) {
            const tern_i2s_order *order;
            assert_ok(tern_i2s_order_parse(test_i2s_orders[o], &order, &err), err);
            assert_ptr_equal(order, tern_i2s_order_at(o));
            test_i2s_pack(order->name, codes, rows, cols, in);
            memcpy(in + n / 4, want + n / 4, 32);
            memset(out, 0xa5, sizeof out);
            assert_ok(tern_i2s_reorder(order, in, rows, cols, out, &err), err);
            assert_memory_equal(out, want, n / 4 + 32);
        }
    }
}

/* The first bytes of one block by hand: elements 0, 16, 32, 48 are +1, -1, 0, +1, element 17 is +1, all others 0. */
static void arm_by_hand(void **state)
{
    (void)state;
    tern_error err = {0};
    uint8_t in[64] = {0x86, 0x65}, out[64]; /* 10 00 01 10; 01 10 01 01 */
    memset(in + 2, 0x55, 30);
    memset(in + 32, 0, 32);
    assert_ok(tern_i2s_reorder(tern_i2s_order_at(1), in, 1, 128, out, &err), err);
    assert_int_equal(out[0], 0x95);  /* elements 0, 32, 64, 96: +1, 0, 0, 0 -> 10 01 01 01 */
    assert_int_equal(out[16], 0x25); /* elements 16, 48, ...: -1, +1 -> 00 10 01 01 */
    assert_int_equal(out[17], 0x95); /* element 17 */
    assert_int_equal(out[1], 0x55);
}

static void refused(void **state)
{
    (void)state;
    tern_error err = {0};
    const tern_i2s_order *order;
    uint8_t bytes[256] = {0}, out[256];
    assert_int_equal(tern_i2s_order_parse("mips", &order, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "\"mips\": one of x86, arm, rows, lsb, msb, x86-lsb, arm-lsb"));
    assert_ok(tern_i2s_order_parse("rows", &order, &(tern_error){0}), err);
    assert_int_equal(tern_i2s_reorder(order, bytes, 2, 128, out, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "2 rows in the order \"rows\": a multiple of 4 expected"));
    assert_int_equal(tern_i2s_reorder(order, bytes, 4, 5, out, &err), TERN_INVALID_ARGUMENT);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(into_ours),
    cmocka_unit_test(arm_by_hand),
    cmocka_unit_test(refused),
};

TEST_GROUP(i2_s_order, "", tests);
