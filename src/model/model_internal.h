/* The inside of a model, and what the files of this folder share: families, roles, checks and the steps of opening. */
#ifndef TERN_MODEL_MODEL_INTERNAL_H
#define TERN_MODEL_MODEL_INTERNAL_H

#include <string.h>

#include "base/file.h"
#include "format/gguf_parts.h"
#include "format/json.h"
#include "format/safetensors.h"
#include "model/cut.h"
#include "quant/weight.h"

typedef struct tern_pool tern_pool; /* base/pool.h */

/* The one GGUF file in a folder without config.json (of one in parts the first), the caller's to free; NULL: a Hugging
 * Face folder. Errors: NOT_FOUND (neither), INVALID_ARGUMENT (several, or an adapter), OUT_OF_MEMORY. */
tern_status tern_model__gguf_in(const char *dir, char **path, tern_error *err);
/* Errors: INVALID_ARGUMENT (the folder holds an adapter and no model). */
tern_status tern_model__refuse_adapter(const char *dir, tern_error *err);

#define TERN_MODEL__IS_ADAPTER "a LoRA adapter found, a model expected: --lora takes the adapter, -m its model"

/* Whether the bytes of a file's word are these. */
static inline bool tern_model__says(tern_span word, const char *text)
{
    return word.size == strlen(text) && memcmp(word.data, text, word.size) == 0;
}

/* Like TERN_TRY for the typed getters, but a missing key leaves the output as it is. */
#define TERN_TRY_OPTIONAL(call)                                                                                        \
    do {                                                                                                               \
        tern_status optional_ = (call);                                                                                \
        if (optional_ != TERN_OK && optional_ != TERN_NOT_FOUND) return optional_;                                     \
    } while (0)

enum {
    TERN_MODEL__MAX_DIM = 1 << 20,
    TERN_MODEL__MAX_VOCAB = 1 << 24,
    TERN_MODEL__MAX_CTX = 1 << 24,
    TERN_MODEL__MAX_HEAD_DIM = 512,
    TERN_MODEL__NAME_BYTES = TERN_ROLE_NAME_BYTES,
    TERN_MODEL__I8 = 24 /* GGUF's type of plain bytes */
};

/* A weight's scales as they were before its blocks rounded them: 1, or one for each row; n 0: not known. */
typedef struct tern_exact_scale {
    const float *values;
    uint64_t n;
} tern_exact_scale;

typedef struct tern_i2s_evidence tern_i2s_evidence; /* model/open/i2s_evidence.h */

/* Where the text model's tensors lie among those of a model of several parts: "model.layers.0...", or before that
 * "language_model.", or "model.language_model.layers.0..." as transformers has saved it since 4.52; "layers.0..." in
 * models without a head. */
typedef enum tern_hf_spelling {
    TERN_HF_ALONE,
    TERN_HF_BEFORE,
    TERN_HF_WITHIN,
    TERN_HF_BARE,
    TERN_HF_SPELLINGS
} tern_hf_spelling;

struct tern_model {
    tern_config config;
    tern_tokenizer *tokenizer;
    tern_weight *weights; /* [n_layers][TERN_ROLE_COUNT]; roles outside the layers live in row 0 */
    uint64_t bytes, parameters;
    tern_exact_scale *exact;   /* as weights; NULL: the file has none */
    tern_hf_spelling spelling; /* of an HF folder's tensors */
    bool halves;               /* it has gate and up of all experts in one tensor */
    bool i2s_stated;           /* that its I2_S layers are in Tern's order, whatever the evidence says */
    tern_cut cut;              /* which rows it has */
    tern_stages stages;        /* which layers */
    bool derived;              /* the tokenizer is another model's */
    tern_unused_tensors unused;
    tern_classifier classifier;     /* n_labels 0: it has none */
    struct tern_hadamard *hadamard; /* model/hadamard.h; NULL: no weight lies in a rotated basis */
    tern_model *mtp;                /* the block that drafts tokens, or NULL */
    tern_model *trunk;              /* of such a block: the model that it belongs to, or NULL */

