/* The optimiser on the GPU: the bits of ops/ref/update.h, which are those of the CPU, for any numbers. */
#include "support/test.h"

#include <math.h>

#include "backend/gpu/layout.h"
#include "backend/gpu/spirv.h"
#include "base/alloc.h"
#include "quant/absmean.h"
#include "quant/encoding.h"
#include "quant/weight.h"
#include "support/op_case.h"
#include "support/simulated.h"
#include "support/spirv.h"
#include "support/update_case.h"

static tern_rng rng;

static void compare_on(const update_case *c, tern_backend *backend, uint32_t slice_rows, uint64_t slice_bytes)
{
    update_results got, want;
    update_case_expect(c, &want);
    update_case_run(c, backend, slice_rows, slice_bytes, &got);
    const char *what = update_case_difference(c, &got, &want);
    if (what) update_case_print(c);
    update_results_free(&got);
    update_results_free(&want);
    if (what) fail_msg("%s: %s", backend->info.name, what);
}

static void compare(const update_case *c)
{
    for (int kind = 0; kind < test_gpu_kinds(); kind += 2)
        compare_on(c, test_gpu_backend_of((test_gpu_kind)kind), 0, 0);
}

/* Every optimiser in every type, 20 steps. */
static void twenty_steps(void **state)
{
    (void)state;
    test_gpu_backend();
    static const tern_dtype ms[] = {TERN_DTYPE_F32, TERN_DTYPE_BF16, TERN_DTYPE_M8},
                            vs[] = {TERN_DTYPE_F32, TERN_DTYPE_BF16, TERN_DTYPE_V8};
    for (uint32_t i = 0; i < 24; i++) {
        const bool adamw = i < 18;
        const update_case c = {.kind = (update_kind)(i % 3),
                               .rows = 16,
                               .cols = i % 2 ? 264 : 384,
                               .n_steps = getenv("TERN_TEST_SIMULATE") ? 2 : 20,
                               .w = i & 1 ? TERN_DTYPE_BF16 : TERN_DTYPE_F32,
                               .m = ms[i / 2 % 3],
                               .v = vs[i / 6 % 3],
                               .optimizer = adamw ? TERN_OPTIMIZER_ADAMW : TERN_OPTIMIZER_SGD,
                               .momentum = i % 4 < 2,
                               .decays = i % 5 < 3,
                               .clip = 0.7f,
                               .blend = 0.3f,
                               .clamp = i % 3 == 1 && i % 2 ? 2.5f : 0,
                               .seed = 100 + i};
        compare(&c);
    }
}

static void any_case(void **state)
{
    (void)state;
    test_gpu_backend();
    for (uint32_t round = 0; round < (getenv("TERN_TEST_SIMULATE") ? 6 : 120); round++) {
        update_case c = update_case_any(&rng);
        if (!getenv("TERN_TEST_SIMULATE") && !test_takes(round, 4, 1)) continue;
        if (c.kind == UPDATE_DENSE && c.rows > 1) c.cols = (c.cols + 7) / 8 * 8;
        compare(&c);
    }
}

static void hard_cases(void **state)
{
    (void)state;
    static float numbers[2][UPDATE_HARD_ELEMENTS];
    test_gpu_backend();
    for (int i = 0; i < UPDATE_HARD_CASES; i++) {
        const update_case c = update_case_hard(i, numbers);
        compare(&c);
    }
}

/* Sums of more than one level, several pieces of everything. */
static void large_tensors(void **state)
{
    (void)state;
    test_gpu_backend();
    if (getenv("TERN_TEST_SIMULATE")) test_skip("the device is simulated");
    for (int i = 0; i < 3; i++) {
        const update_case c = {.kind = (update_kind)i,
                               .rows = i || TERN_WEBGPU ? 1024 : 4112, /* whose 16 million take WebAssembly minutes */
                               .cols = i ? 1024 : 4096,
                               .n_steps = 1,
                               .w = i == 1 ? TERN_DTYPE_BF16 : TERN_DTYPE_F32,
                               .m = TERN_DTYPE_M8,
                               .v = TERN_DTYPE_V8,
                               .optimizer = TERN_OPTIMIZER_ADAMW,
                               .clip = 1,
                               .blend = 0.5f,
                               .seed = 7};
        compare_on(&c, test_gpu_backend(), 0, 0);
    }
}

