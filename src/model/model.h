/* A model in memory: its configuration, its tokenizer and its weights by role; from a GGUF file or a Hugging Face
 * folder. */
#ifndef TERN_MODEL_MODEL_H
#define TERN_MODEL_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "ops/activation.h"
#include "ops/routing.h"

typedef struct tern_encoding tern_encoding;   /* quant/encoding.h */
typedef struct tern_tokenizer tern_tokenizer; /* text/tokenizer/tokenizer.h */
typedef struct tern_weight tern_weight;       /* quant/weight.h */

typedef enum tern_rope_scaling {
    TERN_ROPE_PLAIN,
    TERN_ROPE_LINEAR,
    TERN_ROPE_LLAMA3,
    TERN_ROPE_LONG,
    TERN_ROPE_YARN /* arXiv:2309.00071 */
} tern_rope_scaling;

/* One way to turn positions into angles. */
typedef struct tern_rope {
    float base; /* 0: there is none */
    tern_rope_scaling scaling;
    float factor, low_freq_factor, high_freq_factor;
    uint32_t original_ctx;
    float size; /* LONG, YARN: what cosines and sines are multiplied with */
    /* YARN: waves that turn at least beta_fast times in the original context are kept, those that turn at most
     * beta_slow times slowed by `factor`, those between blended; truncate: the bounds are whole pairs */
    float beta_fast, beta_slow;
    bool truncate;
    /* [head_dim / 2] or NULL: what each frequency is divided by (GGUF's rope_freqs.weight); owned by the model. */
    const float *factors;
} tern_rope;

/* GGUF's numbers. Source: llama.cpp's llama_pooling_type. */
typedef enum tern_config_pooling {
    TERN_POOLS_UNSAID,
    TERN_POOLS_MEAN,
    TERN_POOLS_CLS,
    TERN_POOLS_LAST,
    TERN_POOLS_RANK /* by a classifier behind the last state */
} tern_config_pooling;

enum { TERN_MAX_ROPES = 2, TERN_MAX_LAYERS = 1024, TERN_MAX_PAIRS = 256 };

/* Layers that keep a state instead of keys and values: the gated delta rule (Gated DeltaNet, arXiv:2412.06464;
 * Qwen 3.5, transformers modeling_qwen3_next). */
typedef struct tern_recurrence {
    uint32_t n_heads;             /* of values; 0: no layer recurs */
    uint32_t n_key_heads;         /* of q and k: a divisor of n_heads */
    uint32_t key_dim, value_dim;  /* of a head */
    uint32_t n_taps;              /* of the convolution over q, k and v */
    bool tiled;                   /* heads of values go to those of keys in turn (llama.cpp's files of Qwen 3.5) */
    bool joint_rates;             /* one matrix makes beta and alpha, by head of keys in turn (Qwen3-Next) */
    bool layers[TERN_MAX_LAYERS]; /* which layers recur */
} tern_recurrence;

