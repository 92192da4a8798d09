/* Linear layers of dense weights and the embedding lookup on a GPU, against the CPU. */
#include "ops/operands.h"
#include "quant/encoding.h"
#include "quant/weight.h"
#include "support/test.h"

#include "backend/gpu/caps.h"
#include "backend/open.h"
#include "base/half.h"
#include "support/formats.h"
#include "support/op_case.h"

static tern_rng rng;
static tern_backend
    *small; /* the same device as if it could do little: bindings of 64 KiB, so that weights are in slices */

static tern_backend *small_backend(void)
{
    test_gpu_backend(); /* skips where there is no device */
    if (small) return small;
    static const tern_gpu_caps limits = {.workgroup_bytes = 16384,
                                         .workgroup_invocations = 128,
                                         .max_groups = 65535,
                                         .max_binding = 65536,
                                         .binding_alignment = 256};
    return small = test_gpu_open(&limits);
}

static const struct {
    const char *name;
    uint32_t block;
} formats[] = {TEST_DENSE_BLOCKS};
enum { N_FORMATS = sizeof formats / sizeof *formats };

/* Inputs and weights lie in -1 .. 1, a quarter on average as a product: 1e-6 of the sum of |w x|. */
static test_tolerance budget(uint32_t cols)
{
    return (test_tolerance){.absolute = 0.25e-6 * cols};
}

/* y = concat_p(W_p x), one to three parts of any formats, with a residual perhaps. */
typedef struct linear_case {
    uint32_t n_parts, rows[3], cols, max_tokens;
    const char *encodings[3];
    uint32_t gap; /* columns before and after x in its rows */
    bool q8, residual, in_place, outputs;
    bool halves, gated;
    float scale;     /* of x; 0: 1 */
    uint32_t biases; /* a bit for each part that has one */
} linear_case;

/* In 16 bits where the first part's encoding has them; x times the scale. */
static void take_halves(const linear_case *l, test_case *c, tern_view x, tern_op *op)
{
    op->halves = tern_op_halves_of(tern_encoding_by_name(l->encodings[0]));
    op->gated = l->gated;
    op->activation = TERN_ACT_SILU;
    const size_t n = (size_t)l->max_tokens * c->graph.values[x.value].cols;
    float *floats = test_case_floats(c, x);
    for (size_t i = 0; l->scale != 0 && i < n; i++) floats[i] *= l->scale;
}

static void run_linear(const linear_case *l, const uint32_t *tokens, tern_backend *backend)
{
    test_case c;
    tern_rows rows = l->outputs ? TERN_ROWS_OUTPUTS : TERN_ROWS_TOKENS;
    test_case_open(&c, &rng, &(test_case_shape){.max_tokens = l->max_tokens});
    tern_op op = {.kind = TERN_OP_LINEAR, .rows = rows, .n_in = 1 + l->n_parts, .n_parts = l->n_parts};
    op.in[TERN_LINEAR_X] = l->q8 ? test_case_q8(&c, "x", rows, l->cols)
                                 : test_case_rows(&c, "x", rows, l->cols + 2 * l->gap, TEST_ORDINARY);
    if (l->gap) op.in[TERN_LINEAR_X] = test_case_columns(op.in[TERN_LINEAR_X], l->gap, l->cols);
    uint32_t total = 0;
    for (uint32_t i = 0; i < l->n_parts; i++) {
        op.in[TERN_LINEAR_W + i] = test_case_weight(&c, l->encodings[i], l->rows[i], l->cols);
        total += l->rows[i];
        if (l->biases >> i & 1) op.bias[i] = test_case_norm_weight(&c, l->rows[i]);
    }
    if (l->halves) take_halves(l, &c, op.in[TERN_LINEAR_X], &op);
    if (op.gated) total /= 2;
    if (l->residual) op.residual = test_case_rows(&c, "residual", rows, total, TEST_ORDINARY);
    op.out = l->in_place ? op.residual : test_case_output(&c, "y", rows, TERN_DTYPE_F32, total);
    test_case_add(&c, op);
    test_tolerance tolerance = budget(l->cols);
    if (l->q8) tolerance.absolute *= 4;     /* rows of extremes */
    if (l->halves) tolerance.absolute *= 4; /* tensor cores round each sum of a few products towards zero */
    if (l->scale != 0) tolerance.absolute *= (double)l->scale;
    if (l->gated) tolerance.absolute = 1e-3, tolerance.of_row = 1e-5;
    for (; *tokens; tokens++) test_case_compare(&c, backend, l->outputs ? l->max_tokens : *tokens, *tokens, tolerance);
    test_case_close(&c);
}

