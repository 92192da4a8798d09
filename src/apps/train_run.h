/* What `tern finetune` and `tern train` have in common. */
#ifndef TERN_APPS_TRAIN_RUN_H
#define TERN_APPS_TRAIN_RUN_H

#include "apps/options.h"
#include "base/error.h"

/* model NULL: from --config. */
tern_status tern_train_run_command(const tern_options *options, const char *model, tern_error *err);

#endif
