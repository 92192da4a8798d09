/* The shapes of published models: their config.json on Hugging Face. */
#include <string.h>

#include "model/synth/internal.h"

#define BITNET                                                                                                         \
    .architecture = "bitnet-b1.58", .rms_eps = 1e-5f, .bit_linear = true, .sub_norms = true, .tied_head = true,        \
    .rope[0].base = 500000.0f
#define LLAMA    .architecture = "llama", .rms_eps = 1e-5f, .rope_adjacent = true
#define QWEN3MOE .architecture = "qwen3moe", .rms_eps = 1e-6f, .rope[0].base = 1000000.0f
/* YaRN's `size` is 0.1 ln(32) + 1 */
#define GPT_OSS(original)                                                                                              \
    .architecture = "gpt-oss", .rms_eps = 1e-5f, .full_period = 2,                                                     \
    .rope[0] = {.base = 150000.0f,                                                                                     \
                .scaling = TERN_ROPE_YARN,                                                                             \
                .factor = 32.0f,                                                                                       \
                .size = 1.3465736f,                                                                                    \
                .beta_fast = 32.0f,                                                                                    \
                .beta_slow = 1.0f,                                                                                     \
                .original_ctx = original}
#define MAPLE  .architecture = "maple", .rms_eps = 1e-6f, .full_period = 4
#define QWEN35 .architecture = "qwen35", .rms_eps = 1e-6f, .rope_dim = 64
/* Heads of values and of keys, their dimension; the convolution has four taps, and every fourth layer attends. */
#define RECURRENCE(values, keys, dim)                                                                                  \
    .recurrence = {.n_heads = values, .n_key_heads = keys, .key_dim = dim, .value_dim = dim, .n_taps = 4, .tiled = true}
#define EXPERTS(n, used) .n_experts = n, .n_experts_used = used
#define GEMMA            .architecture = "gemma3", .rms_eps = 1e-6f, .tied_head = true, .full_period = 6

/* n_embd, n_layers, n_heads, n_kv_heads, head_dim, n_ff, n_vocab, n_ctx_train */
#define SHAPE(embd, layers, heads, kv, dim, ff, vocab, ctx)                                                            \
    .n_embd = embd, .n_layers = layers, .n_heads = heads, .n_kv_heads = kv, .head_dim = dim, .n_ff = ff,               \
    .n_vocab = vocab, .n_ctx_train = ctx

