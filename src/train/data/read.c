/* Reading input files line by line. */
#include <string.h>

#include "base/show.h"
#include "train/data/kind.h"
#include "train/data/read_internal.h"

typedef tern_train_reading reading;

tern_status tern_train_reading__update(const tern_train_reading *r, uint64_t at, tern_error *err)
{
    const tern_train_data_params *p = r->params;
    if (!p->progress) return TERN_OK;
    const float done = r->total ? (float)((double)(r->before + at) / (double)r->total) : 1.0f;
    return p->progress(p->context, done) ? TERN_OK : tern_fail(err, TERN_CANCELLED, "interrupted");
}

/* All documents of a file are sequences or none is: the first one says which. */
static tern_status check_kind(reading *r, tern_error *err)
{
    tern_train_data_info *info = &r->writer.info;
    const bool sequence = r->document.sequence;
    if (info->n_documents == 0) info->sequences = sequence;
    if (info->sequences == sequence) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT, "%s:%llu: %s after %s: rows of ids need a file of their own",
                     tern_show_z(r->path).text, (unsigned long long)r->line, sequence ? "ids" : "text",
                     sequence ? "text" : "ids");
}

tern_status tern_train_reading__keep(tern_train_reading *r, tern_error *err)
{
    tern_train_document *d = &r->document;
    if (d->skip != TERN_TRAIN_KEPT) {
        r->report->skipped[d->skip]++;
        return TERN_OK;
    }
    TERN_TRY(check_kind(r, err));
    r->report->conversations += d->conversation;
    r->report->joined += d->joined;
    r->report->empty_answers += d->n_empty;
    r->report->unlike_answers += d->n_unlike;
    if (d->ids.n > r->report->longest) r->report->longest = d->ids.n;
    return tern_train_data_writer_add(&r->writer, d->ids.ids, (const uint8_t *)d->in_loss.data, d->ids.n, err);
}

/* The next line without its end ("\n" or "\r\n"); false at the end of the file. */
static bool next_line(tern_span *rest, tern_span *line)
{
    if (rest->size == 0) return false;
    const uint8_t *end = memchr(rest->data, '\n', rest->size);
    size_t n = end ? (size_t)(end - rest->data) : rest->size, used = end ? n + 1 : n;
    *line = (tern_span){rest->data, n && rest->data[n - 1] == '\r' ? n - 1 : n};
    rest->data += used;
    rest->size -= used;
    return true;
}

static bool is_blank(tern_span line)
{
    for (size_t i = 0; i < line.size; i++)
        if (line.data[i] != ' ' && line.data[i] != '\t') return false;
    return true;
}

/* Where the document at hand begins, for messages. */
static const char *document_place(const reading *r, char out[160])
{
    snprintf(out, 160, "%s:%llu", tern_show_z(r->path).text, (unsigned long long)r->line);
    return out;
}

tern_status tern_train_reading__made(tern_train_reading *r, tern_status status, const tern_error *bad, tern_error *err)
{
    if (status == TERN_OK) return tern_train_reading__keep(r, err);
    if (r->params->skip_bad && status != TERN_OUT_OF_MEMORY) {
        if (r->report->bad++ == 0) r->report->first_bad = *bad;
        return TERN_OK;
    }
    return tern_fail(err, status, "%s", bad->message);
}

tern_status tern_train_reading__add_line(tern_train_reading *r, tern_span line, tern_error *err)
{
    char what[160];
    tern_error bad = {0};
    tern_status status =
        tern_train_document_json(&r->params->maker, line.data, line.size, document_place(r, what), &r->document, &bad);
    return tern_train_reading__made(r, status, &bad, err);
}

tern_status tern_train_reading__add_value(tern_train_reading *r, const json_t *value, tern_error *err)
{
    char what[160];
    tern_error bad = {0};
    tern_status status =
        tern_train_document_value(&r->params->maker, value, document_place(r, what), &r->document, &bad);
    return tern_train_reading__made(r, status, &bad, err);
}

