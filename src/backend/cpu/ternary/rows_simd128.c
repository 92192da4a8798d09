/* The ternary encodings on WebAssembly SIMD128, for a few tokens.
 *
 * The one fast product is of pairs of 16-bit numbers, summed to 32 bits. So activations are first laid out as 16-bit
 * numbers in the order in which the fields of packed bytes meet them, those of even bytes apart from those of odd ones.
 * Fields are not shifted down: a mask leaves code << 2 k, whose activation is shifted up by 6 - 2 k, and the sum of a
 * row is 64 times what it should be. No sum over CHUNK columns passes 2 * 64 * 128 * CHUNK, which 32 bits hold. */
#include <string.h>

#include "backend/cpu/ternary/rows_simd128.h"

#include "backend/cpu/ternary/ternary.h"

enum { CHUNK = 7680, ROWS = 4 }; /* columns laid out at once: a multiple of every block; rows that share them */

/* No load crosses it: compilers would load a block's activations first, for which there are no registers. */
#define IN_ORDER __asm__ volatile("" ::: "memory")
#define ALWAYS   static inline __attribute__((always_inline))

ALWAYS v128_t even_of(const int8_t *x)
{
    return wasm_i16x8_shr(wasm_i16x8_shl(wasm_v128_load(x), 8), 8);
}

ALWAYS v128_t odd_of(const int8_t *x)
{
    return wasm_i16x8_shr(wasm_v128_load(x), 8);
}

ALWAYS sums add_products(sums s, v128_t codes, v128_t x)
{
    return wasm_i32x4_add(s, wasm_i32x4_dot_i16x8(codes, x));
}

/* 16 bytes of four fields: x is that of the lowest field, `apart` from there to the next field's. */
ALWAYS void arrange_fields(const int8_t *x, int apart, int16_t *to)
{
    TERN_UNROLL for (int k = 0; k < 4; k++, x += apart)
    {
        wasm_v128_store(to + 8 * k, wasm_i16x8_shl(even_of(x), 6 - 2 * (uint32_t)k));
        wasm_v128_store(to + 8 * k + 32, wasm_i16x8_shl(odd_of(x), 6 - 2 * (uint32_t)k));
    }
}

/* 16 bytes of four fields of each row. */
ALWAYS void add_fields(v128_t *bytes, const int16_t *x, sums *s)
{
    TERN_UNROLL for (int k = 0; k < 8; k++)
    {
        const v128_t xk = wasm_v128_load(x + 8 * k), mask = wasm_i16x8_splat((int16_t)(3 << 2 * (k % 4)));
        IN_ORDER;
        TERN_UNROLL for (int r = 0; r < ROWS; r++)
        {
            if (k == 4) bytes[r] = wasm_u16x8_shr(bytes[r], 8);
            s[r] = add_products(s[r], wasm_v128_and(bytes[r], mask), xk);
        }
    }
}

/* The block at `offset` of each row w[r]: here n_bytes of two-bit fields. */
ALWAYS void add_two_bit(const uint8_t *const *w, size_t offset, size_t n_bytes, const int16_t *x, sums *s)
{
    for (size_t at = 0; at < n_bytes; at += 16) {
        v128_t bytes[ROWS];
        TERN_UNROLL for (int r = 0; r < ROWS; r++) bytes[r] = wasm_v128_load(w[r] + offset + at);
        add_fields(bytes, x + 4 * at, s);
    }
}

static void arrange_i2_s(const int8_t *x, int16_t *to)
{
    for (int at = 0; at < 32; at += 16) arrange_fields(x + 96 + at, -32, to + 4 * at);
}

ALWAYS void add_i2_s(const uint8_t *const *w, size_t offset, const int16_t *x, sums *s)
{
    add_two_bit(w, offset, 32, x, s);
}

static void arrange_tq2_0(const int8_t *x, int16_t *to)
{
    for (int at = 0; at < 64; at += 16) arrange_fields(x + at / 32 * 128 + at % 32, 32, to + 4 * at);
}

ALWAYS void add_tq2_0(const uint8_t *const *w, size_t offset, const int16_t *x, sums *s)
{
    add_two_bit(w, offset, 64, x, s);
}

