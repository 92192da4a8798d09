/* Events of training, for people and for programs. */
#ifndef TERN_APPS_TRAIN_SHOW_H
#define TERN_APPS_TRAIN_SHOW_H

#include "apps/progress.h"
#include "tern/train.h"

/* Zero-initialised except for the first two. */
typedef struct tern_train_show {
    bool json;
    uint32_t log_every; /* 0: a fiftieth of the steps */
    tern_progress progress;
    double drawn; /* seconds */
    bool has_bar;
} tern_train_show;

/* The event callback; context is a tern_train_show. */
void tern_train_show_event(void *context, const tern_finetune_event *event);
/* Takes the bar off the screen. */
void tern_train_show_end(tern_train_show *show);
/* The result of the run. */
void tern_train_show_result(tern_train_show *show, const tern_finetune_result *result);

#endif