typedef struct tern_config {
    char architecture[32]; /* GGUF's word: "bitnet-b1.58", "llama", "gemma3", ... (model/family.c) */
    char name[64];
    uint32_t n_vocab, n_embd, n_layers, n_heads, n_kv_heads, head_dim;
    uint32_t n_ff;                        /* feed-forward length; where layers differ, the largest */
    uint32_t layer_n_ff[TERN_MAX_LAYERS]; /* that of each layer where they differ; else all 0 */
    uint32_t n_ctx_train;
    float rms_eps;
    tern_activation activation;
    bool bit_linear;    /* inputs of the linear layers are int8 for each token, however the weights are stored */
    bool sub_norms;     /* RMSNorm before o and before down (BitNet b1.58 2B4T, arXiv:2504.12285) */
    bool linear_norms;  /* RMSNorm before each linear layer, of its own (BitNet embeddings; "use_rms_norm") */
    bool post_norms;    /* RMSNorm after o and after down, before each sum (Gemma 2, arXiv:2408.00118) */
    bool qk_norm;       /* RMSNorm of each head of Q and K before RoPE (Qwen 3, Gemma 3) */
    bool qkv_bias;      /* biases of q, k and v (Qwen 2, arXiv:2407.10671) */
    bool tied_head;     /* the head is the embedding table */
    bool rope_adjacent; /* adjacent pairs (llama GGUF files) instead of split halves */
    tern_rope rope[TERN_MAX_ROPES]; /* the second, where there is one, is that of layers with a window */
    /* The divisors of frequencies (LongRoPE, arXiv:2402.13753): in contexts beyond the original one, and in others
     */
    float long_factors[TERN_MAX_PAIRS], short_factors[TERN_MAX_PAIRS];
    uint32_t rope_dim;     /* RoPE turns so many dimensions of a head, the first ones; 0: all (Phi-3) */
    uint32_t window;       /* 0: none; positions that a token sees, its own included (Mistral) */
    uint32_t full_period;  /* every so-many-th layer sees all positions (Gemma 2: 2, Maple: 4); 0: none does */
    float score_scale;     /* of attention; 0: 1 / sqrt(head_dim) */
    float score_softcap;   /* 0: none */
    float embd_scale;      /* what rows of the embedding table are multiplied with; 0: nothing (Gemma: sqrt(n_embd)) */
    float residual_scale;  /* what each block's result is multiplied with before it is added; 0: nothing (Granite) */
    float logit_scale;     /* what logits are divided by; 0: nothing (Granite) */
    float logit_softcap;   /* of the head; 0: none */
    uint32_t plain_period; /* every so-many-th layer has no RoPE (SmolLM3, Maple: 4); 0: all have it */
    /* Mixtures of experts: all layers have them, and n_ff is the length of one (Mixtral, arXiv:2401.04088) */
    uint32_t n_experts;         /* 0: none */
    uint32_t n_experts_used;    /* of a token */
    tern_route_rule route_rule; /* the weights of a token's experts */
    bool expert_bias;           /* biases of the router and of the experts' matrices (GPT-OSS) */
    float ffn_limit;            /* of activations that have one */
    bool o_bias;                /* a bias of o (GPT-OSS) */
    bool attn_sinks;            /* one more score of each head, with no value (GPT-OSS) */
    uint32_t n_ff_shared;       /* length of an expert of all tokens, with a gate of its own; 0: none (Qwen3-Next) */
    bool q_gate;                /* q has twice its rows: those of each head, then those that gate what it attends to */
    tern_recurrence recurrence;
    tern_config_pooling pooling; /* how a text becomes one vector */
    uint32_t n_mtp;              /* blocks behind the layers that draft tokens, of those that were read: 0 or 1 */
    uint32_t mtp_at; /* of such a block (tern_model_mtp): the number of its layer in GGUF files; 0: a whole model */
} tern_config;

/* Hugging Face's word: "relu2", "silu", "gelu_pytorch_tanh". */
const char *tern_activation_name(tern_activation activation);

/* The properties that may differ from layer to layer. */
typedef struct tern_layer_config {
    uint32_t window; /* 0: it sees all positions */
    uint32_t rope;   /* which of the configuration's */
    bool plain;      /* positions turn nothing */
    bool recurs;     /* it has a state instead of keys and values */
    uint32_t n_ff;
} tern_layer_config;

static inline tern_layer_config tern_config_layer(const tern_config *config, uint32_t layer)
{
    const bool full = !config->window || (config->full_period && (layer + 1) % config->full_period == 0);
    const uint32_t own = layer < TERN_MAX_LAYERS ? config->layer_n_ff[layer] : 0;
    return (tern_layer_config){.window = full ? 0 : config->window,
                               .rope = !full && config->rope[1].base > 0,
                               .plain = config->plain_period && (layer + 1) % config->plain_period == 0,
                               .recurs = layer < TERN_MAX_LAYERS && config->recurrence.layers[layer],
                               .n_ff = own ? own : config->n_ff};
}