static void arrange_t160(const int8_t *x, int16_t *to)
{
    for (int at = 0; at < TERN_T160_BYTES; at += 16, to += 80) {
        arrange_fields(x + at, TERN_T160_BYTES, to);
        wasm_v128_store(to + 64, wasm_i16x8_shl(even_of(x + 4 * TERN_T160_BYTES + at), 6));
        wasm_v128_store(to + 72, wasm_i16x8_shl(odd_of(x + 4 * TERN_T160_BYTES + at), 6));
    }
}

ALWAYS void add_t160(const uint8_t *const *w, size_t offset, const int16_t *x, sums *s)
{
    const v128_t three = wasm_i16x8_splat(3);
    for (int at = 0; at < TERN_T160_BYTES; at += 16, x += 80) {
        v128_t four[ROWS];
        TERN_UNROLL for (int r = 0; r < ROWS; r++)
        {
            v128_t fifth;
            fields_t160(wasm_v128_load(w[r] + offset + at), &four[r], &fifth);
            s[r] = add_products(s[r], wasm_v128_and(fifth, three), wasm_v128_load(x + 64));
            s[r] = add_products(s[r], wasm_v128_and(wasm_u16x8_shr(fifth, 8), three), wasm_v128_load(x + 72));
        }
        add_fields(four, x, s);
    }
}

/* Digits in base 3 are not taken from each other. With q(n) = floor(3^(n+1) byte / 256), digit n is q(n) - 3 q(n-1).
 * The sum of digit n times x(n) is therefore that of q(n) times x(n) - 3 x(n+1). */
ALWAYS v128_t minus_thrice(v128_t x, v128_t next)
{
    return wasm_i16x8_sub(x, wasm_i16x8_add(wasm_i16x8_add(next, next), next));
}

/* 16 bytes of five digits, `apart` elements from digit to digit. */
static void arrange_digits(const int8_t *x, int apart, int16_t *to)
{
    v128_t even = wasm_i16x8_splat(0), odd = even;
    for (int n = 4; n >= 0; n--) {
        const v128_t e = even_of(x + n * apart), o = odd_of(x + n * apart);
        wasm_v128_store(to + 8 * n, minus_thrice(e, even));
        wasm_v128_store(to + 8 * n + 40, minus_thrice(o, odd));
        even = e;
        odd = o;
    }
}

/* The last 16 elements are four digits of four bytes. */
static void arrange_tq1_0(const int8_t *x, int16_t *to)
{
    int16_t last[20] = {0};
    arrange_digits(x, 32, to);
    arrange_digits(x + 16, 32, to + 80);
    arrange_digits(x + 160, 16, to + 160);
    for (int i = 0; i < 16; i++) last[i] = x[240 + i];
    for (int i = 0; i < 16; i++) to[240 + i] = (int16_t)(last[i] - 3 * last[i + 4]);
}

ALWAYS sums add_digits(sums s, v128_t bytes, v128_t powers, const int16_t *x)
{
    return add_products(s, wasm_u16x8_shr(wasm_i16x8_mul(bytes, powers), 8), wasm_v128_load(x));
}

ALWAYS void add_tq1_0(const uint8_t *const *w, size_t offset, const int16_t *x, sums *s)
{
    static const int16_t power[5] = {3, 9, 27, 81, 243};
    for (int at = 0; at < TERN_TQ1_0_FOURS; at += 16, x += 80) {
        v128_t even[ROWS], odd[ROWS];
        TERN_UNROLL for (int r = 0; r < ROWS; r++)
        {
            const v128_t bytes = wasm_v128_load(w[r] + offset + at);
            even[r] = wasm_v128_and(bytes, wasm_i16x8_splat(0xff));
            odd[r] = wasm_u16x8_shr(bytes, 8);
        }
        TERN_UNROLL for (int k = 0; k < 5; k++)
        {
            const v128_t powers = wasm_i16x8_splat(power[k]);
            IN_ORDER;
            TERN_UNROLL for (int r = 0; r < ROWS; r++)
            {
                s[r] = add_digits(s[r], even[r], powers, x + 8 * k);
                s[r] = add_digits(s[r], odd[r], powers, x + 8 * k + 40);
            }
        }
    }
    TERN_UNROLL for (int r = 0; r < ROWS; r++)
    {
        const v128_t bytes = wasm_u16x8_extend_low_u8x16(wasm_v128_load32_splat(w[r] + offset + TERN_TQ1_0_FOURS));
        s[r] = add_digits(s[r], bytes, wasm_i16x8_const(3, 3, 3, 3, 9, 9, 9, 9), x);
        s[r] = add_digits(s[r], bytes, wasm_i16x8_const(27, 27, 27, 27, 81, 81, 81, 81), x + 8);
    }
}

