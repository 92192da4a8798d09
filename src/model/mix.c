/* The rules of llama.cpp's mixes. Source: src/llama-quant.cpp, llama_tensor_get_type_impl, without the branch for
 * Falcon's first architecture. */
#include "model/mix.h"

#include "quant/encoding.h"

typedef enum layers { ALL, GROUPED, FIRST_TWO, FIRST_FOUR, FIRST_SIXTEENTH, FIRST_EIGHTH, MORE_BITS } layers;

/* The encodings that differ from the mix's own; of several rules the last one counts. Where the embedding is the output
 * table as well, it has that one's. */
static const struct {
    tern_mix_id mix;
    tern_role role;
    layers layers;
    tern_encoding_id encoding;
} rules[] = {
    {TERN_MIX_Q2_K_S, TERN_ROLE_OUTPUT, ALL, TERN_ENC_Q6_K},
    {TERN_MIX_Q2_K_S, TERN_ROLE_ATTN_V, GROUPED, TERN_ENC_Q4_K},
    {TERN_MIX_Q2_K_S, TERN_ROLE_FFN_DOWN, FIRST_EIGHTH, TERN_ENC_Q4_K},
    {TERN_MIX_Q3_K_S, TERN_ROLE_OUTPUT, ALL, TERN_ENC_Q6_K},
    {TERN_MIX_Q3_K_M, TERN_ROLE_OUTPUT, ALL, TERN_ENC_Q6_K},
    {TERN_MIX_Q3_K_M, TERN_ROLE_ATTN_V, ALL, TERN_ENC_Q4_K},
    {TERN_MIX_Q3_K_M, TERN_ROLE_ATTN_V, FIRST_TWO, TERN_ENC_Q5_K},
    {TERN_MIX_Q3_K_M, TERN_ROLE_ATTN_OUTPUT, ALL, TERN_ENC_Q4_K},
    {TERN_MIX_Q3_K_M, TERN_ROLE_FFN_DOWN, ALL, TERN_ENC_Q4_K},
    {TERN_MIX_Q3_K_M, TERN_ROLE_FFN_DOWN, FIRST_SIXTEENTH, TERN_ENC_Q5_K},
    {TERN_MIX_Q3_K_L, TERN_ROLE_OUTPUT, ALL, TERN_ENC_Q6_K},
    {TERN_MIX_Q3_K_L, TERN_ROLE_ATTN_V, ALL, TERN_ENC_Q5_K},
    {TERN_MIX_Q3_K_L, TERN_ROLE_ATTN_OUTPUT, ALL, TERN_ENC_Q5_K},
    {TERN_MIX_Q3_K_L, TERN_ROLE_FFN_DOWN, ALL, TERN_ENC_Q5_K},
    {TERN_MIX_Q4_K_S, TERN_ROLE_OUTPUT, ALL, TERN_ENC_Q6_K},
    {TERN_MIX_Q4_K_S, TERN_ROLE_ATTN_V, FIRST_FOUR, TERN_ENC_Q5_K},
    {TERN_MIX_Q4_K_S, TERN_ROLE_FFN_DOWN, FIRST_EIGHTH, TERN_ENC_Q5_K},
    {TERN_MIX_Q4_K_M, TERN_ROLE_OUTPUT, ALL, TERN_ENC_Q6_K},
    {TERN_MIX_Q4_K_M, TERN_ROLE_ATTN_V, MORE_BITS, TERN_ENC_Q6_K},
    {TERN_MIX_Q4_K_M, TERN_ROLE_FFN_DOWN, MORE_BITS, TERN_ENC_Q6_K},
    {TERN_MIX_Q5_K_S, TERN_ROLE_OUTPUT, ALL, TERN_ENC_Q6_K},
    {TERN_MIX_Q5_K_M, TERN_ROLE_OUTPUT, ALL, TERN_ENC_Q6_K},
    {TERN_MIX_Q5_K_M, TERN_ROLE_ATTN_V, MORE_BITS, TERN_ENC_Q6_K},
    {TERN_MIX_Q5_K_M, TERN_ROLE_FFN_DOWN, MORE_BITS, TERN_ENC_Q6_K},
    {TERN_MIX_MXFP4_MOE, TERN_ROLE_FFN_GATE_EXPS, ALL, TERN_ENC_MXFP4},
    {TERN_MIX_MXFP4_MOE, TERN_ROLE_FFN_UP_EXPS, ALL, TERN_ENC_MXFP4},
    {TERN_MIX_MXFP4_MOE, TERN_ROLE_FFN_DOWN_EXPS, ALL, TERN_ENC_MXFP4},
};

/* GROUPED: all, where four or more heads share keys and values. MORE_BITS: the first and the last eighth, and every
 * third between them. */
static bool is_among(layers which, uint32_t i, const tern_config *c)
{
    const uint32_t n = c->n_layers;
    switch (which) {
    case ALL: return true;
    case GROUPED: return c->n_heads / c->n_kv_heads >= 4;
    case FIRST_TWO: return i < 2;
    case FIRST_FOUR: return i < 4;
    case FIRST_SIXTEENTH: return i < n / 16;
    case FIRST_EIGHTH: return i < n / 8;
    case MORE_BITS: return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2;
    }
    return false;
}

/* 80 layers with shared keys and values: the shape that llama.cpp calls 70B, whose small V gets a bit more. */
static bool is_70b(const tern_config *c)
{
    return c->n_layers == 80 && c->n_heads != c->n_kv_heads;
}

/* Experts have what their part of a dense layer has. */
static tern_role like_dense(tern_role role)
{
    switch (role) {
    case TERN_ROLE_FFN_GATE_EXPS: return TERN_ROLE_FFN_GATE;
    case TERN_ROLE_FFN_UP_EXPS: return TERN_ROLE_FFN_UP;
    case TERN_ROLE_FFN_DOWN_EXPS: return TERN_ROLE_FFN_DOWN;
    default: return role;
    }
}

/* Beside eight experts (Mixtral) attention is small, and gets more bits. */
static tern_encoding_id beside_eight(tern_mix_id mix, tern_role role, tern_encoding_id base, tern_encoding_id id)
{
    if (role == TERN_ROLE_ATTN_K || role == TERN_ROLE_ATTN_V) return TERN_ENC_Q8_0;
    if (role != TERN_ROLE_ATTN_OUTPUT) return id;
    const bool more =
        mix == TERN_MIX_Q3_K_S || mix == TERN_MIX_Q3_K_M || mix == TERN_MIX_Q4_K_S || mix == TERN_MIX_Q4_K_M;
    return more ? TERN_ENC_Q5_K : base;
}

const tern_encoding *tern_mix_encoding(const tern_mix *mix, const tern_config *c, tern_role role, uint32_t layer)
{
    tern_encoding_id id = mix->encoding;
    if (role == TERN_ROLE_TOKEN_EMBD && c->tied_head) role = TERN_ROLE_OUTPUT;
    const tern_role dense = like_dense(role);
    for (size_t i = 0; i < sizeof rules / sizeof *rules; i++)
        if (rules[i].mix == mix->id && (rules[i].role == role || rules[i].role == dense) &&
            is_among(rules[i].layers, layer, c))
            id = rules[i].encoding;
    if (role == TERN_ROLE_ATTN_V && (id == TERN_ENC_Q3_K || id == TERN_ENC_Q4_K) && is_70b(c)) id = TERN_ENC_Q5_K;
    if (c->n_experts == 8) id = beside_eight(mix->id, role, mix->encoding, id);
    return tern_encoding_find(id);
}
