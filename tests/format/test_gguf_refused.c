/* GGUF files that are refused, each with its message. */
#include "format/gguf_cases.h"

static void no_magic(tern_buf *b)
{
    put(b, "GGML\3\0\0\0", 8), put64(b, 0), put64(b, 0);
}

static void only_magic(tern_buf *b)
{
    put(b, "GGUF", 4);
}

static void empty(tern_buf *b)
{
    (void)b;
}

static void version_1(tern_buf *b)
{
    put_header(b, 1, 0, 0);
}

static void version_4(tern_buf *b)
{
    put_header(b, 4, 0, 0);
}

static void version_0(tern_buf *b)
{
    put_header(b, 0, 0, 0);
}

static void big_endian(tern_buf *b)
{
    put_header(b, 0x03000000, 0, 0);
}

static void max_tensors(tern_buf *b)
{
    put_header(b, 3, UINT64_MAX, 0);
}

static void max_kv(tern_buf *b)
{
    put_header(b, 3, 0, UINT64_MAX - 1);
}

static void one_kv_missing(tern_buf *b)
{
    put_header(b, 3, 0, 1);
}

static void many_kv(tern_buf *b)
{
    put_header(b, 3, 0, 65537);
    for (size_t i = 0; i < 65537 * 14; i++) put8(b, 0);
}

static void empty_key(tern_buf *b)
{
    put_header(b, 3, 0, 1), put_key(b, "", 0), put64(b, 0);
}

static void huge_key(tern_buf *b)
{
    put_header(b, 3, 0, 1), put64(b, UINT64_MAX), put64(b, 0), put64(b, 0);
}

static void kind_13(tern_buf *b)
{
    put_header(b, 3, 0, 1), put_key(b, "a.key", 13), put64(b, 0);
}

static void kind_max(tern_buf *b)
{
    put_header(b, 3, 0, 1), put_key(b, "a.key", UINT32_MAX), put64(b, 0);
}

static void bool_2(tern_buf *b)
{
    put_header(b, 3, 0, 1), put_key(b, "flag", 7), put8(b, 2), put64(b, 0);
}

static void short_value(tern_buf *b)
{
    put_header(b, 3, 0, 1), put_key(b, "value", 10), put32(b, 2);
}

static void long_string(tern_buf *b)
{
    put_header(b, 3, 0, 1), put_key(b, "text", 8), put64(b, 100), put8(b, 'x');
}

static void array_kind(tern_buf *b)
{
    put_header(b, 3, 0, 1), put_key(b, "list", 9), put_array(b, 99, 0);
}

static void array_count(tern_buf *b)
{
    put_header(b, 3, 0, 1), put_key(b, "list", 9), put_array(b, 10, UINT64_MAX / 8 + 2);
}

static void array_strings(tern_buf *b)
{
    put_header(b, 3, 0, 1), put_key(b, "list", 9), put_array(b, 8, 2), put64(b, 9), put64(b, 9);
}

static void array_cut(tern_buf *b)
{
    put_header(b, 3, 0, 1), put_key(b, "list", 9), put64(b, 0);
}

static void too_deep(tern_buf *b)
{
    put_header(b, 3, 0, 1), put_key(b, "list", 9);
    for (int i = 0; i < 4; i++) put_array(b, 9, 1);
    put_array(b, 0, 0);
}

static void duplicate_key(tern_buf *b)
{
    put_header(b, 3, 0, 2), put_key(b, "twice", 0), put8(b, 1), put_key(b, "twice", 0), put8(b, 1);
}

static void odd_key(tern_buf *b)
{
    put_header(b, 3, 0, 1), put_key(b, "a\nb\xff", 7), put8(b, 3);
}

static void alignment_0(tern_buf *b)
{
    gguf_aligned(b, 0);
}

static void alignment_3(tern_buf *b)
{
    gguf_aligned(b, 3);
}

static void alignment_2g(tern_buf *b)
{
    gguf_aligned(b, 1u << 31);
}

static void alignment_text(tern_buf *b)
{
    put_header(b, 3, 0, 1), put_key(b, "general.alignment", 8), put_text(b, "32");
}

static void alignment_list(tern_buf *b)
{
    put_header(b, 3, 0, 1), put_key(b, "general.alignment", 9), put_array(b, 4, 1), put32(b, 32);
}

static void tensor_iq4_xs(tern_buf *b)
{
    gguf_tensor(b, 23, 0, 1, (uint64_t[]){32});
}

static void tensor_iq3(tern_buf *b)
{
    gguf_tensor(b, 21, 0, 1, (uint64_t[]){256});
}

static void tensor_tl1(tern_buf *b)
{
    gguf_tensor(b, 38, 0, 1, (uint64_t[]){128});
}

static void tensor_mxfp4_48(tern_buf *b)
{
    gguf_tensor(b, 39, 0, 1, (uint64_t[]){48});
}

static void tensor_type_77(tern_buf *b)
{
    gguf_tensor(b, 77, 0, 1, (uint64_t[]){32});
}