static const struct {
    const char *name;
    bool ternary; /* its layers are so by default */
    tern_config config;
    uint32_t rotation_block;
} presets[] = {
    {"bitnet-2b4t", true, {BITNET, SHAPE(2560, 30, 20, 5, 128, 6912, 128256, 4096)}},
    {"bitnet-tiny", true, {BITNET, SHAPE(256, 2, 4, 2, 64, 512, 512, 256)}},
    {"bitnet-700m",
     true,
     {.architecture = "bitnet",
      .rms_eps = 1e-5f,
      .bit_linear = true,
      .sub_norms = true,
      .tied_head = true,
      SHAPE(1536, 24, 16, 16, 96, 4096, 32002, 2048)}},
    {"bitnet-3b",
     true,
     {.architecture = "bitnet",
      .rms_eps = 1e-5f,
      .bit_linear = true,
      .sub_norms = true,
      .tied_head = true,
      SHAPE(3200, 26, 32, 32, 100, 8640, 32002, 2048)}},
    {"falcon3-10b",
     true,
     {.architecture = "llama",
      .rms_eps = 1e-6f,
      .rope_adjacent = true,
      .rope[0].base = 1000042.0f,
      SHAPE(3072, 40, 12, 4, 256, 23040, 131072, 32768)}},
    {"llama3-8b", true, {LLAMA, .rope[0].base = 500000.0f, SHAPE(4096, 32, 32, 8, 128, 14336, 128256, 8192)}},
    {"llama3.2-1b",
     false,
     {LLAMA, .tied_head = true, .rope[0].base = 500000.0f, SHAPE(2048, 16, 32, 8, 64, 8192, 128256, 131072)}},
    {"qwen3-0.6b",
     false,
     {.architecture = "qwen3",
      .rms_eps = 1e-6f,
      .tied_head = true,
      .rope[0].base = 1000000.0f,
      SHAPE(1024, 28, 16, 8, 128, 3072, 151936, 40960)}},
    {"gemma3-270m", false, {GEMMA, .window = 512, SHAPE(640, 18, 4, 1, 256, 2048, 262144, 32768)}},
    {"gemma3-1b", false, {GEMMA, .window = 512, SHAPE(1152, 26, 4, 1, 256, 6912, 262144, 32768)}},
    {"gemma3-4b",
     false,
     {GEMMA, .window = 1024, .rope[0] = {.scaling = TERN_ROPE_LINEAR, .factor = 8.0f},
      SHAPE(2560, 34, 8, 4, 256, 10240, 262208, 131072)}},
    {"mixtral-8x7b",
     false,
     {LLAMA, .rope[0].base = 1000000.0f, EXPERTS(8, 2), SHAPE(4096, 32, 32, 8, 128, 14336, 32000, 32768)}},
    {"mixtral-tiny", false, {LLAMA, .rope[0].base = 1000000.0f, EXPERTS(8, 2), SHAPE(256, 2, 4, 2, 64, 256, 512, 256)}},
    {"qwen3-30b-a3b", false, {QWEN3MOE, EXPERTS(128, 8), SHAPE(2048, 48, 32, 4, 128, 768, 151936, 40960)}},
    {"qwen3moe-tiny", false, {QWEN3MOE, EXPERTS(16, 4), SHAPE(256, 2, 4, 2, 64, 128, 512, 256)}},
    {"qwen3.5-0.8b",
     false,
     {QWEN35, .tied_head = true, RECURRENCE(16, 16, 128), SHAPE(1024, 24, 8, 2, 256, 3584, 248320, 262144)}},
    {"qwen3.5-9b", false, {QWEN35, RECURRENCE(32, 16, 128), SHAPE(4096, 32, 16, 4, 256, 12288, 248320, 262144)}},
    {"qwen3.5-27b", false, {QWEN35, RECURRENCE(48, 16, 128), SHAPE(5120, 64, 24, 4, 256, 17408, 248320, 262144)}},
    {"bonsai-27b", true, {QWEN35, RECURRENCE(48, 16, 128), SHAPE(5120, 64, 24, 4, 256, 17408, 248320, 262144)}},
    {"bonsai2-9b", true, {QWEN35, RECURRENCE(32, 16, 128), SHAPE(4096, 32, 16, 4, 256, 12288, 248320, 262144)}, 1024},
    {"bonsai2-27b", true, {QWEN35, RECURRENCE(48, 16, 128), SHAPE(5120, 64, 24, 4, 256, 17408, 248320, 262144)}, 1024},
    {"bonsai2-tiny",
     true,
     {.architecture = "qwen35",
      .rms_eps = 1e-6f,
      .rope_dim = 16,
      RECURRENCE(4, 2, 64),
      SHAPE(256, 4, 4, 2, 64, 512, 512, 256)},
     64},
    {"qwen3.5-tiny",
     false,
     {.architecture = "qwen35",
      .rms_eps = 1e-6f,
      .rope_dim = 16,
      .tied_head = true,
      RECURRENCE(4, 2, 64),
      SHAPE(256, 4, 4, 2, 64, 512, 512, 256)}},
    {"gpt-oss-20b",
     false,
     {GPT_OSS(4096), .window = 128, EXPERTS(32, 4), SHAPE(2880, 24, 64, 8, 64, 2880, 201088, 131072)}},
    {"gpt-oss-tiny", false, {GPT_OSS(8), .window = 16, EXPERTS(8, 4), SHAPE(256, 2, 4, 2, 64, 256, 512, 256)}},
    {"maple-20b-a1b",
     true,
     {MAPLE, .window = 512, .rope_dim = 64, EXPERTS(256, 8), SHAPE(2048, 24, 16, 4, 128, 512, 151936, 131072)}},
    {"maple-tiny", true, {MAPLE, .window = 16, .rope_dim = 32, EXPERTS(8, 2), SHAPE(256, 4, 4, 2, 64, 256, 512, 256)}},
};

tern_status tern_synth__preset(const char *name, tern_config *config, bool *ternary, tern_error *err)
{
    for (size_t i = 0; i < sizeof presets / sizeof *presets; i++) {
        if (!name || strcmp(presets[i].name, name) != 0) continue;
        const tern_family *family = tern_family__find(presets[i].config.architecture);
        tern_config made = presets[i].config;
        const float base = made.rope[0].base;
        tern_family__set(&made, family);
        if (base > 0) made.rope[0].base = base;
        tern_family__finish(&made, family);
        for (uint32_t k = 0; family->recurs && k < TERN_MAX_LAYERS; k++) made.recurrence.layers[k] = (k + 1) % 4 != 0;
        tern_config__set_name(&made, (tern_span){(const uint8_t *)name, strlen(name)});
        *config = made;
        *ternary = presets[i].ternary;
        return TERN_OK;
    }
    return tern_fail(err, TERN_INVALID_ARGUMENT, "preset \"%s\": one of " TERN_SYNTH_PRESETS " expected",
                     name ? name : "");
}

uint32_t tern_synth__rotation_block(const char *name)
{
    size_t i = 0;
    while (i < sizeof presets / sizeof *presets && strcmp(presets[i].name, name) != 0) i++;
    return i < sizeof presets / sizeof *presets ? presets[i].rotation_block : 0;
}
