/* Groups of flags that several commands have. */
#include "apps/app.h"

#define FIELD(name) offsetof(tern_options, name)

const tern_flag tern_flags_model[] = {
    {"model", 'm', TERN_FLAG_TEXT, "PATH", FIELD(model), 0, 0,
     "GGUF file or Hugging Face folder, or a name of `tern list` (default: the bundled model)"},
    {"hf", 0, TERN_FLAG_TEXT, "ORG/NAME[:TAG]", FIELD(hf), 0, 0, "The same as -m hf:ORG/NAME[:TAG], of `tern pull`"},
    {0},
};

const tern_flag tern_flags_device[] = {
    {"backend", 0, TERN_FLAG_CHOICE, "cpu|vulkan|cuda|auto", FIELD(backend), 0, 0,
     "What runs the model; cpu when not given; auto: CUDA, else a discrete GPU by Vulkan, else the CPU"},
    {"device", 0, TERN_FLAG_TEXT, "DEVICE", FIELD(device), 0, 0,
     "The GPU: its number in `tern devices`, or a part of its name"},
    {"gpu-layers", 0, TERN_FLAG_TEXT, "N", FIELD(gpu_layers), 0, 0,
     "Only the last N layers on the GPU; all when not given"},
    {"experts", 0, TERN_FLAG_TEXT, "SIZE", FIELD(experts), 0, 0,
     "Experts on the GPU at once: N for each layer, or bytes (4G) for all; as many as fit when not given",
     .more = true},
    {"kv-memory", 0, TERN_FLAG_TEXT, "SIZE", FIELD(kv_memory), 0, 0,
     "Keys and values on the device at once: bytes (4G), all or auto (as many as fit); others are copied when needed",
     .more = true},
    {"kv-disk", 0, TERN_FLAG_TEXT, "DIR", FIELD(kv_disk), 0, 0,
     "The folder where those that do not fit lie; memory of the host when not given", .more = true},
    {"gpu-validate", 0, TERN_FLAG_BOOL, NULL, FIELD(gpu_validate), 0, 0,
     "Vulkan's validation layers; what they say is an error", .more = true},
    {"no-memory-check", 0, TERN_FLAG_BOOL, NULL, FIELD(no_memory_check), 0, 0,
     "Load also what takes more memory than is free", .more = true},
    {0},
};

const tern_flag tern_flags_ranks[] = {
    {"tp", 0, TERN_FLAG_U32, "N", FIELD(n_tp), 1, TERN_MAX_RANKS,
     "A part of every matrix for each of N processes of this machine, which are started by themselves"},
    {"pp", 0, TERN_FLAG_U32, "N", FIELD(stages), 1, TERN_MAX_RANKS,
     "The layers in N stages, each for a process, or for the N of --tp or as many of those of mpirun"},
    {0},
};

const tern_flag tern_flags_steps[] = {
    {"gpu-steps", 0, TERN_FLAG_U32, "N", FIELD(gpu_steps), 1, TERN_SESSION_MAX_STEPS,
     "Tokens that the GPU chooses on its own at once; 8 when not given"},
    {0},
};

const tern_flag tern_flags_cpu[] = {
    {"threads", 't', TERN_FLAG_TEXT, "N", FIELD(threads), 0, 0,
     "CPU threads; one for each physical core when not given"},
    {"pin", 0, TERN_FLAG_BOOL, NULL, FIELD(pin), 0, 0, "Tie each thread to a core", .more = true},
    {"cpu-features", 0, TERN_FLAG_TEXT, "LEVEL", FIELD(cpu_features), 0, 0,
     "scalar, avx2, ... at most, or -name,... to leave out", .more = true},
    {"ffn", 0, TERN_FLAG_CHOICE, "auto|dense|sparse", FIELD(ffn), 0, 0,
     "Whether weights that a squared ReLU makes irrelevant are skipped; the same results", .more = true},
    {0},
};

const tern_flag tern_flags_kernel[] = {
    {"kernel", 0, TERN_FLAG_TEXT, "NAME", FIELD(kernel), 0, 0,
     "CPU: ternary layers, a few tokens at a time: dot, t160, lut, rsr or rsr:K (blocks of K rows). GPU: names of "
     "pipelines, with commas between (docs/guides/tuning.md). tern tune's choice when not given"},
    {"no-tune", 0, TERN_FLAG_BOOL, NULL, FIELD(no_tune), 0, 0, "Default kernels, whatever tern tune has measured"},
    {0},
};

static bool fusion_at(uint32_t i, tern_flag_value *value)
{
    tern_fusion_info info;
    if (!tern_fusion_at(i, &info)) return false;
    *value = (tern_flag_value){.name = info.name, .what = info.what};
    return true;
}

const tern_flag tern_flags_fusion[] = {
    {"no-fusion", 0, TERN_FLAG_TEXT, "LIST", FIELD(no_fusion), 0, 0,
     "Passes that join ops, left out: names with commas between, or all", .value_at = fusion_at},
    {0},
};

const tern_flag tern_flags_numbers[] = {
    {"head", 0, TERN_FLAG_TEXT, "TYPE", FIELD(head), 0, 0,
     "Output head: q8_0, q6_k, q5_k, q4_k, ...; on the CPU and CUDA also exact (only rows that can win)"},
    {"activations", 0, TERN_FLAG_CHOICE, "auto|f32|int8", FIELD(activations), 0, 0,
     "What layers multiply: auto, int8 in ternary ones and f32 in others; f32, after --f32-activations; int8, in "
     "dense ones and the output table too, by blocks, on the CPU"},
    {"batch-invariant", 0, TERN_FLAG_BOOL, NULL, FIELD(batch_invariant), 0, 0,
     "On a GPU: kernels that give a sequence the same bits whatever else runs; slower. The CPU always does"},
    {0},
};

