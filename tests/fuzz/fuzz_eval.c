/* Any bytes as a question of tern eval: one that is taken has a context, and an answer among its choices or a text to
 * compare with; nothing leaks, and what is refused is said. */
#include "apps/eval/item.h"
#include "base/alloc.h"
#include "format/json.h"
#include "fuzz/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    const int64_t live = tern_alloc_live();
    json_t *object = NULL;
    tern_error err = {0};
    tern_eval_item item = {0};
    if (tern_json_parse(&object, data, size, "JSON", &err) != TERN_OK) return 0;
    const tern_status status = tern_eval_item_read(&item, object, &err);
    FUZZ_CHECK(status == TERN_OK || (err.code == status && err.message[0]));
    FUZZ_CHECK(item.n_choices <= TERN_EVAL_MAX_CHOICES);
    if (status == TERN_OK && item.n_choices) FUZZ_CHECK(item.answer < item.n_choices && item.n_choices > 1);
    for (uint32_t i = 0; status == TERN_OK && i < item.n_choices; i++) FUZZ_CHECK(item.choices[i].size > 0);
    tern_eval_item_deinit(&item);
    tern_json_free(object);
    FUZZ_CHECK(tern_alloc_live() == live);
    return 0;
}