/* The i-th of the layers that have keys and values. */
static inline uint32_t tern_config_cache_layer(const tern_config *config, uint32_t i)
{
    uint32_t layer = 0;
    for (uint32_t n = 0; layer + 1 < config->n_layers; layer++)
        if (!tern_config_layer(config, layer).recurs && n++ == i) break;
    return layer;
}

/* The longest of any layer; 0: none has one. */
static inline uint32_t tern_config_window(const tern_config *config)
{
    uint32_t longest = 0;
    for (uint32_t i = 0; i < config->n_layers; i++)
        if (tern_config_layer(config, i).window > longest) longest = tern_config_layer(config, i).window;
    return longest;
}

/* clang-format off */
/* X(NAME, GGUF name, HF name, kind). Kinds: L a linear layer's matrix, E those of all experts, R the router's; N a
 * norm's vector, B a bias or a vector like one, F the biases of all experts, T a table. "%u" is the layer. HF names
 * that are a family's own: roles.c. */
#define TERN_ROLE_LIST(X)                                                                                             \
    X(TOKEN_EMBD, "token_embd.weight", "model.embed_tokens.weight", T)                                                \
    X(OUTPUT_NORM, "output_norm.weight", "model.norm.weight", N)                                                      \
    X(OUTPUT, "output.weight", "lm_head.weight", T)                                                                   \
    X(ATTN_NORM, "blk.%u.attn_norm.weight", "model.layers.%u.input_layernorm.weight", N)                              \
    X(ATTN_Q, "blk.%u.attn_q.weight", "model.layers.%u.self_attn.q_proj.weight", L)                                   \
    X(ATTN_K, "blk.%u.attn_k.weight", "model.layers.%u.self_attn.k_proj.weight", L)                                   \
    X(ATTN_V, "blk.%u.attn_v.weight", "model.layers.%u.self_attn.v_proj.weight", L)                                   \
    X(ATTN_OUTPUT, "blk.%u.attn_output.weight", "model.layers.%u.self_attn.o_proj.weight", L)                         \
    X(ATTN_SUB_NORM, "blk.%u.attn_sub_norm.weight", "model.layers.%u.self_attn.attn_sub_norm.weight", N)              \
    X(FFN_NORM, "blk.%u.ffn_norm.weight", "model.layers.%u.post_attention_layernorm.weight", N)                       \
    X(FFN_GATE, "blk.%u.ffn_gate.weight", "model.layers.%u.mlp.gate_proj.weight", L)                                  \
    X(FFN_UP, "blk.%u.ffn_up.weight", "model.layers.%u.mlp.up_proj.weight", L)                                        \
    X(FFN_DOWN, "blk.%u.ffn_down.weight", "model.layers.%u.mlp.down_proj.weight", L)                                  \
    X(FFN_SUB_NORM, "blk.%u.ffn_sub_norm.weight", "model.layers.%u.mlp.ffn_sub_norm.weight", N)                       \
    X(ATTN_Q_BIAS, "blk.%u.attn_q.bias", "model.layers.%u.self_attn.q_proj.bias", B)                                  \
    X(ATTN_K_BIAS, "blk.%u.attn_k.bias", "model.layers.%u.self_attn.k_proj.bias", B)                                  \
    X(ATTN_V_BIAS, "blk.%u.attn_v.bias", "model.layers.%u.self_attn.v_proj.bias", B)                                  \
    X(ATTN_Q_NORM, "blk.%u.attn_q_norm.weight", "model.layers.%u.self_attn.q_norm.weight", N)                         \
    X(ATTN_K_NORM, "blk.%u.attn_k_norm.weight", "model.layers.%u.self_attn.k_norm.weight", N)                         \
    X(ATTN_POST_NORM, "blk.%u.post_attention_norm.weight", "model.layers.%u.post_attention_layernorm.weight", N)      \
    X(FFN_POST_NORM, "blk.%u.post_ffw_norm.weight", "model.layers.%u.post_feedforward_layernorm.weight", N)     \
    X(ATTN_OUTPUT_BIAS, "blk.%u.attn_output.bias", "model.layers.%u.self_attn.o_proj.bias", B)                        \
    X(ATTN_SINKS, "blk.%u.attn_sinks.weight", "model.layers.%u.self_attn.sinks", B)                                   \
    X(ROUTER, "blk.%u.ffn_gate_inp.weight", "model.layers.%u.mlp.router.weight", R)                                   \
    X(ROUTER_BIAS, "blk.%u.ffn_gate_inp.bias", "model.layers.%u.mlp.router.bias", B)                                  \
    X(FFN_GATE_EXPS, "blk.%u.ffn_gate_exps.weight", "model.layers.%u.mlp.experts.gate_proj.weight", E)                \
    X(FFN_UP_EXPS, "blk.%u.ffn_up_exps.weight", "model.layers.%u.mlp.experts.up_proj.weight", E)                      \
    X(FFN_DOWN_EXPS, "blk.%u.ffn_down_exps.weight", "model.layers.%u.mlp.experts.down_proj.weight", E)                \
    X(FFN_GATE_EXPS_BIAS, "blk.%u.ffn_gate_exps.bias", "model.layers.%u.mlp.experts.gate_proj.bias", F)               \
    X(FFN_UP_EXPS_BIAS, "blk.%u.ffn_up_exps.bias", "model.layers.%u.mlp.experts.up_proj.bias", F)                     \
    X(FFN_DOWN_EXPS_BIAS, "blk.%u.ffn_down_exps.bias", "model.layers.%u.mlp.experts.down_proj.bias", F)               \
    X(ATTN_Q_IN_NORM, "blk.%u.attn_q_norm_in.weight", "model.layers.%u.self_attn.q_proj.rms_norm.weight", N)          \
    X(ATTN_K_IN_NORM, "blk.%u.attn_k_norm_in.weight", "model.layers.%u.self_attn.k_proj.rms_norm.weight", N)          \
    X(ATTN_V_IN_NORM, "blk.%u.attn_v_norm_in.weight", "model.layers.%u.self_attn.v_proj.rms_norm.weight", N)          \
    X(ATTN_OUTPUT_IN_NORM, "blk.%u.attn_output_norm_in.weight", "model.layers.%u.self_attn.o_proj.rms_norm.weight", N) \
    X(FFN_GATE_IN_NORM, "blk.%u.ffn_gate_norm_in.weight", "model.layers.%u.mlp.gate_proj.rms_norm.weight", N)         \
    X(FFN_UP_IN_NORM, "blk.%u.ffn_up_norm_in.weight", "model.layers.%u.mlp.up_proj.rms_norm.weight", N)               \
    X(FFN_DOWN_IN_NORM, "blk.%u.ffn_down_norm_in.weight", "model.layers.%u.mlp.down_proj.rms_norm.weight", N)         \
    X(FFN_GATE_SHEXP, "blk.%u.ffn_gate_shexp.weight", "model.layers.%u.mlp.shared_expert.gate_proj.weight", L)        \
    X(FFN_UP_SHEXP, "blk.%u.ffn_up_shexp.weight", "model.layers.%u.mlp.shared_expert.up_proj.weight", L)              \
    X(FFN_DOWN_SHEXP, "blk.%u.ffn_down_shexp.weight", "model.layers.%u.mlp.shared_expert.down_proj.weight", L)        \
    X(ROUTER_SHEXP, "blk.%u.ffn_gate_inp_shexp.weight", "model.layers.%u.mlp.shared_expert_gate.weight", R)           \
    X(SSM_QKV, "blk.%u.attn_qkv.weight", "model.layers.%u.linear_attn.in_proj_qkv.weight", L)                         \
    X(SSM_GATE, "blk.%u.attn_gate.weight", "model.layers.%u.linear_attn.in_proj_z.weight", L)                         \
    X(SSM_ALPHA, "blk.%u.ssm_alpha.weight", "model.layers.%u.linear_attn.in_proj_a.weight", L)                        \
    X(SSM_BETA, "blk.%u.ssm_beta.weight", "model.layers.%u.linear_attn.in_proj_b.weight", L)                          \
    X(SSM_BETA_ALPHA, "blk.%u.ssm_ba.weight", "model.layers.%u.linear_attn.in_proj_ba.weight", L)                     \
    X(SSM_CONV, "blk.%u.ssm_conv1d.weight", "model.layers.%u.linear_attn.conv1d.weight", B)                           \
    X(SSM_DECAY, "blk.%u.ssm_a", "model.layers.%u.linear_attn.A_log", B)                                              \
    X(SSM_DT, "blk.%u.ssm_dt.bias", "model.layers.%u.linear_attn.dt_bias", B)                                         \
    X(SSM_NORM, "blk.%u.ssm_norm.weight", "model.layers.%u.linear_attn.norm.weight", N)                               \
    X(SSM_OUT, "blk.%u.ssm_out.weight", "model.layers.%u.linear_attn.out_proj.weight", L)                             \
    X(MTP_INPUT, "blk.%u.nextn.eh_proj.weight", "mtp.fc.weight", L)                                                   \
    X(MTP_EMBD_NORM, "blk.%u.nextn.enorm.weight", "mtp.pre_fc_norm_embedding.weight", N)                              \
    X(MTP_HIDDEN_NORM, "blk.%u.nextn.hnorm.weight", "mtp.pre_fc_norm_hidden.weight", N)                               \
    X(MTP_NORM, "blk.%u.nextn.shared_head_norm.weight", "mtp.norm.weight", N)

