/* Blocks of every encoding that llama.cpp has as well, against what llama.cpp reads in them. */
#include "quant/encoding_cases.h"

enum { ELEMENTS = 1024, NO_HALF = UINT32_MAX };

/* The numbers of the blocks below, and the FNV-1a of their f32 bytes, as dequantize_row_NAME of ggml (libggml-base of
 * node-llama-cpp 3.21.1 and 3.22.1) gives them; pq2_0: as q2_0 gives both halves of its blocks; ptq1_0: as
 * tests/data/encodings/ptq1_0.py gives them. */
static const struct {
    const char *name;
    uint32_t d_at, m_at;
    uint64_t hash;
    float first, last;
} cases[] = {
    {"q8_0", 0, 0, 0x70aed00cfe38ce71u, 3.8343505859375f, -6.01123046875f},
    {"q6_k", 208, 208, 0xc925ee8b7e6b7100u, -165.83642578125f, -121.3154296875f},
    {"q5_k", 0, 2, 0xb9eb47f53877e624u, 26.01336669921875f, 160.868408203125f},
    {"q4_k", 0, 2, 0xe4d8d3f788327895u, 11.89080810546875f, 29.8707275390625f},
    {"q3_k", 108, 108, 0x37c2f30df77b87e1u, 4.306640625f, -7.15869140625f},
    {"q2_k", 80, 82, 0x13e34548ef12c32bu, -0.114166259765625f, 1.0843505859375f},
    {"q5_1", 0, 2, 0xee074655259f7792u, 0.937103271484375f, 0.0517578125f},
    {"q5_0", 0, 0, 0xc41d53195ef62b4au, 0.4935302734375f, -1.201171875f},
    {"q4_1", 0, 2, 0x69ce74fc82580341u, 0.519500732421875f, 1.09893798828125f},
    {"q4_0", 0, 0, 0xaa34e93cdbbf3040u, -0.1138916015625f, 0.441650390625f},
    {"iq4_nl", 0, 0, 0xeb621de6b2a00e0du, -1.3287353515625f, 6.5511474609375f},
    {"mxfp4", NO_HALF, NO_HALF, 0x4df2228206cb6c11u, 0x1p-126f, 0x1p123f},
    {"q2_0", 0, 0, 0x2c6b86ee2f0464e5u, 0.0f, -0.12091064453125f},
    {"pq2_0", 0, 0, 0xdac0718a3e78759du, 0.0f, -0.144775390625f},
    {"ptq1_0", 26, 26, 0x50a9fc94e0c88834u, -0.0364990234375f, 0.105224609375f},
    {"q1_0", 0, 0, 0x820a297642cbcd25u, 0.0379638671875f, -0.0980224609375f},
};

static uint64_t hash(const void *bytes, size_t n)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++) h = (h ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3u;
    return h;
}

/* Any bytes, with f16 scales from 2^-5 to 2^-1 of either sign; in mxfp4 with e from 0 to 248. */
static void fill(const tern_encoding *e, uint32_t d_at, uint32_t m_at, uint8_t *out)
{
    uint32_t state = 12345;
    for (uint32_t b = 0; b < ELEMENTS / e->block_elements; b++, out += e->block_bytes) {
        for (uint32_t i = 0; i < e->block_bytes; i++) {
            state = (state * 1103515245u + 12345u) & 0x7fffffffu;
            out[i] = (uint8_t)(state >> 16);
        }
        if (d_at == NO_HALF) {
            out[0] = (uint8_t)(8 * b);
            continue;
        }
        const uint8_t exponent = (uint8_t)(0x28 | b % 4 << 2);
        out[d_at + 1] = (out[d_at + 1] & 0x83) | exponent;
        if (m_at != d_at) out[m_at + 1] = (out[m_at + 1] & 0x83) | exponent;
    }
}

static void blocks_of_llama_cpp(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const tern_encoding *e = encoding_named(cases[i].name);
        uint8_t bytes[ELEMENTS * 2];
        float x[ELEMENTS];
        fill(e, cases[i].d_at, cases[i].m_at, bytes);
        e->unpack(bytes, ELEMENTS / e->block_elements, x);
        if (hash(x, sizeof x) != cases[i].hash)
            fail_msg("%s: %g .. %g, %g .. %g expected", e->name, (double)x[0], (double)x[ELEMENTS - 1],
                     (double)cases[i].first, (double)cases[i].last);
    }
}

/* Every encoding that has blocks is here. */
static void all_are_here(void **state)
{
    (void)state;
    size_t n = 0;
#define COUNT(X, name, NAME, elements, bytes)                                                                          \
    assert_int_equal(encoding_named(#name)->block_elements, elements);                                                 \
    assert_int_equal(encoding_named(#name)->block_bytes, bytes);                                                       \
    assert_ptr_equal(tern_encoding_find(TERN_ENC_##NAME), encoding_named(#name));                                      \
    n++;
    TERN_ENCODING_BLOCK_LIST(COUNT, )
#undef COUNT
    assert_int_equal(n, sizeof cases / sizeof *cases);
}

/* Ternary numbers with a scale that f16 holds come back as they were, whatever the scale of the next block. */
static void ternary_numbers_are_kept(void **state)
{
    (void)state;
    static const char *const names[] = {"q2_0", "pq2_0", "ptq1_0"};
    for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
        const tern_encoding *e = encoding_named(names[k]);
        float x[512], back[512];
        uint8_t bytes[512];
        for (uint32_t i = 0; i < 512; i++)
            x[i] = ((float)(i * 7 % 11 % 3) - 1) * (float)(1 + i / e->block_elements) * 0.0625f;
        for (uint32_t i = 0; i < e->block_elements; i++) x[i] = 0;
        e->pack(x, 512 / e->block_elements, bytes);
        e->unpack(bytes, 512 / e->block_elements, back);
        for (size_t i = 0; i < 512; i++) assert_true(back[i] == x[i]);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(blocks_of_llama_cpp),
    cmocka_unit_test(all_are_here),
    cmocka_unit_test(ternary_numbers_are_kept),
};

TEST_GROUP(encoding_blocks, "web", tests);