/* Rows r .. r + ROWS - 1; those past the end repeat the last. */
ALWAYS void take_rows(const tern_cpu__product *p, uint32_t r, size_t offset, const uint8_t **w)
{
    for (uint32_t i = 0; i < ROWS; i++)
        w[i] = p->w + (r + i < p->n_rows ? r + i : p->n_rows - 1) * p->row_bytes + offset;
}

/* Sums << shift of rows r .. r + ROWS - 1 to dots. */
ALWAYS void add_totals(const tern_cpu__product *p, uint32_t r, const sums *s, uint32_t shift, int32_t *dots)
{
    for (uint32_t i = 0; i < ROWS && r + i < p->n_rows; i++) dots[r + i] += total(s[i]) >> shift;
}

/* Defines the product of one token with all rows, CHUNK columns at a time. */
#define GEMV(slot, elements, bytes, shift)                                                                             \
    static void chunk_##slot(const tern_cpu__product *p, const int8_t *x, size_t first, uint32_t n, int32_t *dots)     \
    {                                                                                                                  \
        int16_t arranged[CHUNK];                                                                                       \
        for (uint32_t i = 0; i < n; i++) arrange_##slot(x + (first + i) * (elements), arranged + i * (elements));      \
        for (uint32_t r = 0; r < p->n_rows; r += ROWS) {                                                               \
            const uint8_t *w[ROWS];                                                                                    \
            sums s[ROWS] = {zero(), zero(), zero(), zero()};                                                           \
            take_rows(p, r, first *(bytes), w);                                                                        \
            for (size_t i = 0; i < n; i++) add_##slot(w, i *(bytes), arranged + i * (elements), s);                    \
            add_totals(p, r, s, shift, dots);                                                                          \
        }                                                                                                              \
    }                                                                                                                  \
    static void gemv_##slot(const tern_cpu__product *p, const int8_t *x, int32_t sum, int32_t *dots)                   \
    {                                                                                                                  \
        const uint32_t n_blocks = p->cols / (elements), most = CHUNK / (elements);                                     \
        for (uint32_t r = 0; r < p->n_rows; r++) dots[r] = -sum;                                                       \
        for (uint32_t at = 0; at < n_blocks; at += most)                                                               \
            chunk_##slot(p, x, at, n_blocks - at < most ? n_blocks - at : most, dots);                                 \
    }
GEMV(i2_s, 128, 32, 6)
GEMV(tq2_0, 256, 66, 6)
GEMV(tq1_0, TERN_TQ1_0_ELEMENTS, TERN_TQ1_0_BYTES, 0)
GEMV(t160, TERN_T160_ELEMENTS, TERN_T160_BYTES, 6)

/* The shorter block that a row of t160 may end in: its codes lie `lanes` apart, and activations are laid out like those
 * of a whole block, 0 where there is no element. */
static void add_short_t160(const tern_cpu__product *p, const int8_t *x, int32_t *dots)
{
    const uint32_t n = p->cols % TERN_T160_ELEMENTS, lanes = (uint32_t)tern_t160_lanes(n), before = p->cols - n;
    int8_t spread[TERN_T160_ELEMENTS] = {0};
    int16_t arranged[TERN_T160_ELEMENTS];
    for (uint32_t i = 0; i < n; i++) spread[i / lanes * TERN_T160_BYTES + i % lanes] = x[before + i];
    arrange_t160(spread, arranged);
    for (uint32_t r = 0; r < p->n_rows; r += ROWS) {
        uint8_t bytes[ROWS][TERN_T160_BYTES] = {0};
        const uint8_t *w[ROWS], *const blocks[ROWS] = {bytes[0], bytes[1], bytes[2], bytes[3]};
        sums s[ROWS] = {zero(), zero(), zero(), zero()};
        take_rows(p, r, before / TERN_T160_ELEMENTS * TERN_T160_BYTES, w);
        for (int i = 0; i < ROWS; i++) memcpy(bytes[i], w[i], lanes);
        add_t160(blocks, 0, arranged, s);
        add_totals(p, r, s, 6, dots);
    }
}

