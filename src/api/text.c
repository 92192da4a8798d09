/* Text to tokens and back, with an engine's tokenizer. */
#include <string.h>

#include "base/bytes.h"
#include "base/sized.h"
#include "format/json.h"
#include "infer/engine/engine.h"
#include "tern.h"
#include "text/chat/template.h"
#include "text/fim.h"

const tern_tokenizer *tern_engine_tokenizer(const tern_engine *engine)
{
    return engine ? tern_model_tokenizer(tern_engine_model(engine)) : NULL;
}

static tern_status find_tokenizer(const tern_engine *engine, const tern_tokenizer **tokenizer, tern_error *err)
{
    *tokenizer = tern_engine_tokenizer(engine);
    if (*tokenizer) return TERN_OK;
    return tern_fail(err, TERN_UNSUPPORTED,
                     "the model has no tokenizer (no tokenizer.json, tokenizer.model or tokenizer.ggml keys)");
}

/* The encoding option, except for the tokenizer. */
static tern_status check_text(const char *text, size_t n, unsigned how, const tern_tokens *tokens, tern_error *err)
{
    TERN_NEED(tokens, err);
    if (n) TERN_NEED(text, err);
    if ((how & ~(unsigned)(TERN_TOKENIZE_BOS | TERN_TOKENIZE_SPECIAL | TERN_TOKENIZE_END)) == 0) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT,
                     "how is %u: flags TERN_TOKENIZE_BOS, TERN_TOKENIZE_SPECIAL and TERN_TOKENIZE_END expected", how);
}

static tern_status encode(const tern_tokenizer *t, const char *text, size_t n, unsigned how, tern_tokens *tokens,
                          tern_error *err)
{
    const size_t first = tokens->n;
    const int32_t bos = (how & TERN_TOKENIZE_BOS) && tern_tokenizer_adds_bos(t) ? tern_tokenizer_bos(t) : -1;
    const int32_t closing = how & TERN_TOKENIZE_END ? tern_tokenizer_closing(t) : -1;
    if (bos >= 0) TERN_TRY(tern_tokens_add(tokens, bos, err));
    TERN_TRY(tern_tokenize(t, text ? text : "", n, how & TERN_TOKENIZE_SPECIAL, tokens, err));
    if (bos >= 0 && tokens->n > first + 1 && tokens->ids[first + 1] == bos) {
        tokens->n--; /* the text spells it: one is enough */
        memmove(tokens->ids + first, tokens->ids + first + 1, (tokens->n - first) * sizeof *tokens->ids);
    }
    if (closing < 0 || (tokens->n > first && tokens->ids[tokens->n - 1] == closing)) return TERN_OK;
    return tern_tokens_add(tokens, closing, err);
}

static tern_status decode(const tern_tokenizer *t, uint32_t n_vocab, const int32_t *ids, size_t n, bool special,
                          tern_buf *text, tern_error *err)
{
    TERN_NEED(text, err);
    if (n) TERN_NEED(ids, err);
    for (size_t i = 0; i < n; i++)
        if (ids[i] < 0 || (uint32_t)ids[i] >= n_vocab)
            return tern_fail(err, TERN_INVALID_ARGUMENT, "token %zu is id %d: 0 to %u expected", i, ids[i],
                             n_vocab - 1);
    return tern_detokenize(t, ids, n, special, text, err);
}

tern_status tern_engine_tokenize(const tern_engine *engine, const char *text, size_t n, unsigned how,
                                 tern_tokens *tokens, tern_error *err)
{
    const tern_tokenizer *t;
    TERN_NEED(engine, err);
    TERN_TRY(check_text(text, n, how, tokens, err));
    TERN_TRY(find_tokenizer(engine, &t, err));
    return encode(t, text, n, how, tokens, err);
}

tern_status tern_engine_detokenize(const tern_engine *engine, const int32_t *ids, size_t n, bool special,
                                   tern_buf *text, tern_error *err)
{
    const tern_tokenizer *t;
    TERN_NEED(engine, err);
    TERN_TRY(find_tokenizer(engine, &t, err));
    return decode(t, tern_engine_config(engine)->n_vocab, ids, n, special, text, err);
}

tern_status tern_tokenizer_encode(const tern_tokenizer *tokenizer, const char *text, size_t n, unsigned how,
                                  tern_tokens *tokens, tern_error *err)
{
    TERN_NEED(tokenizer, err);
    TERN_TRY(check_text(text, n, how, tokens, err));
    return encode(tokenizer, text, n, how, tokens, err);
}

