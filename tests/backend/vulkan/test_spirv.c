/* Every pipeline has its SPIR-V in the library, whole. What the words say is proved where they are made: tools/wgsl. */
#include "support/test.h"

#include "backend/gpu/spirv.h"

enum { MAGIC = 0x07230203, VERSION_1_3 = 0x00010300, OP_FUNCTION_END = 56 };

static void every_pipeline_has_a_module(void **state)
{
    (void)state;
    for (tern_gpu_pipeline i = 0; i < TERN_GPU_PIPELINE_COUNT; i++) {
        size_t n = 0, end = 5;
        const uint32_t *words = tern_gpu_spirv(i, &n);
        if (n < 6 || words[0] != MAGIC || words[1] != VERSION_1_3)
            fail_msg("%s: no SPIR-V 1.3", tern_gpu_pipelines[i].name);
        uint32_t last = 0;
        for (; end < n && words[end] >> 16 != 0; end += words[end] >> 16) last = words[end] & 0xffff;
        if (end != n || last != OP_FUNCTION_END)
            fail_msg("%s: cut off at word %zu of %zu", tern_gpu_pipelines[i].name, end, n);
    }
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(every_pipeline_has_a_module)};

TEST_GROUP(spirv, "", tests);
