/* Adapters and numbers in the output, for the tests of commands. */
#ifndef TERN_TESTS_APPS_LORA_COMMANDS_CASES_H
#define TERN_TESTS_APPS_LORA_COMMANDS_CASES_H

#include <math.h>
#include <unistd.h>

#include "model/support.h"
#include "quant/encoding.h"
#include "support/adapters.h"
#include "support/command.h"
#include "support/converted.h"
#include "support/golden.h"

#define IDS "5,42,79,116,153,190,227,14,51,88"

extern tern_error lora_commands_err;

/* An adapter of the model at `from`, written as a GGUF file or, with no ending, as a PEFT folder. */
const char *lora_commands_written(const char *from, const char *name, uint32_t rank, uint64_t seed);

/* path:scale */
const char *lora_commands_scaled(const char *path, const char *scale);

#define LOGITS(model, ...) TERN("logits", "-m", model, "--ids", IDS, __VA_ARGS__)

double lora_commands_number(const json_t *row, const char *key);

#endif
