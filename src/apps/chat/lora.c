/* Adapters in a conversation: added, removed and weighed while it goes on, and the command /lora that does so. */
#include "apps/chat/talk.h"

#include <stdlib.h>
#include <string.h>

#include "base/show.h"

/* The session takes the list; what it has read was read with other adapters, so it forgets all of it. */
static tern_status apply(tern_chat_talk *t, const tern_lora_use *uses, uint32_t n, tern_error *err)
{
    TERN_TRY(tern_session_set_loras(t->session, uses, n, err));
    tern_session_truncate(t->session, 0);
    return TERN_OK;
}

tern_status tern_chat_talk_add_lora(tern_chat_talk *t, const char *text, tern_error *err)
{
    TERN_TRY(tern_app_add_lora(&t->loras, text, t->engine, err));
    tern_status status = apply(t, t->loras.uses, t->loras.n, err);
    if (status != TERN_OK) tern_app_remove_lora(&t->loras, t->loras.n - 1);
    return status;
}

tern_status tern_chat_talk_remove_lora(tern_chat_talk *t, uint32_t at, tern_error *err)
{
    tern_lora_use left[TERN_APP_MAX_LORAS];
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->loras.n; i++)
        if (i != at) left[n++] = t->loras.uses[i];
    TERN_TRY(apply(t, left, n, err));
    tern_app_remove_lora(&t->loras, at);
    return TERN_OK;
}

tern_status tern_chat_talk_scale_lora(tern_chat_talk *t, uint32_t at, float scale, tern_error *err)
{
    float before = t->loras.uses[at].scale;
    t->loras.uses[at].scale = scale;
    tern_status status = apply(t, t->loras.uses, t->loras.n, err);
    if (status != TERN_OK) t->loras.uses[at].scale = before;
    return status;
}

/* ---- /lora: list, add, remove, scale */

static void list(const tern_chat_talk *t)
{
    char size[16];
    tern_lora_info info;
    tern_error ignored;
    if (t->loras.n == 0) puts("no adapters");
    for (uint32_t i = 0; i < t->loras.n; i++) {
        if (tern_lora_describe(t->loras.loras[i], &info, &ignored) != TERN_OK) continue;
        printf("%u  %s: scale %g, rank %u, %s\n", i + 1, tern_show_z(t->loras.paths[i]).text,
               (double)t->loras.uses[i].scale, info.rank, tern_app_bytes(info.bytes, size));
    }
}

/* The adapter of a number in the list, from 1 on; *text moves behind it. */
static tern_status read_number(const tern_chat_talk *t, const char **text, uint32_t *at, tern_error *err)
{
    char *end;
    unsigned long n = strtoul(*text, &end, 10);
    if (end != *text && **text != '-' && n >= 1 && n <= t->loras.n && (*end == ' ' || *end == 0)) {
        *at = (uint32_t)n - 1;
        *text = end + strspn(end, " ");
        return TERN_OK;
    }
    if (t->loras.n == 0)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "this chat has no adapters (/lora add FILE adds one)");
    return tern_fail(err, TERN_INVALID_ARGUMENT,
                     "\"%s\": the number of an adapter, 1 to %u, expected (/lora lists them)", tern_show_z(*text).text,
                     t->loras.n);
}

static tern_status remove_one(tern_chat_talk *t, const char *text, tern_error *err)
{
    uint32_t at;
    TERN_TRY(read_number(t, &text, &at, err));
    if (*text)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "\"%s\": no further argument expected", tern_show_z(text).text);
    return tern_chat_talk_remove_lora(t, at, err);
}

static tern_status scale_one(tern_chat_talk *t, const char *text, tern_error *err)
{
    char *end;
    uint32_t at;
    TERN_TRY(read_number(t, &text, &at, err));
    float scale = strtof(text, &end);
    if (end == text || *end)
        return tern_fail(err, TERN_INVALID_ARGUMENT, "scale \"%s\": a number expected", tern_show_z(text).text);
    return tern_chat_talk_scale_lora(t, at, scale, err);
}

tern_status tern_chat_lora_command(tern_chat_talk *t, const char *text, tern_error *err)
{
    size_t n = strcspn(text, " ");
    const char *rest = text + n + strspn(text + n, " ");
    tern_status status = TERN_OK;
    if (n == 3 && memcmp(text, "add", n) == 0 && *rest) status = tern_chat_talk_add_lora(t, rest, err);
    else if (n == 6 && memcmp(text, "remove", n) == 0) status = remove_one(t, rest, err);
    else if (n == 5 && memcmp(text, "scale", n) == 0) status = scale_one(t, rest, err);
    else if (n)
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "/lora %s: add FILE[:SCALE], remove N, scale N SCALE or no argument expected",
                         tern_show_z(text).text);
    if (status == TERN_OK) list(t);
    return status;
}
