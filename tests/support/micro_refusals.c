/* The table of refusals. */
#include "support/micro_refusals.h"

#include <math.h>

#include "support/test.h"

const micro_refusal micro_refusals[] = {
    {{.architecture = "qwen2"}, TERN_UNSUPPORTED, "general.architecture: \"qwen2\" found, bitnet-b1.58"},
    {{.drop = "embedding_length"}, TERN_NOT_FOUND, "bitnet-b1.58.embedding_length"},
    {{.drop = "block_count"}, TERN_NOT_FOUND, "bitnet-b1.58.block_count"},
    {{.drop = "feed_forward_length"}, TERN_NOT_FOUND, "bitnet-b1.58.feed_forward_length"},
    {{.drop = "attention.head_count"}, TERN_NOT_FOUND, "bitnet-b1.58.attention.head_count"},
    {{.drop = "context_length", .architecture = "llama"}, TERN_NOT_FOUND, "llama.context_length"},
    {{.key = "vocab_size", .value = 9}, TERN_MALFORMED, "token_embd.weight: 8 rows of 16 found, 9 rows of 16 expected"},
    {{.key = "vocab_size", .value = UINT32_MAX}, TERN_LIMIT, "vocabulary: 4294967295 found"},
    {{.key = "embedding_length", .value = 0}, TERN_LIMIT, "embedding length: 0 found"},
    {{.key = "embedding_length", .value = UINT32_MAX}, TERN_LIMIT, "embedding length: 4294967295 found"},
    {{.key = "embedding_length", .value = 32},
     TERN_MALFORMED,
     "token_embd.weight: 8 rows of 16 found, 8 rows of 32 expected"},
    {{.key = "block_count", .value = 0}, TERN_LIMIT, "layers: 0 found"},
    {{.key = "block_count", .value = UINT32_MAX - 1}, TERN_LIMIT, "layers: 4294967294 found"},
    {{.key = "block_count", .value = 2}, TERN_MALFORMED, "blk.1.attn_norm.weight: no such tensor found"},
    {{.key = "attention.head_count", .value = 0}, TERN_MALFORMED, "attention.head_count: 0 found"},
    {{.key = "attention.head_count", .value = 3},
     TERN_UNSUPPORTED,
     "head dimension: 5 found, a multiple of 8 expected"},
    {{.key = "attention.head_count_kv", .value = 0}, TERN_LIMIT, "KV heads: 0 found"},
    {{.key = "attention.head_count_kv", .value = 4}, TERN_MALFORMED, "2 heads and 4 KV heads found"},
    {{.key = "attention.key_length", .value = 1024}, TERN_LIMIT, "head dimension: 1024 found"},
    {{.key = "rope.dimension_count", .value = 4},
     TERN_UNSUPPORTED,
     "rope.dimension_count: 4 found, the head dimension 8 expected"},
    {{.key = "rope.scaling.type", .string = "yarn"}, TERN_UNSUPPORTED, "rope.scaling.type: \"yarn\" found"},
    {{.key = "expert_count", .value = 8}, TERN_UNSUPPORTED, "bitnet-b1.58.expert_count: 8 found, 0 expected"},
    {{.key = "context_length", .value = 0}, TERN_LIMIT, "context length: 0 found"},
    {{.key = "context_length", .string = "long"}, TERN_MALFORMED, "bitnet-b1.58.context_length"},
    {{.key = "attention.layer_norm_rms_epsilon", .f32 = NAN}, TERN_MALFORMED, "epsilon: nan found"},
    {{.key = "attention.layer_norm_rms_epsilon", .f32 = -1}, TERN_MALFORMED, "epsilon: -1 found"},
    {{.key = "rope.freq_base", .f32 = INFINITY}, TERN_MALFORMED, "RoPE base: inf found"},
    {{.drop = "token_embd.weight"}, TERN_MALFORMED, "token_embd.weight: no such tensor found"},
    {{.drop = "output_norm.weight"}, TERN_MALFORMED, "output_norm.weight: no such tensor found"},
    {{.drop = "blk.0.ffn_down.weight"}, TERN_MALFORMED, "blk.0.ffn_down.weight: no such tensor found"},
    {{.drop = "blk.0.ffn_sub_norm.weight"}, TERN_MALFORMED, "blk.0.ffn_sub_norm.weight: no such tensor found"},
    {{.tensor = "blk.0.attn_k.weight", .rows = 16},
     TERN_MALFORMED,
     "blk.0.attn_k.weight: 16 rows of 16 found, 8 rows of 16"},
    {{.tensor = "blk.0.attn_norm.weight", .cols = 15}, TERN_MALFORMED, "blk.0.attn_norm.weight: 1 rows of 15 found"},
    {{.tensor = "blk.0.attn_norm.weight", .type = 36, .cols = 16, .rows = 8}, TERN_MALFORMED, "blk.0.attn_norm.weight"},
    {{.tensor = "token_embd.weight", .type = 36}, TERN_UNSUPPORTED, "token_embd.weight: i2_s found"},
    {{.tensor = "blk.0.ffn_up.weight", .at = 3, .n = 1, .bytes = {0x03}},
     TERN_MALFORMED,
     "blk.0.ffn_up.weight: i2_s: found code 11 at element 99 (row 6, column 3)"},
    {{.tensor = "blk.0.ffn_up.weight", .at = 64, .n = 4, .bytes = {0, 0, 0xc0, 0x7f}},
     TERN_MALFORMED,
     "blk.0.ffn_up.weight: scale"},
    {{.tensor = "blk.0.ffn_up.weight", .at = 64, .n = 4, .bytes = {0, 0, 0x80, 0xff}},
     TERN_MALFORMED,
     "blk.0.ffn_up.weight: scale"},
    {{.tensor = "output_norm.weight", .at = 4, .n = 4, .bytes = {0, 0, 0xc0, 0x7f}},
     TERN_MALFORMED,
     "output_norm.weight"},
    {{.tensor = "token_embd.weight", .at = 8, .n = 4, .bytes = {0, 0, 0x80, 0x7f}},
     TERN_MALFORMED,
     "token_embd.weight"},
    {{.extra = "blk.0.attn_q.bias", .extra_cols = 16},
     TERN_UNSUPPORTED,
     "blk.0.attn_q.bias: found, a model without biases"},
    {{.extra = "blk.0.attn_q.scale", .extra_cols = 3},
     TERN_MALFORMED,
     "blk.0.attn_q.scale: 3 values found, 1 or one for each of 16"},
    {{.extra = "rope_freqs.weight", .extra_cols = 5},
     TERN_MALFORMED,
     "rope_freqs.weight: 1 x 5 found, 4 values expected"},
    {{.extra = "output.weight", .extra_cols = 16},
     TERN_MALFORMED,
     "output.weight: 1 rows of 16 found, 8 rows of 16 expected"},
    /* tq2_0: the first block's codes stay, its scale becomes 0 or another one than that of the second block of its row.
     */
    {{.width = 512, .tensor = "blk.0.ffn_up.weight", .type = 35, .at = 64, .n = 2, .bytes = {0, 0x40}},
     TERN_UNSUPPORTED,
     "blk.0.ffn_up.weight: several scales found in row 0"},
    {{.width = 256, .tensor = "blk.0.ffn_up.weight", .type = 35, .at = 64, .n = 2, .bytes = {0, 0}},
     TERN_UNSUPPORTED,
     "blk.0.ffn_up.weight: several scales found in row 0"},
    {{.width = 256, .tensor = "blk.0.ffn_up.weight", .type = 35, .at = 64, .n = 2, .bytes = {0, 0x7c}},
     TERN_MALFORMED,
     "blk.0.ffn_up.weight: scale inf found in row 0, a finite one expected"},
};

const size_t micro_n_refusals = sizeof micro_refusals / sizeof *micro_refusals;

void assert_micro_refused(const micro_refusal *r, tern_status status, const tern_error *err)
{
    if (!strstr(err->message, r->words)) fail_msg("'%s' is not in '%s'", r->words, err->message);
    assert_int_equal(status, r->status);
    assert_int_equal(err->code, r->status);
}