#if TERN_VULKAN
static tern_backend *open_simulated(uint64_t max_binding)
{
    const tern_gpu_caps caps = {.workgroup_bytes = 16384,
                                .workgroup_invocations = 128,
                                .max_groups = 65535,
                                .max_binding = max_binding,
                                .binding_alignment = 256};
    tern_error err = {0};
    tern_backend *backend = NULL;
    assert_ok(test_simulated_open(&backend, &caps, &err), err);
    return backend;
}

/* The kernel that divides, alone, on sums that no test has tensors for: [3] totals, then the rule that it makes of
 * them. */
static void check_scale(spirv_module *module, uint64_t sum, uint32_t n, uint32_t exponent, float threshold)
{
    uint32_t uniform[TERN_GPU_UNIFORM_WORDS] = {n}, totals[64] = {exponent}, rule[64] = {0};
    memcpy(&uniform[1], &threshold, sizeof threshold);
    /* parts may be more than their 16 bits */
    totals[3] = (uint32_t)(sum >> 32) - (sum >> 32 != 0);
    const uint64_t left = sum - ((uint64_t)totals[3] << 32);
    totals[2] = (uint32_t)(left >> 16) - (left >> 16 > 5 ? tern_rng_below(&rng, 5) : 0);
    totals[1] = (uint32_t)(left - ((uint64_t)totals[2] << 16));
    spirv_trace traces[2][64] = {0};
    spirv_memory memory[3] = {{.words = uniform, .bytes = sizeof uniform},
                              {.words = totals, .traces = traces[0], .bytes = sizeof totals},
                              {.words = rule, .traces = traces[1], .bytes = sizeof rule}};
    spirv_dispatch d = {.module = module, .groups = {1, 1, 1}, .fences = true};
    for (int i = 0; i < 3; i++)
        d.bindings[i] = (spirv_binding){.memory = &memory[i], .bytes = memory[i].bytes, .written = i > 0};
    spirv_figures figures = {0};
    const char *what = spirv_run(&d, false, &figures);
    if (what) fail_msg("%s", what);
    const tern_ternary_rule want = tern_ref_ternary_rule(tern_absmean_scale(sum, n, exponent), threshold);
    if (memcmp(rule, &want, sizeof want))
        fail_msg("sum %llu of %u, exponent %u, threshold %a: scale %08x, factor %08x, bound %08x; %a, %a, %a expected",
                 (unsigned long long)sum, n, exponent, (double)threshold, rule[0], rule[1], rule[2], (double)want.scale,
                 (double)want.factor, (double)want.bound);
    assert_true((totals[0] | totals[1] | totals[2] | totals[3]) == 0);
}

static void scales(void **state)
{
    (void)state;
    size_t n_words;
    const char *error;
    tern_error err = {0};
    uint32_t *words = NULL;
    assert_ok(tern_gpu_spirv(TERN_GPU_REQUANTIZE_SCALE, &words, &n_words, &err), err);
    spirv_module *module = spirv_open(words, n_words, &error);
    assert_non_null(module);
    spirv_sloppy = true;
    for (int round = 0; round < 4000; round++) {
        uint32_t n = (uint32_t)(tern_rng_u64(&rng) >> (32 + test_between(&rng, 0, 31))) | 1;
        uint64_t sum = tern_rng_u64(&rng) >> test_between(&rng, 0, 63);
        if (round % 3 == 0) { /* the middle between two floats, or beside it */
            n >>= 6;
            sum = ((1u << 24 | tern_rng_below(&rng, 1 << 24)) * 2ull + 1) * n + test_between(&rng, 0, 2) - 1;
        }
        if (n == 0 || sum / n > UINT32_MAX) continue;
        check_scale(module, sum, n, test_between(&rng, 100, 250), round % 2 ? 0 : tern_rng_f32(&rng));
    }
    uint32_t n_hard = 0;
    for (uint32_t b = (1 << 23) + 1; b < 1 << 24; b++) { /* 1 / b next to the middle between two floats */
        const int64_t off = 2 * (int64_t)((1ull << 47) % b) - (int64_t)b;
        if (off < -3 || off > 3) continue;
        check_scale(module, (uint64_t)b << 8, 1, 140, 0);
        n_hard++;
    }
    assert_true(n_hard > 5);
    check_scale(module, 0, 5, 0, 0);
    check_scale(module, UINT64_MAX, UINT32_MAX, 200, 0);
    check_scale(module, (uint64_t)UINT32_MAX << 31, UINT32_MAX - 1, 158, 0);
    spirv_sloppy = false;
    spirv_close(module);
    tern_free(words);
}

