/* How weights lie in device memory: rows read back element by element against tern_decode_rows, and slices. */
#include "support/test.h"

#include <math.h>

#include "backend/gpu/layout.h"
#include "base/alloc.h"
#include "base/bytes.h"
#include "base/half.h"
#include "quant/encoding.h"
#include "quant/weight.h"
#include "support/kernels.h"

static const tern_gpu_caps roomy = {.max_binding = 128u << 20};
static tern_rng rng;

typedef struct matrix {
    tern_weight w;
    uint8_t *bytes;
    float *values, *row_scales; /* as decoded from the file's bytes; [rows] */
} matrix;

static matrix make(tern_encoding_id id, uint32_t rows, uint32_t cols, bool row_scales)
{
    const tern_encoding *e = tern_encoding_find(id);
    tern_error err = {0};
    matrix m = {.w = {.encoding = e, .rows = rows, .cols = cols, .scale = 1.0f, .name = "made"}};
    size_t n = (size_t)rows * cols;
    assert_ok(tern_encoding_bytes(e, rows, cols, &m.w.bytes, &err), err);
    m.bytes = malloc(m.w.bytes);
    m.values = malloc(n * sizeof(float));
    m.w.data = m.bytes;
    test_floats(&rng, TEST_ORDINARY, m.values, n);
    assert_ok(tern_encode(e, m.values, rows, cols, m.bytes, &err), err);
    assert_ok(tern_decode_rows(e, m.bytes, rows, cols, 0, rows, m.values, &err), err);
    if (row_scales) m.w.row_scales = m.row_scales = calloc(rows, sizeof(float));
    return m;
}

static void drop(matrix *m)
{
    free(m->bytes);
    free(m->values);
    free(m->row_scales);
}

/* Element c of a row as backend/gpu/layout.h says; ternary: its code. */
static float element(const tern_gpu_layout *l, const uint8_t *row, uint32_t c)
{
    uint32_t block = c / 256, i = c % 256, half = i / 128, l32 = i % 32, part = i % 128 / 32;
    switch (l->format) {
    case TERN_GPU_TERNARY: return (float)(row[c / 128 * 32 + c % 32] >> (6 - c % 128 / 32 * 2) & 3) - 1.0f;
    case TERN_GPU_F32: return tern_load_f32(row + c * 4);
    case TERN_GPU_F16: return tern_f16_to_f32(tern_load_u16(row + c * 2));
    case TERN_GPU_BF16: return tern_bf16_to_f32(tern_load_u16(row + c * 2));
    case TERN_GPU_Q8_0: return (float)(int8_t)row[c] * tern_f16_to_f32(tern_load_u16(row + l->cols + c / 32 * 2));
    case TERN_GPU_Q6_K: {
        const uint8_t *b = row + (size_t)block * 208;
        int low = b[half * 64 + part % 2 * 32 + l32] >> (part / 2 * 4) & 15,
            high = b[128 + half * 32 + l32] >> (part * 2) & 3;
        float d = tern_f16_to_f32(tern_load_u16(row + l->cols / 256 * 208 + block * 2));
        return d * (float)(int8_t)b[192 + i / 16] * (float)((low | high << 4) - 32);
    }
    case TERN_GPU_Q4_K:
    case TERN_GPU_Q5_K: {
        float values[256];
        const tern_encoding *e = tern_encoding_find(l->format == TERN_GPU_Q4_K ? TERN_ENC_Q4_K : TERN_ENC_Q5_K);
        e->unpack(row + (size_t)block * e->block_bytes, 1, values);
        return values[i];
    }
    case TERN_GPU_Q4_0:
    case TERN_GPU_IQ4_NL:
    case TERN_GPU_Q4_1:
    case TERN_GPU_Q5_0:
    case TERN_GPU_Q5_1: {
        static const int8_t steps[] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};
        const bool five = l->format == TERN_GPU_Q5_0 || l->format == TERN_GPU_Q5_1,
                   line = l->format == TERN_GPU_Q4_1 || l->format == TERN_GPU_Q5_1;
        const uint8_t *scale = row + l->cols / 2 + (five ? l->cols / 8 : 0) + c / 32 * (line ? 4 : 2);
        int q = row[c / 32 * 16 + c % 16] >> (c % 32 / 16 * 4) & 15;
        if (five) q |= (row[l->cols / 2 + c / 8] >> (c % 8) & 1) << 4;
        float d = tern_f16_to_f32(tern_load_u16(scale));
        if (line) return d * (float)q + tern_f16_to_f32(tern_load_u16(scale + 2));
        return d * (float)(l->format == TERN_GPU_IQ4_NL ? steps[q] : q - (five ? 16 : 8));
    }
    case TERN_GPU_MXFP4: {
        uint8_t b[17] = {row[l->cols / 2 + c / 32]};
        float values[32];
        memcpy(b + 1, row + c / 32 * 16, 16);
        tern_encoding_find(TERN_ENC_MXFP4)->unpack(b, 1, values);
        return values[c % 32];
    }
    case TERN_GPU_Q3_K: {
        float values[256];
        tern_encoding_find(TERN_ENC_Q3_K)->unpack(row + (size_t)block * 112, 1, values);
        return values[i];
    }
    case TERN_GPU_Q2_K: {
        const uint8_t *b = row + (size_t)block * 80, *head = row + l->cols / 256 * 80 + (size_t)block * 4;
        int q = b[16 + half * 32 + l32] >> (part * 2) & 3;
        return tern_f16_to_f32(tern_load_u16(head)) * (float)(b[i / 16] & 15) * (float)q -
               tern_f16_to_f32(tern_load_u16(head + 2)) * (float)(b[i / 16] >> 4);
    }
    case TERN_GPU_Q2_0:
        return tern_f16_to_f32(tern_load_u16(row + l->cols / 4 + c / 64 * 2)) *
               (float)((row[c / 4] >> (c % 4 * 2) & 3) - 1);
    case TERN_GPU_Q1_0:
        return tern_f16_to_f32(tern_load_u16(row + l->cols / 8 + c / 128 * 2)) *
               (float)((row[c / 8] >> (c % 8) & 1) * 2 - 1);
    case TERN_GPU_FORMAT_COUNT: break;
    }
    return NAN;
}

