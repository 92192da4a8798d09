/* Any bytes as a GGUF model: what is accepted holds weights of the promised sizes inside the file, and nothing leaks.
 */
#include "base/alloc.h"
#include "fuzz/fuzz.h"
#include "model/model.h"
#include "quant/encoding.h"
#include "quant/weight.h"
#include "text/tokenizer/tokenizer.h"

static volatile uint64_t sink; /* keeps the reads */

static void touch(const tern_weight *w)
{
    uint64_t sum = 0;
    size_t bytes = 0;
    FUZZ_CHECK(tern_encoding_bytes(w->encoding, w->rows, w->cols, &bytes, NULL) == TERN_OK && bytes == w->bytes);
    for (size_t i = 0; i < w->bytes; i++) sum += w->data[i];
    for (uint32_t r = 0; w->row_scales && r < w->rows; r++) sum += w->row_scales[r] > 0;
    sink += sum;
}

static void read_model(const tern_model *model)
{
    const tern_config *c = tern_model_config(model);
    float freq[256];
    FUZZ_CHECK(c->head_dim <= 512 && c->n_heads % c->n_kv_heads == 0);
    tern_rope_frequencies(&c->rope[0], c->head_dim, freq);
    sink += freq[c->head_dim / 2 - 1] > 0;
    for (uint32_t layer = 0; layer < c->n_layers; layer++)
        for (int role = 0; role < TERN_ROLE_COUNT; role++) {
            const tern_weight *w = tern_model_weight(model, (tern_role)role, layer);
            if (w->encoding) touch(w);
        }
    const tern_tokenizer *t = tern_model_tokenizer(model);
    FUZZ_CHECK(!t || tern_tokenizer_size(t) <= c->n_vocab);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t live = tern_alloc_live();
    tern_model *model = NULL;
    tern_error err = {0};
    tern_status status = tern_model_open_memory(&model, data, size, &(tern_model_options){.mtp = true}, &err);
    FUZZ_CHECK((status == TERN_OK) == (model != NULL));
    if (status == TERN_UNSUPPORTED) /* a layout that only conversion reads, or what nothing does */
        status = tern_model_open_memory(&model, data, size, &(tern_model_options){.foreign = true, .mtp = true}, &err);
    FUZZ_CHECK((status == TERN_OK) == (model != NULL));
    FUZZ_CHECK(status == TERN_OK || (err.code == status && err.message[0]));
    if (model) read_model(model);
    tern_model_close(model);
    FUZZ_CHECK(tern_alloc_live() == live);
    return 0;
}