/* 1 / x modulo an odd b below 2^24. */
static uint64_t inverse_modulo(uint64_t x, uint64_t b)
{
    int64_t r[2] = {(int64_t)b, (int64_t)(x % b)}, t[2] = {0, 1};
    while (r[1]) {
        const int64_t q = r[0] / r[1], next_r = r[0] - q * r[1], next_t = t[0] - q * t[1];
        r[0] = r[1], r[1] = next_r;
        t[0] = t[1], t[1] = next_t;
    }
    return (uint64_t)(t[0] < 0 ? t[0] + (int64_t)b : t[0]);
}

/* g / b next to the middle between two floats: 2^24 g = (b +- 1) / 2 modulo b. */
static void hard_quotient(float *g, float *b)
{
    for (;;) {
        const uint64_t divisor = (1u << 23) | tern_rng_below(&rng, 1u << 23) | 1,
                       rest = (divisor + (test_between(&rng, 0, 1) ? 1 : -1ull)) / 2,
                       x = inverse_modulo(1 << 24, divisor) * rest % divisor;
        if (x < 1 << 23) continue;
        *g = ldexpf((float)x, (int)test_between(&rng, 0, 20) - 34);
        *b = ldexpf((float)divisor, (int)test_between(&rng, 0, 20) - 34);
        return;
    }
}

/* v whose root is next to the middle between two floats: X = c^2 + c and little, X a multiple of 2^23 or 2^24. */
static uint32_t hard_roots(float *v, uint32_t most)
{
    uint32_t n = 0;
    for (uint64_t c = 1 << 23; c < 1 << 24 && n < most; c++) {
        const uint64_t x = c * c + c, unit = x < (uint64_t)1 << 47 ? 1 << 23 : 1 << 24,
                       near = (x + unit / 2) / unit * unit;
        if (near - x + 400 > 800) continue;
        v[n++] = ldexpf((float)(near / unit), unit == 1 << 23 ? -23 : -22);
    }
    return n;
}

/* One step with factors that leave g / sqrt(v) as the weight. */
static void check_quotients(tern_backend *backend)
{
    enum { N = 2048 };
    test_case c;
    test_case_open(&c, &rng, &(test_case_shape){.training = true});
    tern_train_params *p = (tern_train_params *)(void *)test_case_param(&c, TERN_PARAM_TRAINING);
    p->clip = p->keep = p->blend1 = p->beta2 = p->root = p->pace = 1;
    tern_view w = test_case_state(&c, "w", TERN_STATE_MASTER, TERN_DTYPE_F32, 1, N, TEST_ORDINARY),
              g = test_case_state(&c, "g", TERN_STATE_GRADIENT, TERN_DTYPE_F32, 1, N, TEST_ORDINARY),
              m = test_case_state(&c, "m", TERN_STATE_M, TERN_DTYPE_F32, 1, N, TEST_ORDINARY),
              v = test_case_state(&c, "v", TERN_STATE_V, TERN_DTYPE_F32, 1, N, TEST_ORDINARY);
    memset(test_case_floats(&c, w), 0, N * sizeof(float));
    memset(test_case_floats(&c, m), 0, N * sizeof(float));
    const uint32_t n = hard_roots(test_case_floats(&c, v), N / 2);
    assert_true(n > 100);
    for (uint32_t i = 0; i < n; i++) test_case_floats(&c, g)[i] = ldexpf(1 + tern_rng_f32(&rng), (int)(i % 40) - 20);
    for (uint32_t i = n; i < N; i++) {
        float divisor;
        hard_quotient(&test_case_floats(&c, g)[i], &divisor);
        test_case_floats(&c, v)[i] = divisor * divisor;
        assert_true(sqrtf(divisor * divisor) == divisor);
    }
    test_case_add(&c, (tern_op){.kind = TERN_OP_UPDATE,
                                .optimizer = TERN_OPTIMIZER_ADAMW,
                                .n_in = 5,
                                .in = {w, g, m, v, test_case_param_view(&c, TERN_PARAM_TRAINING)},
                                .out = {.value = TERN_NO_VALUE}});
    test_case_compare(&c, backend, 1, 1, (test_tolerance){0});
    test_case_close(&c);
}

