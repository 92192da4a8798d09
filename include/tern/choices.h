/* Options with a closed set of values, and the words for them that command lines, files and other languages use. */
#ifndef TERN_CHOICES_H
#define TERN_CHOICES_H

#include <stdint.h>

#include "tern/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The device that runs a model. AUTO: the first of CUDA, a discrete GPU by Vulkan, and the CPU that this machine has
 * (tern_engine_describe says which). WEBGPU is for WebAssembly alone. */
typedef enum tern_backend_kind {
    TERN_BACKEND_CPU,
    TERN_BACKEND_VULKAN,
    TERN_BACKEND_CUDA,
    TERN_BACKEND_WEBGPU,
    TERN_BACKEND_AUTO
} tern_backend_kind;

/* How the CPU reads the rows and columns of a feed-forward network that its squared ReLU makes irrelevant. The results
 * are the same. */
typedef enum tern_ffn_mode {
    TERN_FFN_AUTO,  /* skips them where that is quicker */
    TERN_FFN_DENSE, /* reads all of them */
    TERN_FFN_SPARSE /* skips them always; weights of any size get a copy by columns */
} tern_ffn_mode;

/* The activations that linear layers multiply. */
typedef enum tern_activation_mode {
    TERN_ACTIVATIONS_AUTO, /* ternary layers: int8 for each token, which BitNet models were trained with (W1.58A8);
                            * on the CPU also layers and output tables in block encodings (q8_0, q4_k, ..., not q3_k and
                            * q2_k) of models that are not ternary: int8 by blocks
                            * (docs/decisions/0068-int8-by-default.md); on CUDA dense layers in steps of
                            * several tokens: as F16; all other layers: f32 */
    TERN_ACTIVATIONS_F32,  /* f32 in all layers, the same on every backend; of a ternary model W1.58A32, for models that
                            * were trained so (docs/guides/fine-tuning.md says which to use when) */
    TERN_ACTIVATIONS_INT8, /* as AUTO, and the output table of ternary models where it has blocks; UNSUPPORTED where a
                            * dense layer has no such product: on GPUs, and with q3_k and q2_k */
    TERN_ACTIVATIONS_F16   /* dense layers: 16 bits in steps of several tokens, f32 in steps of one, which is AUTO on
                            * CUDA (docs/decisions/0071-halves-on-cuda.md); slow on the CPU, UNSUPPORTED on Vulkan and
                            * WebGPU. Ternary layers: as AUTO */
} tern_activation_mode;

/* Numbers in the cache of keys and values, with llama.cpp's names. Q8_0 and Q4_0: int8 and 4-bit codes in blocks of 32
 * of a head, with an f16 scale each: 8.5 and 4.5 bits a number. A head has a multiple of 32 numbers, on Vulkan and
 * WebGPU of 64. Keys and values may differ; on GPUs only q8_0 and q4_0 go together. docs/guides/serving.md has the
 * losses. AUTO: f32 where those of all layers and positions take at most 64 MiB then, windows or not, so that small
 * models lose nothing, else f16; where only one of keys and values is AUTO and the other f16 or f32: the same as the
 * other. */
typedef enum tern_kv_type { TERN_KV_AUTO, TERN_KV_F16, TERN_KV_F32, TERN_KV_Q8_0, TERN_KV_Q4_0 } tern_kv_type;

/* How the hidden states of a text become one vector: that of the last token, their mean, that of the first token. */
typedef enum tern_pooling { TERN_POOLING_LAST, TERN_POOLING_MEAN, TERN_POOLING_CLS } tern_pooling;

/* Where documents end in a text file that a model is trained on. */
typedef enum tern_finetune_split {
    TERN_FINETUNE_SPLIT_FILE,  /* at the end of the file */
    TERN_FINETUNE_SPLIT_BLANK, /* at empty lines */
    TERN_FINETUNE_SPLIT_LINE   /* at each line */
} tern_finetune_split;

typedef enum tern_finetune_optimizer {
    TERN_FINETUNE_OPTIMIZER_ADAMW,
    TERN_FINETUNE_OPTIMIZER_SGD
} tern_finetune_optimizer;

/* How the learning rate falls after the warm-up. */
typedef enum tern_finetune_schedule {
    TERN_FINETUNE_SCHEDULE_COSINE,
    TERN_FINETUNE_SCHEDULE_LINEAR,
    TERN_FINETUNE_SCHEDULE_CONSTANT
} tern_finetune_schedule;

/* Master weights; BF16 is rounded stochastically. */
typedef enum tern_finetune_master { TERN_FINETUNE_MASTER_F32, TERN_FINETUNE_MASTER_BF16 } tern_finetune_master;

/* The optimiser's moments. */
typedef enum tern_finetune_states {
    TERN_FINETUNE_STATES_F32,
    TERN_FINETUNE_STATES_BF16,
    TERN_FINETUNE_STATES_8BIT
} tern_finetune_states;

/* The factors of training's products; BF16 on the CPU and CUDA. */
typedef enum tern_finetune_precision {
    TERN_FINETUNE_PRECISION_F32,
    TERN_FINETUNE_PRECISION_BF16
} tern_finetune_precision;

/* The share of the time that is worked: all, 90 %, 60 % (and batches of one row). */
typedef enum tern_finetune_power {
    TERN_FINETUNE_POWER_PERFORMANCE,
    TERN_FINETUNE_POWER_BALANCED,
    TERN_FINETUNE_POWER_SAVER
} tern_finetune_power;

/* The enums above. */
typedef enum tern_choice {
    TERN_CHOICE_BACKEND,     /* "cpu", "vulkan", "cuda", "webgpu", "auto" */
    TERN_CHOICE_FFN,         /* "auto", "dense", "sparse" */
    TERN_CHOICE_ACTIVATIONS, /* "auto", "f32", "int8", "f16" */
    TERN_CHOICE_KV_TYPE,     /* "auto", "f16", "f32", "q8_0", "q4_0" */
    TERN_CHOICE_POOLING,     /* "last", "mean", "cls" */
    TERN_CHOICE_SPLIT,       /* "file", "blank", "line" */
    TERN_CHOICE_OPTIMIZER,   /* "adamw", "sgd" */
    TERN_CHOICE_SCHEDULE,    /* "cosine", "linear", "constant" */
    TERN_CHOICE_MASTER,      /* "f32", "bf16" */
    TERN_CHOICE_STATES,      /* "f32", "bf16", "8bit" */
    TERN_CHOICE_POWER,       /* "performance", "balanced", "saver" */
    /* "penalties", "dry", "top_n_sigma", "temperature", "top_k", "typical_p", "top_p", "min_p", "xtc"
     * (tern_sampler_step) */
    TERN_CHOICE_SAMPLER_STEP,
    TERN_CHOICE_PRECISION /* "f32", "bf16" */
} tern_choice;

/* The word of a value. Values count from 0, so that this lists them too. Static storage; NULL: the value, or the
 * choice, does not exist. */
TERN_API const char *tern_choice_word(tern_choice choice, uint32_t value);
/* The value of a word, into *value; NULL: 0, the default. Errors: INVALID_ARGUMENT (the word found, and those that the
 * choice has); *value is 0 then. */
TERN_API tern_status tern_choice_parse(tern_choice choice, const char *word, uint32_t *value, tern_error *err);

#ifdef __cplusplus
}
#endif

#endif