    tern_gguf_file file;           /* a GGUF file that we opened; its bytes alone once it has been read */
    tern_safetensors *safetensors; /* an HF folder */
    void **owned;                  /* aligned blocks */
    size_t n_owned, cap_owned;

    const tern_model_options *options; /* only while opening */
    tern_i2s_evidence *evidence;       /* only while opening; NULL: there is none */
    tern_pool *own_pool;               /* only while opening; NULL: the options have one, or nothing large was there */
    uint64_t bytes_expected;           /* only while opening: what progress is measured against */
};

/* Rows of a weight as f32 [n][cols], scales applied. Errors: OUT_OF_MEMORY, those of decoding. */
tern_status tern_weight__rows(const tern_weight *w, uint32_t first, uint32_t n, float *out, tern_error *err);

/* ---- families: what an architecture's name means beyond its numbers */

/* Whether models of a family have experts. */
typedef enum tern_family_experts { TERN_EXPERTS_NONE, TERN_EXPERTS_MAY, TERN_EXPERTS_ALL } tern_family_experts;

typedef struct tern_family {
    const char *architecture; /* GGUF's word */
    tern_activation activation;
    bool ternary;                       /* its linear layers were trained as ternary ones */
    bool needs_sub_norms;               /* sub-norms must be there; in other families they are used when they are */
    bool rope_adjacent;                 /* GGUF files hold Q and K permuted to adjacent pairs */
    bool post_norms, qk_norm, qkv_bias; /* as in tern_config */
    bool may_bias;                      /* a file says whether q, k, v and o have biases */
    bool joined;                        /* GGUF and HF files hold q, k and v in one matrix, gate and up in another */
    bool yarn_between;                  /* bounds of YaRN lie between pairs where a GGUF file does not say */
    bool long_rope;                     /* files may have factors for long contexts and for others */
    bool any_window;                    /* a sliding_window is that of every layer */
    bool norms_from_one;                /* Hugging Face folders hold norms less 1 (Gemma) */
    bool recurs;                        /* most layers keep a state: Qwen3-Next and what follows */
    bool tiled_heads, joint_rates;      /* as in tern_recurrence; tiled: of GGUF files */
    bool shared_expert;                 /* layers have an expert of all tokens */
    bool scaled_embd;                   /* rows of the embedding table times sqrt(n_embd) */
    bool multipliers;                   /* factors of embedding, residual sums, scores and logits (Granite) */
    bool plain_full;                    /* layers that see all positions have no RoPE; files name them one by one */
    bool window_switch;                 /* sliding_window counts only with use_sliding_window, which is refused */
    tern_family_experts experts;
    tern_route_rule route_rule; /* where a file does not say */
    bool expert_ff;             /* an expert's length has a key of its own; another is that of dense layers */
    bool route_normed;          /* the weights of a token's experts sum to 1, whatever; else as a file says */
    bool expert_bias;           /* as in tern_config; so are o_bias and attn_sinks */
    bool o_bias, attn_sinks;
    bool mxfp4;                         /* Hugging Face folders may hold experts as MXFP4 */
    float ffn_limit;                    /* where a file does not say */
    uint32_t full_period;               /* of layers that see all positions, where there is a window */
    uint32_t plain_period;              /* as in tern_config */
    float window_rope_base;             /* of layers with a window; 0: as the others */
    float score_softcap, logit_softcap; /* where a GGUF file does not say */
    float rope_base;                    /* where the file does not say */
    uint32_t n_ctx_train;               /* where the file does not say; 0: it must */
} tern_family;

