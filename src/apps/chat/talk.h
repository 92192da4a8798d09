/* A conversation: its messages, and the session that has read them so far. */
#ifndef TERN_APPS_CHAT_TALK_H
#define TERN_APPS_CHAT_TALK_H

#include "apps/chat/style.h"
#include "apps/chat/thoughts.h"
#include "apps/generation.h"
#include "apps/lora.h"

typedef struct tern_chat_talk {
    tern_options *options;
    tern_engine *engine;
    tern_app_loras loras; /* what the session computes with */
    tern_session *session;
    tern_app_draft draft;
    tern_chat_template *template;
    tern_chat_message *messages; /* role: static words; content: owned */
    char **thoughts;             /* [n] of the assistant's, owned; NULL: none */
    size_t n, cap, thoughts_cap;
    tern_chat_thoughts thinking;
    tern_tokens ids;       /* the conversation as the template renders it */
    tern_buf answer;       /* being written */
    tern_chat_style style; /* of answers as they are shown */
    tern_app_cost cost;    /* of the last answer */
    char **settings;       /* [n_settings] texts of flags that were set while talking; owned */
    size_t n_settings, cap_settings;
    char *file; /* that the conversation was loaded from or saved to; NULL: none */
    bool failed;
} tern_chat_talk;

/* Opens model, session and template. Errors: also INVALID_ARGUMENT when the model has no template, its family none that
 * is known, and --template names none. */
tern_status tern_chat_talk_open(tern_chat_talk *talk, tern_options *options, tern_error *err);
void tern_chat_talk_close(tern_chat_talk *talk);

/* Appends a message; the content is copied. */
tern_status tern_chat_talk_add(tern_chat_talk *talk, const char *role, const char *content, size_t n, tern_error *err);
/* The thoughts before the last message, n bytes, which are copied. */
tern_status tern_chat_talk_add_thoughts(tern_chat_talk *talk, const char *text, size_t n, tern_error *err);
/* Forgets messages from the end until `keep` are left. */
void tern_chat_talk_truncate(tern_chat_talk *talk, size_t keep);
/* Sets, replaces or (n = 0) removes the system message. */
tern_status tern_chat_talk_set_system(tern_chat_talk *talk, const char *content, size_t n, tern_error *err);
/* Streams the answer to the last message to standard output and appends it. Only what the session does not hold already
 * is evaluated. Errors: CONTEXT_FULL (with --context-shift the oldest messages are forgotten instead), and those of the
 * template. */
tern_status tern_chat_talk_answer(tern_chat_talk *talk, tern_error *err);

/* One answer to n bytes of a message by the flags of options, to standard output; `tern chat -p`. CANCELLED after
 * Ctrl-C. */
tern_status tern_chat_once(const tern_options *options, const char *message, size_t n, tern_error *err);

/* Adapters while talking: adds FILE[:SCALE]; removes the one at an index, or changes its scale. The conversation so far
 * is read anew before the next answer, so that all of it is the new adapters'. On failure all is as it was. Errors:
 * those of loading, INVALID_ARGUMENT (a scale). */
tern_status tern_chat_talk_add_lora(tern_chat_talk *talk, const char *text, tern_error *err);
tern_status tern_chat_talk_remove_lora(tern_chat_talk *talk, uint32_t at, tern_error *err);
tern_status tern_chat_talk_scale_lora(tern_chat_talk *talk, uint32_t at, float scale, tern_error *err);

/* The words after /lora: nothing, add FILE[:SCALE], remove N, scale N SCALE; then the list is shown. */
tern_status tern_chat_lora_command(tern_chat_talk *talk, const char *text, tern_error *err);

/* The messages as JSON: [{"role": ..., "content": ...}, ...]. Written to a temporary name and renamed. */
tern_status tern_chat_talk_save(const tern_chat_talk *talk, const char *path, tern_error *err);
/* On failure the conversation is as it was. */
tern_status tern_chat_talk_load(tern_chat_talk *talk, const char *path, tern_error *err);

/* The variables that --chat-template-kwargs gives, without enable_thinking, which says whether the model thinks (1, 0;
 * -1: nothing does). NULL *variables: there are none. To be given back with json_decref. Errors: those of the text. */
tern_status tern_chat_variables_read(json_t **variables, int *thinks, const tern_options *options, tern_error *err);
/* The text of a file with a template. Errors: those of tern_app_read_text, INVALID_ARGUMENT (JSON, say). */
tern_status tern_chat_template_read(const char *path, tern_buf *text, tern_error *err);
/* The template of this name or in this file; for NULL the model's own, of which `own` is the text. Errors: also
 * INVALID_ARGUMENT when that is NULL too. */
tern_status tern_chat_template_find(tern_chat_template **out, const char *own, const char *name, tern_error *err);
/* As above, for an engine; without either, that of the model's family, which is reported on standard error. Errors:
 * also INVALID_ARGUMENT when none is known. */
tern_status tern_chat_template_choose(tern_chat_template **out, const tern_engine *engine, const char *name,
                                      tern_error *err);
/* Says that a family's template is taken, on standard error. */
void tern_chat_template_note_family(const char *name, const char *architecture);

#endif
