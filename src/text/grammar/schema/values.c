/* Values that are listed, as texts in order: what they share at their beginnings is written once. */
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "format/json.h"
#include "text/grammar/schema/schema.h"

static int compare(const void *a, const void *b)
{
    const tern_span *x = a, *y = b;
    const int order = memcmp(x->data, y->data, x->size < y->size ? x->size : y->size);
    return order ? order : (x->size > y->size) - (x->size < y->size);
}

/* How many bytes ordered texts share from `at` on: those of the first and the last do. */
static size_t shared(const tern_span *first, const tern_span *last, size_t at)
{
    size_t n = at;
    while (n < first->size && n < last->size && first->data[n] == last->data[n]) n++;
    return n - at;
}

/* Texts [0, n), which share their first `at` bytes, from there on. */
static tern_status branch(tern_schema *s, const tern_span *texts, size_t n, size_t at, uint32_t *node, tern_error *err)
{
    const size_t same = shared(&texts[0], &texts[n - 1], at), end = at + same;
    tern_grammar_list items = {0};
    tern_status status = TERN_OK;
    uint32_t parts[2];
    for (size_t i = 0, next; i < n; i = next) {
        for (next = i + 1; next < n && end < texts[i].size && texts[next].data[end] == texts[i].data[end];) next++;
        if (end == texts[i].size) TERN_GOTO(tern_grammar_tree__bytes(s->tree, "", 0, node, err));
        else if (next == i + 1)
            TERN_GOTO(tern_grammar_tree__bytes(s->tree, texts[i].data + end, texts[i].size - end, node, err));
        else TERN_GOTO(branch(s, texts + i, next - i, end, node, err));
        TERN_GOTO(tern_grammar_list__add(&items, *node, err));
    }
    TERN_GOTO(tern_schema__any(s, &items, &parts[1], err));
    *node = parts[1];
    if (same == 0) goto fail;
    TERN_GOTO(tern_grammar_tree__bytes(s->tree, texts[0].data + at, same, &parts[0], err));
    status = tern_grammar_tree__join_n(s->tree, TERN_GRAMMAR_ALL, parts, 2, node, err);
fail:
    tern_grammar_list__deinit(&items);
    return status;
}

tern_status tern_schema__texts(tern_schema *s, tern_span *texts, size_t n, uint32_t *node, tern_error *err)
{
    size_t kept = 0;
    *node = TERN_SCHEMA_NOTHING;
    if (n == 0) return TERN_OK;
    qsort(texts, n, sizeof *texts, compare);
    for (size_t i = 0; i < n; i++)
        if (kept == 0 || compare(&texts[i], &texts[kept - 1]) != 0) texts[kept++] = texts[i];
    return branch(s, texts, kept, 0, node, err);
}

/* The texts of the values that hold, one after the other in `all`; ends[i] is the end of the i-th. */
static tern_status print(tern_schema *s, const json_t *plain, tern_buf *all, size_t *ends, size_t *n, tern_error *err)
{
    json_t *others = json_copy((json_t *)plain); /* each value is among the values */
    tern_status status = tern_schema__keep(s, others, err);
    size_t i;
    json_t *value;
    bool holds;
    *n = 0;
    if (status != TERN_OK) return status;
    json_object_del(others, "enum");
    json_array_foreach(json_object_get(plain, "enum"), i, value)
    {
        TERN_TRY(tern_schema__plain_holds(s, others, value, &holds, err));
        if (!holds) continue;
        TERN_TRY(tern_grammar_json__print(all, value, err));
        ends[(*n)++] = all->size;
    }
    return TERN_OK;
}

tern_status tern_schema__values(tern_schema *s, const json_t *plain, uint32_t *node, tern_error *err)
{
    const size_t most = json_array_size(json_object_get(plain, "enum"));
    tern_buf all = {0};
    size_t n = 0;
    size_t *ends = tern_calloc(most, sizeof *ends);
    tern_span *texts = tern_calloc(most, sizeof *texts);
    tern_status status = ends && texts ? TERN_OK : tern_fail_alloc(err, most * sizeof *texts);
    if (status == TERN_OK) status = print(s, plain, &all, ends, &n, err);
    for (size_t i = 0; i < n && status == TERN_OK; i++) {
        const size_t from = i ? ends[i - 1] : 0;
        texts[i] = (tern_span){(const uint8_t *)all.data + from, ends[i] - from};
    }
    if (status == TERN_OK) status = tern_schema__texts(s, texts, n, node, err);
    if (status == TERN_OK && n == 0)
        tern_schema__nothing(s, "enum", "none of its values fits the keywords beside it", node);
    tern_buf_deinit(&all);
    tern_free(ends);
    tern_free(texts);
    return status;
}