/* NULL when there is none. */
const tern_family *tern_family__find(const char *architecture);
/* The family of a Hugging Face class ("BitNetForCausalLM") with this activation; NULL when there is none. */
const tern_family *tern_family__of_hf(tern_span class_name, tern_activation activation);
/* Whether there is one with any activation. */
bool tern_family__has_class(tern_span class_name);
/* The GGUF words of all families, and their Hugging Face classes, for messages: "bitnet-b1.58, bitnet-25, ...". */
const char *tern_family__list(void);
const char *tern_family__classes(void);
/* The Hugging Face class that such a model is written as. */
typedef struct tern_family_class {
    const char *name; /* "LlamaForCausalLM" */
    tern_activation activation;
    const char *architecture, *model_type;
} tern_family_class;

const tern_family_class *tern_family__class_of(const tern_config *config);
/* The properties that a family decides, before the file is read; and what follows from both, after. */
void tern_family__set(tern_config *config, const tern_family *family);
void tern_family__finish(tern_config *config, const tern_family *family);

/* ---- roles */

typedef enum tern_role_kind {
    TERN_KIND_L,
    TERN_KIND_E,
    TERN_KIND_R,
    TERN_KIND_N,
    TERN_KIND_B,
    TERN_KIND_F,
    TERN_KIND_T
} tern_role_kind;

tern_role_kind tern_role__kind(tern_role role);
/* A matrix or the biases of all experts of a layer. */
bool tern_role__of_experts(tern_role role);
/* True for the roles that every layer has its own tensor of. */
bool tern_role__in_layer(tern_role role);
/* Whether RoPE turns the rows in pairs: Q, K and their biases. */
bool tern_role__is_rotated(tern_role role);
/* True when a model with this configuration has no tensor of its own for the role in this layer. */
bool tern_role__may_lack(tern_role role, uint32_t layer, const tern_config *config);

/* Walks all roles of all layers in the order of files: embedding, output norm, head, then layer by layer.
 * Zero-initialised is the start. */
typedef struct tern_role_walk {
    tern_role role;
    uint32_t layer;
    uint64_t at;
} tern_role_walk;

/* False after the last one. Roles that may lack are skipped. */
bool tern_role__next(tern_role_walk *walk, const tern_config *config);

/* The tensor's name in GGUF files of models like this one (NULL: of a linear layer, whose names all families share);
 * out holds TERN_MODEL__NAME_BYTES. */
void tern_role__gguf_name(const tern_config *config, tern_role role, uint32_t layer, char *out);
/* "blk.0.attn_q.rsr" for "blk.0.attn_q.weight". */
void tern_role__rsr_name(const char *weight_name, char *out, size_t n);
/* "blk.0.attn_q.scale": factors of the tensor's own scales. */
void tern_role__scale_name(const char *weight_name, char *out, size_t n);
/* The i-th name that HF folders use, false past the last one. All families have the same names for linear layers: for
 * those config may be NULL. */
bool tern_role__hf_name(const tern_config *config, tern_role role, uint32_t layer, unsigned i, char *out);
/* `pattern` with its "%u" replaced by the layer. */
void tern_role__name_in_layer(const char *pattern, uint32_t layer, char *out);
/* "mtp.layers.0..." for a name in Hugging Face folders, "model.layers.0...", of a block that drafts tokens. */
void tern_role__name_in_mtp(const tern_config *config, char *name);

/* Where a Hugging Face folder has the rows of one expert's part of a role: in a tensor of that expert alone, or in one
 * of all, [n_experts][...]. The expert's row r is row first + step * r of `rows` in its part of the tensor; of
 * transposed ones it is a column: [cols][rows]. */
typedef struct tern_hf_experts {
    char name[TERN_MODEL__NAME_BYTES];
    bool single, transposed;
    uint32_t first, step, rows;
} tern_hf_experts;

/* False of roles that are not all experts' together. halves: gate and up of all experts are halves of one tensor. */
bool tern_role__hf_experts(const tern_config *config, tern_role role, uint32_t layer, uint32_t expert, bool halves,
                           tern_hf_experts *out);
