/* The inside of an adapter, and what its readers and writers share. */
#ifndef TERN_MODEL_ADAPTER_INTERNAL_H
#define TERN_MODEL_ADAPTER_INTERNAL_H

#include "model/adapter/adapter.h"
#include "model/model_internal.h"

/* The order of heads in a file. */
typedef struct tern_adapter_form {
    bool adjacent; /* B of Q and K has its rows in adjacent pairs */
    bool tiled;    /* heads of values of layers that recur, as tern_recurrence.tiled */
} tern_adapter_form;

struct tern_adapter {
    tern_adapter_info info;
    char *base;         /* info.base, or NULL */
    tern_config config; /* the model's; without one only the architecture may be set */
    bool has_model;
    tern_adapter_form form;   /* of the file being read */
    tern_adapter_pair *pairs; /* [n_layers][TERN_ROLE_COUNT]; a half is NULL until some of it was read */
};

/* One tensor of a file: A or B of a linear layer, of one expert or of all. */
typedef struct tern_adapter_half {
    tern_span name;   /* as in the file, for messages */
    tern_span module; /* the part of it that names the layer */
    tern_role role;
    uint32_t layer;
    bool is_b;
    uint32_t expert;       /* of experts: the first in the tensor */
    uint32_t n_experts;    /* in the tensor; 1 where there are none */
    uint64_t rows, cols;   /* of one expert; of mixed ones rows of the role */
    bool mixed;            /* the tensor's rows are those of SSM_QKV and SSM_GATE, by head of keys */
    uint32_t rank;         /* 0: the adapter's */
    float alpha;           /* 0: the adapter's */
    float factor;          /* of B, for a scale other than the adapter's; 0: none */
    tern_st_tensor values; /* dtype, data and n_elements */
} tern_adapter_half;

/* Finds the linear role, and in Hugging Face's names the expert, whose tensor is called name + suffix. The layer is the
 * number after `mark` at the name's start. Errors: UNSUPPORTED (no such layer of a model), LIMIT (the layer's number).
 * `shown` is the whole name. */
tern_status tern_adapter__parse_module(const tern_config *config, tern_span module, const char *mark, bool hf,
                                       tern_span shown, tern_adapter_half *half, tern_error *err);
/* Cuts `end` off the end of *s; false, with *s as it was, when it does not end so. */
bool tern_adapter__cut(tern_span *s, const char *end);
/* Rank, alpha and dropout in range, the scale set. */
tern_status tern_adapter__check_info(tern_adapter_info *info, tern_error *err);
/* The base's name. Errors: MALFORMED, LIMIT, OUT_OF_MEMORY. */
tern_status tern_adapter__set_base(tern_adapter *adapter, const char *key, tern_span base, tern_error *err);
/* Makes the table of pairs and fills it; every half must have its other one. */
tern_status tern_adapter__fill(tern_adapter *adapter, const tern_adapter_half *halves, size_t n, tern_error *err);
/* Half a pair between the order of the model and that of a file. */
typedef struct tern_adapter_half_order {
    tern_role role;
    bool is_b, to_file; /* else from the file */
    tern_adapter_form form;
    uint32_t rows, cols; /* of the half */
    /* set by tern_adapter__reorder */
    tern_head_order heads;
    uint32_t head_dim;
    bool to_adjacent;
} tern_adapter_half_order;

/* *ordered: the values in the other order, the caller's to free; NULL where both are the same. Errors: OUT_OF_MEMORY.
 */
tern_status tern_adapter__reorder(const tern_adapter *ad, const tern_adapter_half_order *half, const float *values,
                                  float **ordered, tern_error *err);

/* `config` NULL: no model. *adapter is zeroed storage; the caller closes it in any case. */
tern_status tern_adapter__read_gguf(tern_adapter *adapter, const void *data, size_t size, tern_error *err);
/* Ranks and alphas of single modules (PEFT's rank_pattern and alpha_pattern) in halves whose modules are known; the
 * rank and the scale of the info become those of the widest pair. Errors: MALFORMED, LIMIT. */
tern_status tern_adapter__apply_patterns(tern_adapter_info *info, const json_t *root, tern_adapter_half *halves,
                                         size_t n, tern_error *err);
tern_status tern_adapter__read_peft(tern_adapter *adapter, const json_t *root, const tern_safetensors *st,
                                    tern_error *err);
/* An adapter for the configuration, or for none, with nothing in it. */
tern_status tern_adapter__create(tern_adapter **adapter, const tern_config *config, tern_error *err);

/* Whether folders have the role's matrix in one with another role's, in_proj_qkvz of Qwen3-Next. */
bool tern_adapter__is_mixed(const tern_adapter *adapter, tern_role role);
/* The rank of pairs beside such matrices: twice the adapter's where two roles of a layer have different A. */
uint32_t tern_adapter__mixed_rank(const tern_adapter *adapter);

/* The text of adapter_config.json at the end of a buffer. Errors: OUT_OF_MEMORY. */
tern_status tern_adapter__add_peft_config(const tern_adapter *adapter, tern_buf *out, tern_error *err);

#endif
