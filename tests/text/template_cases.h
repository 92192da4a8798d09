/* Templates rendered over messages. */
#ifndef TERN_TESTS_TEXT_TEMPLATE_CASES_H
#define TERN_TESTS_TEXT_TEMPLATE_CASES_H

#include "support/test.h"

#include "base/alloc.h"
#include "text/chat/template.h"

tern_status template_render(const char *source, const tern_chat_message *messages, size_t n, bool prompt, tern_buf *out,
                            tern_error *err);

void template_expect_text(const char *source, const tern_chat_message *messages, size_t n, bool prompt,
                          const char *expected);

/* Templates built like those that models come with. */
extern const char template_header_style[], template_turn_style[], template_inst_style[], template_plain_style[];

#endif
