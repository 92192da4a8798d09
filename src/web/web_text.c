/* Exports: text to tokens and back, chat prompts. Ids and text of the last call stay until the next one. */
#include <string.h>

#include "tern.h"
#include "text/tokenizer/tokenizer.h"
#include "web/web.h"

TERN_WEB tern_status tern_web_tokenize(const tern_engine *engine, const char *text, size_t n, unsigned how);
TERN_WEB tern_status tern_web_chat_prompt(const tern_engine *engine, const char *variables);
TERN_WEB const int32_t *tern_web_tokens(void);
TERN_WEB size_t tern_web_n_tokens(void);
TERN_WEB tern_status tern_web_detokenize(const tern_engine *engine, const int32_t *ids, size_t n, int special);
TERN_WEB const char *tern_web_text(void);
TERN_WEB size_t tern_web_text_bytes(void);

static tern_tokens tokens;
static tern_buf text_out;

const int32_t *tern_web_tokens(void)
{
    return tokens.ids;
}

size_t tern_web_n_tokens(void)
{
    return tokens.n;
}

const char *tern_web_text(void)
{
    return text_out.data;
}

size_t tern_web_text_bytes(void)
{
    return text_out.size;
}

/* how: TERN_TOKENIZE_BOS, TERN_TOKENIZE_SPECIAL; the ids are in tern_web_tokens. */
tern_status tern_web_tokenize(const tern_engine *engine, const char *text, size_t n, unsigned how)
{
    tokens.n = 0;
    return tern_engine_tokenize(engine, text, n, how, &tokens, tern_web__error());
}

/* The text is in tern_web_text. */
tern_status tern_web_detokenize(const tern_engine *engine, const int32_t *ids, size_t n, int special)
{
    text_out.size = 0;
    return tern_engine_detokenize(engine, ids, n, special, &text_out, tern_web__error());
}

/* By the model's own template. */
static tern_status render(const tern_engine *engine, const char *variables, tern_error *err)
{
    const tern_tokenizer *tokenizer = tern_engine_tokenizer(engine);
    const char *source = tokenizer ? tern_tokenizer_chat_template(tokenizer) : NULL;
    tern_chat_template *parsed = NULL;
    tern_status status;
    if (!source) return tern_fail(err, TERN_NOT_FOUND, "the model has no chat template");
    TERN_GOTO(tern_chat_template_parse(&parsed, source, strlen(source), err));
    TERN_GOTO(tern_engine_chat_prompt_json(engine, parsed, variables, strlen(variables), &tokens, err));
fail:
    tern_chat_template_close(parsed);
    return status;
}

/* variables: {messages, tools, add_generation_prompt, ...} as JSON. The ids, which end with what makes the model
 * answer, are in tern_web_tokens. */
tern_status tern_web_chat_prompt(const tern_engine *engine, const char *variables)
{
    tokens.n = 0;
    return render(engine, variables, tern_web__error());
}
