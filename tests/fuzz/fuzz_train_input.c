/* Any bytes as what people give tern data, as each kind of file: documents or a clean refusal. */
#include "base/alloc.h"
#include "fuzz/fuzz.h"
#include "train/data/read.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    static const char *const names[] = {"a.txt", "a.jsonl", "a.json", "a.csv", "a.tsv"};
    const int64_t live = tern_alloc_live();
    if (size == 0) return 0;
    tern_buf out = {0};
    tern_error err = {0};
    tern_train_data_report report;
    const tern_train_data_params params = {
        .maker = {.n_vocab = 100}, .column = *bytes & 8 ? "a" : NULL, .skip_bad = *bytes & 16};
    tern_status status =
        tern_train_data_make_memory(&params, names[*bytes % 5], bytes + 1, size - 1, &out, &report, &err);
    FUZZ_CHECK(status == TERN_OK || err.message[0]);
    FUZZ_CHECK(status != TERN_OK || report.info.n_documents > 0);
    tern_buf_deinit(&out);
    FUZZ_CHECK(tern_alloc_live() == live);
    return 0;
}