typedef enum tern_role {
#define TERN_ROLE_ENUM(name, gguf, hf, kind) TERN_ROLE_##name,
    TERN_ROLE_LIST(TERN_ROLE_ENUM)
#undef TERN_ROLE_ENUM
    TERN_ROLE_COUNT
} tern_role;
/* clang-format on */

enum { TERN_ROLE_NAME_BYTES = 72 };

/* The first linear layer, which every model has in layer 0: its encoding tells whether the model is ternary. */
static inline tern_role tern_config_first_linear(const tern_config *config)
{
    return config->recurrence.layers[0] ? TERN_ROLE_SSM_QKV : TERN_ROLE_ATTN_Q;
}

/* The tensor's name in Hugging Face folders of models like this one (NULL: of a linear layer, whose names all families
 * share); out holds TERN_ROLE_NAME_BYTES. */
void tern_role_hf_name(const tern_config *config, tern_role role, uint32_t layer, char *out);
/* A matrix of a linear layer; a norm's weight; that or a bias (of experts [n_experts][cols]). */
bool tern_role_is_linear(tern_role role);
/* That, or the matrices of a layer's experts. */
bool tern_role_is_matrix(tern_role role);
bool tern_role_is_norm(tern_role role);
bool tern_role_is_vector(tern_role role);
/* A value of a weight as it is trained, and back. The decay of a state, which models have below 0, is trained as A_log
 * with decay = -e^A_log: no update takes it above 0. Other weights are trained as they are. */
