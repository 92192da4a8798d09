/* A conversation on its way through the chat template. */
#ifndef TERN_TRAIN_DATA_CHAT_INTERNAL_H
#define TERN_TRAIN_DATA_CHAT_INTERNAL_H

#include "base/bytes.h"
#include "train/data/document.h"
#include "train/data/talk.h"

/* One rendering. */
typedef struct tern_train_rendering {
    tern_buf text;
    tern_tokens ids;
} tern_train_rendering;

typedef struct tern_train_rendered {
    const tern_train_maker *maker;
    const tern_train_talk *talk;
    size_t n; /* messages up to the last answer that is learned */
    char *bos, *eos;
    tern_train_rendering prompt, answered, changed;
    tern_tokens earlier;    /* the prompt of the answer before */
    const char *cause;      /* why answers cannot be told from the rest; NULL: they all can */
    size_t cause_at;        /* after so many messages */
    tern_train_document *d; /* what is made */
} tern_train_rendered;

/* The first n messages; a new reference. NULL: out of memory. */
json_t *tern_train__first(const tern_train_rendered *c, size_t n);
/* The first n messages with another in the place of message i, which it takes. */
json_t *tern_train__exchanged(const tern_train_rendered *c, size_t n, size_t i, json_t *message);
/* The message with `before` and its content from `at` on. NULL: out of memory. */
json_t *tern_train__with_content(const json_t *message, const char *before, size_t at);

/* The variables of the template, as the server gives them; takes the messages (NULL: out of memory). */
tern_status tern_train__variables(const json_t *beside, json_t *messages, bool prompt, json_t **out, tern_error *err);
/* The rendered text of these variables. Errors: the template's. */
tern_status tern_train__render_text(const tern_train_rendered *c, const json_t *variables, tern_buf *out,
                                    tern_error *err);
/* Text and tokens of messages, which it takes, with the opening of an answer where `prompt`. */
tern_status tern_train__render(const tern_train_rendered *c, json_t *messages, bool prompt, tern_train_rendering *out,
                               tern_error *err);

bool tern_train__begins_with(const tern_buf *text, const tern_buf *part);
/* Where the last token in [from, to) that ends a turn lies, plus 1; 0: there is none. */
size_t tern_train__end_in(const tern_train_rendered *c, const tern_tokens *ids, size_t from, size_t to);
/* The document without tokens, and with more of them, which do not count. */
void tern_train__clear_tokens(tern_train_rendered *c);
tern_status tern_train__add_ids(tern_train_rendered *c, const tern_tokens *ids, size_t from, size_t to,
                                tern_error *err);

/* Refuses tools, documents, and calls and thoughts of answers that are learned, where the template renders the same
 * without them. Errors: MALFORMED (names the message and the member), the template's. */
tern_status tern_train__check_members(tern_train_rendered *c, tern_error *err);
/* Makes the document of several renderings. *done: false where no token ends an answer, or what the template renders
 * of the messages before it cannot be told from the rest. */
tern_status tern_train__join(tern_train_rendered *c, bool *done, tern_error *err);

#endif
