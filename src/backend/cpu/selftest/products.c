/* Trials of the kernels that multiply matrices. */
#include <string.h>

#include "backend/cpu/selftest/selftest_internal.h"
#include "base/rng.h"
#include "quant/encoding.h"
#include "quant/rsr.h"

static void encode(tern_selftest__trial *t, tern_encoding_id id)
{
    const tern_encoding *e = tern_encoding_find(id);
    static float values[ROWS * COLS];
    tern_rng rng = {.state = id + 2u};
    for (size_t i = 0; i < ROWS * COLS; i++) values[i] = tern_rng_f32(&rng) - 0.5f;
    memset(t->w, 0, sizeof t->w);
    t->status = tern_encode(e, values, ROWS, COLS, t->w, t->err);
    if (t->status == TERN_OK) t->status = tern_encoding_row_bytes(e, COLS, &t->row_bytes, t->err);
}

/* Kernels have other ways for many tokens: rows that begin `stride` bytes after one another in the memory of few. */
static int32_t sum_of(const int8_t *q, uint32_t n)
{
    int32_t sum = 0;
    for (uint32_t c = 0; c < n; c++) sum += q[c];
    return sum;
}

void tern_selftest__ternary(tern_selftest__trial *t, tern_ternary_fn fn, tern_encoding_id id, void *out)
{
    enum { MANY = 17, STRIDE = 64 };
    int32_t sums[MANY];
    const int8_t *q = (const int8_t *)t->q; /* all rows as one */
    encode(t, id);
    if (t->status != TERN_OK) return;
    tern_q8_rows x = {.x = t->q[0], .stride = COLS, .sums = t->sums, .n = TOKENS};
    fn(t->w, t->row_bytes, ROWS, COLS, &x, out, ROWS);
    x.n = 1;
    fn(t->w, t->row_bytes, ROWS, COLS, &x, (int32_t *)out + TOKENS * ROWS, ROWS);
    for (uint32_t i = 0; i < MANY; i++) sums[i] = sum_of(q + i * STRIDE, COLS);
    x = (tern_q8_rows){.x = q, .stride = STRIDE, .sums = sums, .n = MANY};
    fn(t->w, t->row_bytes, ROWS, COLS, &x, (int32_t *)out + (TOKENS + 1) * ROWS, ROWS);
}

void tern_selftest__columns(tern_selftest__trial *t, tern_columns_fn fn, int32_t *out)
{
    enum { N = 39 };
    uint32_t cols[N];
    encode(t, TERN_ENC_I2_S);
    for (uint32_t i = 0; i < N; i++) cols[i] = i * 17 % N;
    memset(out, 0, TERN_COLUMNS_ROWS * sizeof *out);
    fn(t->w, TERN_COLUMNS_BYTES, cols, t->q[1], N, out);
}

void tern_selftest__screen(tern_selftest__trial *t, tern_screen_fn fn, int32_t *out)
{
    enum { HALVES = 3 };
    _Static_assert((int)HALVES * (int)TERN_SCREEN_HALF <= 2 * (int)COLS, "digits are two rows of q");
    for (uint32_t bits = 1; bits <= 3; bits++, out += 2 * ROWS)
        fn(t->w, ROWS, HALVES, bits, t->q[0], t->q[TOKENS - 2], out);
}

static tern_status trial_codes(void *context, uint32_t first, uint32_t n, int8_t *codes, tern_error *err)
{
    (void)err;
    const tern_selftest__trial *t = context;
    for (size_t i = 0; i < (size_t)n * COLS; i++) {
        const size_t at = (first * COLS + i * 7) % (TOKENS * COLS);
        codes[i] = (int8_t)((uint8_t)t->q[at / COLS][at % COLS] % 3 - 1);
    }
    return TERN_OK;
}

/* One unit, with q as its inputs. */
void tern_selftest__rsr(tern_selftest__trial *t, uint32_t n_tokens, tern_rsr_i8_fn fn, void *out)
{
    enum { K = 5 };
    const tern_rsr_source source = {.read = trial_codes, .context = t, .rows = K, .cols = COLS};
    tern_rsr_slices s;
    t->status = tern_rsr_slices_build(&s, &source, &(tern_rsr_options){.k = K}, 0, t->err);
    if (t->status != TERN_OK) return;
    const tern_rsr_unit u = {s.lengths, s.masks, s.index, s.first_slice[1], K};
    int8_t x[4 * (COLS + 1)] = {0};
    for (uint32_t c = 0; c < n_tokens * COLS; c++) x[c] = t->q[c % TOKENS][c / n_tokens];
    fn(&u, x, out);
    tern_rsr_slices_deinit(&s);
}