float tern_role_to_trained(tern_role role, float value);
float tern_role_from_trained(tern_role role, float value);

#define TERN_I2S_ORDER_AUTO "auto"

typedef struct tern_model tern_model; /* immutable after opening; shared by threads */

typedef struct tern_model_options {
    /* Which of several ranks this model is for, whose rows alone it has and reads (model/cut.h); n_ranks 0 or 1: all */
    uint32_t rank, n_ranks;
    /* Which of several stages, runs of layers that are the model one after the other, it is for; n_stages 0 or 1: all
     */
    uint32_t stage, n_stages;
    struct tern_pool *pool; /* that looks at large weights, borrowed while opening; NULL: one is opened for them */
    uint32_t n_threads;     /* of that one; 0: one for each core */
    bool no_tokenizer;      /* tests: the fixture folders hold no tokenizer files */
    bool no_check;          /* skip reading every weight once for invalid codes */
    bool mtp;               /* read the block that drafts tokens too (tern_model_mtp); else its tensors are unused */
    /* The order of the codes in the I2_S tensors of a GGUF file (quant/i2_s_order.h): "auto" finds it (model
     * i2s_evidence.h), a name states it; tensors in another order than "x86" are brought into it, in memory. NULL: a
     * file whose order is found to be another is refused. */
    const char *i2s_order;
    bool
        foreign; /* ternary layers in layouts of other programs (quant/foreign.h) become i2_s in memory; else refused */
    const struct tern_tl_tiles *tiles; /* of bitnet.cpp's tl1 and tl2, beside its presets; may be NULL */
    /* Called with 0..1 while opening takes long; may be NULL. Returning false cancels. */
    bool (*progress)(void *context, float done);
    void *progress_context;
} tern_model_options;

