/* The fields that a manifest must have: X(path, kind, may be null). An object's row comes before those of its members.
 */
#ifndef TERN_FORMAT_MANIFEST_FIELDS_H
#define TERN_FORMAT_MANIFEST_FIELDS_H

/* clang-format off */
#define TERN_MANIFEST_FIELDS(X)                        \
    X("format", TEXT, false)                           \
    X("version", COUNT, false)                         \
    X("name", TEXT, false)                             \
    X("architecture", TEXT, false)                     \
    X("parameters", COUNT, false)                      \
    X("bytes", COUNT, false)                           \
    X("shard_bytes", COUNT, false)                     \
    X("quantization", OBJECT, false)                   \
    X("quantization.layers", TEXT, false)              \
    X("quantization.embedding", TEXT, false)           \
    X("quantization.output", TEXT, true)               \
    X("inference", OBJECT, false)                      \
    X("inference.vocabulary", COUNT, false)            \
    X("inference.context_length", COUNT, false)        \
    X("inference.layers", COUNT, false)                \
    X("inference.embedding_length", COUNT, false)      \
    X("inference.feed_forward_length", COUNT, false)   \
    X("inference.heads", COUNT, false)                 \
    X("inference.kv_heads", COUNT, false)              \
    X("inference.head_length", COUNT, false)           \
    X("inference.rms_norm_eps", NUMBER, false)         \
    X("inference.activation", TEXT, false)             \
    X("inference.int8_activations", FLAG, false)       \
    X("inference.sub_norms", FLAG, false)              \
    X("inference.tied_embeddings", FLAG, false)        \
    X("inference.rope", OBJECT, false)                 \
    X("inference.rope.base", NUMBER, false)            \
    X("inference.rope.pairs", TEXT, false)             \
    X("inference.rope.factors", TEXT, true)            \
    X("inference.rope.scaling", OBJECT, true)          \
    X("inference.rope.scaling.type", TEXT, false)      \
    X("inference.rope.scaling.factor", NUMBER, false)  \
    X("inference.sliding_window", COUNT, true)         \
    X("inference.experts", NOTHING, true)              \
    X("inference.bos", COUNT, true)                    \
    X("inference.eos", COUNT, true)                    \
    X("inference.add_bos", FLAG, false)                \
    X("inference.end_tokens", LIST, false)             \
    X("inference.chat_template", TEXT, true)           \
    X("inference.sampling", OBJECT, false)             \
    X("inference.sampling.temperature", NUMBER, false) \
    X("inference.sampling.top_k", COUNT, true)         \
    X("inference.sampling.top_p", NUMBER, true)        \
    X("inference.sampling.min_p", NUMBER, true)        \
    X("tensors", LIST, false)                          \
    X("shards", LIST, false)

/* Members of `inference.rope.scaling` that only YaRN has. */
#define TERN_MANIFEST_YARN_FIELDS(X)                   \
    X("inference.rope.scaling.beta_fast", NUMBER, false) \
    X("inference.rope.scaling.beta_slow", NUMBER, false) \
    X("inference.rope.scaling.truncate", FLAG, false)  \
    X("inference.rope.scaling.size", NUMBER, false)    \
    X("inference.rope.scaling.original_context_length", COUNT, false)

/* Version 2: those that it has beside, and those that mean more in it. */
#define TERN_MANIFEST_EXPERT_FIELDS(X)                 \
    X("shardingStrategy", TEXT, false)                 \
    X("moeConfig", OBJECT, false)                      \
    X("moeConfig.numExperts", COUNT, false)            \
    X("moeConfig.numExpertsPerTok", COUNT, false)      \
    X("moeConfig.expertShardMap", OBJECT, false)       \
    X("inference.experts", OBJECT, false)              \
    X("inference.experts.count", COUNT, false)         \
    X("inference.experts.used", COUNT, false)          \
    X("inference.experts.rule", TEXT, false)
/* Those of an adapter's, instead. */
#define TERN_MANIFEST_ADAPTER_FIELDS(X)                \
    X("format", TEXT, false)                           \
    X("version", COUNT, false)                         \
    X("bytes", COUNT, false)                           \
    X("adapter", OBJECT, false)                        \
    X("adapter.format", TEXT, false)                   \
    X("adapter.rank", COUNT, false)                    \
    X("adapter.alpha", NUMBER, false)                  \
    X("adapter.parameters", COUNT, false)              \
    X("adapter.base", TEXT, true)                      \
    X("shards", LIST, false)
/* clang-format on */

#endif
