/* The kind of training data that a file holds, told by its bytes. */
#include "train/data/kind.h"

#include <string.h>

#include "base/form.h"
#include "base/show.h"
#include "format/json.h"
#include "train/data/document.h"

enum { LOOKED_AT = 1 << 16 };

static tern_status fail_kind(const char *path, const char *what, tern_error *err)
{
    return tern_fail(err, TERN_UNSUPPORTED, "%s: %s", tern_show_z(path).text, what);
}

/* Bytes of a sequence that starts like this; 0: none does. Whether what follows continues it is `count_bad`'s. */
static size_t sequence_bytes(uint8_t first)
{
    if (first < 0x80) return 1;
    if (first < 0xC2) return 0;
    return first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
}

/* Bytes that are not UTF-8, of a part that may end within a character. */
static size_t count_bad(tern_span part)
{
    size_t n_bad = 0;
    for (size_t at = 0; at < part.size;) {
        size_t n = sequence_bytes(part.data[at]), k = 1;
        while (k < n && at + k < part.size && part.data[at + k] >> 6 == 2) k++;
        if (at + k == part.size && k < n) break;
        n_bad += k < n || n == 0 ? k : 0;
        at += k;
    }
    return n_bad;
}

/* Text may have a few damaged characters, and no NUL. */
static tern_status check_text(const char *path, tern_span bytes, tern_error *err)
{
    const char *form = tern_form_of_bytes(bytes);
    if (form) return fail_kind(path, form, err);
    const tern_span part = {bytes.data, bytes.size < LOOKED_AT ? bytes.size : LOOKED_AT};
    if (part.size && memchr(part.data, 0, part.size)) return fail_kind(path, "not a text: it has zero bytes", err);
    const size_t n_bad = count_bad(part);
    if (n_bad * 20 <= part.size) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED, "%s: no UTF-8 text: %zu of its first %zu bytes fit no character",
                     tern_show_z(path).text, n_bad, part.size);
}

static bool has_suffix(const char *path, const char *suffix)
{
    const size_t n = strlen(path), m = strlen(suffix);
    return n >= m && strcmp(path + n - m, suffix) == 0;
}

/* The first line that is not blank. */
static tern_span first_line(tern_span bytes)
{
    while (bytes.size && memchr(" \t\r\n", *bytes.data, 4)) bytes = (tern_span){bytes.data + 1, bytes.size - 1};
    const uint8_t *end = bytes.size ? memchr(bytes.data, '\n', bytes.size) : NULL;
    return (tern_span){bytes.data, end ? (size_t)(end - bytes.data) : bytes.size};
}

/* Whether the line is an object, and, when asked, one with a key of training data. */
static bool is_object(tern_span line, bool with_key)
{
    json_t *value;
    if (line.size < 2 || *line.data != '{') return false;
    if (tern_json_parse(&value, line.data, line.size, "line", NULL) != TERN_OK) return false;
    bool found = json_is_object(value);
    if (found && with_key) found = tern_train_document_has_key(value);
    tern_json_free(value);
    return found;
}

tern_status tern_train_data_kind_of(const char *path, tern_span bytes, tern_train_data_kind *kind, tern_error *err)
{
    TERN_TRY(check_text(path, bytes, err));
    const tern_span line = first_line(bytes);
    const bool jsonl = has_suffix(path, ".jsonl") || has_suffix(path, ".ndjson"), json = has_suffix(path, ".json");
    *kind = TERN_TRAIN_DATA_TEXT;
    if (has_suffix(path, ".csv")) *kind = TERN_TRAIN_DATA_CSV;
    else if (has_suffix(path, ".tsv")) *kind = TERN_TRAIN_DATA_TSV;
    else if (jsonl || is_object(line, !json)) *kind = TERN_TRAIN_DATA_JSONL;
    else if (json) *kind = TERN_TRAIN_DATA_JSON;
    return TERN_OK;
}
