/* The RSR kernels of every level against their definition: every k, random and extreme codes and inputs, an unreadable
 * page behind every operand; and whole products of the candidate against plain dot products. */
#include "support/test.h"

#include "backend/cpu/candidates/candidates.h"
#include "backend/cpu/kernels.h"
#include "quant/rsr.h"
#include "support/guard.h"
#include "support/kernels.h"

typedef enum fill { RANDOM, ALL_EQUAL, ALL_ZERO, SPARSE, N_FILLS } fill;

typedef struct matrix {
    uint32_t rows, cols;
    int8_t *codes;
} matrix;

static tern_rng rng;

static matrix make(uint32_t rows, uint32_t cols, fill f)
{
    matrix m = {.rows = rows, .cols = cols, .codes = malloc((size_t)rows * cols)};
    assert_non_null(m.codes);
    const int8_t one = (int8_t)((int)test_between(&rng, 0, 1) * 2 - 1);
    for (size_t i = 0; i < (size_t)rows * cols; i++) {
        m.codes[i] = f == ALL_EQUAL ? one : f == ALL_ZERO ? 0 : (int8_t)((int)test_between(&rng, 0, 2) - 1);
        if (f == SPARSE && test_between(&rng, 0, 20)) m.codes[i] = 0;
    }
    return m;
}

static tern_status read_rows(void *context, uint32_t first, uint32_t n, int8_t *codes, tern_error *err)
{
    (void)err;
    const matrix *m = context;
    memcpy(codes, m->codes + (size_t)first * m->cols, (size_t)n * m->cols);
    return TERN_OK;
}

static tern_rsr_slices slices_of(matrix *m, uint32_t k)
{
    const tern_rsr_source source = {.read = read_rows, .context = m, .rows = m->rows, .cols = m->cols};
    tern_rsr_slices s;
    tern_error err = {0};
    assert_ok(tern_rsr_slices_build(&s, &source, &(tern_rsr_options){.k = k}, 0, &err), err);
    return s;
}

/* A copy that ends at an unreadable page. */
static const void *guarded(test_guard *g, const void *bytes, size_t n)
{
    return memcpy(test_guard_lend(g, n, false), bytes, n);
}

typedef struct operands {
    test_guard lengths, masks, index, x;
} operands;

static tern_rsr_unit unit_of(operands *o, const tern_rsr_slices *s, uint32_t unit)
{
    const uint32_t slice = s->first_slice[unit], n = s->first_slice[unit + 1] - slice;
    const size_t n_index = (size_t)(s->first_vector[unit + 1] - s->first_vector[unit]) * 16;
    return (tern_rsr_unit){.lengths = guarded(&o->lengths, s->lengths + slice, n * 2),
                           .masks = guarded(&o->masks, s->masks + (size_t)slice * 2 * s->k, (size_t)n * 4 * s->k),
                           .index = guarded(&o->index, s->index + (size_t)s->first_vector[unit] * 16, n_index * 2),
                           .n_slices = n,
                           .k = s->k};
}

static bool same_i8(operands *o, const tern_rsr_unit *u, uint32_t cols, int extreme, tern_rsr_i8_fn fn)
{
    int32_t want[17], got[17];
    int8_t *x = test_guard_lend(&o->x, cols + 4, false);
    memset(x, 0, cols + 4);
    for (uint32_t c = 0; c < cols; c++)
        x[c] = extreme ? (int8_t)(extreme < 0 ? -128 : 127) : (int8_t)test_between(&rng, 0, 255);
    memset(x + cols + 1, 0x55, 3); /* readable, but no inputs */
    for (int i = 0; i < 17; i++) want[i] = got[i] = (int32_t)tern_rng_u64(&rng) >> 4;
    tern_ref_rsr_i8(u, x, want);
    fn(u, x, got);
    return memcmp(want, got, sizeof want) == 0;
}

static bool same_i8x4(operands *o, const tern_rsr_unit *u, uint32_t cols, int extreme, tern_rsr_i8x4_fn fn)
{
    int32_t want[4 * TERN_RSR_Y + 1], got[4 * TERN_RSR_Y + 1];
    int8_t *x = test_guard_lend(&o->x, 4 * ((size_t)cols + 1), false);
    for (size_t c = 0; c < 4 * (size_t)cols; c++)
        x[c] = extreme ? (int8_t)(extreme < 0 ? -128 : 127) : (int8_t)test_between(&rng, 0, 255);
    memset(x + 4 * (size_t)cols, 0, 4);
    for (int i = 0; i <= 4 * TERN_RSR_Y; i++) want[i] = got[i] = (int32_t)tern_rng_u64(&rng) >> 4;
    tern_ref_rsr_i8x4(u, x, want);
    fn(u, x, got);
    return memcmp(want, got, sizeof want) == 0;
}

