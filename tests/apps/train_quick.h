/* A few quick steps of training on the bundled model, as words of a command. */
#ifndef TERN_TESTS_APPS_TRAIN_QUICK_H
#define TERN_TESTS_APPS_TRAIN_QUICK_H

#include "support/converted.h"
#include "support/places.h"

#define TRAIN_LOGBOOK TERN_SOURCE_DIR "/examples/finetune/logbook.txt"

#define TRAIN_QUICK                                                                                                    \
    "finetune", "-m", test_small_model(), "--data", TRAIN_LOGBOOK, "--split", "blank", "--seq", "32", "--batch", "1",  \
        "-t", "1", "--val-split", "0"

#endif
