/* Which tensors of a model a mix gives which encoding. */
#ifndef TERN_MODEL_MIX_H
#define TERN_MODEL_MIX_H

#include "model/model_internal.h"
#include "quant/mix.h"

/* The encoding of a matrix of the layers or a table. Its blocks need not fit: see tern_encoding_fitting. */
const tern_encoding *tern_mix_encoding(const tern_mix *mix, const tern_config *config, tern_role role, uint32_t layer);

#endif