/* Opens a GGUF file or an HF folder (or its config.json / a .safetensors file in it). In HF folders of BitNet models,
 * bf16/f16/f32 master weights are ternarised (tern_ternarise) to i2_s in memory and packed uint8 weights unpacked to
 * i2_s with their weight_scale (multiplied for linear_class "autobitlinear", reciprocal for "bitlinear": transformers
 * integrations/bitnet.py). A folder without tokenizer files opens, with tern_model_tokenizer NULL. Every dimension,
 * shape, encoding and code is checked here: what gets past cannot crash a backend. Errors name the tensor or key, the
 * value found and the value expected. UNSUPPORTED: I2_S codes in another order. */
tern_status tern_model_open(tern_model **model, const char *path, const tern_model_options *options, tern_error *err);
/* As above from GGUF bytes in memory (kept by the caller): tests, fuzzers, the browser. */
tern_status tern_model_open_memory(tern_model **model, const void *data, size_t size, const tern_model_options *options,
                                   tern_error *err);
void tern_model_close(tern_model *model);

const tern_config *tern_model_config(const tern_model *model);
/* The block behind the last layer that drafts tokens (multi-token prediction, arXiv:2412.19437; Qwen3-Next), as a model
 * of one layer that shares the embedding and output tables; NULL: there is none, or it was not asked for. */
const tern_model *tern_model_mtp(const tern_model *model);
/* The configuration of that block, of a model whose n_mtp is 1. */
tern_config tern_config_of_mtp(const tern_config *config);
/* NULL when the model has none. */
const tern_tokenizer *tern_model_tokenizer(const tern_model *model);
/* Gives the model's tokenizer another chat template (Jinja), which a file written from the model then has. A model
 * without a tokenizer stays as it is. Errors: OUT_OF_MEMORY. */
tern_status tern_model_set_chat_template(tern_model *model, const char *source, tern_error *err);
/* Adds special tokens to the model's tokenizer, which may then have more than the configuration's n_vocab: for writing
 * a model with rows for them. Errors: those of tern_tokenizer_add_special; INVALID_ARGUMENT (no tokenizer). */
tern_status tern_model_add_tokens(tern_model *model, const char *const *texts, size_t n, tern_error *err);
/* The weight of a role (layer 0 for those outside the layers). For OUTPUT of a tied model: the embedding's. encoding
 * NULL when absent. */
const tern_weight *tern_model_weight(const tern_model *model, tern_role role, uint32_t layer);
/* Rows first .. first + n - 1 of a weight as f32 [n][cols], in the model's own order, from the mapped file. An HF
 * folder gives its bf16, f16 or f32 values, from which ternary weights are made. Other files give the decoded values:
 * for ternary weights code * scale. Errors: INVALID_ARGUMENT (no such rows), OUT_OF_MEMORY. */
tern_status tern_model_master(const tern_model *model, tern_role role, uint32_t layer, uint32_t first, uint32_t n,
                              float *out, tern_error *err);
