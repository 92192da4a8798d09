/* A package for the tests of packages. */
#ifndef TERN_TESTS_MODEL_PACKAGE_CASES_H
#define TERN_TESTS_MODEL_PACKAGE_CASES_H

#include "support/test.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/sha256.h"
#include "format/gguf.h"
#include "format/json.h"
#include "model/package/package.h"
#include "tern/infer.h"

extern tern_error package_err;

extern const char package_bundled[];

enum { SHARD = 300007 }; /* so that tensors and the header lie across shards */

extern char package_dir[4200];

const char *package_in_dir(const char *name);

void package_remove_package(void);

int package_setup(void **state);

int package_teardown(void **state);

tern_buf package_read_all(const char *path);

#endif
