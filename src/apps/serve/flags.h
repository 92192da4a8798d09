/* The flags of tern serve, by groups. */
#ifndef TERN_APPS_SERVE_FLAGS_H
#define TERN_APPS_SERVE_FLAGS_H

#include "apps/app.h"

enum { TERN_SERVE_MAX_NAMED = 64 }; /* models, and adapters */

extern const tern_flag tern_flags_serve_models[], tern_flags_serve_listening[], tern_flags_serve_batching[],
    tern_flags_serve_limits[];

#endif