static uint32_t some_cols(uint32_t format, uint32_t most)
{
    uint32_t block = formats[format].block;
    return block * test_between(&rng, 1, most / block);
}

/* Whether step i of a format is tried: drivers in software take seconds to compile a kernel. Quick ones try one token
 * of each format, half of them with each kernel of a few, and a quarter with the largest tile. */
static bool is_tried(uint32_t format, uint32_t i)
{
    return i == 0 || (i < 4 ? test_takes(format + i, 2, 1) : test_takes(format, 4, 1));
}

static void every_format(void **state)
{
    (void)state;
    test_seed(&rng);
    static const struct {
        uint32_t max_tokens, tokens[4];
    } steps[] = {{1, {1}}, {5, {1, 3, 5}}, {8, {2, 8}}, {33, {33, 2, 9}}, {140, {140, 64, 65}}};
    for (uint32_t f = 0; f < N_FORMATS; f++)
        for (uint32_t i = 0; i < sizeof steps / sizeof *steps; i++)
            for (uint32_t times = 0; times < (test_quick() ? 1 : 2) && is_tried(f, i); times++) {
                const linear_case l = {.n_parts = 1,
                                       .rows = {test_between(&rng, 1, 300)},
                                       .cols = some_cols(f, 1600),
                                       .max_tokens = steps[i].max_tokens,
                                       .encodings = {formats[f].name}};
                print_message("%s: %u x %u, %u tokens\n", formats[f].name, l.rows[0], l.cols, l.max_tokens);
                run_linear(&l, steps[i].tokens, test_gpu_backend());
            }
}

/* The shape of a head: one token, whole units for every lane. */
static void wide_rows(void **state)
{
    (void)state;
    test_seed(&rng);
    for (uint32_t f = 0; f < N_FORMATS; f++) {
        const linear_case l = {
            .n_parts = 1, .rows = {131}, .cols = 2560, .max_tokens = 1, .encodings = {formats[f].name}};
        run_linear(&l, (const uint32_t[]){1, 0}, test_gpu_backend());
    }
    /* a head and adapters for the rows of a training step */
    static const uint32_t many[] = {140, 64, 65, 0};
    static const linear_case steps[] = {
        {.n_parts = 1, .rows = {4100}, .cols = 264, .encodings = {"f16"}},
        {.n_parts = 1, .rows = {4096}, .cols = 520, .encodings = {"f16"}, .gap = 3, .residual = true, .in_place = true},
        {.n_parts = 1, .rows = {16}, .cols = 1500, .encodings = {"f32"}},
        {.n_parts = 1, .rows = {20}, .cols = 333, .encodings = {"f32"}, .gap = 1, .residual = true, .biases = 1},
        {.n_parts = 1, .rows = {700}, .cols = 16, .encodings = {"f32"}, .residual = true, .in_place = true},
        {.n_parts = 1, .rows = {301}, .cols = 40, .encodings = {"f32"}, .gap = 3, .residual = true}};
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        linear_case l = steps[i];
        l.max_tokens = many[0];
        run_linear(&l, many, test_gpu_backend());
    }
}

static void slices_and_small_devices(void **state)
{
    (void)state;
    test_seed(&rng);
    static const struct {
        uint32_t max_tokens, tokens[3];
    } steps[] = {{1, {1}}, {3, {2, 3}}, {10, {10, 7}}};
    for (uint32_t f = 0; f < N_FORMATS; f += 2) /* and the one behind it */
        for (uint32_t i = 0; i < sizeof steps / sizeof *steps; i++) {
            const linear_case l = {.n_parts = 2,
                                   .rows = {700, 301},
                                   .cols = 512,
                                   .max_tokens = steps[i].max_tokens,
                                   .residual = true,
                                   .encodings = {formats[f].name, formats[(f + 1) % N_FORMATS].name}};
            run_linear(&l, steps[i].tokens, small_backend());
        }
}

