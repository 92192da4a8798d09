/* Marks of a chat template that its tokenizer knows as ordinary text. */
#ifndef TERN_TEXT_CHAT_MARKS_H
#define TERN_TEXT_CHAT_MARKS_H

#include "text/chat/template.h"

enum { TERN_CHAT_MARK_BYTES = 64 };

/* Renders a short conversation (system where the template takes one, user, assistant) and adds to *out its marks of
 * more than one token, each once, with their tokens: "<|im_start|> (6 tokens), <|im_end|> (6 tokens)". A mark is a text
 * of up to TERN_CHAT_MARK_BYTES in angle brackets, without a blank or another bracket in it or before it: LLaMA 2's
 * <<SYS>> is meant as text. *n: how many were added. Errors: those of tern_chat_template_text and tern_tokenize. */
tern_status tern_chat_plain_marks(const tern_chat_template *c, const tern_tokenizer *t, tern_buf *out, uint32_t *n,
                                  tern_error *err);

#endif
