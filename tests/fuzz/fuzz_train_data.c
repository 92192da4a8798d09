/* Any bytes as a training data file: they open to documents that can be read and packed, or are refused cleanly; and
 * the same bytes as a line of JSONL. */
#include "base/alloc.h"
#include "format/json.h"
#include "fuzz/fuzz.h"
#include "train/data/document.h"
#include "train/data/pack.h"
#include "train/data/talk.h"

enum { SEQ = 8 };

static void read_rows(const tern_train_pack *pack)
{
    int32_t ids[SEQ], labels[SEQ];
    uint32_t starts[SEQ];
    uint64_t n_labels = 0, n_positions = 0;
    const tern_train_pack_info *info = tern_train_pack_about(pack);
    tern_error err = {0};
    for (uint32_t r = 0; r < info->n_rows; r++) {
        tern_train_row row = {.ids = ids, .labels = labels, .starts = starts};
        FUZZ_CHECK(tern_train_pack_row(pack, r, &row, &err) == TERN_OK);
        for (uint32_t i = 0; i < SEQ; i++) FUZZ_CHECK(starts[i] <= i);
        n_labels += row.n_labels;
        n_positions += row.n_used;
    }
    FUZZ_CHECK(n_labels == info->n_labels && n_positions == info->n_positions);
}

/* Packing reads all ids: a file with a bad one may open, but does not pack. */
static void read_all(const tern_train_data *data)
{
    const tern_train_data_info *info = tern_train_data_about(data);
    uint64_t n_tokens = 0;
    tern_error err = {0};
    for (uint64_t d = 0; d < info->n_documents; d++) n_tokens += tern_train_data_document(data, d);
    FUZZ_CHECK(n_tokens == info->n_tokens);
    const bool sound = tern_train_data_check(data, &err) == TERN_OK;
    for (int side = 0; side < 3; side++) {
        const tern_train_pack_params params = {.seq = SEQ, .held_out = side ? 0.3 : 0, .validation = side == 2};
        tern_train_pack *pack;
        tern_status status = tern_train_pack_open(&pack, data, &params, &err);
        FUZZ_CHECK((status == TERN_OK) == (pack != NULL));
        if (side == 0 && sound && info->n_loss) FUZZ_CHECK(status == TERN_OK);
        if (pack) read_rows(pack);
        tern_train_pack_close(pack);
    }
}

/* The conversation of a line, in each form, as the template would get it. */
static void read_talk(const uint8_t *bytes, size_t size)
{
    static tern_status (*const forms[])(const json_t *, json_t *, size_t *, tern_error *) = {
        tern_train__plain, tern_train__conversation, tern_train__instruction, tern_train__pair};
    json_t *line;
    if (tern_json_parse(&line, bytes, size, "line", NULL) != TERN_OK) return;
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
        json_t *list = json_array();
        tern_train_talk talk = {0};
        size_t n_prompt = 0;
        tern_error err = {0};
        tern_status status = forms[i](line, list, &n_prompt, &err);
        if (status == TERN_OK) status = tern_train__talk_read(&talk, line, list, n_prompt, &err);
        FUZZ_CHECK(status == TERN_OK ? json_array_size(talk.messages) == json_array_size(list) : err.message[0] != 0);
        tern_train__talk_deinit(&talk);
        json_decref(list);
    }
    tern_json_free(line);
}

static void read_line(const uint8_t *bytes, size_t size)
{
    read_talk(bytes, size);
    const tern_train_maker maker = {.n_vocab = 100};
    tern_train_document d = {0};
    tern_error err = {0};
    tern_status status = tern_train_document_json(&maker, bytes, size, "line", &d, &err);
    FUZZ_CHECK(status == TERN_OK || err.message[0]);
    if (status == TERN_OK && d.skip == TERN_TRAIN_KEPT) FUZZ_CHECK(d.ids.n >= 2 && d.in_loss.size == d.ids.n);
    tern_train_document_deinit(&d);
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    const int64_t live = tern_alloc_live();
    tern_train_data *data;
    tern_error err = {0};
    tern_status status = tern_train_data_open_memory(&data, bytes, size, &err);
    FUZZ_CHECK((status == TERN_OK) == (data != NULL));
    FUZZ_CHECK(status == TERN_OK || err.message[0]);
    if (data) read_all(data);
    else read_line(bytes, size);
    tern_train_data_close(data);
    FUZZ_CHECK(tern_alloc_live() == live);
    return 0;
}
