/* Conversations in files. */
#include <string.h>

#include "apps/chat/talk.h"
#include "base/alloc.h"
#include "base/bytes.h"
#include "base/file.h"
#include "base/show.h"
#include "format/json.h"

static const char *const roles[] = {"system", "user", "assistant"};

tern_status tern_chat_talk_save(const tern_chat_talk *t, const char *path, tern_error *err)
{
    json_t *list = json_array();
    for (size_t i = 0; i < t->n; i++) {
        json_t *message = json_pack("{s:s, s:o}", "role", t->messages[i].role, "content",
                                    tern_app_json_text(t->messages[i].content, t->messages[i].n_content));
        const char *thoughts = t->thoughts[i];
        if (thoughts) json_object_set_new(message, "reasoning_content", tern_app_json_text(thoughts, strlen(thoughts)));
        json_array_append_new(list, message);
    }
    return tern_json_write(list, path, JSON_INDENT(2), err);
}

static const char *known_role(tern_span role)
{
    for (size_t i = 0; i < sizeof roles / sizeof *roles; i++)
        if (strlen(roles[i]) == role.size && memcmp(roles[i], role.data, role.size) == 0) return roles[i];
    return NULL;
}

static tern_status add_message(tern_chat_talk *t, const json_t *message, tern_error *err)
{
    tern_span role, content;
    TERN_TRY(tern_json_get_string(message, "role", &role, err));
    TERN_TRY(tern_json_get_string(message, "content", &content, err));
    const char *known = known_role(role);
    if (!known)
        return tern_fail(err, TERN_MALFORMED, "role \"%s\": system, user or assistant expected", tern_show(role).text);
    TERN_TRY(tern_chat_talk_add(t, known, (const char *)content.data, content.size, err));
    if (!tern_json_has(message, "reasoning_content")) return TERN_OK;
    TERN_TRY(tern_json_get_string(message, "reasoning_content", &content, err));
    return tern_chat_talk_add_thoughts(t, (const char *)content.data, content.size, err);
}

tern_status tern_chat_talk_load(tern_chat_talk *t, const char *path, tern_error *err)
{
    json_t *list;
    tern_chat_talk loaded = {0};
    TERN_TRY(tern_json_read(&list, path, (size_t)64 << 20, err));
    tern_status status = TERN_OK;
    if (!json_is_array(list))
        status = tern_fail(err, TERN_MALFORMED, "%s found, a list of messages expected", tern_json_kind(list));
    for (size_t i = 0; i < json_array_size(list) && status == TERN_OK; i++) {
        status = add_message(&loaded, json_array_get(list, i), err);
        if (status != TERN_OK) tern_error_prefix(err, "message %zu", i);
    }
    tern_json_free(list);
    if (status != TERN_OK) {
        tern_chat_talk_close(&loaded);
        return tern_error_prefix(err, "%s", tern_show_z(path).text);
    }
    tern_chat_talk_truncate(t, 0);
    tern_free(t->messages);
    tern_free(t->thoughts);
    t->messages = loaded.messages;
    t->thoughts = loaded.thoughts;
    t->n = loaded.n;
    t->cap = loaded.cap;
    t->thoughts_cap = loaded.thoughts_cap;
    return TERN_OK;
}