/* The role and the expert of a module's name without ".weight", "model.layers.0.block_sparse_moe.experts.3.w1", where
 * each expert has a tensor of its own; config without an architecture: of any family. False: it is not such a name. */
bool tern_role__parse_hf_expert(const tern_config *config, tern_span module, uint32_t layer, tern_role *role,
                                uint32_t *expert);
/* Rows of one expert in the role's weight. */
uint32_t tern_role__expert_rows(const tern_config *config, tern_role role, uint32_t layer);
/* "gate_up_proj_blocks" and "..._scales": MXFP4 as Hugging Face folders have it. */
#define TERN_HF__BLOCKS "_blocks"
#define TERN_HF__SCALES "_scales"

/* Matrices stored as one, one below the other. */
typedef struct tern_joint {
    tern_role first, last;
    uint32_t first_row, rows; /* of the role that was asked for; of all */
    char gguf[TERN_MODEL__NAME_BYTES], hf[TERN_MODEL__NAME_BYTES];
} tern_joint;

/* False where a role's matrix always stands alone. */
bool tern_role__joint(const tern_config *config, tern_role role, uint32_t layer, tern_joint *out);
/* The joint tensor that stands in for the role's own, or NULL. */
const tern_gguf_tensor *tern_joint__find(const tern_config *config, const tern_gguf *g, tern_role role, uint32_t layer,
                                         tern_joint *joint);
/* MALFORMED where the tensor has not the shape of all parts together; UNSUPPORTED for types that are converted. */
tern_status tern_joint__check(const tern_joint *joint, const tern_gguf_tensor *t, uint32_t cols, tern_error *err);
/* Where the role's bytes begin in the joint ones. UNSUPPORTED for encodings whose rows do not stand alone. */
tern_status tern_joint__slice(const tern_joint *joint, const tern_encoding *e, uint32_t cols, size_t *offset,
                              tern_error *err);
/* A tensor's name in a folder of this spelling; name and out hold TERN_MODEL__NAME_BYTES. */
void tern_role__spell(tern_hf_spelling spelling, const char *name, char *out);
/* The prefix of all tensors of the text model's layers; those of the text model, where others lie beside them. */
const char *tern_role__layers_prefix(tern_hf_spelling spelling);
const char *tern_role__text_prefix(tern_hf_spelling spelling);
/* Runs of rows, or of columns, of a matrix that other files have in another order. Heads of values lie by head
 * of keys (Hugging Face), or one of each head of keys in turn (llama.cpp's qwen35). Run h of the other file is run
 * h % n * m + h / n of this one. run 0: the order is the same. */
typedef struct tern_head_order {
    uint32_t first; /* rows before the runs */
    uint32_t run;   /* rows of one */
    uint32_t n, m;  /* n * m runs */
    bool columns;   /* it is columns that are moved */
} tern_head_order;

/* From a model with tiled heads, or without, to a file with tiled heads, or without. */
tern_head_order tern_role__head_order(const tern_config *config, tern_role role, bool tiled);
/* Where row (or column) i of the other file comes from. */
static inline uint32_t tern_head_order_source(const tern_head_order *o, uint32_t i)
{
    if (!o->run || i < o->first) return i;
    const uint32_t h = (i - o->first) / o->run, within = (i - o->first) % o->run;
    return o->first + (h % o->n * o->m + h / o->n) * o->run + within;
}
/* Moves the columns of n rows, of `item` bytes each, where columns are what is moved; room: one row. */
void tern_head_order_columns(const tern_head_order *order, void *rows, uint32_t n, uint32_t cols, size_t item,
                             void *room);
/* Qwen3-Next's folders have q, k, v and z of each head of keys in turn, in one matrix: whose row its row i is. */
void tern_role__mixed_row(const tern_config *config, uint32_t i, tern_role *role, uint32_t *row);
/* A value of a vector as the model has it, from that of an HF folder, and back: Gemma's norms are stored less 1, what
 * decays as the logarithm of what is subtracted. */
