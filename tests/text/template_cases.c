/* Templates rendered over messages. */
#include "text/template_cases.h"

tern_status template_render(const char *source, const tern_chat_message *messages, size_t n, bool prompt, tern_buf *out,
                            tern_error *err)
{
    tern_chat_template *t;
    tern_status status = tern_chat_template_parse(&t, source, strlen(source), err);
    if (status != TERN_OK) return status;
    tern_chat_template_set_now(t, 1750000000); /* Sunday 15 June 2025, 15:06:40 UTC */
    status = tern_chat_template_text(t, "<s>", "</s>", messages, n, prompt, out, err);
    tern_chat_template_close(t);
    return status;
}

void template_expect_text(const char *source, const tern_chat_message *messages, size_t n, bool prompt,
                          const char *expected)
{
    tern_error err = {0};
    tern_buf out = {0};
    if (template_render(source, messages, n, prompt, &out, &err) != TERN_OK) fail_msg("%s: %s", source, err.message);
    if (strcmp(out.data, expected) != 0) fail_msg("%s:\ngot      \"%s\"\nexpected \"%s\"", source, out.data, expected);
    tern_buf_deinit(&out);
}
