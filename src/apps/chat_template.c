/* The chat template that the flags name, the model's, or that of its family. */
#include <stdio.h>
#include <string.h>

#include "apps/chat_talk.h"
#include "base/show.h"
#include "format/json.h"

static json_t *parse_json(const char *text, size_t n)
{
    json_t *json = NULL;
    return tern_json_parse(&json, text, n, "JSON", NULL) == TERN_OK ? json : NULL;
}

/* What the text is if it is JSON, as no template is; NULL: it is none. */
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
    TERN_GOTO(tern_chat_template_read(name, &text, err));
    status = tern_chat_template_parse(out, text.data, text.size, err);
fail:
    tern_buf_deinit(&text);
    return status;
}

/* The template that a family's published chat models have, where the vocabulary has its mark as a special token. The
 * first that fits counts. Sources: the tokenizer_config.json of the models that are named at the templates' texts. */
static const struct {
    const char *architecture, *mark, *name; /* mark NULL: it has none of its own */
} of_family[] = {
    {"llama", "<|start_header_id|>", "llama3"},
    {"llama", "<|im_start|>", "chatml"},
    {"llama", "[INST]", "mistral"},
    {"llama", NULL, "llama2"},
    {"bitnet-b1.58", "<|eot_id|>", "bitnet"},
    {"bitnet-25", "<|eot_id|>", "bitnet"},
    {"granite", "<|start_of_role|>", "granite"},
    {"phi3", "<|im_sep|>", "phi4"},
    {"phi3", "<|endofprompt|>", "phi4-mini"},
    {"phi3", "<|end|>", "phi3"},
    {"qwen2", "<|im_start|>", "chatml"},
    {"qwen3", "<|im_start|>", "qwen"},
    {"qwen3moe", "<|im_start|>", "qwen"},
    {"gemma2", "<start_of_turn>", "gemma"},
    {"gemma3", "<start_of_turn>", "gemma"},
};

/* Whether this text is one special token. */
static bool is_special(const tern_engine *engine, const char *mark)
{
    tern_tokens one = {0};
    tern_buf hidden = {0};
    const bool is = tern_engine_tokenize(engine, mark, strlen(mark), TERN_TOKENIZE_SPECIAL, &one, NULL) == TERN_OK &&
                    one.n == 1 && tern_engine_detokenize(engine, one.ids, 1, false, &hidden, NULL) == TERN_OK &&
                    hidden.size == 0;
    tern_tokens_deinit(&one);
    tern_buf_deinit(&hidden);
    return is;
}

const char *tern_chat_template_of_family(const tern_engine *engine, const char *architecture)
{
    for (size_t i = 0; i < sizeof of_family / sizeof *of_family; i++)
        if (strcmp(of_family[i].architecture, architecture) == 0 &&
            (!of_family[i].mark || is_special(engine, of_family[i].mark)))
            return of_family[i].name;
    return NULL;
}

tern_status tern_chat_template_find(tern_chat_template **out, const char *own, const char *name, tern_error *err)
{
    *out = NULL;
    if (!own && !name)
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "the model has no chat template; name one with --template (" TERN_CHAT_TEMPLATES
                         ", or a file)");
    if (parse(out, own, name, err) == TERN_OK) return TERN_OK;
    return tern_error_prefix(err, "chat template%s%s", name ? " " : "", name ? tern_show_z(name).text : "");
}

tern_status tern_chat_template_choose(tern_chat_template **out, const tern_engine *engine, const char *name,
                                      tern_error *err)
{
    tern_engine_info info;
    *out = NULL;
    TERN_TRY(tern_engine_describe(engine, &info, err));
    if (info.chat_template || name) return tern_chat_template_find(out, info.chat_template, name, err);
    const tern_shown family = tern_show_z(info.architecture);
    name = tern_chat_template_of_family(engine, info.architecture);
    if (!name)
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "the model has no chat template, and none is known for its family (%s) with this vocabulary; "
                         "name one with --template (" TERN_CHAT_TEMPLATES ", or a file), or use `tern run`",
                         family.text);
    fprintf(stderr, "note: the model has no chat template: %s, by its family (%s); --template takes another\n", name,
            family.text);
    return tern_chat_template_find(out, NULL, name, err);
}