float tern_role__from_hf(const tern_config *config, tern_role role, float value);
float tern_role__to_hf(const tern_config *config, tern_role role, float value);
/* The shape that a role must have in a layer; a norm or a bias is [1][cols]. */
void tern_role__shape(tern_role role, uint32_t layer, const tern_config *config, uint32_t *rows, uint32_t *cols);

/* ---- configurations: all that the metadata says, checked */

tern_status tern_config__from_gguf(tern_config *config, const tern_gguf *gguf, tern_error *err);

/* The facts of config.json beyond the configuration: how the linear layers are stored. */
typedef struct tern_hf_layout {
    bool ternary;    /* float matrices are master weights, to be ternarised */
    bool packed;     /* uint8 matrices are packed codes */
    bool reciprocal; /* weight_scale divides (linear_class "bitlinear") instead of multiplying */
    bool norms;      /* a norm before each linear layer must be there ("use_rms_norm") */
} tern_hf_layout;

/* The source of the text model: the document, or its text_config where the class has images as well, with the defaults
 * of the class. The caller's to tern_json_free. Errors: NOT_FOUND (no text_config), MALFORMED. */
tern_status tern_config__text_of_hf(json_t **text, const json_t *root, tern_error *err);
/* How a text becomes one vector: "pooling_type"; 1_Pooling/config.json of sentence-transformers, where there is one.
 * Errors: MALFORMED, UNSUPPORTED (another way). */
tern_status tern_config__pooling_from_gguf(tern_config *config, const tern_gguf *gguf, tern_error *err);
tern_status tern_config__pooling_from_hf(tern_config *config, const char *dir, tern_error *err);
/* The part of it that says how attention and the head make scores: windows, scale, soft caps. */
tern_status tern_config__scores_from_hf(tern_config *config, const tern_family *family, const json_t *root,
                                        tern_error *err);
/* Granite's multipliers, and which layers have no RoPE. */
tern_status tern_config__factors_from_hf(tern_config *config, const tern_family *family, const json_t *root,
                                         tern_error *err);
/* Experts: how many, how long, how they are chosen. Errors: NOT_FOUND, MALFORMED, UNSUPPORTED (layers without them). */
tern_status tern_config__experts_from_hf(tern_config *config, const tern_family *family, const json_t *root,
                                         tern_error *err);
/* Layers that recur: which, and their dimensions. Errors: NOT_FOUND, MALFORMED, UNSUPPORTED, LIMIT. */
tern_status tern_config__recurrence_from_hf(tern_config *config, const tern_family *family, const json_t *root,
                                            tern_error *err);
tern_status tern_config__check_recurrence(const tern_config *config, tern_error *err);
/* The feed-forward lengths of all layers, each[n_layers]. */
void tern_config__set_feed_forward(tern_config *config, const uint32_t *each);
/* Which of the layers see all positions, full[n_layers]: sets the period, and the window to 0 where all do. False where
 * it is not every so-many-th: *odd is then the first that does not fit the period, which is set. */
bool tern_config__set_full_layers(tern_config *config, const bool *full, uint32_t *odd);
/* `name` is what the model is called when the file does not say. */
tern_status tern_config__from_hf(tern_config *config, tern_hf_layout *layout, const json_t *root, const char *name,
                                 tern_error *err);
/* How positions become angles. */
tern_status tern_config__rope_from_hf(tern_config *config, const tern_family *family, const json_t *root,
                                      tern_error *err);
/* Longer RoPE of "rope_scaling" or "rope_parameters", in `rope`, and of the document around it. */
tern_status tern_config__long_rope_from_hf(tern_config *config, const json_t *rope, const json_t *root,
                                           tern_error *err);
/* Dimensions in range and in step with each other, numbers finite. Errors: MALFORMED, LIMIT. */
tern_status tern_config__check(const tern_config *config, tern_error *err);
/* Copies a name: control characters become '?', what does not fit is cut at a character. */
void tern_config__set_name(tern_config *config, tern_span name);