const tern_flag tern_flags_session[] = {
    {"ctx", 'c', TERN_FLAG_U32, "N", FIELD(ctx), 1, 1 << 24,
     "Positions of context; the model's, at most 2048, when not given"},
    {"batch", 'b', TERN_FLAG_U32, "N", FIELD(batch), 1, 65536, "Tokens of a prefill step; 512 when not given",
     .more = true},
    TERN_APP_FLAGS_KV("Numbers in the KV cache; auto: f32 up to 64 MiB, else f16"),
    {0},
};

const tern_flag tern_flags_sampling[] = {
    {"temp", 0, TERN_FLAG_F32, "T", FIELD(temperature), 0, 100, "Temperature; 0 is greedy"},
    {"top-k", 0, TERN_FLAG_U32, "K", FIELD(top_k), 0, 1 << 24, "The K likeliest tokens; 0 is off"},
    {"top-p", 0, TERN_FLAG_F32, "P", FIELD(top_p), 0, 1, "The likeliest tokens that sum up to P; 1 is off"},
    {"min-p", 0, TERN_FLAG_F32, "P", FIELD(min_p), 0, 1, "Tokens at least P times as likely as the best; 0 is off"},
    {"typical-p", 0, TERN_FLAG_F32, "P", FIELD(typical_p), 0, 1, "Locally typical tokens that sum up to P; 1 is off",
     .more = true},
    {"repetition-penalty", 0, TERN_FLAG_F32, "R", FIELD(repetition_penalty), 0.01, 100,
     "Divides what was said before; 1 is off", .more = true},
    {"presence-penalty", 0, TERN_FLAG_F32, "A", FIELD(presence_penalty), -100, 100,
     "Subtracted once from what was said", .more = true},
    {"frequency-penalty", 0, TERN_FLAG_F32, "A", FIELD(frequency_penalty), -100, 100,
     "Subtracted for each time it was said", .more = true},
    {"penalty-last-n", 0, TERN_FLAG_U32, "N", FIELD(penalty_last_n), 0, 1 << 24,
     "How many last tokens the penalties look at", .more = true},
    {"logit-bias", 0, TERN_FLAG_TEXTS, "ID=B", FIELD(biases), 0, 0,
     "Added to a token's logit; -inf bans it; may be repeated", .more = true},
    {"seed", 0, TERN_FLAG_U64, "N", FIELD(seed), 0, 0, "The same seed gives the same text; random when not given",
     .given = FIELD(seed_given)},
    {"greedy", 0, TERN_FLAG_BOOL, NULL, FIELD(greedy), 0, 0, "Always the likeliest token"},
    {0},
};

const tern_flag tern_flags_generation[] = {
    {"n-tokens", 'n', TERN_FLAG_U32, "N", FIELD(n_tokens), -1, 1 << 24,
     "Tokens to generate at most; -1: until the context is full; 0: none, the prompt is evaluated"},
    {"stop", 0, TERN_FLAG_TEXTS, "TEXT", FIELD(stops), 0, 0, "Ends the text where this appears; may be repeated"},
    {"ignore-eos", 0, TERN_FLAG_BOOL, NULL, FIELD(ignore_eos), 0, 0, "Goes on after the model ended its text",
     .more = true},
    {"context-shift", 0, TERN_FLAG_BOOL, NULL, FIELD(context_shift), 0, 0,
     "Forgets the oldest half when the context is full"},
    {"keep", 0, TERN_FLAG_U32, "N", FIELD(keep), 0, 1 << 24, "Tokens at the start that a shift keeps", .more = true},
    {"draft", 0, TERN_FLAG_CHOICE, "none|ngram", FIELD(draft), 0, 0,
     "Speculation: guess from earlier text; the same text, sooner"},
    {"draft-model", 0, TERN_FLAG_TEXT, "MODEL", FIELD(draft_model), 0, 0,
     "And let this small model of the same vocabulary guess; the same text", .more = true},
    {"draft-tokens", 0, TERN_FLAG_U32, "N", FIELD(draft_tokens), 1, 63, "Tokens that one guess has at most",
     .more = true},
    {0},
};

const tern_flag tern_flags_grammar[] = {
    {"grammar", 0, TERN_FLAG_TEXT, "GBNF", FIELD(grammar), 0, 0, "Write only what this grammar allows"},
    {"grammar-file", 0, TERN_FLAG_TEXT, "FILE", FIELD(grammar_file), 0, 0, "The same from a file", .more = true},
    {"json-schema", 'j', TERN_FLAG_TEXT, "SCHEMA", FIELD(schema), 0, 0, "Write only JSON that this schema allows"},
    {"json-schema-file", 0, TERN_FLAG_TEXT, "FILE", FIELD(schema_file), 0, 0, "The same from a file", .more = true},
    {"json-object", 0, TERN_FLAG_BOOL, NULL, FIELD(json_object), 0, 0, "Write only a JSON object", .more = true},
    {"regex", 0, TERN_FLAG_TEXT, "REGEX", FIELD(regex), 0, 0, "Write only what this regular expression matches"},
    {0},
};