/* The definition for 4 tokens, against that for one. */
static void check_four(operands *o, const tern_rsr_unit *u, uint32_t cols)
{
    int8_t four[4 * 401] = {0};
    int32_t y[4 * TERN_RSR_Y] = {0};
    if (cols > 400) return;
    for (uint32_t c = 0; c < 4 * cols; c++) four[c] = (int8_t)test_between(&rng, 0, 255);
    tern_ref_rsr_i8x4(u, four, y);
    for (uint32_t t = 0; t < 4; t++) {
        int8_t *x = test_guard_lend(&o->x, cols + 4, false);
        int32_t want[16] = {0};
        memset(x, 0, cols + 4);
        for (uint32_t c = 0; c < cols; c++) x[c] = four[4 * c + t];
        tern_ref_rsr_i8(u, x, want);
        assert_memory_equal(want, y + t * TERN_RSR_Y, u->k * sizeof *want);
    }
}

static void check_unit(operands *o, const tern_rsr_unit *u, uint32_t cols)
{
    const test_kernel *k;
    for (size_t at = 0; (k = test_kernel_next("rsr_i8", &at));)
        for (int extreme = -1; extreme <= 1; extreme++)
            if (!same_i8(o, u, cols, extreme, (tern_rsr_i8_fn)k->fn))
                fail_msg("rsr_i8 %s: k %u, %u columns, extreme %d", k->level, u->k, cols, extreme);
    check_four(o, u, cols);
    for (size_t at = 0; (k = test_kernel_next("rsr_i8x4", &at));)
        for (int extreme = -1; extreme <= 1; extreme++)
            if (!same_i8x4(o, u, cols, extreme, (tern_rsr_i8x4_fn)k->fn))
                fail_msg("rsr_i8x4 %s: k %u, %u columns, extreme %d", k->level, u->k, cols, extreme);
}

static operands open_operands(uint32_t max_cols)
{
    const size_t bytes = (size_t)max_cols * 64 + 65536;
    return (operands){test_guard_open(bytes), test_guard_open(bytes), test_guard_open(bytes), test_guard_open(bytes)};
}

static void close_operands(operands *o)
{
    test_guard_close(&o->lengths);
    test_guard_close(&o->masks);
    test_guard_close(&o->index);
    test_guard_close(&o->x);
}

static void check(operands *o, uint32_t k, uint32_t rows, uint32_t cols, fill f)
{
    matrix m = make(rows, cols, f);
    tern_rsr_slices s = slices_of(&m, k);
    for (uint32_t u = 0; u < s.n_blocks; u++) {
        const tern_rsr_unit unit = unit_of(o, &s, u);
        check_unit(o, &unit, cols);
    }
    tern_rsr_slices_deinit(&s);
    free(m.codes);
}

static void every_k(void **state)
{
    (void)state;
    operands o = open_operands(3000);
    for (uint32_t k = 1; k <= 16; k++)
        for (int f = 0; f < N_FILLS; f++) {
            check(&o, k, test_between(&rng, 1, 2 * k), test_between(&rng, 1, 400), (fill)f);
            check(&o, k, k, test_between(&rng, 1000, 2560), (fill)f);
        }
    close_operands(&o);
}

static void widest_panel(void **state)
{
    (void)state;
    operands o = open_operands(65535);
    for (int f = 0; f < N_FILLS; f++) check(&o, 5, 5, 65535, (fill)f);
    close_operands(&o);
}

/* Broken kernels that the checks above must catch. */

static void forgets_last_slice(const tern_rsr_unit *u, const int8_t *x, int32_t *y)
{
    tern_rsr_unit shorter = *u;
    shorter.n_slices--;
    tern_ref_rsr_i8(&shorter, x, y);
}

static void overwrites(const tern_rsr_unit *u, const int8_t *x, int32_t *y)
{
    memset(y, 0, u->k * sizeof *y);
    tern_ref_rsr_i8(u, x, y);
}

