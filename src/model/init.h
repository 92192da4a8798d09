/* Models from scratch: shapes from a configuration, values at random. */
#ifndef TERN_MODEL_INIT_H
#define TERN_MODEL_INIT_H

#include "model/write/hf.h"

/* Reads a config.json with transformers' keys, of which only hidden_size, intermediate_size, num_hidden_layers and
 * num_attention_heads must be there. Defaults: BitNetForCausalLM, hidden_act "relu2" (of LlamaForCausalLM "silu"),
 * vocab_size 4096, max_position_embeddings 1024, tied embeddings, rms_norm_eps 1e-5, rope_theta as the class has it,
 * initializer_range 0.02. Errors: NOT_FOUND, IO, MALFORMED, UNSUPPORTED, LIMIT, each with the key, the value found and
 * the value expected. */
typedef struct tern_init {
    tern_config config;
    float range; /* standard deviation of the matrices and tables */
    uint64_t seed;
} tern_init;

tern_status tern_init_read(tern_init *init, const char *path, tern_error *err);

/* Nearly normal values of mean 0 and standard deviation `range`, none beyond 3.5 of them; norms are 1. Any row, in any
 * order, is a function of the seed alone, to the bit. `init` must outlive the source. */
tern_master_source tern_init_source(const tern_init *init);

#endif
