/* The chat template that the flags name, the model's, or that of its family. */
#include <stdio.h>
#include <string.h>

#include "apps/chat/talk.h"
#include "base/file.h"
#include "base/show.h"
#include "format/chat_json.h"
#include "format/json.h"

static json_t *parse_json(const char *text, size_t n)
{
    json_t *json = NULL;
    return tern_json_parse(&json, text, n, "JSON", NULL) == TERN_OK ? json : NULL;
}

/* The kind of a JSON text, which is never a template; NULL: it is none. */
static const char *foreign_form(const tern_buf *text)
{
    if (!text->size || !strchr("{[", *text->data)) return NULL;
    json_t *line = parse_json(text->data, strcspn(text->data, "\n")), *all = parse_json(text->data, text->size);
    const char *form = line ? "JSON lines" : NULL;
    if (all) form = "JSON";
    if (json_object_get(all, "chat_template")) form = "JSON: a file with the text of its chat_template expected";
    tern_json_free(line);
    tern_json_free(all);
    return form;
}

tern_status tern_chat_template_read(const char *path, tern_buf *text, tern_error *err)
{
    TERN_TRY(tern_app_read_text(path, text, err));
    const char *form = foreign_form(text);
    if (!form) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT, "%s is %s%s", tern_show_z(path).text, form,
                     strchr(form, ':') ? "" : ": a Jinja file, or one of " TERN_CHAT_TEMPLATES ", expected");
}

/* Parsed from the text of a file, of a well-known template or of the model. */
static tern_status parse(tern_chat_template **out, const char *own, const char *name, tern_error *err)
{
    tern_buf text = {0};
    const char *source = name ? tern_chat_template_builtin(name) : own;
    tern_status status;
    if (source) return tern_chat_template_parse(out, source, strlen(source), err);
    if (!tern_file_exists(name))
        return tern_fail(err, TERN_NOT_FOUND, "neither a file nor one of " TERN_CHAT_TEMPLATES);
    TERN_GOTO(tern_chat_template_read(name, &text, err));
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
                         ", or a file)");
    if (parse(out, own, name, err) == TERN_OK) return TERN_OK;
    if (name) return tern_error_prefix(err, "chat template %s", tern_show_z(name).text);
    return tern_error_prefix(err, "the model's own (--template takes another)");
}

void tern_chat_template_note_family(const char *name, const char *architecture)
{
    tern_app_say("note: the model has no chat template: %s, by its family (%s); --template takes another\n", name,
                 tern_show_z(architecture).text);
}

tern_status tern_chat_template_choose(tern_chat_template **out, const tern_engine *engine, const char *name,
                                      tern_error *err)
{
    tern_engine_info info = {.size = sizeof info};
    *out = NULL;
    TERN_TRY(tern_engine_describe(engine, &info, err));
    if (info.chat_template || name) return tern_chat_template_find(out, info.chat_template, name, err);
    name = tern_engine_chat_template_family(engine);
    if (!name)
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "the model has no chat template, and none is known for its family (%s) with this vocabulary; "
                         "name one with --template (" TERN_CHAT_TEMPLATES ", or a file), or use `tern run`",
                         tern_show_z(info.architecture).text);
    tern_chat_template_note_family(name, info.architecture);
    return tern_chat_template_find(out, NULL, name, err);
}

tern_status tern_chat_variables_read(json_t **variables, int *thinks, const tern_options *o, tern_error *err)
{
    static const char flag[] = "--chat-template-kwargs";
    const json_t *enabled;
    const char *own;
    tern_status status;
    *variables = NULL;
    *thinks = -1;
    if (!o->variables) return TERN_OK;
    TERN_TRY(tern_json_parse(variables, o->variables, strlen(o->variables), flag, err));
    if (!json_is_object(*variables))
        TERN_GOTO(tern_fail(err, TERN_INVALID_ARGUMENT, "%s: an object expected, such as {\"enable_thinking\": false}",
                            flag));
    if ((own = tern_chat_json_own_variable(*variables)))
        TERN_GOTO(
            tern_fail(err, TERN_INVALID_ARGUMENT, "%s: %s found, which the conversation itself gives", flag, own));
    enabled = json_object_get(*variables, "enable_thinking");
    if (enabled && !json_is_boolean(enabled))
        TERN_GOTO(tern_fail(err, TERN_INVALID_ARGUMENT, "%s: enable_thinking: true or false expected", flag));
    if (enabled) *thinks = json_is_true(enabled);
    json_object_del(*variables, "enable_thinking");
    return TERN_OK;
fail:
    json_decref(*variables);
    *variables = NULL;
    return status;
}
