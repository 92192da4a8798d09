/* The prompt by which a model says whether a document answers a query. */
#include "text/rerank.h"

#include <string.h>

#include "base/bytes.h"

/* As Qwen3-Reranker was trained (its model card). */
static const char qwen[] =
    "<|im_start|>system\nJudge whether the Document meets the requirements based on the Query and the Instruct "
    "provided. Note that the answer can only be \"yes\" or \"no\".<|im_end|>\n<|im_start|>user\n<Instruct>: Given a "
    "web "
    "search query, retrieve relevant passages that answer the query\n<Query>: {query}\n<Document>: "
    "{document}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";

static int32_t find(const tern_tokenizer *t, const char *piece)
{
    return tern_token_find(t, piece, strlen(piece));
}

bool tern_rerank_answers(const tern_tokenizer *t, int32_t *yes, int32_t *no)
{
    *yes = find(t, "yes");
    *no = find(t, "no");
    const bool prompted = tern_tokenizer_rerank_template(t) || find(t, "<|im_start|>") >= 0;
    return *yes >= 0 && *no >= 0 && prompted;
}

/* A text, with a mark for each of its bytes that is not the template's. */
typedef struct marked {
    tern_buf text, untrusted;
} marked;

static tern_status add(marked *m, const void *bytes, size_t n, bool untrusted, tern_error *err)
{
    const char mark = untrusted;
    TERN_TRY(tern_buf_add(&m->text, bytes, n, err));
    for (size_t i = 0; i < n; i++) TERN_TRY(tern_buf_add(&m->untrusted, &mark, 1, err));
    return TERN_OK;
}

static bool is_place(const char *at, const char *mark)
{
    return strncmp(at, mark, strlen(mark)) == 0;
}

/* The template with both texts in their places. */
static tern_status fill(marked *m, const char *source, const tern_rerank_pair *pair, tern_error *err)
{
    static const char query[] = "{query}", document[] = "{document}";
    while (*source) {
        if (is_place(source, query)) {
            TERN_TRY(add(m, pair->query, pair->n_query, true, err));
            source += sizeof query - 1;
        } else if (is_place(source, document)) {
            TERN_TRY(add(m, pair->document, pair->n_document, true, err));
            source += sizeof document - 1;
        } else {
            const size_t n = 1 + strcspn(source + 1, "{");
            TERN_TRY(add(m, source, n, false, err));
            source += n;
        }
    }
    return TERN_OK;
}

static tern_status by_template(const tern_tokenizer *t, const char *source, const tern_rerank_pair *pair,
                               tern_tokens *tokens, tern_error *err)
{
    marked m = {0};
    tern_status status = fill(&m, source, pair, err);
    if (status == TERN_OK)
        status = tern_tokenize_marked(t, m.text.data ? m.text.data : "", (const uint8_t *)m.untrusted.data, m.text.size,
                                      tokens, err);
    tern_buf_deinit(&m.text);
    tern_buf_deinit(&m.untrusted);
    return status;
}

static tern_status add_closed(const tern_tokenizer *t, const char *text, size_t n, tern_tokens *tokens, tern_error *err)
{
    const int32_t end = tern_tokenizer_closing(t);
    TERN_TRY(tern_tokenize(t, text ? text : "", n, false, tokens, err));
    return end < 0 ? TERN_OK : tern_tokens_add(tokens, end, err);
}

tern_status tern_rerank_tokenize(const tern_tokenizer *t, bool in_words, const tern_rerank_pair *pair,
                                 tern_tokens *tokens, tern_error *err)
{
    const char *own = tern_tokenizer_rerank_template(t);
    if (own || in_words) return by_template(t, own ? own : qwen, pair, tokens, err);
    if (tern_tokenizer_adds_bos(t)) TERN_TRY(tern_tokens_add(tokens, tern_tokenizer_bos(t), err));
    TERN_TRY(add_closed(t, pair->query, pair->n_query, tokens, err));
    return add_closed(t, pair->document, pair->n_document, tokens, err);
}
