/* What the tests of tern tune share. */
#ifndef TERN_TESTS_APPS_TUNE_CASES_H
#define TERN_TESTS_APPS_TUNE_CASES_H

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "support/command.h"
#include "support/converted.h"
#include "support/test.h"

#define QUICK "--ms", "1", "--cold-mib", "1", "-t", "1,2"

extern char *tune_choices_path; /* tune.json in a cache folder of this test's own */

int tune_set_up(void **state);

#endif