/* The scale of a ternary tensor, from its decoded values. */
static float scale_of(const matrix *m)
{
    if (!m->w.encoding->ternary) return 1.0f;
    for (size_t i = 0; i < (size_t)m->w.rows * m->w.cols; i++)
        if (m->values[i] != 0.0f) return fabsf(m->values[i]);
    return 1.0f;
}

static void check_rows(const matrix *m, const tern_gpu_layout *l)
{
    tern_error err = {0};
    float scale = scale_of(m);
    uint32_t n = m->w.rows < 3 ? m->w.rows : 3;
    uint8_t *rows = malloc((size_t)n * l->row_bytes + 1);
    for (uint32_t first = 0; first + n <= m->w.rows; first += n) {
        memset(rows, 0xa5, (size_t)n * l->row_bytes + 1);
        assert_ok(tern_gpu_pack_rows(l, &m->w, first, n, rows, &err), err);
        assert_int_equal(rows[(size_t)n * l->row_bytes], 0xa5);
        for (uint32_t r = 0; r < n; r++)
            for (uint32_t c = 0; c < m->w.cols; c++) {
                float got = element(l, rows + (size_t)r * l->row_bytes, c) * scale,
                      want = m->values[(size_t)(first + r) * m->w.cols + c];
                if (!(got == want))
                    fail_msg("%s: row %u, column %u: %a found, %a expected", m->w.encoding->name, first + r, c, got,
                             want);
            }
    }
    free(rows);
}

/* And back: dense rows byte by byte, those that were rewritten as numbers, codes as codes. */
static void check_way_back(const matrix *m, const tern_gpu_layout *l)
{
    tern_error err = {0};
    const tern_encoding *e = tern_gpu_unpacked(l, &m->w);
    const size_t n = (size_t)m->w.rows * m->w.cols;
    size_t bytes;
    assert_ok(tern_encoding_bytes(e, m->w.rows, m->w.cols, &bytes, &err), err);
    const size_t body = bytes - e->tail_bytes;
    uint8_t *rows = malloc((size_t)m->w.rows * l->row_bytes), *back = malloc(bytes + 1);
    memset(back, 0xa5, bytes + 1);
    assert_ok(tern_gpu_pack_rows(l, &m->w, 0, m->w.rows, rows, &err), err);
    assert_ok(tern_gpu_unpack_rows(l, &m->w, rows, m->w.rows, back, &err), err);
    assert_int_equal(back[body], 0xa5);
    if (e == m->w.encoding) {
        assert_memory_equal(back, m->bytes, body);
    } else if (!e->ternary) {
        float *got = malloc(n * sizeof *got);
        assert_ok(tern_decode_rows(e, back, m->w.rows, m->w.cols, 0, m->w.rows, got, &err), err);
        assert_memory_equal(got, m->values, n * sizeof *got);
        free(got);
    } else {
        int8_t *want = malloc(n), *got = malloc(n);
        tern_store_f32(back + body, 1.0f);
        assert_ok(tern_decode_codes(m->w.encoding, m->bytes, m->w.rows, m->w.cols, 0, m->w.rows, want, NULL, NULL, NULL,
                                    &err),
                  err);
        assert_ok(tern_decode_codes(e, back, m->w.rows, m->w.cols, 0, m->w.rows, got, NULL, NULL, NULL, &err), err);
        assert_memory_equal(got, want, n);
        free(want);
        free(got);
    }
    free(rows);
    free(back);
}

