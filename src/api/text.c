/* Text to tokens and back, with an engine's tokenizer. */
#include <string.h>

#include "infer/engine.h"
#include "tern.h"
#include "text/chat_template.h"

static tern_status find_tokenizer(const tern_engine *engine, const tern_tokenizer **tokenizer, tern_error *err)
{
    *tokenizer = tern_model_tokenizer(tern_engine_model(engine));
    return *tokenizer ? TERN_OK : tern_fail(err, TERN_UNSUPPORTED, "the model has no tokenizer");
}

tern_status tern_engine_tokenize(const tern_engine *engine, const char *text, size_t n, unsigned how,
                                 tern_tokens *tokens, tern_error *err)
{
    const tern_tokenizer *t;
    TERN_NEED(engine, err);
    TERN_NEED(tokens, err);
    if (n) TERN_NEED(text, err);
    if (how & ~(unsigned)(TERN_TOKENIZE_BOS | TERN_TOKENIZE_SPECIAL))
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "how is %u: flags TERN_TOKENIZE_BOS and TERN_TOKENIZE_SPECIAL expected", how);
    TERN_TRY(find_tokenizer(engine, &t, err));
    if ((how & TERN_TOKENIZE_BOS) && tern_tokenizer_adds_bos(t))
        TERN_TRY(tern_tokens_add(tokens, tern_tokenizer_bos(t), err));
    return tern_tokenize(t, text ? text : "", n, how & TERN_TOKENIZE_SPECIAL, tokens, err);
}

tern_status tern_engine_detokenize(const tern_engine *engine, const int32_t *ids, size_t n, bool special,
                                   tern_buf *text, tern_error *err)
{
    const tern_tokenizer *t;
    TERN_NEED(engine, err);
    TERN_NEED(text, err);
    if (n) TERN_NEED(ids, err);
    TERN_TRY(find_tokenizer(engine, &t, err));
    uint32_t n_vocab = tern_engine_config(engine)->n_vocab;
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || (uint32_t)ids[i] >= n_vocab)
            return tern_fail(err, TERN_INVALID_ARGUMENT, "token %zu is id %d: 0 to %u expected", i, ids[i],
                             n_vocab - 1);
    return tern_detokenize(t, ids, n, special, text, err);
}

bool tern_engine_is_end(const tern_engine *engine, int32_t id)
{
    const tern_tokenizer *t = engine ? tern_model_tokenizer(tern_engine_model(engine)) : NULL;
    return t && tern_token_is_end(t, id);
}

static tern_status check_messages(const tern_chat_message *messages, size_t n, tern_error *err)
{
    if (n) TERN_NEED(messages, err);
    for (size_t i = 0; i < n; i++)
        if (!messages[i].role || (!messages[i].content && messages[i].n_content))
            return tern_fail(err, TERN_INVALID_ARGUMENT, "message %zu has no %s", i,
                             messages[i].role ? "content" : "role");
    return TERN_OK;
}

tern_status tern_engine_chat_prompt(const tern_engine *engine, const tern_chat_message *messages, size_t n,
                                    bool add_generation_prompt, tern_tokens *tokens, tern_error *err)
{
    const tern_tokenizer *t;
    tern_chat_template *template;
    TERN_NEED(engine, err);
    TERN_NEED(tokens, err);
    TERN_TRY(check_messages(messages, n, err));
    TERN_TRY(find_tokenizer(engine, &t, err));
    const char *source = tern_tokenizer_chat_template(t);
    if (!source) return tern_fail(err, TERN_NOT_FOUND, "the model has no chat template");
    TERN_TRY(tern_chat_template_parse(&template, source, strlen(source), err));
    tern_status status = tern_chat_template_tokens(template, t, messages, n, add_generation_prompt, tokens, err);
    tern_chat_template_close(template);
    return status;
}