/* Raw codes for the gemm (tern_cpu__codes_fn). */
#define UNPACK(slot, elements, bytes)                                                                                  \
    static void unpack_##slot(const uint8_t *row, uint32_t cols, uint32_t first, uint32_t n, uint8_t *out)             \
    {                                                                                                                  \
        (void)cols;                                                                                                    \
        row += first / (elements) * (bytes);                                                                           \
        for (uint32_t i = 0; i < n / (elements); i++, row += (bytes), out += (elements)) {                             \
            codes c[(elements) / WIDTH];                                                                               \
            decode_##slot(row, c);                                                                                     \
            for (uint32_t v = 0; v < (elements) / WIDTH; v++) store(out + v * WIDTH, c[v]);                            \
        }                                                                                                              \
    }
UNPACK(i2_s, 128, 32)
UNPACK(tq2_0, 256, 66)
UNPACK(tq1_0, TERN_TQ1_0_ELEMENTS, TERN_TQ1_0_BYTES)
UNPACK(t160, TERN_T160_ELEMENTS, TERN_T160_BYTES)

static void unpack_ragged_t160(const uint8_t *row, uint32_t cols, uint32_t first, uint32_t n, uint8_t *out)
{
    const uint32_t rest = n % TERN_T160_ELEMENTS, lanes = (uint32_t)tern_t160_lanes(rest), whole = n - rest;
    uint8_t bytes[TERN_T160_BYTES] = {0}, raw[TERN_T160_ELEMENTS];
    unpack_t160(row, cols, first, whole, out);
    if (rest == 0) return;
    memcpy(bytes, row + (first + whole) / TERN_T160_ELEMENTS * TERN_T160_BYTES, lanes);
    unpack_t160(bytes, TERN_T160_ELEMENTS, 0, TERN_T160_ELEMENTS, raw);
    for (uint32_t i = 0; i < rest; i++) out[whole + i] = raw[i / lanes * TERN_T160_BYTES + i % lanes];
}

static void gemv_ragged_t160(const tern_cpu__product *p, const int8_t *x, int32_t sum, int32_t *dots)
{
    gemv_t160(p, x, sum, dots);
    if (p->cols % TERN_T160_ELEMENTS) add_short_t160(p, x, dots);
}

/* One token with all rows at once, since activations are laid out again for each call; panels from min_tokens tokens
 * (measured). */
#define KERNEL_OF(slot, gemv, unpack, panel_cols, min_tokens)                                                          \
    void tern_cpu__##slot##_simd128(const uint8_t *w, size_t row_bytes, uint32_t n_rows, uint32_t cols,                \
                                    const tern_q8_rows *x, int32_t *dots, size_t dots_stride)                          \
    {                                                                                                                  \
        const tern_cpu__product p = {w, row_bytes, n_rows, cols, x, dots, dots_stride};                                \
        if (x->n == 1) gemv(&p, x->x, x->sums[0], dots);                                                               \
        else if (x->n < (min_tokens)) tern_cpu__gemv_tokens(gemv, &p);                                                 \
        else tern_cpu__ternary_gemm_simd128(&p, unpack, panel_cols);                                                   \
    }
KERNEL_OF(i2_s, gemv_i2_s, unpack_i2_s, TERN_PANEL_COLS, 4)
KERNEL_OF(tq2_0, gemv_tq2_0, unpack_tq2_0, TERN_PANEL_COLS, 4)
KERNEL_OF(tq1_0, gemv_tq1_0, unpack_tq1_0, TERN_PANEL_COLS, 8)
KERNEL_OF(t160, gemv_ragged_t160, unpack_ragged_t160, TERN_PANEL_COLS_T160, 3)
