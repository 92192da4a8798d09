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
    for (size_t i = 0; i < t->n; i++)
        json_array_append_new(list, json_pack("{s:s, s:o}", "role", t->messages[i].role, "content",
                                              tern_app_json_text(t->messages[i].content, t->messages[i].n_content)));
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
    return tern_chat_talk_add(t, known, (const char *)content.data, content.size, err);
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
    t->messages = loaded.messages;
    t->n = loaded.n;
    t->cap = loaded.cap;
    return TERN_OK;
}
