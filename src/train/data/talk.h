/* The conversation of a line of training data, as the chat template gets it. */
#ifndef TERN_TRAIN_DATA_TALK_H
#define TERN_TRAIN_DATA_TALK_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* Zero-initialised is empty. */
typedef struct tern_train_talk {
    json_t *variables; /* of the template beside the messages: tools, documents, what chat_template_kwargs has; owned */
    json_t *messages;  /* in the form that the server hands to templates; owned */
    bool *learned;     /* [messages] an answer that counts in the loss */
    size_t n_empty;    /* answers that would count if they had text or calls */
} tern_train_talk;

void tern_train__talk_deinit(tern_train_talk *talk);

/* Reads a list of messages and the members of the line beside it. Null members count as absent. The answers among the
 * first n_prompt messages are not learned, nor are those with "weight": 0 or "train": false. Errors: MALFORMED, which
 * names the message and the member. */
tern_status tern_train__talk_read(tern_train_talk *talk, const json_t *line, const json_t *list, size_t n_prompt,
                                  tern_error *err);
/* One of the messages, after `earlier` ones; a new reference. *learned: it is an answer that may count in the loss.
 * *empty: it has neither text nor calls nor thoughts. */
tern_status tern_train__message(const json_t *item, const json_t *earlier, json_t **out, bool *learned, bool *empty,
                                tern_error *err);
/* Whether the message is the assistant's. */
bool tern_train__is_answer(const json_t *message);

/* jansson's functions take what they only read as json_t *. */
json_t *tern_train__unconst(const json_t *value);
/* MALFORMED: "KEY: KIND found, WHAT expected". */
tern_status tern_train__found(const char *key, const json_t *found, const char *what, tern_error *err);
/* Whether the value is a string with more than white space. */
bool tern_train__has_text(const json_t *value);
/* A copy with the members that are not null. NULL: out of memory. */
json_t *tern_train__without_nulls(const json_t *object);
/* The member as an array or an object, which may be written as its JSON text; a new reference. Errors: MALFORMED. */
tern_status tern_train__nested(const json_t *object, const char *key, json_type kind, json_t **out, tern_error *err);
/* The array under `key`, in the same way. Errors: NOT_FOUND, MALFORMED. */
tern_status tern_train__list(const json_t *object, const char *key, json_t **out, tern_error *err);

/* A line's messages at the end of list: those of "messages"; ShareGPT's ("conversations": [{"from", "value"}, ...]);
 * Alpaca's ("instruction", "input", "output", "system", "history"); and those of "prompt" and "completion", of which
 * *n_prompt are the prompt's (the others leave it alone). Errors: MALFORMED, NOT_FOUND (a key), OUT_OF_MEMORY. */
tern_status tern_train__plain(const json_t *line, json_t *list, size_t *n_prompt, tern_error *err);
tern_status tern_train__conversation(const json_t *line, json_t *list, size_t *n_prompt, tern_error *err);
tern_status tern_train__instruction(const json_t *line, json_t *list, size_t *n_prompt, tern_error *err);
tern_status tern_train__pair(const json_t *line, json_t *list, size_t *n_prompt, tern_error *err);

#endif
