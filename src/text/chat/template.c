/* Chat templates: parsing, and rendering messages to text that knows which bytes are a user's. */
#include "text/chat/template.h"

#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "text/chat/template_text.h"
#include "text/jinja/parse.h"
#include "text/jinja/render.h"

enum { MAX_SOURCE = 1 << 20 };

struct tern_chat_template {
    tern_jinja_pool pool;
    tern_jinja_node *statements;
    bool fixed_time;
    int64_t now;
};

tern_status tern_chat_template_parse(tern_chat_template **t, const char *source, size_t n, tern_error *err)
{
    *t = NULL;
    if (n > MAX_SOURCE) return tern_fail(err, TERN_LIMIT, "chat template: %zu bytes, at most %d", n, (int)MAX_SOURCE);
    tern_chat_template *made = tern_calloc(1, sizeof *made);
    if (!made) return tern_fail_alloc(err, sizeof *made);
    made->pool = (tern_jinja_pool){.max_bytes = TERN_JINJA_MAX_MEMORY, .max_steps = UINT64_MAX, .line = 1, .err = err};
    tern_status status = tern_jinja__parse(&made->pool, source, n, &made->statements);
    made->pool.err = NULL;
    if (status == TERN_OK) *t = made;
    else tern_chat_template_close(made);
    return status;
}

void tern_chat_template_close(tern_chat_template *t)
{
    if (!t) return;
    tern_arena_deinit(&t->pool.arena);
    tern_free(t);
}

void tern_chat_template_set_now(tern_chat_template *t, int64_t seconds)
{
    t->fixed_time = true;
    t->now = seconds;
}

static tern_status set_string(tern_jinja_render *r, tern_jinja_dict *dict, const char *key, tern_jinja_str s)
{
    tern_jinja_value name = tern_jinja__string(tern_jinja__words(key)), value = tern_jinja__string(s);
    return tern_jinja__dict_set(&r->pool, dict, &name, &value);
}

/* {"role": ..., "content": ...}, both marked as a user's. */
static tern_status message_value(tern_jinja_render *r, const tern_chat_message *m, tern_jinja_value *out)
{
    tern_jinja_str role = {.data = m->role, .n = strlen(m->role), .untrusted = true};
    tern_jinja_str content = {
        .data = m->content ? m->content : "", .n = m->content ? m->n_content : 0, .untrusted = true};
    TERN_TRY(tern_jinja__dict(&r->pool, TERN_JINJA_DICT, out));
    TERN_TRY(set_string(r, out->dict, "role", role));
    return set_string(r, out->dict, "content", content);
}

static tern_status set_variable(tern_jinja_render *r, const char *name, tern_jinja_value value)
{
    return tern_jinja__scope_set(r, r->scope, tern_jinja__words(name), &value);
}

/* The members of in->variables, which go before those of the same name. */
static tern_status set_given(tern_jinja_render *r, const tern_chat__input *in)
{
    const char *key;
    json_t *member;
    json_object_foreach((json_t *)(uintptr_t)in->variables, key, member)
    {
        tern_jinja_value value;
        TERN_TRY(tern_jinja__of_json(&r->pool, member, &value));
        TERN_TRY(set_variable(r, key, value));
    }
    return TERN_OK;
}

static tern_status set_variables(tern_jinja_render *r, const tern_chat__input *in)
{
    tern_jinja_value list, *messages;
    TERN_TRY(tern_jinja__list(&r->pool, TERN_JINJA_LIST, in->n, &list, &messages));
    for (size_t i = 0; i < in->n; i++) TERN_TRY(message_value(r, &in->messages[i], &messages[i]));
    TERN_TRY(set_variable(r, "messages", list));
    TERN_TRY(set_variable(r, "add_generation_prompt", tern_jinja__bool(in->add_generation_prompt)));
    TERN_TRY(set_variable(r, "bos_token", tern_jinja__string(in->bos)));
    TERN_TRY(set_variable(r, "eos_token", tern_jinja__string(in->eos)));
    TERN_TRY(set_variable(r, "tools", tern_jinja__none()));
    return in->variables ? set_given(r, in) : TERN_OK;
}

