/* Adapters in a conversation: added, removed and weighed while it goes on. */
#include "apps/chat_talk.h"

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