static void parts_views_and_sums(void **state)
{
    (void)state;
    test_seed(&rng);
    static const uint32_t tokens[] = {1, 4, 9, 0};
    static const linear_case cases[] = {
        {.n_parts = 3, .rows = {64, 20, 37}, .cols = 256, .max_tokens = 9, .encodings = {"q4_k", "q5_k", "q6_k"}},
        {.n_parts = 3,
         .rows = {64, 20, 37},
         .cols = 256,
         .max_tokens = 9,
         .encodings = {"f16", "q8_0", "bf16"},
         .q8 = true},
        {.n_parts = 1, .rows = {40}, .cols = 96, .max_tokens = 9, .encodings = {"f16"}, .gap = 8},
        /* few rows, whose columns are cut in parts: adapters */
        {.n_parts = 3, .rows = {16, 8, 16}, .cols = 256, .max_tokens = 9, .encodings = {"f32", "f32", "bf16"}},
        {.n_parts = 2,
         .rows = {16, 16},
         .cols = 330,
         .max_tokens = 9,
         .encodings = {"f32", "f32"},
         .gap = 1,
         .residual = true},
        {.n_parts = 2,
         .rows = {16, 16},
         .cols = 256,
         .max_tokens = 9,
         .encodings = {"f32", "f16"},
         .residual = true,
         .in_place = true},
        {.n_parts = 2, .rows = {40, 41}, .cols = 96, .max_tokens = 9, .encodings = {"f16", "f32"}, .gap = 3},
        {.n_parts = 1,
         .rows = {40},
         .cols = 96,
         .max_tokens = 9,
         .encodings = {"f32"},
         .residual = true,
         .outputs = true},
        {.n_parts = 1,
         .rows = {40},
         .cols = 96,
         .max_tokens = 9,
         .encodings = {"bf16"},
         .residual = true,
         .in_place = true},
        {.n_parts = 1,
         .rows = {130},
         .cols = 160,
         .max_tokens = 9,
         .encodings = {"q8_0"},
         .residual = true,
         .in_place = true,
         .q8 = true},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        run_linear(&cases[i], tokens, test_gpu_backend());
        linear_case one = cases[i];
        one.max_tokens = 1;
        run_linear(&one, (const uint32_t[]){1, 0}, test_gpu_backend());
    }
}

/* Biases of some parts or all, alone and with a residual, in slices, and where the columns are cut in parts. */
static void biases(void **state)
{
    (void)state;
    test_seed(&rng);
    static const uint32_t tokens[] = {1, 4, 33, 0};
    for (uint32_t f = 0; f < N_FORMATS; f++)
        for (uint32_t i = 0; i < 4; i++) {
            const linear_case l = {.n_parts = 3,
                                   .rows = {64, 20, 37},
                                   .cols = 256,
                                   .max_tokens = i % 2 ? 33 : 1,
                                   .encodings = {formats[f].name, formats[(f + 1) % N_FORMATS].name, "i2_s"},
                                   .q8 = i == 1,
                                   .residual = i >= 2,
                                   .in_place = i == 3,
                                   .biases = f % 2 ? 7 : 5};
            run_linear(&l, i % 2 ? tokens : (const uint32_t[]){1, 0}, test_gpu_backend());
        }
    static const linear_case parts = {
        .n_parts = 1, .rows = {16}, .cols = 640, .max_tokens = 33, .encodings = {"f32"}, .biases = 1};
    run_linear(&parts, tokens, test_gpu_backend());
    static const linear_case sliced = {
        .n_parts = 1, .rows = {700}, .cols = 512, .max_tokens = 10, .encodings = {"f16"}, .biases = 1};
    run_linear(&sliced, (const uint32_t[]){1, 10, 0}, small_backend());
}

/* Dense layers on int8 rows, whatever lies between: ternary and dense parts take turns. */
static void mixed_with_ternary(void **state)
{
    (void)state;
    test_seed(&rng);
    static const linear_case l = {.n_parts = 3,
                                  .rows = {64, 20, 37},
                                  .cols = 256,
                                  .max_tokens = 5,
                                  .encodings = {"f16", "i2_s", "q8_0"},
                                  .q8 = true};
    run_linear(&l, (const uint32_t[]){1, 5, 0}, test_gpu_backend());
}