static const struct {
    tern_encoding_id id;
    tern_gpu_format format;
    uint32_t cols, row_bytes;
    bool is_file;
} cases[] = {
    {TERN_ENC_F32, TERN_GPU_F32, 64, 256, true},         {TERN_ENC_F32, TERN_GPU_F32, 7, 32, false},
    {TERN_ENC_F16, TERN_GPU_F16, 2560, 5120, true},      {TERN_ENC_F16, TERN_GPU_F16, 33, 80, false},
    {TERN_ENC_BF16, TERN_GPU_BF16, 64, 128, true},       {TERN_ENC_BF16, TERN_GPU_BF16, 9, 32, false},
    {TERN_ENC_Q8_0, TERN_GPU_Q8_0, 2560, 2720, false},   {TERN_ENC_Q8_0, TERN_GPU_Q8_0, 96, 112, false},
    {TERN_ENC_Q6_K, TERN_GPU_Q6_K, 512, 432, false},     {TERN_ENC_Q6_K, TERN_GPU_Q6_K, 2560, 2112, false},
    {TERN_ENC_Q3_K, TERN_GPU_Q3_K, 512, 224, false},     {TERN_ENC_Q2_K, TERN_GPU_Q2_K, 512, 176, false},
    {TERN_ENC_Q5_1, TERN_GPU_Q5_1, 96, 80, false},       {TERN_ENC_Q5_0, TERN_GPU_Q5_0, 96, 80, false},
    {TERN_ENC_Q4_1, TERN_GPU_Q4_1, 96, 64, false},       {TERN_ENC_Q4_0, TERN_GPU_Q4_0, 96, 64, false},
    {TERN_ENC_IQ4_NL, TERN_GPU_IQ4_NL, 64, 48, false},   {TERN_ENC_Q2_0, TERN_GPU_Q2_0, 192, 64, false},
    {TERN_ENC_MXFP4, TERN_GPU_MXFP4, 96, 64, false},     {TERN_ENC_MXFP4, TERN_GPU_MXFP4, 512, 272, false},
    {TERN_ENC_Q1_0, TERN_GPU_Q1_0, 384, 64, false},      {TERN_ENC_PQ2_0, TERN_GPU_Q2_0, 384, 112, false},
    {TERN_ENC_PTQ1_0, TERN_GPU_Q2_0, 384, 112, false},   {TERN_ENC_Q4_K, TERN_GPU_Q4_K, 512, 288, true},
    {TERN_ENC_Q5_K, TERN_GPU_Q5_K, 512, 352, true},      {TERN_ENC_I2_S, TERN_GPU_TERNARY, 384, 96, true},
    {TERN_ENC_I2_S, TERN_GPU_TERNARY, 64, 32, false},    {TERN_ENC_TQ2_0, TERN_GPU_TERNARY, 256, 64, false},
    {TERN_ENC_TQ1_0, TERN_GPU_TERNARY, 512, 128, false}, {TERN_ENC_T160, TERN_GPU_TERNARY, 6912, 1728, false},
    {TERN_ENC_T160, TERN_GPU_TERNARY, 130, 64, false},
};

static void rows_hold_the_same_numbers(void **state)
{
    (void)state;
    test_seed(&rng);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        matrix m = make(cases[i].id, 6, cases[i].cols, false);
        tern_gpu_layout l;
        tern_error err = {0};
        assert_ok(tern_gpu_layout_of(&l, &m.w, &roomy, &err), err);
        assert_int_equal(l.format, cases[i].format);
        assert_int_equal(l.row_bytes, cases[i].row_bytes);
        assert_int_equal(l.n_slices, 1);
        assert_int_equal(l.slice_rows, 6);
        assert_int_equal(l.bytes, (6 * l.row_bytes + 255) / 256 * 256);
        assert_int_equal(tern_gpu_layout_is_file(&l, &m.w), cases[i].is_file);
        check_rows(&m, &l);
        check_way_back(&m, &l);
        drop(&m);
    }
}

