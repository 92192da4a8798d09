/* Documents of training data as text. */
#include "apps/train/data_show.h"

#include "apps/app.h"
#include "base/alloc.h"
#include "base/bytes.h"

/* One document, and the text of the part that is being shown. */
typedef struct document {
    const tern_tokenizer *tokenizer;
    int32_t *ids;
    uint8_t *in_loss;
    size_t n, n_labels;
    tern_buf text;
} document;

static void free_document(document *d)
{
    tern_free(d->ids);
    tern_free(d->in_loss);
    tern_buf_deinit(&d->text);
}

static tern_status read_document(const tern_train_data *data, uint64_t i, document *d, tern_error *err)
{
    d->n = (size_t)tern_train_data_document(data, i);
    d->ids = tern_calloc(d->n, sizeof *d->ids);
    d->in_loss = tern_calloc(d->n, 1);
    if (!d->ids || !d->in_loss) return tern_fail_alloc(err, d->n * 5);
    TERN_TRY(tern_train_data_read(data, i, 0, d->n, d->ids, d->in_loss, err));
    for (size_t k = 0; k < d->n; k++) d->n_labels += d->in_loss[k];
    d->in_loss[0] = d->in_loss[1]; /* never a label, and no part of its own */
    return TERN_OK;
}

/* The end of the part that begins at `at`. */
static size_t part_end(const document *d, size_t at)
{
    size_t end = at;
    while (end < d->n && d->in_loss[end] == d->in_loss[at]) end++;
    return end;
}

static tern_status part_text(document *d, size_t from, size_t to, tern_error *err)
{
    d->text.size = 0;
    if (d->tokenizer) return tern_detokenize(d->tokenizer, d->ids + from, to - from, true, &d->text, err);
    for (size_t i = from; i < to; i++) TERN_TRY(tern_buf_addf(&d->text, err, "%s%d", i > from ? " " : "", d->ids[i]));
    return TERN_OK;
}

static tern_status print(document *d, uint64_t number, tern_error *err)
{
    printf("document %llu: %zu tokens, %zu in the loss\n", (unsigned long long)number, d->n, d->n_labels);
    for (size_t at = 0, end; at < d->n; at = end) {
        end = part_end(d, at);
        TERN_TRY(part_text(d, at, end, err));
        const bool counts = d->in_loss[at];
        if (!counts) tern_app_write("[-", 2);
        tern_app_write_text(d->text.data, d->text.size);
        if (!counts) tern_app_write("-]", 2);
        if (!d->tokenizer && end < d->n) tern_app_write(" ", 1);
    }
    tern_app_write("\n\n", 2);
    return TERN_OK;
}

static tern_status to_json(document *d, json_t *list, tern_error *err)
{
    json_t *parts = json_array();
    for (size_t at = 0, end; at < d->n; at = end) {
        end = part_end(d, at);
        if (part_text(d, at, end, err) != TERN_OK) {
            json_decref(parts);
            return err->code;
        }
        json_array_append_new(parts, json_pack("{s:o, s:b}", "text", tern_app_json_text(d->text.data, d->text.size),
                                               "in_loss", d->in_loss[at]));
    }
    json_array_append_new(list, json_pack("{s:I, s:I, s:o}", "tokens", (json_int_t)d->n, "labels",
                                          (json_int_t)d->n_labels, "parts", parts));
    return TERN_OK;
}

/* Each of the first n documents, into `list` or, for NULL, to standard output. */
static tern_status show(const tern_train_data *data, const tern_tokenizer *tokenizer, uint32_t n, json_t *list,
                        tern_error *err)
{
    const uint64_t all = tern_train_data_about(data)->n_documents;
    tern_status status = TERN_OK;
    for (uint64_t i = 0; i < all && i < n && status == TERN_OK; i++) {
        document d = {.tokenizer = tokenizer};
        status = read_document(data, i, &d, err);
        if (status == TERN_OK) status = list ? to_json(&d, list, err) : print(&d, i, err);
        free_document(&d);
    }
    return status;
}

tern_status tern_data_show(const tern_train_data *data, const tern_tokenizer *tokenizer, uint32_t n, tern_error *err)
{
    return show(data, tokenizer, n, NULL, err);
}

tern_status tern_data_show_json(const tern_train_data *data, const tern_tokenizer *tokenizer, uint32_t n, json_t **out,
                                tern_error *err)
{
    *out = json_array();
    if (!*out) return tern_fail_alloc(err, 0);
    tern_status status = show(data, tokenizer, n, *out, err);
    if (status == TERN_OK) return TERN_OK;
    json_decref(*out);
    *out = NULL;
    return status;
}