static tern_status read_jsonl(reading *r, tern_span bytes, tern_error *err)
{
    tern_span rest = bytes, line;
    while (next_line(&rest, &line)) {
        r->line++;
        if (!is_blank(line)) TERN_TRY(tern_train_reading__add_line(r, line, err));
        if (r->line % 64 == 0) TERN_TRY(tern_train_reading__update(r, bytes.size - rest.size, err));
    }
    return TERN_OK;
}

static tern_status add_text(reading *r, tern_span text, tern_error *err)
{
    if (tern_train_document_text(&r->params->maker, text.data, text.size, &r->document, err) != TERN_OK)
        return tern_error_prefix(err, "%s", tern_show_z(r->path).text);
    return tern_train_reading__keep(r, err);
}

/* Runs of lines that are not empty, each without the end of its last line. */
static tern_status read_paragraphs(reading *r, tern_span bytes, bool each_line, tern_error *err)
{
    tern_span rest = bytes, line, text = {0};
    while (next_line(&rest, &line)) {
        r->line++;
        bool blank = is_blank(line);
        if (text.size && (blank || each_line)) {
            TERN_TRY(add_text(r, text, err));
            text.size = 0;
            TERN_TRY(tern_train_reading__update(r, bytes.size - rest.size, err));
        }
        if (blank) continue;
        if (!text.size) text.data = line.data;
        text.size = (size_t)(line.data - text.data) + line.size;
    }
    return text.size ? add_text(r, text, err) : TERN_OK;
}

static bool is_line_end(uint8_t c)
{
    return c == '\n' || c == '\r';
}

static tern_span trim_lines(tern_span text)
{
    while (text.size && is_line_end(text.data[text.size - 1])) text.size--;
    while (text.size && is_line_end(*text.data)) text = (tern_span){text.data + 1, text.size - 1};
    return text;
}

/* The text between marks. */
static tern_status read_marked(reading *r, tern_span bytes, const char *mark, tern_error *err)
{
    const size_t n_mark = strlen(mark);
    if (n_mark == 0) return tern_fail(err, TERN_INVALID_ARGUMENT, "an empty mark: text that ends a document expected");
    for (tern_span rest = bytes; rest.size;) {
        const uint8_t *end = memmem(rest.data, rest.size, mark, n_mark);
        const size_t n = end ? (size_t)(end - rest.data) : rest.size, used = end ? n + n_mark : n;
        const tern_span text = trim_lines((tern_span){rest.data, n});
        rest = (tern_span){rest.data + used, rest.size - used};
        if (text.size) TERN_TRY(add_text(r, text, err));
        TERN_TRY(tern_train_reading__update(r, bytes.size - rest.size, err));
    }
    return TERN_OK;
}

static tern_status read_text(reading *r, tern_span bytes, tern_error *err)
{
    if (r->params->split == TERN_TRAIN_SPLIT_FILE) return add_text(r, bytes, err);
    if (r->params->split == TERN_TRAIN_SPLIT_MARK) return read_marked(r, bytes, r->params->mark, err);
    return read_paragraphs(r, bytes, r->params->split == TERN_TRAIN_SPLIT_LINE, err);
}

static tern_status read_bytes(reading *r, tern_span bytes, tern_error *err)
{
    tern_train_data_kind kind;
    TERN_TRY(tern_train_reading__update(r, 0, err));
    if (bytes.size >= 3 && memcmp(bytes.data, "\xEF\xBB\xBF", 3) == 0) /* the mark of UTF-8 */
        bytes = (tern_span){bytes.data + 3, bytes.size - 3};
    TERN_TRY(tern_train_data_kind_of(r->path, bytes, &kind, err));
    switch (kind) {
    case TERN_TRAIN_DATA_JSONL: return read_jsonl(r, bytes, err);
    case TERN_TRAIN_DATA_JSON: return tern_train_reading__json(r, bytes, err);
    case TERN_TRAIN_DATA_CSV: return tern_train_reading__csv(r, bytes, ',', err);
    case TERN_TRAIN_DATA_TSV: return tern_train_reading__csv(r, bytes, '\t', err);
    case TERN_TRAIN_DATA_TEXT: break;
    }
    return read_text(r, bytes, err);
}

