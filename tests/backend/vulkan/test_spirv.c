/* Every pipeline has its SPIR-V in the library, whole. What the words say is proved where they are made: tools/wgsl. */
#include "backend/gpu/generated/kernels.h"
#include "backend/gpu/spirv.h"
#include "base/alloc.h"
#include "support/test.h"

enum { MAGIC = 0x07230203, VERSION_1_3 = 0x00010300, OP_FUNCTION_END = 56 };
enum { OP_TYPE_STRUCT = 30, OP_TYPE_POINTER = 32, OP_VARIABLE = 59, PUSH_CONSTANT = 9 };

/* The caller frees. */
static uint32_t *module_of(tern_gpu_pipeline which, size_t *n)
{
    tern_error err = {0};
    uint32_t *words = NULL;
    assert_ok(tern_gpu_spirv(which, &words, n, &err), err);
    return words;
}

static void every_pipeline_has_a_module(void **state)
{
    (void)state;
    for (tern_gpu_pipeline i = 0; i < TERN_GPU_PIPELINE_COUNT; i++) {
        size_t n = 0, end = 5;
        uint32_t *words = module_of(i, &n);
        if (n < 6 || words[0] != MAGIC || words[1] != VERSION_1_3)
            fail_msg("%s: no SPIR-V 1.3", tern_gpu_pipelines[i].name);
        uint32_t last = 0;
        for (; end < n && words[end] >> 16 != 0; end += words[end] >> 16) last = words[end] & 0xffff;
        if (end != n || last != OP_FUNCTION_END)
            fail_msg("%s: cut off at word %zu of %zu", tern_gpu_pipelines[i].name, end, n);
        tern_free(words);
    }
}

/* The first instruction with this opcode whose word `at` is `value`, or NULL. */
static const uint32_t *find(const uint32_t *words, size_t n, uint32_t opcode, size_t at, uint32_t value)
{
    for (size_t i = 5; i < n; i += words[i] >> 16)
        if ((words[i] & 0xffff) == opcode && words[i + at] == value) return words + i;
    return NULL;
}

/* The struct that a pointer points at; a struct of nothing but a struct, as some modules have it, is what it holds. */
static const uint32_t *struct_of(const uint32_t *words, size_t n, uint32_t pointer)
{
    const uint32_t *type = find(words, n, OP_TYPE_POINTER, 1, pointer), *inner = NULL;
    if (type) type = find(words, n, OP_TYPE_STRUCT, 1, type[3]);
    if (type && type[0] >> 16 == 3) inner = find(words, n, OP_TYPE_STRUCT, 1, type[2]);
    return inner ? inner : type;
}

/* What lowering fills is what the compiled kernel reads: as many words. */
static void uniforms_are_whole(void **state)
{
    (void)state;
    for (tern_gpu_pipeline i = 0; i < TERN_GPU_PIPELINE_COUNT; i++) {
        size_t n = 0;
        uint32_t *words = module_of(i, &n);
        const uint32_t *variable = find(words, n, OP_VARIABLE, 3, PUSH_CONSTANT),
                       *type = variable ? struct_of(words, n, variable[1]) : NULL;
        if (!type) fail_msg("%s reads no uniform", tern_gpu_pipelines[i].name);
        const uint32_t bytes = ((type[0] >> 16) - 2) * 4;
        if (bytes != tern_gpu_specialised_kernels[i].uniform_bytes)
            fail_msg("%s reads %u bytes, its uniform in C has %u", tern_gpu_pipelines[i].name, bytes,
                     tern_gpu_specialised_kernels[i].uniform_bytes);
        tern_free(words);
    }
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(every_pipeline_has_a_module),
                                          cmocka_unit_test(uniforms_are_whole)};

TEST_GROUP(spirv, "", tests);
