/* Experts of a package that stay where they are until a paged backend needs them. */
#ifndef TERN_INFER_EXPERTS_SOURCE_H
#define TERN_INFER_EXPERTS_SOURCE_H

#include "infer/engine/engine.h"
#include "model/package/package.h"

typedef struct tern_expert_source tern_expert_source;

/* A package by expert, which is the source's from here on, also when this fails. Errors: OUT_OF_MEMORY. */
tern_status tern_expert_source_open(tern_expert_source **source, tern_package *package, tern_error *err);
/* An engine of these params asks the source for its experts. It owns it once it is open (tern_engine__close_with, with
 * tern_expert_source_close). */
void tern_expert_source_use(tern_expert_source *source, tern_engine_params *params);
const tern_package *tern_expert_source_package(const tern_expert_source *source);
/* NULL is fine. */
void tern_expert_source_close(void *source);

#endif