/* Copies the rendered pieces out of the arena, with one byte of origin for each byte of text. */
static tern_status copy_out(const tern_jinja_rope *rope, tern_chat__text *out, tern_error *err)
{
    TERN_TRY(tern_grow((void **)&out->text, &out->cap, rope->n + 1, 1, err));
    TERN_TRY(tern_grow((void **)&out->untrusted, &out->mask_cap, rope->n + 1, 1, err));
    out->n = 0;
    for (const tern_jinja_piece *p = rope->first; p; p = p->next) {
        memcpy(out->text + out->n, p->str.data, p->str.n);
        tern_jinja__str_mask(p->str, out->untrusted + out->n);
        out->n += p->str.n;
    }
    return TERN_OK;
}

static tern_status render(const tern_chat_template *c, tern_jinja_render *r, const tern_chat__input *in,
                          tern_chat__text *out, tern_error *err)
{
    tern_jinja_rope rope = {0};
    r->out = &rope;
    TERN_TRY(tern_jinja__scope_open(r, NULL, &r->scope));
    TERN_TRY(set_variables(r, in));
    TERN_TRY(tern_jinja__run(r, c->statements));
    return copy_out(&rope, out, err);
}

tern_status tern_chat__render(const tern_chat_template *c, const tern_chat__input *in, tern_chat__text *out,
                              tern_error *err)
{
    tern_error ignored = {0};
    tern_jinja_render r = {.now = c->fixed_time ? c->now : (int64_t)time(NULL)};
    r.pool = (tern_jinja_pool){
        .max_bytes = TERN_JINJA_MAX_MEMORY, .max_steps = TERN_JINJA_MAX_STEPS, .line = 1, .err = err ? err : &ignored};
    tern_status status = render(c, &r, in, out, r.pool.err);
    tern_arena_deinit(&r.pool.arena);
    return status;
}

void tern_chat__text_deinit(tern_chat__text *text)
{
    tern_free(text->text);
    tern_free(text->untrusted);
    *text = (tern_chat__text){0};
}

/* Stands behind the last message while a template renders it; U+E0C0, of private use. */
static const char continue_here[] = "\xee\x83\x80"
                                    "continue here";

/* Cuts the text where the last message ends, so that the model continues it. */
static tern_status cut_behind_last(tern_chat__text *text, tern_error *err)
{
    const size_t n = sizeof continue_here - 1;
    for (size_t i = text->n; i-- > 0;)
        if (i + n <= text->n && memcmp(text->text + i, continue_here, n) == 0) {
            text->n = i;
            return TERN_OK;
        }
    return tern_fail(err, TERN_INVALID_ARGUMENT,
                     "continue_final_message: the chat template does not show the text of the last message");
}

/* A copy of the variables, of which the last message ends with `continue_here`. Errors: INVALID_ARGUMENT (no message
 * with a text). */
static tern_status mark_last(const json_t *variables, json_t **out, tern_error *err)
{
    const json_t *messages = json_object_get(variables, "messages");
    const size_t n = json_array_size(messages);
    const json_t *last = n ? json_array_get(messages, n - 1) : NULL, *content = json_object_get(last, "content");
    if (!json_is_string(content))
        return tern_fail(err, TERN_INVALID_ARGUMENT, "continue_final_message: a last message with a text expected");
    json_t *copy = json_copy((json_t *)(uintptr_t)variables), *list = json_copy((json_t *)(uintptr_t)messages);
    json_t *message = json_copy((json_t *)(uintptr_t)last);
    json_t *text = json_pack("s#+", json_string_value(content), (int)json_string_length(content), continue_here);
    int bad = json_object_set_new(message, "content", text);
    bad |= json_array_set_new(list, n - 1, message);
    bad |= json_object_set_new(copy, "messages", list);
    bad |= json_object_set_new(copy, "add_generation_prompt", json_false());
    *out = copy;
    return bad ? tern_fail_alloc(err, json_string_length(content)) : TERN_OK;
}

