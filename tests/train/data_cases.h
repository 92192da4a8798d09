/* A tokenizer and a template, and what documents become with them. */
#ifndef TERN_TESTS_TRAIN_DATA_CASES_H
#define TERN_TESTS_TRAIN_DATA_CASES_H

#include "base/alloc.h"
#include "format/gguf.h"
#include "support/command.h"
#include "support/converted.h"
#include "train/data/read.h"
#include "train/support.h"

extern tern_tokenizer *data_tokenizer;

extern tern_chat_template *data_template;

/* BitNet's own form: roles as words, an end token after each message, no mark where an answer begins. */
extern const char data_template_source[];

int data_open_tokenizer(void **state);

int data_close_tokenizer(void **state);

tern_train_maker data_maker(void);

/* The document as text, with what does not count between [ and ]. */
char *data_shown(const tern_train_document *d);

void data_expect_document(const char *line, const char *expected);
/* Like the one above, with this template text. */
void data_expect_rendered(const char *source, const char *line, const char *expected);
/* The line is refused with MALFORMED or UNSUPPORTED, and the message has `expected` in it. */
void data_expect_refused(const char *source, const char *line, const char *expected);

#define BOS "<|begin_of_text|>"

#endif