/* Whether those are more than codes times a scale. */
bool tern_model_has_master(const tern_model *model, tern_role role, uint32_t layer);
/* Tensors of the file that the model has no use for. */
typedef struct tern_unused_tensors {
    uint64_t n;
    char names[192]; /* "a, b, c, ...": the first of them, fit for a terminal; "" where there are none */
} tern_unused_tensors;

const tern_unused_tensors *tern_model_unused(const tern_model *model);

/* A head of a few labels behind the last hidden state of a text (GGUF's cls.output), beside the vocabulary's:
 * scores[i] = weights[i] . state + bias[i]. */
typedef struct tern_classifier {
    uint32_t n_labels, n_embd;
    const float *weights; /* [n_labels][n_embd] */
    const float *bias;    /* [n_labels]; NULL: none */
} tern_classifier;

/* NULL: the model has none. */
const tern_classifier *tern_model_classifier(const tern_model *model);
/* Bytes of all weights; parameters (elements of all weights). */
uint64_t tern_model_bytes(const tern_model *model);
uint64_t tern_model_parameters(const tern_model *model);
/* The encoding that most elements of the layers' matrices have, those of experts too; NULL: there are none. */
const tern_encoding *tern_model_main_encoding(const tern_model *model);

/* How many dimensions of a head RoPE turns. */
static inline uint32_t tern_config_rope_dim(const tern_config *config)
{
    return config->rope_dim ? config->rope_dim : config->head_dim;
}

/* The inverse frequency and the factor of cosine and sine for each of the head_dim / 2 pairs of a head, in sequences of
 * up to n_ctx positions. Pairs that are not rotated have 0 and 1. */
void tern_rope_pairs(const tern_config *config, uint32_t which, uint32_t n_ctx, float *frequencies, float *sizes);
/* Fills freq[head_dim / 2] with the inverse frequencies in f32, scaling and factors applied (llama3: Meta's rule; the
 * same f32 steps as transformers' modeling_rope_utils). */
void tern_rope_frequencies(const tern_rope *rope, uint32_t head_dim, float *freq);
/* YaRN's rule for `size`: 0.1 * share * ln(factor) + 1; 1 for factors up to 1. */
float tern_yarn_size(float factor, float share);

/* Writes the model as GGUF. `linear` is the encoding of the layers' matrices (NULL keeps what each has), `head` that of
 * the embedding and output tables (NULL keeps; bf16/f16 tables stay). Ternary weights into a ternary encoding keep
 * their exact scales: where blocks round them to f16 (tq1_0, tq2_0), metadata hold them as well, which open reads back
 * and other programs pass over. Scales of rows beside an encoding with one scale, and those that no f16 comes near, are
 * an f32 tensor "<name without .weight>.scale" [1] or [rows], which other programs know of some architectures at most.
 * A dense encoding whose blocks do not fit a matrix's columns gives way to its sibling (tern_encoding_fitting), which
 * the report says.
 * Dense weights into a ternary encoding keep what they are where each row has one magnitude beside 0 (TriLM); where
 * each block of q2_0 has (TriLM that was trained on several devices) they become that instead, which the report says;
 * others are refused (UNSUPPORTED, "the model was not trained for it") unless `force`.
 * llama models get their Q/K rows permuted to adjacent pairs, as GGUF's llama architecture means. */

/* The parts of a written file that other engines cannot read. */
typedef enum tern_export_own {
    TERN_OWN_ENCODING,     /* t160 */
    TERN_OWN_SECTIONS,     /* of RSR */
    TERN_OWN_SCALES,       /* tensors of scales */
    TERN_OWN_ARCHITECTURE, /* norms or a head that their loaders do not expect */
    TERN_OWN_KINDS
} tern_export_own;

/* A clause about the file ("its layers are ..."), with what others read instead. Lives for ever. */
const char *tern_export_own_text(tern_export_own own);

/* Tensors that have not got the encoding asked for, because its blocks do not fit their columns or, of a ternary one,
 * their rows have several scales. */
