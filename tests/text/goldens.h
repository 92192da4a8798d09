/* Golden texts with their ids, and checks of a tokenizer against them. */
#ifndef TERN_TESTS_TEXT_GOLDENS_H
#define TERN_TESTS_TEXT_GOLDENS_H

#include "base/bytes.h"
#include "base/file.h"
#include "format/json.h"
#include "support/test.h"
#include "text/tokenizer/tokenizer.h"

typedef struct golden {
    tern_span text;
    int32_t *ids;
    size_t n;
} golden;

typedef struct goldens {
    golden *items;
    size_t n;
    tern_buf storage[2]; /* the files that items borrow from */
    json_t *root;
} goldens;

/* fixtures/tokenizers/NAME: [{"text": ..., "ids": [...]}, ...]. */
goldens goldens_of_json(const char *name);
/* fixtures/tokenizers/NAME.inp and NAME.out: texts between separators, one line of ids each. */
goldens goldens_of_inp(const char *name);
void goldens_free(goldens *g);
void check_golden(const tern_tokenizer *t, const golden *item, size_t index, bool allow_special);
void check_goldens(const tern_tokenizer *t, const goldens *g, bool allow_special);
/* Reads a whole fixture; the caller frees. */
tern_buf read_whole(const char *path);
tern_tokenizer *open_llama3(void);
/* How many ranks it has; 256 special tokens follow. */
int32_t llama3_ranks(void);
tern_tokenizer *open_spm1024(void);
tern_tokenizer *open_demo(void);

#endif
