/* The base layer: half floats, cursor, arena, atomic writes, allocation failure. */
#include "support/test.h"

#include <math.h>

#include "base/alloc.h"
#include "base/arena.h"
#include "base/bytes.h"
#include "base/file.h"
#include "base/half.h"

static void half_round_trips(void **state)
{
    (void)state;
    for (uint32_t h = 0; h < 0x10000; h++) {
        float v = tern_f16_to_f32((uint16_t)h);
        if (isnan(v)) assert_true(isnan(tern_f16_to_f32(tern_f32_to_f16(v))));
        else assert_int_equal(tern_f32_to_f16(v), h);
        float b = tern_bf16_to_f32((uint16_t)h);
        if (!isnan(b)) assert_int_equal(tern_f32_to_bf16(b), h);
    }
    assert_int_equal(tern_f32_to_f16(65520.0f), 0x7c00);
    assert_int_equal(tern_f32_to_f16(65519.0f), 0x7bff);
    assert_int_equal(tern_f32_to_f16(0x1p-25f), 0);
    assert_int_equal(tern_f32_to_f16(0x1.8p-25f), 1);
    assert_int_equal(tern_f32_to_bf16(1.00390625f), 0x3f80); /* half way: to even */
}

static void cursor_stays_bad(void **state)
{
    (void)state;
    const uint8_t bytes[] = {1, 2, 3, 4, 5};
    tern_cursor c = tern_cursor_open(bytes, sizeof bytes);
    assert_int_equal(tern_cursor_u32(&c), 0x04030201);
    assert_int_equal(tern_cursor_u16(&c), 0);
    assert_true(c.bad);
    assert_int_equal(tern_cursor_u8(&c), 0);
}

static void writer_is_atomic(void **state)
{
    (void)state;
    tern_error err = {0};
    const char *path = test_scratch("atomic.bin");
    tern_file_writer w;
    assert_ok(tern_file_writer_open(&w, path, &err), err);
    tern_file_writer_add(&w, "abc", 3);
    tern_file_writer_pad(&w, 8);
    remove(path);
    assert_false(tern_file_exists(path));
    assert_ok(tern_file_writer_commit(&w, &err), err);
    tern_file_map map;
    assert_ok(tern_file_map_open(&map, path, &err), err);
    assert_int_equal(map.size, 8);
    assert_memory_equal(map.data, "abc\0\0\0\0\0", 8);
    tern_file_map_close(&map);
}

/* The same calls, to memory: what was there stays, and abort takes back what came. */
static void writer_in_memory(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_buf out = {0};
    tern_file_writer w;
    assert_ok(tern_buf_add(&out, "old", 3, &err), err);
    assert_ok(tern_file_writer_open_memory(&w, &out, "memory", &err), err);
    tern_file_writer_add(&w, "abc", 3);
    tern_file_writer_pad(&w, 8);
    tern_file_writer_put(&w, 1, "XY", 2);
    tern_file_writer_add(&w, "z", 1);
    assert_ok(tern_file_writer_commit(&w, &err), err);
    tern_file_writer_abort(&w);
    assert_int_equal(out.size, 12);
    assert_memory_equal(out.data, "oldaXY\0\0\0\0\0z", 12);
    assert_ok(tern_file_writer_open_memory(&w, &out, "memory", &err), err);
    tern_file_writer_add(&w, "more", 4);
    tern_file_writer_abort(&w);
    assert_int_equal(out.size, 12);
    assert_ok(tern_file_writer_open_memory(&w, &out, "memory", &err), err);
    static const uint8_t large[4096];
    tern_alloc_fail_after(1, false);
    tern_file_writer_add(&w, large, sizeof large);
    tern_alloc_fail_after(0, false);
    tern_file_writer_add(&w, "after", 5);
    assert_int_equal(tern_file_writer_commit(&w, &err), TERN_OUT_OF_MEMORY);
    assert_int_equal(out.size, 12);
    tern_buf_deinit(&out);
    /* a file's header, written last */
    const char *path = test_scratch("put.bin");
    assert_ok(tern_file_writer_open(&w, path, &err), err);
    tern_file_writer_add(&w, "....body", 8);
    tern_file_writer_put(&w, 0, "head", 4);
    tern_file_writer_add(&w, "!", 1);
    assert_ok(tern_file_writer_commit(&w, &err), err);
    assert_ok(tern_file_read(&out, path, 100, &err), err);
    assert_int_equal(out.size, 9);
    assert_memory_equal(out.data, "headbody!", 9);
    tern_buf_deinit(&out);
    remove(path);
}

/* Blocks that are filled side by side: each quarter of a large page has its share of beginnings. */
static void spread_blocks_begin_apart(void **state)
{
    (void)state;
    enum { N = 16, LARGE = 2 << 20, BYTES = LARGE + 4096 };
    uint32_t begin[4] = {0};
    void *blocks[N], *small = tern_alloc_spread(100, 3);
    for (uint32_t i = 0; i < N; i++) {
        uint8_t *p = blocks[i] = tern_alloc_spread(BYTES, i);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 64, 0);
        assert_int_equal(p[0] | p[BYTES - 1], 0);
        p[0] = p[BYTES - 1] = 1;
        begin[(uintptr_t)p % LARGE / (LARGE / 4)]++;
    }
    for (uint32_t i = 0; i < 4; i++) assert_in_range(begin[i], N / 4 - 1, N / 4 + 1);
    assert_non_null(small);
    assert_int_equal((uintptr_t)small % 64, 0);
    tern_free_aligned(small);
    for (uint32_t i = 0; i < N; i++) tern_free_aligned(blocks[i]);
}

static void failed_allocation_is_reported(void **state)
{
    (void)state;
    int64_t live = tern_alloc_live();
    tern_buf buf = {0};
    tern_error err = {0};
    tern_alloc_fail_after(1, false);
    assert_int_equal(tern_buf_add(&buf, "x", 1, &err), TERN_OUT_OF_MEMORY);
    assert_ok(tern_buf_add(&buf, "x", 1, &err), err);
    assert_string_equal(buf.data, "x");
    tern_buf_deinit(&buf);
    tern_arena arena = {0};
    for (size_t i = 1; i < 100; i++) assert_non_null(tern_arena_alloc(&arena, i, 1000));
    tern_arena_deinit(&arena);
    assert_int_equal(tern_alloc_live(), live);
}

/* What templates and names of others say cannot reach a terminal as it is. */
static void messages_have_no_controls(void **state)
{
    (void)state;
    tern_error err;
    tern_fail(&err, TERN_MALFORMED, "%s",
              "a\x1b]0;b\x07"
              "c\n\xc2\x9b"
              "2J\x7f \xc3\xa9");
    assert_string_equal(err.message, "a?]0;b?c ??2J? \xc3\xa9");
    tern_error_prefix(&err, "%s", "x\x1b");
    assert_string_equal(err.message, "x?: a?]0;b?c ??2J? \xc3\xa9");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(half_round_trips),
    cmocka_unit_test(cursor_stays_bad),
    cmocka_unit_test(writer_is_atomic),
    cmocka_unit_test(writer_in_memory),
    cmocka_unit_test(failed_allocation_is_reported),
    cmocka_unit_test(spread_blocks_begin_apart),
    cmocka_unit_test(messages_have_no_controls),
};

TEST_GROUP(base, "threads web", tests);