static void mixes_up_rows(const tern_rsr_unit *u, const int8_t *x, int32_t *y)
{
    tern_ref_rsr_i8(u, x, y);
    const int32_t first = y[0];
    y[0] = y[1];
    y[1] = first;
}

static void sums_in_int16(const tern_rsr_unit *u, const int8_t *x, int32_t *y)
{
    int32_t sums[16] = {0};
    tern_ref_rsr_i8(u, x, sums);
    for (uint32_t r = 0; r < u->k; r++) y[r] += (int16_t)sums[r];
}

static void broken_kernels_are_caught(void **state)
{
    (void)state;
    operands o = open_operands(3000);
    matrix m = make(4, 2560, ALL_EQUAL), n = make(4, 2560, RANDOM);
    tern_rsr_slices equal = slices_of(&m, 4), random = slices_of(&n, 4);
    tern_rsr_unit u = unit_of(&o, &equal, 0);
    assert_true(same_i8(&o, &u, 2560, 1, tern_ref_rsr_i8));
    assert_false(same_i8(&o, &u, 2560, 1, sums_in_int16));
    u = unit_of(&o, &random, 0);
    assert_false(same_i8(&o, &u, 2560, 0, forgets_last_slice));
    assert_false(same_i8(&o, &u, 2560, 0, overwrites));
    assert_false(same_i8(&o, &u, 2560, 0, mixes_up_rows));
    tern_rsr_slices_deinit(&equal);
    tern_rsr_slices_deinit(&random);
    free(m.codes);
    free(n.codes);
    close_operands(&o);
}

/* What a weight's layout gives for any range of rows and a few tokens. */
typedef struct product {
    tern_weight w;
    matrix m;
    int8_t *x;
    size_t stride;
    uint8_t *scratch;
} product;

static product open_product(uint32_t rows, uint32_t cols)
{
    product p = {.m = make(rows, cols, RANDOM), .stride = (cols + 127) / 128 * 128};
    const tern_encoding *e = tern_encoding_by_name("t160");
    tern_error err = {0};
    size_t bytes;
    assert_ok(tern_encoding_bytes(e, rows, cols, &bytes, &err), err);
    uint8_t *data = malloc(bytes);
    assert_ok(tern_encode_codes(e, p.m.codes, 1.0f, rows, cols, data, &err), err);
    p.w = (tern_weight){
        .encoding = e, .rows = rows, .cols = cols, .data = data, .bytes = bytes, .scale = 1.0f, .name = "w.weight"};
    p.x = calloc(8, p.stride);
    for (uint32_t t = 0; t < 8; t++)
        for (uint32_t c = 0; c < cols; c++) p.x[t * p.stride + c] = (int8_t)test_between(&rng, 0, 255);
    p.scratch = aligned_alloc(64, (4 * (size_t)cols + TERN_CPU__LAYOUT_SCRATCH + 63) / 64 * 64);
    return p;
}

static void close_product(product *p)
{
    free((void *)(uintptr_t)p->w.data);
    free(p->m.codes);
    free(p->x);
    free(p->scratch);
}

static void check_layout(const product *p, const tern_cpu__layout *l, uint32_t first, uint32_t n_rows, uint32_t n)
{
    enum { GAP = 3, CANARY = 0x5ca1ab1e }; /* between the rows of tokens */
    const tern_q8_rows x = {.x = p->x, .stride = p->stride, .n = n};
    const size_t stride = n_rows + GAP;
    int32_t *dots = malloc(n * stride * sizeof *dots);
    for (size_t i = 0; i < n * stride; i++) dots[i] = CANARY;
    l->multiply(l, first, n_rows, &x, p->scratch, dots, stride);
    for (uint32_t t = 0; t < n; t++)
        for (uint32_t r = 0; r < stride; r++) {
            int32_t want = r < n_rows ? 0 : CANARY;
            for (uint32_t c = 0; r < n_rows && c < p->m.cols; c++)
                want += p->m.codes[(size_t)(first + r) * p->m.cols + c] * p->x[t * p->stride + c];
            if (dots[t * stride + r] != want)
                fail_msg("rows %u + %u, token %u, row %u: %d found, %d expected", first, n_rows, t, r,
                         dots[t * stride + r], want);
        }
    free(dots);
}

