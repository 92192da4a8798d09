/* Requests that rate documents by a query, and their answers: Jina's, Cohere's and llama.cpp's form, and that of Text
 * Embeddings Inference. */
#include <stdlib.h>

#include "base/alloc.h"
#include "serve/native/native.h"

#define AT(member) offsetof(tern_api_request, member)

static tern_status read_query(void *into, const json_t *value, tern_error *err)
{
    if (!json_is_string(value)) return tern_fields_fail("query", value, "a string", err);
    ((tern_api_request *)into)->query = value;
    return TERN_OK;
}

/* Texts, or objects with one. */
static tern_status read_documents(void *into, const json_t *value, tern_error *err)
{
    if (!json_is_array(value) || json_array_size(value) == 0)
        return tern_fields_fail("documents", value, "a list of at least one text", err);
    for (size_t i = 0; i < json_array_size(value); i++) {
        const json_t *document = json_array_get(value, i);
        if (json_is_object(document)) document = json_object_get(document, "text");
        if (!json_is_string(document)) return tern_fields_fail("documents", document, "texts", err);
        TERN_TRY(tern_api_request_read_prompts(into, document, err));
    }
    return TERN_OK;
}

static const tern_field fields[] = {
    {"model", TERN_FIELD_TEXT, AT(model)},
    {"query", TERN_FIELD_READ, .read = read_query},
    {"documents", TERN_FIELD_READ, .read = read_documents},
    {"texts", TERN_FIELD_READ, .read = read_documents},
    {"top_n", TERN_FIELD_U32, AT(top_n), 1, 1 << 24},
    {"return_documents", TERN_FIELD_BOOL, AT(with_documents)},
    {"return_text", TERN_FIELD_BOOL, AT(with_documents)},
    {"raw_scores", TERN_FIELD_REFUSED},
    {"rank_fields", TERN_FIELD_REFUSED},
    {"max_tokens_per_doc", TERN_FIELD_REFUSED, .why = "a document that is too long is an error"},
    {"max_chunks_per_doc", TERN_FIELD_IGNORED}, /* documents are not split */
    {"truncate", TERN_FIELD_IGNORED},           /* nor shortened */
    {"truncation", TERN_FIELD_IGNORED},
    {"user", TERN_FIELD_IGNORED},
    {"priority", TERN_FIELD_IGNORED},
    {0},
};

tern_status tern_native__read_rerank(tern_api_request *request, const json_t *body, tern_error *err)
{
    TERN_TRY(tern_fields_read((const tern_field *const[]){fields, NULL}, body, request, err));
    if (!request->query) return tern_fields_fail("query", NULL, "a string", err);
    if (request->n_prompts) return TERN_OK;
    return tern_fields_fail("documents", NULL, "a list of at least one text", err);
}

typedef struct rating {
    uint32_t document;
    double score;
} rating;

/* Best first, equal ones in the order of the documents. */
static int compare(const void *a, const void *b)
{
    const rating *x = a, *y = b;
    if (x->score > y->score || x->score < y->score) return x->score > y->score ? -1 : 1;
    return x->document < y->document ? -1 : 1;
}

static json_t *result_of(const tern_answer *a, const rating *r, bool tei)
{
    const tern_api_prompt *text = &a->request.prompts[r->document];
    json_t *result =
        json_pack("{s:I, s:f}", "index", (json_int_t)r->document, tei ? "score" : "relevance_score", r->score);
    if (!a->request.with_documents) return result;
    json_t *document = json_stringn(text->text, text->n);
    json_object_set_new(result, tei ? "text" : "document", tei ? document : json_pack("{s:o}", "text", document));
    return result;
}

static json_t *results_of(const tern_answer *a, bool tei)
{
    const size_t n = json_array_size(a->vectors),
                 most = a->request.top_n && a->request.top_n < n ? a->request.top_n : n;
    rating *ratings = tern_calloc(n, sizeof *ratings);
    json_t *results = json_array();
    for (size_t i = 0; ratings && i < n; i++)
        ratings[i] = (rating){(uint32_t)i, json_real_value(json_array_get(a->vectors, i))};
    if (ratings) qsort(ratings, n, sizeof *ratings, compare);
    for (size_t i = 0; ratings && i < most; i++) json_array_append_new(results, result_of(a, &ratings[i], tei));
    tern_free(ratings);
    return results;
}

static json_t *whole(tern_answer *a)
{
    const bool tei = json_object_get(a->exchange->document, "texts") != NULL;
    json_t *results = results_of(a, tei);
    if (tei) return results;
    return json_pack("{s:s, s:s, s:s, s:o, s:{s:I, s:I}}", "id", a->id, "object", "list", "model", a->exchange->model,
                     "results", results, "usage", "prompt_tokens", (json_int_t)a->n_prompt, "total_tokens",
                     (json_int_t)a->n_prompt);
}

const tern_dialect tern_native__ranks = {.whole = whole};