/* ---- the steps of opening */

/* Sets up the table of weights for model->config, which must have been checked. */
tern_status tern_model__init_weights(tern_model *model, tern_error *err);
tern_weight *tern_model__slot(tern_model *model, tern_role role, uint32_t layer);
/* Zeroed memory aligned to 64 bytes that lives as long as the model. */
tern_status tern_model__own(tern_model *model, size_t bytes, void **out, tern_error *err);
/* The block, of tern_alloc_aligned, is the model's from now on; on failure it is freed. NULL is fine. */
tern_status tern_model__adopt(tern_model *model, void *block, tern_error *err);
/* Counts the weight, and reports progress. Errors: CANCELLED. */
tern_status tern_model__added(tern_model *model, const tern_weight *weight, tern_error *err);
/* Errors name the tensor. */
tern_status tern_model__check_shape(const tern_config *config, tern_role role, uint32_t layer, const char *name,
                                    uint64_t rows, uint64_t cols, tern_error *err);
tern_status tern_model__check_encoding(tern_role role, const char *name, const tern_encoding *e, tern_error *err);
/* Codes, scales and values of one weight that has been filled in; reads all of it unless the options say no. */
/* Which layers each stage has, once all weights are there; INVALID_ARGUMENT: more stages than layers. */
tern_status tern_model__choose_stages(tern_model *model, tern_error *err);
/* Takes of each weight what the rank of the options has. Errors: tern_cut_check; UNSUPPORTED (rows that do not start at
 * a whole block). */
tern_status tern_model__cut(tern_model *model, tern_error *err);
/* tern_encoding_check of the rows that this rank is to have. */
tern_status tern_model__check_own_rows(const tern_model *model, const tern_weight *weight, tern_error *err);
tern_status tern_model__check_data(tern_model *model, const tern_weight *weight, tern_error *err);
/* Gives the weight, whose rows and cols are set, an f32 copy of the vector (of experts: the vectors) at `data`. */
tern_status tern_model__set_vector(tern_model *model, tern_weight *weight, const tern_encoding *e, const uint8_t *data,
                                   tern_error *err);
/* Fills scale and row_scales of a ternary weight from the bytes of its tensor; a scale is 0 only where all codes of the
 * row are. Errors: UNSUPPORTED (several in one row), MALFORMED (one that is not positive and finite). */
tern_status tern_model__find_scales(tern_model *model, tern_weight *weight, tern_error *err);
/* A tq1_0 or tq2_0 weight, its data there, with several scales in a row becomes q2_0, the same numbers, in *memory
 * (tern_free_aligned), which is the caller's. Others stay, with *memory NULL, and rows that none may have (a scale of 0
 * beside codes) are left for find_scales to refuse. Errors: MALFORMED (codes, as in the file), OUT_OF_MEMORY. */
tern_status tern_model__regroup(tern_weight *weight, void **memory, tern_error *err);
/* Whether n numbers are such: in each block of q2_0 one magnitude beside 0, which f16 holds. */
bool tern_model__has_groups(const float *values, uint32_t n);
/* Multiplies the weight's scales by n factors: 1, or one for each row. `what` names them. MALFORMED when one is not
 * positive; a row of zeros may have 0. */
tern_status tern_model__apply_scales(tern_model *model, tern_weight *weight, const char *what, const float *factors,
                                     uint64_t n, tern_error *err);
/* The tokenizer fits the table of embeddings. */
tern_status tern_model__check_tokenizer(const tern_model *model, tern_error *err);

/* Only scales, which must be positive and finite; that of a row of zeros may be 0. */
tern_status tern_model__check_scales(const tern_weight *weight, tern_error *err);
/* An empty model that is being opened; `options` (NULL: none) are borrowed until tern_model__end. */
tern_status tern_model__begin(tern_model **model, const tern_model_options *options, tern_error *err);
/* The model, which lets go of what it needed while it was opened. */
tern_model *tern_model__opened(tern_model *model);
/* Closes half a model, or hands out a whole one. */
tern_status tern_model__end(tern_model *made, tern_status status, tern_model **model, tern_error *err);