static void gated(void **state)
{
    (void)state;
    test_seed(&rng);
    for (uint32_t i = 0; i < 2 * N_FORMATS; i++)
        for (uint32_t max_tokens = 1; max_tokens <= (is_tried(i / 2, 4) && i % 2 == 0 ? 81 : 61); max_tokens += 20) {
            test_case c;
            const uint32_t rows = test_between(&rng, 1, 200), cols = 256 * test_between(&rng, 1, 3);
            test_case_open(&c, &rng, &(test_case_shape){.max_tokens = max_tokens});
            tern_op op = {.kind = TERN_OP_LINEAR,
                          .n_in = 3,
                          .n_parts = 2,
                          .gated = true,
                          .activation = (tern_activation)((i + max_tokens / 20) % 3)};
            op.in[TERN_LINEAR_X] = i % 3 ? test_case_rows(&c, "x", TERN_ROWS_TOKENS, cols, TEST_ORDINARY)
                                         : test_case_q8(&c, "x", TERN_ROWS_TOKENS, cols);
            op.in[TERN_LINEAR_W] = test_case_weight(&c, formats[i / 2].name, rows, cols);
            op.in[TERN_LINEAR_W + 1] = test_case_weight(&c, formats[(i / 2 + i % 2) % N_FORMATS].name, rows, cols);
            op.out = test_case_output(&c, "y", TERN_ROWS_TOKENS, TERN_DTYPE_F32, rows);
            test_case_add(&c, op);
            test_case_compare(&c, test_gpu_backend(), max_tokens, 1,
                              (test_tolerance){.absolute = 1e-3, .of_row = 1e-5});
            test_case_close(&c);
        }
}

/* Both factors in 16 bits: every format by itself, from a few rows on to those for which blocks are unpacked, with
 * columns that fill no step. */
static void halves(void **state)
{
    (void)state;
    test_seed(&rng);
    static const struct {
        uint32_t max_tokens, tokens[4];
    } steps[] = {{5, {5, 1}}, {16, {16, 9}}, {33, {33, 2}}, {140, {140, 64, 3}}, {300, {300, 257, 128}}};
    if (!test_gpu_backend()->info.halves) test_skip("products in 16 bits are those of CUDA");
    for (uint32_t f = 1; f < N_FORMATS; f++)
        for (uint32_t i = 0; i < sizeof steps / sizeof *steps; i++)
            for (uint32_t times = 0; times < 2; times++) {
                const linear_case l = {.n_parts = 1,
                                       .halves = true,
                                       .rows = {test_between(&rng, 1, 400)},
                                       .cols = some_cols(f, 2000),
                                       .max_tokens = steps[i].max_tokens,
                                       .residual = i % 2,
                                       .in_place = i % 4 == 3,
                                       .biases = times,
                                       .encodings = {formats[f].name}};
                print_message("%s: %u x %u, %u tokens\n", formats[f].name, l.rows[0], l.cols, l.max_tokens);
                run_linear(&l, steps[i].tokens, test_gpu_backend());
            }
}

/* Parts, gates, views, rows that are past the range of f16, tiles that share columns, and weights that are unpacked in
 * several pieces. */
