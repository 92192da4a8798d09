/* Rendered chat templates inside the text layer: bytes, and where each came from. */
#ifndef TERN_TEXT_CHAT_TEMPLATE_TEXT_H
#define TERN_TEXT_CHAT_TEMPLATE_TEXT_H

#include "format/json.h"
#include "text/chat/template.h"
#include "text/jinja/value.h"

typedef struct tern_chat__input {
    tern_jinja_str bos, eos;
    const tern_chat_message *messages;
    size_t n;
    bool add_generation_prompt;
    const json_t *variables; /* an object, whose members go before the above; or NULL */
} tern_chat__input;

/* n bytes of text; untrusted[i] is 1 for a byte that came from a message. Zero-initialised is empty. */
typedef struct tern_chat__text {
    char *text;
    uint8_t *untrusted;
    size_t n, cap, mask_cap;
} tern_chat__text;

tern_status tern_chat__render(const tern_chat_template *c, const tern_chat__input *in, tern_chat__text *out,
                              tern_error *err);
void tern_chat__text_deinit(tern_chat__text *text);

#endif