/* The copy does not need what it was made of. */
static void check_copy(const product *p, tern_cpu__layout *l)
{
    tern_cpu__layout *copy;
    tern_error err = {0};
    assert_ok(l->copy(l, &copy, &err), err);
    assert_true(copy->bytes == l->bytes && copy->row_step == l->row_step && copy->max_tokens == l->max_tokens);
    l->close(l);
    check_layout(p, copy, 0, p->w.rows, 1);
    check_layout(p, copy, 0, p->w.rows, 3);
    copy->close(copy);
}

static void whole_products(void **state)
{
    (void)state;
    static const uint32_t shapes[][2] = {{1, 1}, {37, 130}, {100, 2560}, {7, 65536}, {5, 70001}};
    tern_error err = {0};
    tern_backend *b;
    assert_ok(tern_cpu_open(&b, &(tern_cpu_options){.n_threads = 2}, &err), err);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (uint32_t k = 0; k <= 16; k += i < 2 ? 1 : 5) {
            product p = open_product(shapes[i][0], shapes[i][1]);
            tern_cpu__layout *l;
            assert_ok(tern_cpu__rsr_make((tern_cpu *)b, &p.w, k, &l, &err), err);
            check_layout(&p, l, 0, p.w.rows, 1);
            for (uint32_t n = 2; n <= 8; n++) check_layout(&p, l, 0, p.w.rows, n);
            for (int rep = 0; rep < 4; rep++) {
                const uint32_t first = test_between(&rng, 0, p.w.rows - 1);
                check_layout(&p, l, first, test_between(&rng, 1, p.w.rows - first), 2);
            }
            check_copy(&p, l);
            close_product(&p);
        }
    b->close(b);
}

/* A section of the right shape and weights that is no ternary one. */
static void other_kind(tern_backend *b, const product *p)
{
    matrix zeros = make(p->w.rows, p->w.cols, ALL_ZERO);
    const tern_rsr_source source = {.read = read_rows, .context = &zeros, .rows = zeros.rows, .cols = zeros.cols};
    const tern_rsr_options options = {.k = 3, .kind = TERN_RSR_BINARY};
    tern_rsr_slices s;
    tern_error err = {0};
    tern_cpu__layout *l;
    assert_ok(tern_rsr_slices_build(&s, &source, &options, tern_rsr_origin(p->w.data, p->w.bytes), &err), err);
    tern_weight w = p->w;
    w.rsr = s.bytes;
    w.rsr_bytes = s.n_bytes;
    assert_int_equal(tern_cpu__rsr_make((tern_cpu *)b, &w, 0, &l, &err), TERN_MALFORMED);
    assert_string_equal(err.message,
                        "w.weight: rsr: a matrix of kind 1, 20 rows of 300 found, ternary, 20 rows of 300 expected");
    tern_rsr_slices_deinit(&s);
    free(zeros.codes);
}

/* Sections of another shape, of other bytes, and damaged ones; one at an odd address is fine. */
static void sections(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_backend *b;
    assert_ok(tern_cpu_open(&b, &(tern_cpu_options){.n_threads = 1}, &err), err);
    product p = open_product(20, 300);
    const tern_rsr_source source = {.read = read_rows, .context = &p.m, .rows = 20, .cols = 300};
    tern_rsr_slices s;
    tern_cpu__layout *l;
    assert_ok(
        tern_rsr_slices_build(&s, &source, &(tern_rsr_options){.k = 3}, tern_rsr_origin(p.w.data, p.w.bytes), &err),
        err);
    uint8_t *odd = malloc(s.n_bytes + 1);
    memcpy(odd + 1, s.bytes, s.n_bytes);
    p.w.rsr = odd + 1;
    p.w.rsr_bytes = s.n_bytes;
    assert_ok(tern_cpu__rsr_make((tern_cpu *)b, &p.w, 0, &l, &err), err);
    assert_int_equal(l->row_step, 3);
    check_layout(&p, l, 0, 20, 1);
    check_copy(&p, l);
    assert_ok(tern_cpu__rsr_make((tern_cpu *)b, &p.w, 4, &l, &err), err); /* another k is made anew */
    assert_int_equal(l->row_step, 4);
    l->close(l);
    p.w.rows = 19;
    assert_int_equal(tern_cpu__rsr_make((tern_cpu *)b, &p.w, 0, &l, &err), TERN_MALFORMED);
    assert_string_equal(err.message,
                        "w.weight: rsr: a matrix of kind 0, 20 rows of 300 found, ternary, 19 rows of 300 expected");
    p.w.rows = 20;
    p.w.cols = 299;
    assert_int_equal(tern_cpu__rsr_make((tern_cpu *)b, &p.w, 0, &l, &err), TERN_MALFORMED);
    p.w.cols = 300;
    other_kind(b, &p);
    ((uint8_t *)(uintptr_t)p.w.data)[3] ^= 1;
    assert_int_equal(tern_cpu__rsr_make((tern_cpu *)b, &p.w, 0, &l, &err), TERN_MALFORMED);
    assert_string_equal(err.message,
                        "w.weight: rsr: made of other weights than the file has; convert it again with --rsr");
    p.w.rsr_bytes -= 64;
    assert_int_equal(tern_cpu__rsr_make((tern_cpu *)b, &p.w, 0, &l, &err), TERN_MALFORMED);
    p.w.trained = true;
    assert_int_equal(tern_cpu__rsr_make((tern_cpu *)b, &p.w, 0, &l, &err), TERN_UNSUPPORTED);
    free(odd);
    tern_rsr_slices_deinit(&s);
    close_product(&p);
    b->close(b);
}

