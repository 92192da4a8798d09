/* Generating text: declared in tern/infer.h, over what a session and a sampler show inside the library. */
#ifndef TERN_INFER_GENERATE_H
#define TERN_INFER_GENERATE_H

#include "infer/sampler.h"
#include "infer/session.h"
#include "tern/infer.h"

#endif