static void tensor_type_max(tern_buf *b)
{
    gguf_tensor(b, UINT32_MAX, 0, 1, (uint64_t[]){32});
}

static void tensor_q8_0_33(tern_buf *b)
{
    gguf_tensor(b, 8, 0, 1, (uint64_t[]){33});
}

/* 256 of them take 72 bytes in groups of 64, 68 in groups of 128: there are 64. */
static void tensor_q2_0_short(tern_buf *b)
{
    gguf_tensor(b, 42, 0, 1, (uint64_t[]){256});
}

static void tensor_q2_0_32(tern_buf *b)
{
    gguf_tensor(b, 42, 0, 1, (uint64_t[]){32});
}

static void tensor_i2_s_short(tern_buf *b)
{
    gguf_tensor(b, 36, 32, 1,
                (uint64_t[]){128}); /* 32 bytes of codes and the 32 of the tail: one too many for 32 left */
}

static void tensor_5_dims(tern_buf *b)
{
    gguf_tensor(b, 0, 0, 5, (uint64_t[]){1, 1, 1, 1, 1});
}

static void tensor_zero(tern_buf *b)
{
    gguf_tensor(b, 0, 0, 2, (uint64_t[]){4, 0});
}

static void tensor_huge_rows(tern_buf *b)
{
    gguf_tensor(b, 0, 0, 3, (uint64_t[]){1, UINT64_MAX, 2});
}

static void tensor_huge_plain(tern_buf *b)
{
    gguf_tensor(b, 26, 0, 2, (uint64_t[]){UINT64_MAX, 2});
}

static void tensor_far(tern_buf *b)
{
    gguf_tensor(b, 24, 96, 1, (uint64_t[]){1});
}

static void tensor_long(tern_buf *b)
{
    gguf_tensor(b, 24, 32, 1, (uint64_t[]){33});
}

static void tensor_max_offset(tern_buf *b)
{
    gguf_tensor(b, 24, UINT64_MAX - 31, 1, (uint64_t[]){32});
}

static void tensor_odd_offset(tern_buf *b)
{
    gguf_tensor(b, 24, 33, 1, (uint64_t[]){1});
}

static void tensor_no_name(tern_buf *b)
{
    put_header(b, 3, 1, 0);
    put_tensor(b, "", 24, 0, 1, (uint64_t[]){1});
    put64(b, 0);
}

static void tensor_cut(tern_buf *b)
{
    put_header(b, 3, 1, 0);
    put_tensor(b, "long name", 24, 0, 1, (uint64_t[]){1});
    b->size -= 4;
}

static void tensors_overlap(tern_buf *b)
{
    gguf_two_tensors(b, "one", 0, "two", 32);
}

static void tensors_same(tern_buf *b)
{
    gguf_two_tensors(b, "one", 32, "two", 32);
}

static void tensors_twice(tern_buf *b)
{
    gguf_two_tensors(b, "one", 0, "one", 64);
}

