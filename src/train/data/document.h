/* From what people write down to documents: text, prompts with completions, conversations, ready-made ids. */
#ifndef TERN_TRAIN_DATA_DOCUMENT_H
#define TERN_TRAIN_DATA_DOCUMENT_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "tern/bytes.h"
#include "text/chat/template.h"
#include "text/tokenizer/tokenizer.h"

typedef struct tern_train_talk tern_train_talk; /* train/data/talk.h */

/* The makers of documents. All borrowed. */
typedef struct tern_train_maker {
    uint32_t n_vocab;                   /* of the model; at least the tokenizer's */
    const tern_tokenizer *tokenizer;    /* NULL: ids alone can be read */
    const tern_chat_template *template; /* NULL: no messages */
} tern_train_maker;

/* Why a document is left out though nothing is wrong with it. */
typedef enum tern_train_skip {
    TERN_TRAIN_KEPT,
    TERN_TRAIN_SHORT,     /* fewer than two tokens */
    TERN_TRAIN_NO_LABELS, /* nothing that counts in the loss: an empty completion, no message of the assistant */
    TERN_TRAIN_SKIPS
} tern_train_skip;

/* One document; zero-initialised is empty, and used again for the next. */
typedef struct tern_train_document {
    tern_tokens ids;
    tern_buf in_loss;  /* [ids.n] 1 where the token counts in the loss when it is the label */
    bool sequence;     /* from ready-made ids */
    bool conversation; /* by the chat template */
    tern_train_skip skip;
    size_t n_empty;  /* answers that are not learned because they are empty */
    size_t n_unlike; /* and because the chat template renders them differently when more messages follow */
    bool joined;     /* each answer is learned as the template renders it when it is the last message */
} tern_train_document;

void tern_train_document_deinit(tern_train_document *document);

/* Plain text: BOS where the tokenizer adds one, the text, EOS where it has one; all of it in the loss. Text that spells
 * a special token stays text. Errors: INVALID_ARGUMENT (no tokenizer). */
tern_status tern_train_document_text(const tern_train_maker *m, const void *text, size_t n, tern_train_document *out,
                                     tern_error *err);

/* One line of JSONL: an object with
 *   "text"                   as above,
 *   "prompt", "completion"   BOS, both as one text, EOS; loss from the first token that the prompt alone does not have;
 *                            or two lists that are one of messages, with loss on the answers in the second,
 *   "messages"               whole objects through the chat template up to the last answer that is learned, with
 *                            "tools", "documents" and "chat_template_kwargs" beside them (train/data/talk.h); loss on
 *                            what the assistant says, each time with the token that ends it,
 *   "conversations"          ShareGPT's form of messages: [{"from": "human" | "gpt" | ..., "value"}, ...]; an assistant
 *                            that speaks first is left out,
 *   "instruction", "output"  Alpaca's: a message of the user (with "input" after an empty line) and its answer, after
 *                            those of "system" and "history"; "text" beside it is not looked at,
 *   "ids"                    as they are, all in the loss.
 * Other keys are not looked at. Errors: MALFORMED (syntax; none or two of these; a kind or an id that does not fit; an
 * assistant that speaks first; a member that the template does not render; a template that renders all answers
 * differently once more follows), UNSUPPORTED (preferences), INVALID_ARGUMENT (no tokenizer or template; the template's
 * own refusals), LIMIT. */
tern_status tern_train_document_json(const tern_train_maker *m, const void *line, size_t n, const char *what,
                                     tern_train_document *out, tern_error *err);

/* As above from a value, which `what` names in messages. */
tern_status tern_train_document_value(const tern_train_maker *m, const json_t *value, const char *what,
                                      tern_train_document *out, tern_error *err);
/* Whether an object has any of these keys. */
bool tern_train_document_has_key(const json_t *object);

/* The conversation of a line. */
tern_status tern_train__messages(const tern_train_maker *m, const tern_train_talk *talk, tern_train_document *out,
                                 tern_error *err);
/* The number of tokens that two lists begin with alike. */
size_t tern_train__common(const tern_tokens *a, const tern_tokens *b);
/* Makes in_loss as long as ids, with `value` for the new ones. */
tern_status tern_train__fill(tern_train_document *d, uint8_t value, tern_error *err);

#endif