/* Sections that could be those of the weight, but are not: one sign in one row, one column left out. */
static void sections_of_other_sums(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_backend *b;
    tern_buffer *buffer;
    assert_ok(tern_cpu_open(&b, &(tern_cpu_options){.n_threads = 1, .kernel = "rsr"}, &err), err);
    for (uint32_t damage = 0; damage < 3; damage++) {
        product p = open_product(20, damage == 2 ? 299 : 300);
        const tern_rsr_source source = {.read = read_rows, .context = &p.m, .rows = 20, .cols = p.w.cols};
        const tern_rsr_options options = {.k = 3};
        tern_rsr_slices s;
        assert_ok(tern_rsr_slices_build(&s, &source, &options, tern_rsr_origin(p.w.data, p.w.bytes), &err), err);
        p.w.rsr = s.bytes;
        p.w.rsr_bytes = s.n_bytes;
        assert_ok(b->weight_create(b, &p.w, &buffer, &err), err);
        b->buffer_free(b, buffer);
        uint16_t *masks = (uint16_t *)(uintptr_t)s.masks;
        const uint16_t sign = (uint16_t)((masks[0] | masks[3]) & -(masks[0] | masks[3])); /* of row 0, lane by lane */
        if (damage) ((uint16_t *)(uintptr_t)s.index)[0] = (uint16_t)p.w.cols;
        else masks[0] ^= sign, masks[3] ^= sign;
        assert_int_equal(b->weight_create(b, &p.w, &buffer, &err), TERN_MALFORMED);
        assert_non_null(
            strstr(err.message, "w.weight: what the file has sorted gives other sums than the weight: row "));
        tern_rsr_slices_deinit(&s);
        close_product(&p);
    }
    b->close(b);
}

static void choices(void **state)
{
    (void)state;
    static const char *const bad[] = {"",      "table",  "dot:1",  "rsr:",   "rsr:0",
                                      "lut:4", "rsr:17", "rsr:4x", "rsr: 4", "rsrx"};
    tern_cpu__choice choice;
    tern_error err = {0};
    assert_ok(tern_cpu__choice_parse(NULL, &choice, &err), err);
    assert_string_equal(choice.candidate->name, "dot");
    assert_ok(tern_cpu__choice_parse("rsr", &choice, &err), err);
    assert_true(choice.n == 0 && !strcmp(choice.candidate->name, "rsr"));
    assert_ok(tern_cpu__choice_parse("rsr:16", &choice, &err), err);
    assert_int_equal(choice.n, 16);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_int_equal(tern_cpu__choice_parse(bad[i], &choice, &err), TERN_INVALID_ARGUMENT);
}

static int seed(void **state)
{
    (void)state;
    test_seed(&rng);
    return 0;
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_k),
    cmocka_unit_test(widest_panel),
    cmocka_unit_test(broken_kernels_are_caught),
    cmocka_unit_test(whole_products),
    cmocka_unit_test(sections),
    cmocka_unit_test(choices),
    cmocka_unit_test(sections_of_other_sums),
};

TEST_GROUP(rsr_kernels, "web", tests, .setup = seed);
