/* CPU features: what is found agrees with the compiler's own look, and what users ask for is parsed. */
#include "support/test.h"

#include "base/cpu.h"

enum {
    AVX2_SET = TERN_CPU_SSE41 | TERN_CPU_AVX2,
    AVX512_SET = AVX2_SET | TERN_CPU_AVX512,
    ICE_LAKE = AVX512_SET | TERN_CPU_AVX512_VNNI | TERN_CPU_AVX512_VBMI, /* has no AVX-VNNI */
    ALDER_LAKE = AVX2_SET | TERN_CPU_AVX_VNNI,
    SAPPHIRE_RAPIDS = ICE_LAKE | TERN_CPU_AVX_VNNI,
    ARM_SET = TERN_CPU_NEON | TERN_CPU_NEON_DOTPROD,
};

typedef struct parse_case {
    const char *text;
    uint32_t native, expected;
} parse_case;

static void levels_are_parsed(void **state)
{
    (void)state;
    const parse_case cases[] = {
        {"native", ICE_LAKE, ICE_LAKE},
        {"scalar", ICE_LAKE, 0},
        {"sse4.1", ICE_LAKE, TERN_CPU_SSE41},
        {"avx2", SAPPHIRE_RAPIDS, AVX2_SET},
        {"avx-vnni", SAPPHIRE_RAPIDS, ALDER_LAKE},
        {"avx512-vnni", ICE_LAKE, AVX512_SET | TERN_CPU_AVX512_VNNI},
        {"avx512-vnni", SAPPHIRE_RAPIDS, ALDER_LAKE | AVX512_SET | TERN_CPU_AVX512_VNNI},
        {"avx512-vbmi", SAPPHIRE_RAPIDS, SAPPHIRE_RAPIDS},
        {"neon", ARM_SET, TERN_CPU_NEON},
        {"neon-dotprod", ARM_SET, ARM_SET},
        {"-avx512-vbmi", ICE_LAKE, AVX512_SET | TERN_CPU_AVX512_VNNI},
        {"-avx512-vbmi,-avx-vnni", SAPPHIRE_RAPIDS, AVX512_SET | TERN_CPU_AVX512_VNNI},
        {"-avx2", SAPPHIRE_RAPIDS, TERN_CPU_SSE41},
        {"-avx512-vnni", SAPPHIRE_RAPIDS, ALDER_LAKE | AVX512_SET},
        {"-neon", SAPPHIRE_RAPIDS, SAPPHIRE_RAPIDS},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tern_error err = {0};
        uint32_t features = 12345;
        assert_ok(tern_cpu_features_parse(cases[i].text, cases[i].native, &features, &err), err);
        assert_int_equal(features, cases[i].expected);
    }
}

static void wrong_requests_are_refused(void **state)
{
    (void)state;
    const struct {
        const char *text;
        uint32_t native;
        const char *message;
    } cases[] = {
        {"avx9", ICE_LAKE,
         "CPU feature \"avx9\" is unknown, expected native, scalar or one of "
         "sse4.1 avx2 avx-vnni avx512 avx512-vnni avx512-vbmi amx-int8 neon neon-dotprod simd128 neon-i8mm"},
        {"", ICE_LAKE, "CPU feature \"\" is unknown"},
        {"avx-vnni", ICE_LAKE, "CPU feature avx-vnni: this CPU has only sse4.1 avx2 avx512"},
        {"avx2", 0, "CPU feature avx2: this CPU has only scalar"},
        {"neon", ALDER_LAKE, "CPU feature neon: this CPU has only sse4.1 avx2 avx-vnni"},
        {"-avx9", ICE_LAKE, "CPU feature \"avx9\" is unknown"},
        {"-", ICE_LAKE, "CPU feature \"\" is unknown"},
        {"-avx2,", ICE_LAKE, "CPU features \"-avx2,\": found \"\" in a list, expected \"-name\""},
        {"avx2,-avx-vnni", ICE_LAKE, "CPU features \"avx2,-avx-vnni\": found \"avx2\" in a list"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        tern_error err = {0};
        uint32_t features = 12345;
        assert_int_equal(tern_cpu_features_parse(cases[i].text, cases[i].native, &features, &err),
                         TERN_INVALID_ARGUMENT);
        assert_int_equal(features, 12345);
        assert_non_null(strstr(err.message, cases[i].message));
    }
}

static void features_are_printed(void **state)
{
    (void)state;
    char out[128];
    tern_cpu_features_print(0, out, sizeof out);
    assert_string_equal(out, "scalar");
    tern_cpu_features_print(ALDER_LAKE, out, sizeof out);
    assert_string_equal(out, "sse4.1 avx2 avx-vnni");
    tern_cpu_features_print(ALDER_LAKE, out, 9);
    assert_string_equal(out, "sse4.1 a");
    tern_cpu_features_print(ALDER_LAKE, out, 0);
}

/* The compiler's run-time library asks CPUID and XCR0 in code of its own. */
static void features_agree_with_the_compiler(void **state)
{
    (void)state;
    uint32_t features = tern_cpu_features();
#if defined(__x86_64__)
    __builtin_cpu_init();
    assert_int_equal(!!(features & TERN_CPU_SSE41), !!__builtin_cpu_supports("sse4.1"));
    assert_int_equal(!!(features & TERN_CPU_AVX2), __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"));
    bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                  __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq") &&
                  __builtin_cpu_supports("avx512cd");
    assert_int_equal(!!(features & TERN_CPU_AVX512), avx512);
    bool vnni = avx512 && __builtin_cpu_supports("avx512vnni");
    assert_int_equal(!!(features & TERN_CPU_AVX512_VNNI), vnni);
    assert_int_equal(!!(features & TERN_CPU_AVX512_VBMI),
                     vnni && __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2"));
#elif defined(__aarch64__)
    assert_true(features & TERN_CPU_NEON);
#elif defined(__wasm_simd128__)
    assert_int_equal(features, TERN_CPU_SIMD128);
#else
    assert_int_equal(features, 0);
#endif
    uint32_t parsed;
    tern_error err = {0};
    assert_ok(tern_cpu_features_parse("native", features, &parsed, &err), err);
    assert_int_equal(parsed, features);
}

static void machine_is_described(void **state)
{
    (void)state;
    char name[128] = "";
    tern_cpu_name(name, sizeof name);
    assert_true(strlen(name) > 0);
    assert_null(strchr(name, '\n'));
    char tiny[4];
    tern_cpu_name(tiny, sizeof tiny);
    assert_true(strlen(tiny) == 3);
    uint32_t cores = tern_cpu_cores(), threads = tern_cpu_threads();
    assert_true(cores >= 1 && cores <= threads);
    uint32_t ids[2] = {0};
    assert_true(tern_cpu_core_ids(ids, 2) <= 2);
    assert_true(tern_cpu_core_ids(ids, 0) == 0);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(levels_are_parsed),    cmocka_unit_test(wrong_requests_are_refused),
    cmocka_unit_test(features_are_printed), cmocka_unit_test(features_agree_with_the_compiler),
    cmocka_unit_test(machine_is_described),
};

TEST_GROUP(cpu, "web", tests);
