/* The candidate lut: whole products against plain dot products, what it refuses, and its definitions. */
#include "backend/cpu/lut_cases.h"

#include "quant/encoding.h"
#include "quant/weight.h"

static const struct {
    uint32_t width;
    size_t table; /* bytes, of a group */
    const char *slot, *maker;
    tern_lut_fn fn;
    tern_lut_tables_fn make;
} widths[N_WIDTHS] = {{2, TERN_LUT2_TABLE, "lut2", "lut2_tables", tern_ref_lut2, tern_ref_lut2_tables},
                      {3, TERN_LUT3_TABLE, "lut3", "lut3_tables", tern_ref_lut3, tern_ref_lut3_tables},
                      {5, TERN_LUT5_TABLE, "lut5", "lut5_tables", tern_ref_lut5, tern_ref_lut5_tables}};

/* What a weight's layout gives for any range of rows and a few tokens. */
typedef struct product {
    tern_weight w;
    int8_t *codes, *x;
    size_t stride;
} product;

static product open_product(uint32_t rows, uint32_t cols, const char *encoding)
{
    product p = {.codes = lut_make_codes(rows, cols, RANDOM), .stride = (cols + 127) / 128 * 128};
    const tern_encoding *e = tern_encoding_by_name(encoding);
    tern_error err = {0};
    size_t bytes;
    assert_ok(tern_encoding_bytes(e, rows, cols, &bytes, &err), err);
    uint8_t *data = malloc(bytes);
    assert_ok(tern_encode_codes(e, p.codes, 1.0f, rows, cols, data, &err), err);
    p.w = (tern_weight){
        .encoding = e, .rows = rows, .cols = cols, .data = data, .bytes = bytes, .scale = 1.0f, .name = "w.weight"};
    p.x = calloc(TERN_CPU__LAYOUT_TOKENS, p.stride);
    for (uint32_t t = 0; t < TERN_CPU__LAYOUT_TOKENS; t++) lut_make_inputs(p.x + t * p.stride, cols, 0);
    return p;
}

static void close_product(product *p)
{
    free((void *)(uintptr_t)p->w.data);
    free(p->codes);
    free(p->x);
}

/* Whether a width has kernels of more than plain C here, or no width has. */
static bool can_be_chosen(const tern_cpu_kernels *k, uint32_t width)
{
    const char *const levels[N_WIDTHS] = {k->lut2_level, k->lut3_level, k->lut5_level};
    bool any = false;
    for (int i = 0; i < N_WIDTHS; i++) any |= strcmp(levels[i], "scalar") != 0;
    for (int i = 0; i < N_WIDTHS; i++)
        if (widths[i].width == width) return !any || strcmp(levels[i], "scalar") != 0;
    return width == 0;
}

static void *make_tables(const product *p, const tern_cpu *cpu, const tern_cpu__tables *t, uint32_t n)
{
    const size_t bytes = tern_cpu__tables_bytes(t, p->w.cols);
    uint8_t *tables = aligned_alloc(64, n * bytes);
    for (uint32_t i = 0; i < n; i++) t->make(&cpu->kernels, p->x + i * p->stride, p->w.cols, tables + i * bytes);
    return tables;
}

static void check_layout(const product *p, const tern_cpu *cpu, const tern_cpu__layout *l, uint32_t first,
                         uint32_t n_rows, uint32_t n)
{
    const tern_q8_rows x = {.x = p->x, .stride = p->stride, .n = n};
    const size_t stride = n_rows + 3;
    int32_t *dots = malloc(n * stride * sizeof *dots);
    void *tables = make_tables(p, cpu, l->tables, n);
    memset(dots, 0x55, n * stride * sizeof *dots);
    l->multiply(l, first, n_rows, &x, tables, dots, stride);
    for (uint32_t t = 0; t < n; t++)
        for (uint32_t r = 0; r < stride; r++) {
            int32_t want = r < n_rows ? 0 : 0x55555555; /* nothing else is written */
            for (uint32_t c = 0; c < p->w.cols && r < n_rows; c++)
                want += p->codes[(size_t)(first + r) * p->w.cols + c] * p->x[t * p->stride + c];
            if (dots[t * stride + r] != want)
                fail_msg("rows %u + %u, token %u, row %u: %d found, %d expected", first, n_rows, t, r,
                         dots[t * stride + r], want);
        }
    free(tables);
    free(dots);
}