/* Fills model->unused; the configuration is there. A tensor of a layer that no role of this configuration reads would
 * change what the layer computes, and so would a bias outside the layers: UNSUPPORTED, with its name. */
/* Reads cls.output, which must be behind the last layer: a dense layer before it (cls.weight) is not known, and both
 * are left out then. Errors: MALFORMED (its shape), UNSUPPORTED (its type), OUT_OF_MEMORY. */
tern_status tern_model__read_classifier(tern_model *model, const tern_gguf *g, tern_error *err);
#define TERN_MODEL__CLASSIFIER      "cls.output.weight"
#define TERN_MODEL__CLASSIFIER_BIAS "cls.output.bias"
/* Whether a file has one that can be read. */
bool tern_model__has_classifier(const tern_gguf *g);
tern_status tern_model__note_unused_gguf(tern_model *model, const tern_gguf *g, tern_error *err);
tern_status tern_model__note_unused_hf(tern_model *model, tern_error *err);

/* Begins model->mtp where the options ask for it and the file has such a block as Tern knows it, one layer of attention
 * without tables of its own; the configuration is there. Errors: OUT_OF_MEMORY. */
tern_status tern_model__find_mtp_gguf(tern_model *model, const tern_gguf *g, tern_error *err);
tern_status tern_model__find_mtp_hf(tern_model *model, tern_error *err);
/* Counts the weights of the block, which is read, with the model's. */
void tern_model__count_mtp(tern_model *model);

/* ---- GGUF files: what the header says, then what the tensors' bytes say */

/* Arrays: names of tensors, how many scales each has (1, or one for each row), and these scales in turn. */
#define TERN_MODEL__EXACT_TENSORS "tern.scales.tensors"
#define TERN_MODEL__EXACT_COUNTS  "tern.scales.counts"
#define TERN_MODEL__EXACT_VALUES  "tern.scales.values"

/* The divisor of each frequency: always, in long contexts, in others. */
#define TERN_MODEL__ROPE_FACTORS  "rope_freqs.weight"
#define TERN_MODEL__LONG_FACTORS  "rope_factors_long.weight"
#define TERN_MODEL__SHORT_FACTORS "rope_factors_short.weight"
typedef enum tern_rope_factors {
    TERN_FACTORS,
    TERN_FACTORS_LONG,
    TERN_FACTORS_SHORT,
    TERN_FACTORS_KINDS
} tern_rope_factors;

const char *tern_model__factors_name(tern_rope_factors which);

/* A role's tensor, and the one with factors for its scales, or NULL. */
typedef struct tern_gguf_weight {
    tern_role role;
    uint32_t layer;
    tern_weight *weight;
    const tern_gguf_tensor *tensor, *scales;
    const struct tern_foreign
        *foreign;            /* quant/foreign.h: the tensor's layout, which the weight will not have; or NULL */
    const tern_joint *joint; /* while it is described: what the tensor is; NULL: the role's own */
    size_t offset;           /* of the role's bytes in the tensor's */
} tern_gguf_weight;

/* Gives the weight, whose shape is set, the encoding that a foreign tensor will be taken as. Errors: UNSUPPORTED (the
 * options do not say that it is), INVALID_ARGUMENT (they state an order of i2_s). */
tern_status tern_model__describe_foreign(const tern_model *model, const tern_gguf_weight *found, tern_error *err);
/* Fills in such a weight, in memory of the model's own. Errors: those of tern_foreign_decode and tern_model__fill. */
tern_status tern_model__take_foreign(tern_model *model, const tern_gguf_weight *found, tern_error *err);

