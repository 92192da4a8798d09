/* Events of training as JSON, an object per line (docs/guides/fine-tuning.md). */
#ifndef TERN_APPS_TRAIN_JSON_H
#define TERN_APPS_TRAIN_JSON_H

#include "tern/train.h"

/* Nothing of progress. A run goes on where nobody reads. */
void tern_train_print_json(const tern_finetune_event *event);
void tern_train_print_result_json(const tern_finetune_result *result);

#endif
