/* Models as Hugging Face folders: config.json, model.safetensors with the values that weights are made of, tokenizer.
 */
#ifndef TERN_MODEL_WRITE_HF_H
#define TERN_MODEL_WRITE_HF_H

#include "format/safetensors.h"
#include "model/model.h"

/* Where the values come from: rows first .. first + n - 1 of a tensor as f32 [n][cols], in the order of a model with
 * this configuration (tern_config.rope_adjacent). */
typedef struct tern_master_source {
    tern_status (*rows)(void *context, tern_role role, uint32_t layer, uint32_t first, uint32_t n, float *out,
                        tern_error *err);
    void *context;
} tern_master_source;

/* The tensors that tern_model_master gives of a model, which must outlive the source. */
tern_master_source tern_master_of_model(const tern_model *model);

/* Zero-initialised: bf16. */
typedef struct tern_hf_options {
    bool f32; /* F32 values instead of BF16 (rounded to the nearest) */
    bool (*progress)(void *context, float done);
    void *progress_context;
} tern_hf_options;

/* Writes a folder that transformers loads and tern_model_open reads, and makes it if it does not exist. BitNet models
 * are BitNetForCausalLM with quantization_mode "online": weights and inputs are quantised when they are used
 * (transformers' integrations/bitnet.py). Others are LlamaForCausalLM. tokenizer may be NULL: no tokenizer files. The
 * weights come last, each file whole or not at all. Errors: UNSUPPORTED (frequencies or a tokenizer that the format
 * cannot say), IO, CANCELLED, OUT_OF_MEMORY, those of the source. */
tern_status tern_hf_write(const char *dir, const tern_config *config, const tern_tokenizer *tokenizer,
                          const tern_master_source *source, const tern_hf_options *options, tern_error *err);

#endif
