/* SafeTensors files for tests, made piece by piece. */
#ifndef TERN_TESTS_FORMAT_SAFETENSORS_CASES_H
#define TERN_TESTS_FORMAT_SAFETENSORS_CASES_H

#include "support/test.h"

#include <sys/stat.h>

#include "base/alloc.h"
#include "base/file.h"
#include "format/gguf_bytes.h"
#include "format/safetensors.h"

tern_st_tensor safetensors_tensor_of(const char *name, tern_st_dtype dtype, uint64_t n, const void *data);

#endif
