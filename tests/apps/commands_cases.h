/* JSON of commands, and golden files, for the tests of commands. */
#ifndef TERN_TESTS_APPS_COMMANDS_CASES_H
#define TERN_TESTS_APPS_COMMANDS_CASES_H

#include <fcntl.h>
#include <math.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include "backend/open.h"
#include "base/bytes.h"
#include "base/file.h"
#include "format/json.h"
#include "support/command.h"
#include "support/converted.h"
#include "support/golden.h"
#include "support/test.h"

#define BEGIN "-p", "Once upon a time"

const char *commands_text_at(const json_t *object, const char *key);

double commands_number_at(const json_t *object, const char *key);

json_t *commands_read_golden(const char *path);

#endif