static tern_status read_input(reading *r, const char *path, tern_error *err)
{
    tern_file_map map;
    r->path = path;
    r->line = 0;
    TERN_TRY(tern_file_map_open(&map, path, err));
    tern_status status = read_bytes(r, (tern_span){map.data, map.size}, err);
    r->before += map.size;
    tern_file_map_close(&map);
    return status;
}

/* Bytes of all inputs, for the progress bar; and that each is there before work begins. */
static tern_status measure(reading *r, tern_error *err)
{
    for (size_t i = 0; i < r->params->n_inputs; i++) {
        tern_file_map map;
        TERN_TRY(tern_file_map_open(&map, r->params->inputs[i], err));
        r->total += map.size;
        tern_file_map_close(&map);
    }
    return TERN_OK;
}

static tern_status fail_empty(const tern_train_data_report *report, tern_error *err)
{
    return tern_fail(err, TERN_INVALID_ARGUMENT,
                     "no document to learn from: %llu were shorter than two tokens, %llu had no token that counts in "
                     "the loss, %llu lines were bad",
                     (unsigned long long)report->skipped[TERN_TRAIN_SHORT],
                     (unsigned long long)report->skipped[TERN_TRAIN_NO_LABELS], (unsigned long long)report->bad);
}

static tern_train_data_info info_of(const tern_train_maker *m)
{
    return (tern_train_data_info){.n_vocab = m->n_vocab, .tokenizer = tern_train_data_tokenizer(m->tokenizer)};
}

static tern_status finish_file(reading *r, tern_error *err)
{
    TERN_TRY(tern_train_reading__update(r, 0, err));
    if (r->writer.info.n_documents == 0) return fail_empty(r->report, err);
    return tern_train_data_writer_commit(&r->writer, err);
}

static tern_status read_all(reading *r, const char *path, tern_error *err)
{
    const tern_train_data_info info = info_of(&r->params->maker);
    TERN_TRY(measure(r, err));
    TERN_TRY(tern_train_data_writer_open(&r->writer, path, &info, err));
    for (size_t i = 0; i < r->params->n_inputs; i++) TERN_TRY(read_input(r, r->params->inputs[i], err));
    return finish_file(r, err);
}

static tern_status read_memory(reading *r, tern_span bytes, tern_buf *out, tern_error *err)
{
    const tern_train_data_info info = info_of(&r->params->maker);
    r->total = bytes.size;
    TERN_TRY(tern_train_data_writer_open_memory(&r->writer, out, &info, err));
    TERN_TRY(read_bytes(r, bytes, err));
    r->before = bytes.size;
    return finish_file(r, err);
}

static tern_status check_maker(const tern_train_maker *m, tern_error *err)
{
    const uint32_t n_pieces = m->tokenizer ? tern_tokenizer_size(m->tokenizer) : 0;
    if (n_pieces <= m->n_vocab) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT, "the tokenizer has %u tokens: at most %u, the model's, expected",
                     n_pieces, m->n_vocab);
}

static tern_status close_reading(reading *r, tern_status status)
{
    r->report->info = r->writer.info;
    tern_train_data_writer_abort(&r->writer);
    tern_train_document_deinit(&r->document);
    return status;
}

tern_status tern_train_data_make(const tern_train_data_params *params, const char *path, tern_train_data_report *report,
                                 tern_error *err)
{
    *report = (tern_train_data_report){0};
    reading r = {.params = params, .report = report};
    TERN_TRY(check_maker(&params->maker, err));
    return close_reading(&r, read_all(&r, path, err));
}

tern_status tern_train_data_make_memory(const tern_train_data_params *params, const char *name, const void *bytes,
                                        size_t n, tern_buf *out, tern_train_data_report *report, tern_error *err)
{
    *report = (tern_train_data_report){0};
    reading r = {.params = params, .report = report, .path = name};
    TERN_TRY(check_maker(&params->maker, err));
    return close_reading(&r, read_memory(&r, (tern_span){bytes, n}, out, err));
}
