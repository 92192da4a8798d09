/* The chat template that the flags name, or the model's. */
#include <string.h>

#include "apps/chat_talk.h"
#include "base/show.h"

/* Parsed from the text of a file, of a well-known template or of the model. */
static tern_status parse(tern_chat_template **out, const char *own, const char *name, tern_error *err)
{
    tern_buf text = {0};
    const char *source = name ? tern_chat_template_builtin(name) : own;
    tern_status status;
    if (source) return tern_chat_template_parse(out, source, strlen(source), err);
    TERN_GOTO(tern_app_read_text(name, &text, err));
    status = tern_chat_template_parse(out, text.data, text.size, err);
fail:
    tern_buf_deinit(&text);
    return status;
}

tern_status tern_chat_template_find(tern_chat_template **out, const char *own, const char *name, tern_error *err)
{
    *out = NULL;
    if (!own && !name)
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "the model has no chat template; name one with --template (" TERN_CHAT_TEMPLATES
                         ", or a file), "
                         "or use `tern run`");
    if (parse(out, own, name, err) == TERN_OK) return TERN_OK;
    return tern_error_prefix(err, "chat template%s%s", name ? " " : "", name ? tern_show_z(name).text : "");
}
