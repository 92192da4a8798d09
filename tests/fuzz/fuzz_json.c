/* Any bytes as JSON, as a tree and by walking members: the walk accepts every object that the parser accepts, and
 * nothing leaks. */
#include "base/alloc.h"
#include "base/bytes.h"
#include "format/json.h"
#include "fuzz/fuzz.h"

static tern_status walk_all(const uint8_t *data, size_t size, size_t *n)
{
    tern_json_walk walk = {.data = data, .size = size};
    tern_span key, value;
    tern_error err;
    bool more = true;
    for (*n = 0; more; *n += more) {
        TERN_TRY(tern_json_walk_next(&walk, &more, &key, &value, &err));
        FUZZ_CHECK(!more || (key.data >= data && value.data + value.size <= data + size));
    }
    return TERN_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t live = tern_alloc_live();
    json_t *root = NULL;
    tern_error err = {0};
    size_t members = 0;
    tern_status status = tern_json_parse(&root, data, size, "input", &err);
    tern_status walked = walk_all(data, size, &members);
    FUZZ_CHECK((status == TERN_OK) == (root != NULL));
    FUZZ_CHECK(status == TERN_OK || (err.code == status && err.message[0]));
    if (json_is_object(root)) FUZZ_CHECK(walked == TERN_OK && members == json_object_size(root));
    uint32_t v;
    if (root) (void)tern_json_get_u32(root, "a", &v, &err);
    tern_json_free(root);
    FUZZ_CHECK(tern_alloc_live() == live);
    return 0;
}
