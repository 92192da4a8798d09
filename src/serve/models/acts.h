/* What protocols share of asks that generate nothing. */
#ifndef TERN_SERVE_MODELS_ACTS_H
#define TERN_SERVE_MODELS_ACTS_H

#include "serve/models/host.h"

/* A list of vectors, one for each prompt: lists of numbers, or base64 of their f32; the caller's. Counts tokens in
 * answer->n_prompt. */
tern_status tern_act_embed_texts(tern_answer *answer, tern_host *host, json_t **vectors, tern_error *err);

#endif