static void halves_of_parts(void **state)
{
    (void)state;
    test_seed(&rng);
    static const linear_case cases[] = {
        {.n_parts = 3, .rows = {300, 64, 37}, .cols = 2048, .encodings = {"f16", "f16", "f16"}, .biases = 5},
        {.n_parts = 3, .rows = {300, 64, 37}, .cols = 520, .encodings = {"bf16", "bf16", "bf16"}, .residual = true},
        {.n_parts = 3, .rows = {300, 64, 37}, .cols = 512, .encodings = {"q4_k", "q4_k", "q6_k"}, .biases = 6},
        {.n_parts = 3, .rows = {64, 20, 37}, .cols = 256, .encodings = {"f16", "q8_0", "q8_0"}, .residual = true},
        {.n_parts = 2, .rows = {200, 200}, .cols = 1024, .encodings = {"f16", "f16"}, .gated = true},
        {.n_parts = 2, .rows = {64, 64}, .cols = 333, .encodings = {"bf16", "bf16"}, .gated = true, .biases = 3},
        {.n_parts = 2, .rows = {257, 257}, .cols = 512, .encodings = {"q8_0", "q8_0"}, .gated = true},
        {.n_parts = 2, .rows = {100, 100}, .cols = 512, .encodings = {"q4_k", "q5_k"}, .gated = true},
        {.n_parts = 1, .rows = {130}, .cols = 776, .encodings = {"f16"}, .gap = 3, .residual = true, .in_place = true},
        {.n_parts = 1, .rows = {128}, .cols = 8192, .encodings = {"f16"}, .scale = 1e6f},
        {.n_parts = 1, .rows = {96}, .cols = 512, .encodings = {"q6_k"}, .scale = 1e-6f},
        {.n_parts = 1, .rows = {96}, .cols = 512, .encodings = {"bf16"}, .scale = 1e6f, .outputs = true},
        {.n_parts = 1, .rows = {9001}, .cols = 2048, .encodings = {"q4_k"}, .biases = 1, .residual = true},
        {.n_parts = 2, .rows = {4500, 4500}, .cols = 2048, .encodings = {"q8_0", "q8_0"}, .gated = true},
        {.n_parts = 2, .rows = {8100, 400}, .cols = 2048, .encodings = {"q8_0", "q8_0"}, .residual = true},
    };
    static const uint32_t most[] = {7, 64, 150};
    if (!test_gpu_backend()->info.halves) test_skip("products in 16 bits are those of CUDA");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (uint32_t k = 0; k < 3; k++) {
            linear_case l = cases[i];
            l.halves = true;
            l.max_tokens = most[k];
            print_message("%s: %u x %u, %u tokens\n", l.encodings[0], l.rows[0], l.cols, l.max_tokens);
            run_linear(&l, (const uint32_t[]){most[k], most[k] - 3, 0}, test_gpu_backend());
        }
}

/* Many tokens, also of few tiles that share columns. */
static void halves_of_many(void **state)
{
    (void)state;
    test_seed(&rng);
    static const linear_case cases[] = {
        {.n_parts = 1, .rows = {1024}, .cols = 520, .encodings = {"f16"}, .residual = true, .in_place = true},
        {.n_parts = 2, .rows = {512, 512}, .cols = 512, .encodings = {"f16", "f16"}, .gated = true, .biases = 2},
        {.n_parts = 3, .rows = {200, 128, 60}, .cols = 1024, .encodings = {"bf16", "bf16", "bf16"}, .biases = 4},
        {.n_parts = 1, .rows = {256}, .cols = 4096, .encodings = {"f16"}, .residual = true},
        {.n_parts = 1, .rows = {640}, .cols = 512, .encodings = {"q4_k"}, .biases = 1},
    };
    if (!test_gpu_backend()->info.halves) test_skip("products in 16 bits are those of CUDA");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        linear_case l = cases[i];
        l.halves = true;
        l.max_tokens = 600;
        print_message("%s: %u x %u\n", l.encodings[0], l.rows[0], l.cols);
        run_linear(&l, (const uint32_t[]){600, 511, 130, 0}, test_gpu_backend());
    }
}

/* A norm before a product in 16 bits, whose rows it writes; its own are still those that others read. */
static void run_rounded_norm(const char *encoding, uint32_t cols, uint32_t gap, bool in_place)
{
    enum { ROWS = 200, TOKENS = 70 };
    test_case c;
    test_case_open(&c, &rng, &(test_case_shape){.max_tokens = TOKENS});
    const tern_view x =
        test_case_columns(test_case_rows(&c, "x", TERN_ROWS_TOKENS, cols + 2 * gap, TEST_ORDINARY), gap, cols);
    const tern_op norm = {.kind = TERN_OP_RMS_NORM,
                          .n_in = TERN_NORM_INPUTS,
                          .in = {x, test_case_norm_weight(&c, cols)},
                          .out = in_place ? x : test_case_output(&c, "normed", TERN_ROWS_TOKENS, TERN_DTYPE_F32, cols),
                          .eps = 0.25f}; /* of the order of the mean square: a wrong one shows */
    const tern_op linear = {.kind = TERN_OP_LINEAR,
                            .n_in = 2,
                            .n_parts = 1,
                            .in = {norm.out, test_case_weight(&c, encoding, ROWS, cols)},
                            .halves = tern_op_halves_of(tern_encoding_by_name(encoding)),
                            .out = test_case_output(&c, "y", TERN_ROWS_TOKENS, TERN_DTYPE_F32, ROWS)};
    test_case_add(&c, norm);
    test_case_add(&c, linear);
    /* A float of the norm that is off by its last place may round to another half. */
    const test_tolerance tolerance = {.absolute = 1e-3, .of_row = linear.halves == TERN_HALVES_BF16 ? 2e-3 : 3e-4};
    print_message("%s, %u columns\n", encoding, cols);
    test_case_compare(&c, test_gpu_backend(), TOKENS, 1, tolerance);
    test_case_compare(&c, test_gpu_backend(), 3, 1, tolerance);
    test_case_close(&c);
}