typedef struct tern_export_fallback {
    const tern_encoding *asked, *got;
    uint32_t cols; /* of the first of them */
    uint32_t tensors;
} tern_export_fallback;

/* A clause about the file: "4 tensors are q8_0 instead of q6_k: 1152 columns, no multiple of 256". */
enum { TERN_EXPORT_CLAUSE_BYTES = 128 };
void tern_export_fallback_text(const tern_export_fallback *fallback, char out[TERN_EXPORT_CLAUSE_BYTES]);

enum { TERN_EXPORT_FALLBACKS = 8 }; /* a mix has three encodings, each with two siblings of which one may fit */

/* The notes about a written file. */
typedef struct tern_export_report {
    uint32_t own; /* bits 1 << TERN_OWN_... */
    tern_export_fallback fallbacks[TERN_EXPORT_FALLBACKS];
    uint32_t n_fallbacks;
    uint32_t n_weighted, n_unweighted; /* tensors encoded anew with and, with an imatrix, without an importance */
} tern_export_report;

typedef struct tern_export_options {
    const tern_encoding *linear, *head;
    const struct tern_mix *mix; /* quant/mix.h: instead of `linear`, and of `head` where that is NULL; NULL: none */
    bool force;
    bool
        rsr; /* an RSR section beside each ternary matrix, so that serving need not sort (docs/reference/formats/rsr.md)
              */
    uint32_t rsr_rows;                  /* rows of its blocks, 1 to 16; 0: by the matrix's columns */
    const struct tern_imatrix *imatrix; /* model/imatrix.h: what columns count for when encoding anew; NULL: the same */
    struct tern_pool *pool;             /* that encodes, borrowed; NULL: one is opened, a thread for each core */
    tern_export_report *report;         /* set on success; may be NULL */
    bool (*progress)(void *context, float done);
    void *progress_context;
} tern_export_options;

tern_status tern_model_write_gguf(const tern_model *model, const char *path, const tern_export_options *options,
                                  tern_error *err);

/* The shapes of published models; those called tiny are for tests. */
#define TERN_SYNTH_PRESETS                                                                                             \
    "bitnet-2b4t, bitnet-700m, bitnet-3b, bitnet-tiny, falcon3-10b, llama3-8b, llama3.2-1b, qwen3-0.6b, "              \
    "gemma3-270m, gemma3-1b, gemma3-4b, mixtral-8x7b, mixtral-tiny, qwen3-30b-a3b, qwen3moe-tiny, gpt-oss-20b, "       \
    "gpt-oss-tiny, maple-20b-a1b, maple-tiny, qwen3.5-0.8b, qwen3.5-9b, qwen3.5-27b, bonsai-27b, bonsai2-9b, "         \
    "bonsai2-27b, bonsai2-tiny, qwen3.5-tiny"

/* A model of random weights with a valid vocabulary, streamed to a GGUF file: ternary layers (about a third each of -1,
 * 0, +1), or normal numbers where the published model is dense; norms of 1, biases of 0. Deterministic in seed. */
typedef struct tern_synth_options {
    const char *preset;
    const tern_encoding *linear, *head; /* NULL: i2_s (of dense models q8_0), f16 or what the mix has */
    const struct tern_mix *mix;         /* as in tern_export_options; NULL without linear: mxfp4_moe of GPT-OSS */
    tern_export_report *report;         /* set on success; may be NULL */
    uint64_t seed;
    uint32_t layers, n_ctx, experts, experts_used; /* instead of the preset's; 0: that */
    /* The share of gates that are closed (at most 0), 0.5 to 1, of models whose gates can be: those of squared ReLU.
     * Rows of the gate matrix are zeros until it is so; the others close by chance, half the time. 0: as chance has it.
     */
    float closed_gates;
    bool (*progress)(void *context, float done);
    void *progress_context;
} tern_synth_options;

tern_status tern_synth_write(const char *path, const tern_synth_options *options, tern_error *err);

#endif
