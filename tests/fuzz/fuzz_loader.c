/* Any bytes as a GGUF file that comes piece by piece, its header in cuts that the first byte chooses: what is accepted
 * is what the whole file in memory gives, and what is refused there is refused here. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "fuzz/fuzz.h"
#include "model/stream/stream.h"

/* A block of exactly n bytes that is gone afterwards. */
static tern_status give(tern_model_stream **s, const uint8_t *data, size_t n, const tern_model_stream_options *o,
                        uint64_t *wanted, tern_error *err)
{
    uint8_t *copy = malloc(n ? n : 1);
    if (!copy) abort();
    if (n) memcpy(copy, data, n);
    tern_status status = tern_model_stream_open(s, copy, n, o, wanted, err);
    free(copy);
    return status;
}

static tern_status open_head(tern_model_stream **s, const uint8_t *data, size_t size, size_t cut, bool keep,
                             tern_error *err)
{
    const tern_model_stream_options o = {.file_bytes = size, .keep = keep};
    size_t n = cut < size ? cut : size;
    for (;;) {
        uint64_t wanted = 0;
        tern_status status = give(s, data, n, &o, &wanted, err);
        FUZZ_CHECK((status == TERN_OK) == (*s != NULL));
        if (status != TERN_PENDING) return status;
        FUZZ_CHECK(wanted > n && wanted <= size);
        n = (size_t)wanted;
    }
}

/* `after`: the byte behind the weight in the file. */
static void check_ends(const tern_weight *w, const uint8_t *after)
{
    const size_t n = w->bytes < TERN_WEIGHT_END_BYTES ? w->bytes : TERN_WEIGHT_END_BYTES;
    FUZZ_CHECK(memcmp(w->ends, after - w->bytes, n) == 0);
    FUZZ_CHECK(memcmp(w->ends + TERN_WEIGHT_END_BYTES, after - n, n) == 0);
}

static tern_status read_pieces(tern_model_stream *s, const uint8_t *data, size_t size, tern_error *err)
{
    tern_model_piece p;
    tern_model_part part;
    tern_status status;
    uint64_t end = 0;
    while ((status = tern_model_stream_next(s, &p, err)) == TERN_OK) {
        FUZZ_CHECK(p.offset >= end && p.bytes > 0 && p.offset <= size && p.bytes <= size - p.offset);
        end = p.offset + p.bytes;
        memcpy(p.into, data + p.offset, p.bytes);
        status = tern_model_stream_accept(s, &part, err);
        if (status != TERN_OK) return status;
        if (part.weight && part.first + part.rows.rows == part.weight->rows) check_ends(part.weight, data + end);
        if (part.weight)
            FUZZ_CHECK(part.rows.rows > 0 && part.first + part.rows.rows <= part.weight->rows && part.rows.data);
    }
    return status == TERN_NOT_FOUND ? TERN_OK : status;
}

static tern_status load(const uint8_t *data, size_t size, size_t cut, bool keep)
{
    int64_t live = tern_alloc_live();
    tern_model_stream *s = NULL;
    tern_model *model = NULL;
    tern_error err = {0};
    tern_status status = open_head(&s, data, size, cut, keep, &err);
    if (status == TERN_OK) status = read_pieces(s, data, size, &err);
    if (status == TERN_OK) status = tern_model_stream_finish(s, &model, &err);
    FUZZ_CHECK(status == TERN_OK || (err.code == status && err.message[0]));
    tern_model_close(model);
    tern_model_stream_close(s);
    FUZZ_CHECK(tern_alloc_live() == live);
    return status;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0) return 0;
    const size_t cut = data[0] * 7u;
    data++;
    size--;
    tern_model *model = NULL;
    tern_error err = {0};
    const tern_status whole = tern_model_open_memory(&model, data, size, NULL, &err);
    tern_model_close(model);
    FUZZ_CHECK((load(data, size, cut, true) == TERN_OK) == (whole == TERN_OK));
    FUZZ_CHECK((load(data, size, cut, false) == TERN_OK) == (whole == TERN_OK));
    return 0;
}