tern_status tern_tokenizer_decode(const tern_tokenizer *tokenizer, const int32_t *ids, size_t n, bool special,
                                  tern_buf *text, tern_error *err)
{
    TERN_NEED(tokenizer, err);
    return decode(tokenizer, tern_tokenizer_size(tokenizer), ids, n, special, text, err);
}

const char *tern_tokenizer_piece(const tern_tokenizer *tokenizer, int32_t id, size_t *n)
{
    const tern_span piece = tern_token_piece(tokenizer, id);
    *n = piece.size;
    return (const char *)piece.data;
}

bool tern_engine_is_end(const tern_engine *engine, int32_t id)
{
    const tern_tokenizer *t = tern_engine_tokenizer(engine);
    return t && tern_token_is_end(t, id);
}

bool tern_engine_fills(const tern_engine *engine)
{
    const tern_tokenizer *t = tern_engine_tokenizer(engine);
    return t && tern_tokenizer_fills(t);
}

static tern_status check_fim(const tern_fim *fim, tern_error *err)
{
    if (fim->n_prefix) TERN_NEED(fim->prefix, err);
    if (fim->n_suffix) TERN_NEED(fim->suffix, err);
    if (fim->n_start) TERN_NEED(fim->start, err);
    if (fim->n_files) TERN_NEED(fim->files, err);
    for (size_t i = 0; i < fim->n_files; i++)
        if (fim->files[i].n_text) TERN_NEED(fim->files[i].text, err);
    return TERN_OK;
}

tern_status tern_engine_fim_prompt(const tern_engine *engine, const tern_fim *fim, tern_tokens *tokens, bool *cut,
                                   tern_error *err)
{
    const tern_tokenizer *t;
    tern_fim whole;
    TERN_NEED(engine, err);
    TERN_NEED(fim, err);
    TERN_NEED(tokens, err);
    TERN_TRY(TERN_SIZED_READ(&whole, fim, err));
    TERN_TRY(check_fim(&whole, err));
    TERN_TRY(find_tokenizer(engine, &t, err));
    return tern_fim_tokenize(t, &whole, tokens, cut, err);
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

/* The conversation by the model's own template. */
static tern_status prompt_by_model(const tern_tokenizer *t, const tern_chat_message *messages, size_t n,
                                   bool add_generation_prompt, tern_tokens *tokens, tern_error *err)
{
    tern_chat_template *own;
    const char *source = tern_tokenizer_chat_template(t);
    if (!source) return tern_fail(err, TERN_NOT_FOUND, "the model has no chat template");
    TERN_TRY(tern_chat_template_parse(&own, source, strlen(source), err));
    tern_status status = tern_chat_template_tokens(own, t, messages, n, add_generation_prompt, tokens, err);
    tern_chat_template_close(own);
    return status;
}

tern_status tern_engine_chat_prompt(const tern_engine *engine, const tern_chat_template *chat_template,
                                    const tern_chat_message *messages, size_t n, bool add_generation_prompt,
                                    tern_tokens *tokens, tern_error *err)
{
    const tern_tokenizer *t;
    TERN_NEED(engine, err);
    TERN_NEED(tokens, err);
    TERN_TRY(check_messages(messages, n, err));
    TERN_TRY(find_tokenizer(engine, &t, err));
    if (!chat_template) return prompt_by_model(t, messages, n, add_generation_prompt, tokens, err);
    return tern_chat_template_tokens(chat_template, t, messages, n, add_generation_prompt, tokens, err);
}

const char *tern_engine_chat_template_family(const tern_engine *engine)
{
    const tern_model *model = engine ? tern_engine_model(engine) : NULL;
    return model ? tern_chat_template_of_family(tern_model_tokenizer(model), tern_model_config(model)->architecture)
                 : NULL;
}

tern_status tern_engine_chat_prompt_json(const tern_engine *engine, const tern_chat_template *chat_template,
                                         const char *variables, size_t n, tern_tokens *tokens, tern_error *err)
{
    const tern_tokenizer *t;
    json_t *root = NULL;
    tern_status status;
    TERN_NEED(engine, err);
    TERN_NEED(chat_template, err);
    TERN_NEED(variables, err);
    TERN_NEED(tokens, err);
    TERN_TRY(find_tokenizer(engine, &t, err));
    TERN_GOTO(tern_json_parse(&root, variables, n, "the conversation", err));
    TERN_GOTO(tern_chat_template_json_tokens(chat_template, t, root, tokens, err));
fail:
    tern_json_free(root);
    return status;
}