/* Any bytes are codes (but bit 0 of signs, which is 1): those that no matrix has find zeros. */
void tern_selftest__lut(tern_selftest__trial *t, uint32_t width, tern_lut_fn fn, tern_lut_tables_fn tables, void *out)
{
    _Alignas(64) static int8_t sums[LUT_COLS / 4 * TERN_LUT5_TABLE];
    const uint32_t n = LUT_COLS / tern_lut_group_cols(width), bytes = tern_lut_group_bytes(width);
    tern_rng rng = {.state = 9};
    for (uint32_t i = 0; i < n * bytes * TERN_LUT_ROWS; i++)
        t->w[i] = (uint8_t)(tern_rng_u64(&rng) | (width == 3 && i / TERN_LUT3_ROWS % bytes < TERN_LUT3_SIGNS));
    tables(t->q[2], n * tern_lut_group_cols(width), sums);
    fn(t->w, sums, n, out);
}

void tern_selftest__dense(tern_selftest__trial *t, tern_dense_fn fn, tern_encoding_id id, void *out)
{
    encode(t, id);
    if (t->status != TERN_OK) return;
    fn(t->w, t->row_bytes, ROWS, COLS, t->x[0], COLS, TOKENS, out, ROWS);
    fn(t->w, t->row_bytes, ROWS, COLS, t->x[0], COLS, 1, (float *)out + TOKENS * ROWS, ROWS);
}

void tern_selftest__blocks(tern_selftest__trial *t, tern_blocks_fn fn, tern_encoding_id id, void *out)
{
    enum { MANY = 21, STRIDE = 32, RUNS = COLS / TERN_BLOCKS_RUN };
    int8_t q[TOKENS * COLS];
    float scales[MANY * COLS / 32];
    int32_t sums[MANY * RUNS];
    encode(t, id);
    if (t->status != TERN_OK) return;
    const uint32_t block = tern_encoding_find(id)->block_elements;
    for (int i = 0; i < TOKENS; i++)
        tern_ref_quantize_blocks(t->x[i], COLS, block, q + i * COLS, scales + i * (int)(COLS / block), sums + i * RUNS);
    tern_q8_blocks x = {.x = q, .scales = scales, .sums = sums, .stride = COLS, .n = TOKENS};
    fn(t->w, t->row_bytes, ROWS, COLS, &x, out, ROWS);
    x.n = 1;
    fn(t->w, t->row_bytes, ROWS, COLS, &x, (float *)out + TOKENS * ROWS, ROWS);
    for (uint32_t i = 0; i < MANY * RUNS; i++)
        sums[i] = sum_of(q + i / RUNS * STRIDE + i % RUNS * TERN_BLOCKS_RUN, TERN_BLOCKS_RUN);
    for (uint32_t i = TOKENS * COLS / block; i < MANY * COLS / block; i++) scales[i] = scales[i % TOKENS];
    x.stride = STRIDE;
    x.n = MANY;
    fn(t->w, t->row_bytes, ROWS, COLS, &x, (float *)out + (TOKENS + 1) * ROWS, ROWS);
}

/* Both ways to read a, in f32 and in bf16; every tile has an edge. */
void tern_selftest__gemm(tern_selftest__trial *t, tern_gemm_fn fn, float *out)
{
    static float workspace[TERN_GEMM_WORKSPACE];
    tern_gemm_args g = {.m = 19,
                        .n = 61,
                        .k = 23,
                        .a = t->x[0],
                        .a_stride = 23,
                        .b = t->x[1],
                        .b_stride = 16,
                        .c = out,
                        .c_stride = 61,
                        .workspace = workspace};
    fn(&g);
    g.a_columns = true;
    g.a_scales = t->x[2];
    g.a_stride = 19;
    fn(&g);
    g.bf16 = true;
    fn(&g);
    g.a_columns = false;
    g.a_stride = 23;
    fn(&g);
}

void tern_selftest__decode(tern_selftest__trial *t, tern_decode_fn fn, tern_encoding_id id, float *out)
{
    encode(t, id);
    if (t->status != TERN_OK) return;
    fn(t->w, t->row_bytes, ROWS, COLS, out, COLS);
    for (int i = 0; i < ROWS * COLS; i++) out[i] += 0.0f; /* zeros may have either sign */
}