static const struct {
    void (*build)(tern_buf *b);
    tern_status status;
    const char *message;
} refused[] = {
    {empty, TERN_MALFORMED, "header: 0 bytes, a GGUF file has at least 24"},
    {only_magic, TERN_MALFORMED, "header: the file ends after 4 bytes"},
    {no_magic, TERN_MALFORMED, "header: magic 'GGML' found, 'GGUF' expected"},
    {version_0, TERN_UNSUPPORTED, "header: GGUF version 0, 2 or 3 expected"},
    {version_1, TERN_UNSUPPORTED, "header: GGUF version 1, 2 or 3 expected"},
    {version_4, TERN_UNSUPPORTED, "header: GGUF version 4, 2 or 3 expected"},
    {big_endian, TERN_UNSUPPORTED, "header: big-endian GGUF (version word 0x03000000), little-endian expected"},
    {max_tensors, TERN_MALFORMED, "header: 18446744073709551615 tensors do not fit in the 0 bytes left"},
    {max_kv, TERN_MALFORMED, "header: 18446744073709551614 metadata pairs do not fit in the 0 bytes left"},
    {one_kv_missing, TERN_MALFORMED, "header: 1 metadata pairs do not fit in the 0 bytes left"},
    {many_kv, TERN_LIMIT, "header: 65537 metadata pairs, at most 65536 expected"},
    {empty_key, TERN_MALFORMED, "key 0: a name of 0 bytes, 1 to 65535 expected"},
    {huge_key, TERN_MALFORMED, "key 0: a name of 18446744073709551615 bytes, 16 left"},
    {kind_13, TERN_MALFORMED, "a.key: kind 13, at most 12 expected"},
    {kind_max, TERN_MALFORMED, "a.key: kind 4294967295, at most 12 expected"},
    {bool_2, TERN_MALFORMED, "flag: bool is 2, 0 or 1 expected"},
    {short_value, TERN_MALFORMED, "value: 1 u64 do not fit in the 4 bytes left"},
    {long_string, TERN_MALFORMED, "text: string 0 of 100 bytes, 1 left"},
    {array_kind, TERN_MALFORMED, "list: kind 99, at most 12 expected"},
    {array_count, TERN_MALFORMED, "list: 2305843009213693953 u64 do not fit in the 0 bytes left"},
    {array_strings, TERN_MALFORMED, "list: string 0 of 9 bytes, 8 left"},
    {array_cut, TERN_MALFORMED, "list: array is cut short"},
    {too_deep, TERN_LIMIT, "list: arrays nested deeper than 4"},
    {duplicate_key, TERN_MALFORMED, "twice: duplicate key"},
    {odd_key, TERN_MALFORMED, "a\\x0ab\\xff: bool is 3, 0 or 1 expected"},
    {alignment_0, TERN_MALFORMED, "general.alignment: 0 found, a power of two from 1 to 1048576 expected"},
    {alignment_3, TERN_MALFORMED, "general.alignment: 3 found, a power of two from 1 to 1048576 expected"},
    {alignment_2g, TERN_MALFORMED, "general.alignment: 2147483648 found, a power of two from 1 to 1048576 expected"},
    {alignment_text, TERN_MALFORMED, "general.alignment: string found, u32 expected"},
    {alignment_list, TERN_MALFORMED, "general.alignment: array found, u32 expected"},
    {tensor_q2_0_short, TERN_MALFORMED, "t: 72 bytes at offset 0 are outside the file, which has 64 bytes of data"},
    {tensor_q2_0_32, TERN_MALFORMED, "t: q2_0: found 32 columns, expected a multiple of 64"},
    {tensor_iq4_xs, TERN_UNSUPPORTED, "t: tensor type IQ4_XS (23) cannot be read here"},
    {tensor_iq3, TERN_UNSUPPORTED, "t: tensor type IQ3_S (21) cannot be read here"},
    {tensor_tl1, TERN_UNSUPPORTED,
     "t: tensor type TL1 of bitnet.cpp or IQ4_NL_8_8 of llama.cpp (38) cannot be read here"},
    {tensor_mxfp4_48, TERN_MALFORMED, "t: mxfp4: found 48 columns, expected a multiple of 32"},
    {tensor_type_77, TERN_UNSUPPORTED, "t: unknown tensor type 77"},
    {tensor_type_max, TERN_UNSUPPORTED, "t: unknown tensor type 4294967295"},
    {tensor_q8_0_33, TERN_MALFORMED, "t: q8_0: found 33 columns, expected a multiple of 32"},
    {tensor_i2_s_short, TERN_MALFORMED, "t: 64 bytes at offset 32 are outside the file, which has 64 bytes of data"},
    {tensor_5_dims, TERN_MALFORMED, "t: 5 dimensions, at most 4 expected"},
    {tensor_zero, TERN_MALFORMED, "t: dimension 1 is 0, at least 1 expected"},
    {tensor_huge_rows, TERN_LIMIT, "t: dimension 2 is 2: the number of rows overflows"},
    {tensor_huge_plain, TERN_LIMIT, "t: 2 rows of 18446744073709551615 I32 overflow"},
    {tensor_far, TERN_MALFORMED, "t: 1 bytes at offset 96 are outside the file, which has 64 bytes of data"},
    {tensor_long, TERN_MALFORMED, "t: 33 bytes at offset 32 are outside the file, which has 64 bytes of data"},
    {tensor_max_offset, TERN_MALFORMED,
     "t: 32 bytes at offset 18446744073709551584 are outside the file, which has 64 bytes of data"},
    {tensor_odd_offset, TERN_MALFORMED, "t: offset 33, a multiple of 32 expected"},
    {tensor_no_name, TERN_MALFORMED, "tensor 0: a name of 0 bytes, 1 to 65535 expected"},
    {tensor_cut, TERN_MALFORMED, "long name: the file ends inside its description"},
    {tensors_overlap, TERN_MALFORMED, "two: overlaps one"},
    {tensors_same, TERN_MALFORMED, "two: overlaps one"},
    {tensors_twice, TERN_MALFORMED, "one: duplicate tensor"},
};

static void refused_files(void **state)
{
    (void)state;
    int64_t live = tern_alloc_live();
    for (size_t i = 0; i < sizeof refused / sizeof *refused; i++) {
        tern_buf file = {0};
        refused[i].build(&file);
        tern_gguf *g = NULL;
        tern_error err = {0};
        tern_status status = tern_gguf_parse(&g, file.data, file.size, &err);
        assert_string_equal(err.message, refused[i].message);
        assert_int_equal(status, refused[i].status);
        assert_int_equal(err.code, refused[i].status);
        assert_null(g);
        assert_int_equal(tern_gguf_parse(&g, file.data, file.size, NULL), refused[i].status);
        tern_buf_deinit(&file);
        assert_int_equal(tern_alloc_live(), live);
    }
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(refused_files)};

TEST_GROUP(gguf_refused, "web", tests);