/* Renders by variables, of which "continue_final_message" is read here. */
static tern_status render_json(const tern_chat_template *c, tern_chat__input *in, tern_chat__text *text,
                               tern_error *err)
{
    json_t *marked = NULL;
    tern_status status;
    if (!json_is_true(json_object_get(in->variables, "continue_final_message")))
        return tern_chat__render(c, in, text, err);
    TERN_GOTO(mark_last(in->variables, &marked, err));
    in->variables = marked;
    TERN_GOTO(tern_chat__render(c, in, text, err));
    status = cut_behind_last(text, err);
fail:
    json_decref(marked);
    in->variables = NULL;
    return status;
}

static tern_status add_text(const tern_chat_template *c, tern_chat__input *in, tern_buf *out, tern_error *err)
{
    tern_chat__text text = {0};
    tern_status status;
    TERN_GOTO(render_json(c, in, &text, err));
    TERN_GOTO(tern_buf_add(out, text.text, text.n, err));
fail:
    tern_chat__text_deinit(&text);
    return status;
}

tern_status tern_chat_template_text(const tern_chat_template *c, const char *bos, const char *eos,
                                    const tern_chat_message *messages, size_t n, bool add_generation_prompt,
                                    tern_buf *out, tern_error *err)
{
    tern_chat__input in = {.bos = tern_jinja__words(bos ? bos : ""),
                           .eos = tern_jinja__words(eos ? eos : ""),
                           .messages = messages,
                           .n = n,
                           .add_generation_prompt = add_generation_prompt};
    return add_text(c, &in, out, err);
}

static tern_status check_variables(const json_t *variables, tern_error *err)
{
    if (json_is_object(variables)) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT, "the variables of a chat template: %s, an object expected",
                     tern_json_kind(variables));
}

tern_status tern_chat_template_json(const tern_chat_template *c, const char *bos, const char *eos,
                                    const json_t *variables, tern_buf *out, tern_error *err)
{
    tern_chat__input in = {
        .bos = tern_jinja__words(bos ? bos : ""), .eos = tern_jinja__words(eos ? eos : ""), .variables = variables};
    TERN_TRY(check_variables(variables, err));
    return add_text(c, &in, out, err);
}

/* A special token as text; empty when the tokenizer has none. */
static tern_jinja_str token_text(const tern_tokenizer *t, int32_t id)
{
    tern_span bytes = {0};
    if (id >= 0) bytes = tern_token_bytes(t, id, true);
    return (tern_jinja_str){.data = bytes.size ? (const char *)bytes.data : "", .n = bytes.size};
}

static tern_status add_tokens(const tern_chat_template *c, const tern_tokenizer *t, tern_chat__input *in,
                              tern_tokens *out, tern_error *err)
{
    tern_chat__text text = {0};
    tern_status status;
    in->bos = token_text(t, tern_tokenizer_bos(t));
    in->eos = token_text(t, tern_tokenizer_eos(t));
    TERN_GOTO(render_json(c, in, &text, err));
    TERN_GOTO(tern_tokenize_marked(t, text.text, text.untrusted, text.n, out, err));
fail:
    tern_chat__text_deinit(&text);
    return status;
}

tern_status tern_chat_template_tokens(const tern_chat_template *c, const tern_tokenizer *t,
                                      const tern_chat_message *messages, size_t n, bool add_generation_prompt,
                                      tern_tokens *out, tern_error *err)
{
    tern_chat__input in = {.messages = messages, .n = n, .add_generation_prompt = add_generation_prompt};
    return add_tokens(c, t, &in, out, err);
}

tern_status tern_chat_template_json_tokens(const tern_chat_template *c, const tern_tokenizer *t,
                                           const json_t *variables, tern_tokens *out, tern_error *err)
{
    tern_chat__input in = {.variables = variables};
    TERN_TRY(check_variables(variables, err));
    return add_tokens(c, t, &in, out, err);
}