/* What lies past the last column of a row counts as zero. */
static void padding_is_zero(void **state)
{
    (void)state;
    test_seed(&rng);
    matrix m = make(TERN_ENC_I2_S, 2, 64, false), f = make(TERN_ENC_F16, 2, 33, false);
    tern_gpu_layout l;
    tern_error err = {0};
    uint8_t row[80];
    assert_ok(tern_gpu_layout_of(&l, &m.w, &roomy, &err), err);
    assert_ok(tern_gpu_pack_rows(&l, &m.w, 1, 1, row, &err), err);
    for (uint32_t c = 64; c < 128; c++) assert_true(element(&l, row, c) == 0.0f);
    assert_ok(tern_gpu_layout_of(&l, &f.w, &roomy, &err), err);
    assert_ok(tern_gpu_pack_rows(&l, &f.w, 1, 1, row, &err), err);
    for (uint32_t c = 33; c < 40; c++) assert_true(element(&l, row, c) == 0.0f);
    drop(&m);
    drop(&f);
}

static tern_weight described(tern_encoding_id id, uint32_t rows, uint32_t cols, const float *row_scales)
{
    return (tern_weight){
        .encoding = tern_encoding_find(id), .rows = rows, .cols = cols, .row_scales = row_scales, .name = "described"};
}

static void slices(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_gpu_layout l;
    float scale = 1.0f;
    /* the head of the 2B4T model where bindings have 128 MiB: 26,214 rows would fit */
    tern_weight head = described(TERN_ENC_F16, 128256, 2560, NULL);
    assert_ok(tern_gpu_layout_of(&l, &head, &roomy, &err), err);
    assert_int_equal(l.slice_rows, 26112);
    assert_int_equal(l.n_slices, 5);
    assert_int_equal(l.slice_bytes, 26112ull * 5120);
    assert_int_equal(l.scales_offset, 0);
    tern_gpu_caps large = {.max_binding = 2147483648u};
    assert_ok(tern_gpu_layout_of(&l, &head, &large, &err), err);
    assert_int_equal(l.n_slices, 1);
    assert_int_equal(l.bytes, 128256ull * 5120);
    /* fewer rows than a tile, and row scales behind them */
    tern_gpu_caps small = {.max_binding = 1000};
    tern_weight scaled = described(TERN_ENC_I2_S, 50, 256, &scale);
    assert_ok(tern_gpu_layout_of(&l, &scaled, &small, &err), err);
    assert_int_equal(l.slice_rows, 11); /* 768 / 68 */
    assert_int_equal(l.n_slices, 5);
    assert_int_equal(l.scales_offset, 11 * 64);
    assert_int_equal(l.slice_bytes, 768);
    assert_int_equal(l.bytes, 5 * 768);
}

static void too_long_a_row(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_gpu_layout l;
    tern_gpu_caps small = {.max_binding = 1000};
    tern_weight w = described(TERN_ENC_F32, 4, 256, NULL);
    assert_int_equal(tern_gpu_layout_of(&l, &w, &small, &err), TERN_UNSUPPORTED);
    assert_string_equal(err.message, "described: rows of 1024 bytes: the device binds at most 1000");
}

static void out_of_memory(void **state)
{
    (void)state;
    test_seed(&rng);
    matrix m = make(TERN_ENC_TQ2_0, 2, 256, false);
    tern_gpu_layout l;
    tern_error err = {0};
    uint8_t rows[128];
    assert_ok(tern_gpu_layout_of(&l, &m.w, &roomy, &err), err);
    tern_alloc_fail_after(1, false);
    assert_int_equal(tern_gpu_pack_rows(&l, &m.w, 0, 2, rows, &err), TERN_OUT_OF_MEMORY);
    tern_alloc_fail_after(0, false);
    drop(&m);
}

/* A dense weight that is trained has to lie as it is read; the message says what would help. */
static void refused(const char *encoding, uint32_t rows, uint32_t cols, const char *expected)
{
    const tern_weight w = {
        .encoding = tern_encoding_by_name(encoding), .rows = rows, .cols = cols, .trained = true, .name = "w"};
    tern_gpu_layout layout;
    tern_error err = {0};
    assert_int_equal(tern_gpu_layout_of(&layout, &w, &roomy, &err), TERN_UNSUPPORTED);
    if (!strstr(err.message, expected)) fail_msg("\"%s\", \"%s\" expected", err.message, expected);
}

static void weights_that_cannot_be_trained(void **state)
{
    (void)state;
    refused("bf16", 2, 12, "rows of 24 bytes: a multiple of 16 expected");
    refused("f32", 40000, 1024, "163840000 bytes that is trained: the device binds at most 134217728");
    refused("f16", 2, 16, "a weight in f16 that is trained: f32 or bf16 expected");
    refused("i2_s", 2, 128, "a scale for each row expected");
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(rows_hold_the_same_numbers),
    cmocka_unit_test(padding_is_zero),
    cmocka_unit_test(slices),
    cmocka_unit_test(too_long_a_row),
    cmocka_unit_test(out_of_memory),
    cmocka_unit_test(weights_that_cannot_be_trained),
};

TEST_GROUP(layout, "", tests);
