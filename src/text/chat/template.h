/* Chat templates: the model's own Jinja text, for the subset that published templates use. */
#ifndef TERN_TEXT_CHAT_TEMPLATE_H
#define TERN_TEXT_CHAT_TEMPLATE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "format/json.h"
#include "tern/text.h"
#include "text/tokenizer/tokenizer.h"

/* Fixes what strftime_now sees, in seconds since 1970 (UTC); without it, the clock at each render. Before the template
 * is shared. */
void tern_chat_template_set_now(tern_chat_template *t, int64_t seconds);

/* Renders to text and then to tokens, appended to *out. A special token is one that the template's own text spells,
 * bytes of bos_token and eos_token (the tokenizer's) included; every byte that came from a message (content, role) is
 * marked through filters, slices and concatenation, and text with such a byte in it never becomes a special token. Text
 * between special tokens is tokenised as one piece. No BOS but the template's own. Output at most 16 MiB, at most 10
 * million steps, 64 MiB of memory. Errors: INVALID_ARGUMENT (raise_exception from the template, its message), LIMIT,
 * UNSUPPORTED. */
tern_status tern_chat_template_tokens(const tern_chat_template *c, const tern_tokenizer *t,
                                      const tern_chat_message *messages, size_t n, bool add_generation_prompt,
                                      tern_tokens *out, tern_error *err);
/* As above for a conversation as JSON, which is described at tern_chat_template_json. */
tern_status tern_chat_template_json_tokens(const tern_chat_template *c, const tern_tokenizer *t,
                                           const json_t *variables, tern_tokens *out, tern_error *err);
/* The rendered text alone (tests, `tern chat --verbose`). bos/eos may be "". */
tern_status tern_chat_template_text(const tern_chat_template *c, const char *bos, const char *eos,
                                    const tern_chat_message *messages, size_t n, bool add_generation_prompt,
                                    tern_buf *out, tern_error *err);
/* As above for a conversation as JSON, as transformers' apply_chat_template takes it: `variables` is an object whose
 * members are the template's variables: "messages" (with "tool_calls", "reasoning_content", lists of content, ...),
 * "tools", "documents", "add_generation_prompt", "enable_thinking", ... With "continue_final_message" true the text
 * ends where that of the last message does. Every string in it counts as a user's. Errors: also INVALID_ARGUMENT (no
 * object, no last message whose text is shown). */
tern_status tern_chat_template_json(const tern_chat_template *c, const char *bos, const char *eos,
                                    const json_t *variables, tern_buf *out, tern_error *err);

/* The name of the well-known template (TERN_CHAT_TEMPLATES) that chat models of an architecture (general.architecture)
 * have, by the special tokens of this vocabulary; static storage. NULL: none is known, or t is NULL. */
const char *tern_chat_template_of_family(const tern_tokenizer *t, const char *architecture);

#endif