static void hard_quotients_and_roots(void **state)
{
    (void)state;
    tern_backend *backend = open_simulated(128 << 20);
    spirv_sloppy = true;
    for (int i = 0; i < 3; i++) check_quotients(backend);
    spirv_sloppy = false;
    backend->close(backend);
    check_quotients(test_gpu_backend());
}

/* On a device whose floats are as bad as they may be: what is held and corrected does not show it. */
static void bad_floats(void **state)
{
    (void)state;
    test_on_simulated_gpu();
    tern_backend *backend = open_simulated(128 << 20);
    spirv_sloppy = true;
    for (uint32_t round = 0; round < 30; round++) {
        update_case c = update_case_any(&rng);
        if (!test_takes(round, 5, 1)) continue;
        c.rows = c.kind == UPDATE_TERNARY ? 16 : 3;
        c.cols = (c.cols + 7) / 8 * 8;
        compare_on(&c, backend, 0, 0);
    }
    spirv_sloppy = false;
    backend->close(backend);
}

/* Small bindings: tensors in chunks, codes in slices, sums of chunks. */
static void in_slices(void **state)
{
    (void)state;
    test_on_simulated_gpu();
    enum { MAX_BINDING = 65536 };
    tern_backend *backend = open_simulated(MAX_BINDING);
    for (int i = 0; i < 3; i++) {
        const update_case c = {.kind = (update_kind)i,
                               .rows = i == 1 ? 2000 : 120,
                               .cols = 128,
                               .n_steps = 1,
                               .w = i == 1 ? TERN_DTYPE_F32 : TERN_DTYPE_BF16,
                               .m = TERN_DTYPE_M8,
                               .v = i == 2 ? TERN_DTYPE_V8 : TERN_DTYPE_BF16,
                               .clamp = i == 1 ? 1.5f : 0,
                               .optimizer = i == 1 ? TERN_OPTIMIZER_SGD : TERN_OPTIMIZER_ADAMW,
                               .clip = 1,
                               .blend = 0.25f,
                               .seed = 3};
        const float scales[2000] = {0};
        const tern_weight w = {
            .encoding = tern_encoding_by_name("i2_s"), .rows = c.rows, .cols = c.cols, .row_scales = scales};
        const tern_gpu_caps caps = {.max_binding = MAX_BINDING};
        tern_gpu_layout layout = {0};
        tern_error err = {0};
        if (i == 1) assert_ok(tern_gpu_layout_of(&layout, &w, &caps, &err), err);
        if (i == 1) assert_true(layout.n_slices == 2);
        compare_on(&c, backend, layout.slice_rows, layout.slice_bytes);
    }
    backend->close(backend);
}
#endif

static int seed(void **state)
{
    (void)state;
    test_seed(&rng);
    return 0;
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(twenty_steps), cmocka_unit_test(any_case),
    cmocka_unit_test(hard_cases),   cmocka_unit_test(large_tensors),
#if TERN_VULKAN
    cmocka_unit_test(bad_floats),   cmocka_unit_test(in_slices),
    cmocka_unit_test(scales),       cmocka_unit_test(hard_quotients_and_roots),
#endif
};

TEST_GROUP(update, "gpu web", tests, .setup = seed, .teardown = test_backends_close);
