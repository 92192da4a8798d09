/* The flags of `tern finetune` and `tern train`, and what they say to the library. */
#ifndef TERN_APPS_TRAIN_FLAGS_H
#define TERN_APPS_TRAIN_FLAGS_H

#include "apps/args/args.h"
#include "tern/bytes.h"

extern const tern_flag tern_flags_train_data[], tern_flags_train_lora[], tern_flags_train_ranks[],
    tern_flags_train_length[], tern_flags_train_optimizer[], tern_flags_train_memory[], tern_flags_train_quality[],
    tern_flags_train_power[];

/* The parsed values of flags; zero-initialised. */
typedef struct tern_train_words {
    const char *targets[16];
    char target_text[256];
    tern_buf template;
    char *lora_start;
} tern_train_words;

void tern_train_words_deinit(tern_train_words *words);

/* The defaults of both commands. */
void tern_train_defaults(tern_options *options);
/* Everything but the model, the callbacks and what only one command has. out borrows from options and words. Errors:
 * INVALID_ARGUMENT. */
tern_status tern_train_read_flags(const tern_options *options, tern_train_words *words, tern_finetune_options *out,
                                  tern_error *err);

#endif
