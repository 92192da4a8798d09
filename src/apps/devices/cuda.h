/* The CUDA devices of `tern devices`. */
#ifndef TERN_APPS_DEVICES_CUDA_H
#define TERN_APPS_DEVICES_CUDA_H

#include "apps/app.h"

/* {"devices": [...], "problem": why there are none}; `measured` opens each and measures how fast it reads. */
json_t *tern_app_cuda_json(bool measured);
void tern_app_print_cuda(const json_t *cuda);

#endif