static void rounded_norms(void **state)
{
    (void)state;
    test_seed(&rng);
    if (!test_gpu_backend()->info.halves) test_skip("products in 16 bits are those of CUDA");
    run_rounded_norm("f16", 2048, 0, false);
    run_rounded_norm("bf16", 1000, 4, false);
    run_rounded_norm("q8_0", 8192, 0, false);
    run_rounded_norm("f16", 8200, 0, false); /* more than a block has in registers */
    run_rounded_norm("f16", 334, 0, false);  /* no multiple of four */
    run_rounded_norm("f16", 512, 3, false);  /* not aligned */
    run_rounded_norm("f16", 512, 0, true);
}

static void run_embed(const char *encoding, uint32_t cols, bool row_scales, tern_backend *backend)
{
    enum { ROWS = 700, TOKENS = 9 };
    test_case c;
    test_case_open(&c, &rng, &(test_case_shape){.max_tokens = TOKENS});
    tern_op op = {.kind = TERN_OP_EMBED,
                  .n_in = 2,
                  .in = {test_case_weight(&c, encoding, ROWS, cols), test_case_param_view(&c, TERN_PARAM_IDS)}};
    op.out = test_case_output(&c, "y", TERN_ROWS_TOKENS, TERN_DTYPE_F32, cols);
    test_case_add(&c, op);
    float scales[ROWS];
    tern_weight *w = test_case_weight_of(&c, op.in[TERN_EMBED_TABLE]);
    if (strncmp(encoding, "tq", 2) == 0)
        w->scale = tern_f16_to_f32(tern_f32_to_f16(w->scale)); /* as its blocks hold it */
    for (uint32_t r = 0; r < ROWS; r++) scales[r] = w->scale;  /* what the CPU reads from the tail */
    if (row_scales) w->row_scales = scales;
    uint32_t *ids = test_case_param(&c, TERN_PARAM_IDS);
    for (uint32_t t = 0; t < TOKENS; t++) ids[t] = t == 0 ? 0 : t == 1 ? ROWS - 1 : test_between(&rng, 0, ROWS - 1);
    test_case_compare(&c, backend, 1, 1, (test_tolerance){.of_value = 3e-7, .absolute = 1e-9});
    test_case_compare(&c, backend, TOKENS, 1, (test_tolerance){.of_value = 3e-7, .absolute = 1e-9});
    test_case_close(&c);
}

static void rows_of_tables(void **state)
{
    (void)state;
    test_seed(&rng);
    for (uint32_t f = 0; f < N_FORMATS; f++) {
        run_embed(formats[f].name, some_cols(f, 1600), false, test_gpu_backend());
        run_embed(formats[f].name, 512, false, small_backend());
    }
    static const char *const ternary[] = {"i2_s", "tq1_0", "tq2_0", "t160"};
    for (uint32_t f = 0; f < 4; f++) {
        run_embed(ternary[f], f == 1 || f == 2 ? 768 : 704, false, test_gpu_backend());
        run_embed(ternary[f], 1024, f % 2, small_backend());
    }
}

static int close_all(void **state)
{
    if (small) small->close(small);
    return test_backends_close(state);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(every_format),
    cmocka_unit_test(wide_rows),
    cmocka_unit_test(slices_and_small_devices),
    cmocka_unit_test(parts_views_and_sums),
    cmocka_unit_test(biases),
    cmocka_unit_test(mixed_with_ternary),
    cmocka_unit_test(gated),
    cmocka_unit_test(rows_of_tables),
    cmocka_unit_test(halves),
    cmocka_unit_test(halves_of_parts),
    cmocka_unit_test(halves_of_many),
    cmocka_unit_test(rounded_norms),
};

TEST_GROUP(dense, "gpu long web", tests, .teardown = close_all);
