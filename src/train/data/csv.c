/* Reading CSV (RFC 4180) and TSV: records of fields, of which some are a document. */
#include <string.h>

#include "base/bytes.h"
#include "base/show.h"
#include "format/json.h"
#include "train/data/read_internal.h"

enum { MAX_COLUMNS = 1024, MAX_TAKEN = 2 };

typedef struct records {
    tern_train_reading *r;
    tern_span rest;
    char separator;
    size_t n_columns;
    size_t taken[MAX_TAKEN]; /* the columns of a document */
    const char *keys[MAX_TAKEN];
    size_t n_taken;
    tern_buf field;
} records;

static tern_status bad_record(const records *c, const char *what, tern_error *err)
{
    return tern_fail(err, TERN_MALFORMED, "%s:%llu: %s", tern_show_z(c->r->path).text, (unsigned long long)c->r->line,
                     what);
}

/* A field in quotes, the first of which is read: "" stands for one. */
static tern_status read_quoted(records *c, tern_error *err)
{
    for (;;) {
        const uint8_t *end = c->rest.size ? memchr(c->rest.data, '"', c->rest.size) : NULL;
        if (!end) return bad_record(c, "a field in quotes without its end", err);
        size_t n = (size_t)(end - c->rest.data);
        for (size_t i = 0; i < n; i++) c->r->line += c->rest.data[i] == '\n';
        TERN_TRY(tern_buf_add(&c->field, c->rest.data, n, err));
        c->rest = (tern_span){end + 1, c->rest.size - n - 1};
        if (c->rest.size == 0 || *c->rest.data != '"') return TERN_OK;
        TERN_TRY(tern_buf_add(&c->field, "\"", 1, err));
        c->rest = (tern_span){c->rest.data + 1, c->rest.size - 1};
    }
}

/* The next field into c->field, and what stood behind it: the separator, or false for the end of the record. */
static tern_status read_field(records *c, bool *more, tern_error *err)
{
    c->field.size = 0;
    TERN_TRY(tern_buf_add(&c->field, "", 0, err));
    if (c->rest.size && *c->rest.data == '"') {
        c->rest = (tern_span){c->rest.data + 1, c->rest.size - 1};
        TERN_TRY(read_quoted(c, err));
    }
    size_t n = 0;
    while (n < c->rest.size && c->rest.data[n] != (uint8_t)c->separator && c->rest.data[n] != '\n') n++;
    size_t used = n < c->rest.size ? n + 1 : n;
    *more = used > n && c->rest.data[n] == (uint8_t)c->separator;
    if (n && !*more && c->rest.data[n - 1] == '\r') n--;
    TERN_TRY(tern_buf_add(&c->field, c->rest.data, n, err));
    c->r->line += used > n && !*more;
    c->rest = (tern_span){c->rest.data + used, c->rest.size - used};
    return TERN_OK;
}

static bool field_is(const records *c, const char *name)
{
    return c->field.size == strlen(name) && memcmp(c->field.data, name, c->field.size) == 0;
}

/* The columns of the header: the one that was named, or "text", or "prompt" and "completion". */
static tern_status read_header(records *c, tern_error *err)
{
    const char *column = c->r->params->column;
    const char *const names[] = {column ? column : "text", "prompt", "completion"};
    size_t at[3] = {SIZE_MAX, SIZE_MAX, SIZE_MAX};
    for (bool more = true; more; c->n_columns++) {
        if (c->n_columns == MAX_COLUMNS) return bad_record(c, "more than 1024 columns", err);
        TERN_TRY(read_field(c, &more, err));
        for (size_t i = 0; i < 3; i++)
            if (field_is(c, names[i])) at[i] = c->n_columns;
    }
    c->r->line--; /* as the number of the record that was read */
    if (at[0] != SIZE_MAX) {
        c->taken[0] = at[0], c->keys[0] = "text", c->n_taken = 1;
    } else if (!column && at[1] != SIZE_MAX && at[2] != SIZE_MAX) {
        for (size_t i = 0; i < 2; i++) c->taken[i] = at[i + 1], c->keys[i] = names[i + 1];
        c->n_taken = 2;
    } else if (column) {
        return tern_fail(err, TERN_INVALID_ARGUMENT, "%s: no column \"%s\" among the %zu of its first line",
                         tern_show_z(c->r->path).text, tern_show_z(column).text, c->n_columns);
    } else {
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "%s: no column \"text\", nor \"prompt\" and \"completion\", among the %zu of its first line: "
                         "--column names the one to read",
                         tern_show_z(c->r->path).text, c->n_columns);
    }
    return TERN_OK;
}

/* One record into the object {"text": ...}. */
static tern_status read_record(records *c, json_t *object, size_t *n_fields, tern_error *err)
{
    *n_fields = 0;
    for (bool more = true; more; ++*n_fields) {
        TERN_TRY(read_field(c, &more, err));
        for (size_t i = 0; i < c->n_taken; i++) {
            if (c->taken[i] != *n_fields) continue;
            json_t *text = json_stringn(c->field.data, c->field.size);
            if (!text) return bad_record(c, "text that is no UTF-8", err);
            if (json_object_set_new(object, c->keys[i], text) != 0) return tern_fail_alloc(err, c->field.size);
        }
    }
    return TERN_OK;
}

/* A record with fields missing or too many is as bad as one that makes no document; a blank line is none. */
static tern_status use_record(records *c, const json_t *object, size_t n_fields, tern_error *err)
{
    if (n_fields == 1 && c->field.size == 0) return TERN_OK;
    if (n_fields == c->n_columns) return tern_train_reading__add_value(c->r, object, err);
    tern_error bad = {0};
    tern_fail(&bad, TERN_MALFORMED, "%s:%llu: %zu fields found, %zu expected, as in the first line",
              tern_show_z(c->r->path).text, (unsigned long long)c->r->line, n_fields, c->n_columns);
    return tern_train_reading__made(c->r, TERN_MALFORMED, &bad, err);
}

static tern_status add_record(records *c, tern_error *err)
{
    json_t *object = json_object();
    if (!object) return tern_fail_alloc(err, 64);
    size_t n_fields;
    uint64_t first = ++c->r->line;
    tern_status status = read_record(c, object, &n_fields, err);
    uint64_t last = c->r->line - 1; /* read_field counts the end of the record */
    c->r->line = first;
    if (status == TERN_OK) status = use_record(c, object, n_fields, err);
    c->r->line = last < first ? first : last;
    json_decref(object);
    return status;
}

tern_status tern_train_reading__csv(tern_train_reading *r, tern_span bytes, char separator, tern_error *err)
{
    records c = {.r = r, .rest = bytes, .separator = separator};
    tern_json_use_allocator();
    r->line = 1;
    tern_status status = read_header(&c, err);
    for (uint64_t i = 1; status == TERN_OK && c.rest.size; i++) {
        status = add_record(&c, err);
        if (status == TERN_OK && i % 64 == 0) status = tern_train_reading__update(r, bytes.size - c.rest.size, err);
    }
    tern_buf_deinit(&c.field);
    return status;
}