static void whole_products(void **state)
{
    (void)state;
    static const uint32_t shapes[][2] = {{1, 1}, {37, 130}, {128, 640}, {300, 2560}, {129, 641}, {5, 7001}};
    tern_error err = {0};
    tern_backend *b;
    assert_ok(tern_cpu_open(&b, &(tern_cpu_options){.n_threads = 2}, &err), err);
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int choice = 0; choice <= N_WIDTHS; choice++) {
            const uint32_t width = choice ? widths[choice - 1].width : 0;
            if (!can_be_chosen(&((tern_cpu *)b)->kernels, width)) continue;
            product p = open_product(shapes[i][0], shapes[i][1], "t160");
            tern_cpu__layout *l;
            assert_ok(tern_cpu__lut_make((tern_cpu *)b, &p.w, width, &l, &err), err);
            assert_true(l->bytes >= (uint64_t)p.w.rows * p.w.cols / 5 && l->max_tokens <= TERN_CPU__LAYOUT_TOKENS);
            for (uint32_t n = 1; n <= l->max_tokens; n++) check_layout(&p, (tern_cpu *)b, l, 0, p.w.rows, n);
            for (int rep = 0; rep < 4; rep++) {
                const uint32_t first = test_between(&lut_rng, 0, p.w.rows - 1);
                check_layout(&p, (tern_cpu *)b, l, first, test_between(&lut_rng, 1, p.w.rows - first), 2);
            }
            l->close(l);
            close_product(&p);
        }
    b->close(b);
}

static void refusals(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_backend *b;
    tern_cpu__layout *l;
    tern_cpu__choice choice;
    assert_ok(tern_cpu__choice_parse("lut:5", &choice, &err), err);
    assert_int_equal(choice.n, 5);
    assert_int_equal(tern_cpu__choice_parse("lut:6", &choice, &err), TERN_INVALID_ARGUMENT);
    assert_string_equal(err.message, "kernel \"lut:6\": columns of a look-up from 2 to 5 expected after the colon");
    assert_ok(tern_cpu_open(&b, &(tern_cpu_options){.n_threads = 1}, &err), err);
    product p = open_product(20, 256, "i2_s");
    assert_int_equal(tern_cpu__lut_make((tern_cpu *)b, &p.w, 4, &l, &err), TERN_INVALID_ARGUMENT);
    assert_string_equal(err.message, "kernel lut:4: look-ups of 2, 3 or 5 columns expected");
    p.w.trained = true;
    assert_int_equal(tern_cpu__lut_make((tern_cpu *)b, &p.w, 0, &l, &err), TERN_UNSUPPORTED);
    assert_string_equal(err.message, "w.weight: kernel lut found for a weight that is trained, dot expected");
    close_product(&p);
    b->close(b);
}

static void check_refusal(tern_cpu *cpu, const product *p, uint32_t width, const char *message)
{
    tern_error err = {0};
    tern_cpu__layout *l;
    assert_int_equal(tern_cpu__lut_make(cpu, &p->w, width, &l, &err), TERN_UNSUPPORTED);
    assert_string_equal(err.message, message);
}

/* A width of which a level has only the definition, while another width has a kernel there, is refused. */
static void no_silent_definition(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_backend *b;
    tern_cpu_options o = {.n_threads = 1, .features_set = true};
    if (tern_cpu_features_parse("avx2", tern_cpu_features(), &o.features, NULL) != TERN_OK) return;
    product p = open_product(20, 256, "i2_s");
    assert_ok(tern_cpu_open(&b, &o, &err), err);
    check_refusal((tern_cpu *)b, &p, 2,
                  "kernel lut:2: needs AVX-512 or NEON, which this CPU or --cpu-features lacks; lut:3 expected");
    check_refusal((tern_cpu *)b, &p, 5,
                  "kernel lut:5: needs AVX-512 with VBMI, which this CPU or --cpu-features lacks; lut:3 expected");
    b->close(b);
    close_product(&p);
}

/* With nothing but definitions all widths are served. */
static void definitions_serve(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_backend *b;
    tern_cpu__layout *l;
    product p = open_product(20, 256, "i2_s");
    assert_ok(tern_cpu_open(&b, &(tern_cpu_options){.n_threads = 1, .features_set = true}, &err), err);
    for (int i = 0; i < N_WIDTHS; i++) {
        assert_ok(tern_cpu__lut_make((tern_cpu *)b, &p.w, widths[i].width, &l, &err), err);
        check_layout(&p, (tern_cpu *)b, l, 0, p.w.rows, 2);
        l->close(l);
    }
    b->close(b);
    close_product(&p);
}

static int seed(void **state)
{
    (void)state;
    test_seed(&lut_rng);
    return 0;
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(whole_products),
    cmocka_unit_test(refusals),
    cmocka_unit_test(no_silent_definition),
    cmocka_unit_test(definitions_serve),
};

TEST_GROUP(lut_candidate, "web", tests, .setup = seed);