/* The configuration, and an empty table of weights. */
tern_status tern_model__read_header(tern_model *model, const tern_gguf *g, tern_error *err);
tern_status tern_model__open_tokenizer(tern_model *model, const tern_gguf *g, tern_error *err);
/* The role's weight as the header has it: name, encoding, shape, bytes, checked; no data. */
tern_status tern_model__describe(tern_model *model, const tern_gguf *g, tern_role role, uint32_t layer,
                                 tern_gguf_weight *found, tern_error *err);
/* *t NULL: there are none. */
tern_status tern_model__find_rope_factors(const tern_model *model, const tern_gguf *g, tern_rope_factors which,
                                          const tern_gguf_tensor **t, tern_error *err);
tern_status tern_model__set_rope_factors(tern_model *model, tern_rope_factors which, const uint8_t *data,
                                         tern_error *err);
/* Multiplies the weight's scales by n factors (f32, not aligned): none, 1, or one for each row. */
tern_status tern_model__multiply(tern_model *model, tern_weight *w, const uint8_t *scales, size_t n, tern_error *err);
/* "int8": inputs of linear layers are quantised, however these are stored; of families that are not always so. */
#define TERN_MODEL__ACTIVATIONS "tern.activations"
/* Float: what the gate and up parts of SwiGLU are clamped to; of models that differ from their family in it. */
#define TERN_MODEL__SWIGLU_LIMIT "tern.swiglu_limit"
/* Bool: whether the bounds of YaRN are whole pairs; of models that differ from their family in it. */
#define TERN_MODEL__YARN_TRUNCATE "tern.rope.yarn_truncate"
/* Says that I2_S tensors are in Tern's order; written of files of which a person has said so. */
#define TERN_MODEL__I2S_ORDER "tern.i2s.order"

/* Whether the file states its order. Errors: UNSUPPORTED (another than Tern's). */
tern_status tern_model__read_i2s_order(tern_model *model, const tern_gguf *g, tern_error *err);
/* With all weights filled in: refuses I2_S layers in another order than Tern's, or brings them into it, as the options
 * say. Errors: UNSUPPORTED; INVALID_ARGUMENT (an order that there is not, or for a model without I2_S layers);
 * OUT_OF_MEMORY. */
tern_status tern_model__settle_i2s_order(tern_model *model, tern_error *err);

/* model->hadamard of the metadata "prism.hadamard.*", if there are any; the configuration is there. Errors: UNSUPPORTED
 * (a version, transform, axis or sign mode that is not known; a weight whose input is not a linear layer's or the
 * head's), MALFORMED (arrays that do not fit each other or the tensors), NOT_FOUND (a key), OUT_OF_MEMORY. */
tern_status tern_model__read_hadamard(tern_model *model, const tern_gguf *g, tern_error *err);

/* The exact scales of the file, if it has any. Errors: MALFORMED (arrays that do not fit each other, a scale that is
 * not finite or below 0), OUT_OF_MEMORY. */
tern_status tern_model__read_exact_scales(tern_model *model, const tern_gguf *g, tern_error *err);
/* MALFORMED when the weight, whose shape is known, has another number of them. */
tern_status tern_model__check_exact_scales(const tern_model *model, const tern_weight *w, tern_error *err);
/* Replaces every one of the weight's [rows] scales that its exact one rounds to. Where others have written other blocks
 * since, the blocks are right. */
void tern_model__refine_scales(const tern_model *model, const tern_weight *w, float *scales);
/* All that the bytes of a weight say, now that weight->data is there: scales, times these factors; values checked. */
tern_status tern_model__fill(tern_model *model, tern_role role, tern_weight *w, const uint8_t *scales, size_t n,
                             tern_error *err);

/* From a file whose bytes stay where they are; all parts joined. */
tern_status tern_model__open_gguf(tern_model *model, const tern_gguf *g, tern_error *err);
/* `weights` is the folder, or the one .safetensors file in it to be read. */
tern_status tern_model__open_hf(tern_model *model, const char *dir, const char *weights, tern_error *err);

#endif
