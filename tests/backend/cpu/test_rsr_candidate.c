/* The candidate rsr: whole products of it against plain dot products, what it takes from a file, and its names. */
#include "support/test.h"

#include "backend/cpu/candidates/candidates.h"
#include "quant/encoding.h"
#include "quant/weight.h"
#include "support/kernels.h"
#include "support/rsr_matrix.h"

static tern_rng rng;

/* What a weight's layout gives for any range of rows and a few tokens. */
typedef struct product {
    tern_weight w;
    rsr_matrix m;
    int8_t *x;
    size_t stride;
    uint8_t *scratch;
} product;

static product open_product(uint32_t rows, uint32_t cols)
{
    product p = {.m = rsr_matrix_make(&rng, rows, cols, RSR_RANDOM), .stride = (cols + 127) / 128 * 128};
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
    rsr_matrix zeros = rsr_matrix_make(&rng, p->w.rows, p->w.cols, RSR_ALL_ZERO);
    const tern_rsr_source source = rsr_matrix_source(&zeros);
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
    const tern_rsr_source source = rsr_matrix_source(&p.m);
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
        const tern_rsr_source source = rsr_matrix_source(&p.m);
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
            strstr(err.message, "w.weight: the sorted layer of the file gives other sums than the weight: row "));
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
    cmocka_unit_test(whole_products),
    cmocka_unit_test(sections),
    cmocka_unit_test(choices),
    cmocka_unit_test(sections_of_other_sums),
};

TEST_GROUP(rsr_candidate, "web", tests, .setup = seed);
