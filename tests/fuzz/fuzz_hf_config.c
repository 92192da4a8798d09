/* Any bytes as config.json: what is accepted is a configuration within the limits. */
#include "base/alloc.h"
#include "fuzz/fuzz.h"
#include "model/model_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t live = tern_alloc_live();
    json_t *root = NULL;
    tern_error err = {0};
    tern_config config = {0};
    tern_hf_layout layout = {0};
    if (tern_json_parse_last(&root, data, size, "config.json", &err) == TERN_OK &&
        tern_config__from_hf(&config, &layout, root, "fuzz", &err) == TERN_OK) {
        float freq[TERN_MODEL__MAX_HEAD_DIM / 2];
        FUZZ_CHECK(tern_config__check(&config, NULL) == TERN_OK);
        FUZZ_CHECK(tern_family__find(config.architecture) != NULL);
        tern_rope_frequencies(&config.rope[0], config.head_dim, freq);
    }
    tern_json_free(root);
    FUZZ_CHECK(tern_alloc_live() == live);
    return 0;
}
