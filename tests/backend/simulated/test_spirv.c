/* The simulated GPU finds what is wrong with a kernel (tests/data/kernels), and nothing else. */
#include "support/places.h"
#include "support/spirv.h"
#include "support/test.h"

enum { WORDS = 64, N_OUT = 128 };

typedef struct mistake {
    const char *kernel, *words; /* of the message; NULL: none */
    uint32_t n, n_groups;
} mistake;

static const mistake mistakes[] = {
    {"good", NULL, 0, 1},
    {"no_barrier", "workgroup memory at byte", 0, 1},
    {"two_groups", "of another workgroup writes it", 0, 2},
    {"reads_what_another_group_writes", "of another workgroup", 0, 2},
    {"storage_race", "of the same workgroup", 0, 1},
    {"out_of_bounds", "binding 1 at byte 256: it has 256", 1, 1},
    {"out_of_array", "element 64 of 64", 1, 1},
    {"divergent_barrier", "waits at a barrier that others do not reach", 0, 1},
    {"divergent_subgroup", "waits at a subgroup operation that others do not reach", 0, 1},
    {"no_end", "more than", 0, 1},
};

typedef struct kernel {
    uint32_t *words;
    spirv_module *module;
    uint32_t uniform[4], in[WORDS], out[N_OUT];
    spirv_trace in_traces[WORDS], out_traces[N_OUT];
    spirv_memory memory[3];
} kernel;

static void open_kernel(kernel *k, const char *name, uint32_t n)
{
    char path[512];
    const char *error = NULL;
    snprintf(path, sizeof path, TERN_SOURCE_DIR "/tests/data/kernels/%s.spv", name);
    FILE *file = fopen(path, "rb");
    if (!file) fail_msg("%s is not there", path);
    k->words = malloc(1 << 16);
    const size_t n_words = fread(k->words, 4, 1 << 14, file);
    fclose(file);
    k->module = spirv_open(k->words, n_words, &error);
    if (!k->module) fail_msg("%s: %s", name, error);
    k->uniform[0] = n;
    for (uint32_t i = 0; i < WORDS; i++) k->in[i] = i;
    k->memory[0] = (spirv_memory){.words = k->uniform, .bytes = sizeof k->uniform};
    k->memory[1] = (spirv_memory){.words = k->in, .traces = k->in_traces, .bytes = sizeof k->in};
    k->memory[2] = (spirv_memory){.words = k->out, .traces = k->out_traces, .bytes = sizeof k->out};
}

static const char *run(kernel *k, uint32_t n_groups, uint32_t subgroup, bool b_written, bool fences, bool backwards)
{
    spirv_figures figures = {0};
    spirv_dispatch d = {.module = k->module, .subgroup_size = subgroup, .groups = {n_groups, 1, 1}, .fences = fences};
    for (uint32_t i = 0; i < 3; i++)
        d.bindings[i] =
            (spirv_binding){.memory = &k->memory[i], .bytes = k->memory[i].bytes, .written = i == 1 || b_written};
    return spirv_run(&d, backwards, &figures);
}

static void close_kernel(kernel *k)
{
    spirv_close(k->module);
    free(k->words);
}

static void finds_each_mistake(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof mistakes / sizeof *mistakes; i++) {
        kernel k = {0};
        open_kernel(&k, mistakes[i].kernel, mistakes[i].n);
        const char *what = run(&k, mistakes[i].n_groups, 8, true, true, i % 2);
        if (!mistakes[i].words && what) fail_msg("%s: %s", mistakes[i].kernel, what);
        if (mistakes[i].words && (!what || !strstr(what, mistakes[i].words)))
            fail_msg("%s: \"%s\"; \"%s\" expected", mistakes[i].kernel, what ? what : "", mistakes[i].words);
        close_kernel(&k);
    }
}

static void computes(void **state)
{
    (void)state;
    for (uint32_t subgroup = 4; subgroup <= 64; subgroup *= 2) {
        kernel k = {0};
        open_kernel(&k, "good", 0);
        assert_null(run(&k, 1, subgroup, true, true, false));
        for (uint32_t i = 0; i < WORDS; i++) {
            const uint32_t first = i / subgroup * subgroup;
            assert_int_equal(k.out[i], 63 - i);
            assert_int_equal(k.out[WORDS + i], subgroup * first + subgroup * (subgroup - 1) / 2);
        }
        close_kernel(&k);
    }
}

/* Workgroups of one dispatch work together where storage barriers reach other workgroups, and nowhere else. */
static void merges_with_fences_alone(void **state)
{
    (void)state;
    for (int fences = 0; fences < 2; fences++) {
        kernel k = {0};
        open_kernel(&k, "merge", 0);
        const char *what = run(&k, 4, 8, true, fences, true);
        if (!fences) {
            assert_non_null(what);
            assert_non_null(strstr(what, "of another workgroup writes it"));
        } else {
            if (what) fail_msg("%s", what);
            for (uint32_t i = 0; i < 8; i++) assert_int_equal(k.out[i], 4 * i + 6);
        }
        close_kernel(&k);
    }
}

static void what_is_only_read_is_not_written(void **state)
{
    (void)state;
    kernel k = {0};
    open_kernel(&k, "good", 0);
    const char *what = run(&k, 1, 8, false, true, false);
    assert_non_null(what);
    assert_non_null(strstr(what, "binding 2 is written, but said to be only read"));
    close_kernel(&k);
}

/* Not an error in itself, but no zero either. */
static void workgroup_memory_is_not_zero(void **state)
{
    (void)state;
    kernel k = {0};
    open_kernel(&k, "unwritten", 0);
    assert_null(run(&k, 1, 8, true, true, false));
    assert_int_equal(k.out[63], 0);
    assert_int_not_equal(k.out[0], 0);
    close_kernel(&k);
}

static void refuses_what_is_no_spirv(void **state)
{
    (void)state;
    const uint32_t words[8] = {0x07230203, 0x00010300, 0, 4, 0, 0x00040015, 1, 16};
    const char *error = NULL;
    assert_null(spirv_open(words, 8, &error)); /* cut off, and an integer of 16 bits */
    assert_non_null(error);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(finds_each_mistake),           cmocka_unit_test(computes),
    cmocka_unit_test(merges_with_fences_alone),     cmocka_unit_test(what_is_only_read_is_not_written),
    cmocka_unit_test(workgroup_memory_is_not_zero), cmocka_unit_test(refuses_what_is_no_spirv),
};

TEST_GROUP(spirv, "slow", tests);
