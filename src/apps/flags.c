/* Groups of flags that several commands have. */
#include "apps/app.h"

#define FIELD(name) offsetof(tern_options, name)

const tern_flag tern_flags_model[] = {
    {"model", 'm', TERN_FLAG_TEXT, "PATH", FIELD(model), 0, 0,
     "GGUF file, folder or name of `tern list`; a folder has Hugging Face's layout; default: the bundled model"},
    {"hf", 0, TERN_FLAG_TEXT, "ORG/NAME[:TAG]", FIELD(hf), 0, 0, "Short for -m hf:ORG/NAME[:TAG] (see `tern pull`)"},
    {0},
};

const tern_flag tern_flags_device[] = {
    {"backend", 0, TERN_FLAG_CHOICE, "cpu|vulkan|cuda|auto", FIELD(backend), 0, 0,
     "Where the model runs (default cpu); auto: CUDA, else a discrete GPU with Vulkan, else the CPU"},
    {"device", 0, TERN_FLAG_TEXT, "DEVICE", FIELD(device), 0, 0,
     "GPU to use; its number in `tern devices`, or a part of its name"},
    {"gpu-layers", 0, TERN_FLAG_TEXT, "N", FIELD(gpu_layers), 0, 0,
     "Run only the last N layers on the GPU; default: all"},
    {"experts", 0, TERN_FLAG_TEXT, "SIZE", FIELD(experts), 0, 0,
     "Experts kept on the GPU: N in each layer, or bytes for all (4G); default: as many as fit", .more = true},
    {"kv-memory", 0, TERN_FLAG_TEXT, "SIZE", FIELD(kv_memory), 0, 0,
     "KV cache kept on the device: bytes (4G), all or auto (as much as fits); the rest is copied when needed",
     .more = true},
    {"kv-disk", 0, TERN_FLAG_TEXT, "DIR", FIELD(kv_disk), 0, 0,
     "Folder for the KV cache that does not fit (default: host memory)", .more = true},
    {"gpu-validate", 0, TERN_FLAG_BOOL, NULL, FIELD(gpu_validate), 0, 0,
     "Run Vulkan's validation layers; their messages are errors", .more = true},
    {"no-memory-check", 0, TERN_FLAG_BOOL, NULL, FIELD(no_memory_check), 0, 0,
     "Load even if the model needs more memory than is free", .more = true},
    {0},
};

const tern_flag tern_flags_ranks[] = {
    {"tp", 0, TERN_FLAG_U32, "N", FIELD(n_tp), 1, TERN_MAX_RANKS,
     "Tensor parallel: split every matrix over N processes, which are started"},
    {"pp", 0, TERN_FLAG_U32, "N", FIELD(stages), 1, TERN_MAX_RANKS,
     "Pipeline parallel: split the layers into N stages of processes"},
    {0},
};

const tern_flag tern_flags_steps[] = {
    {"gpu-steps", 0, TERN_FLAG_U32, "N", FIELD(gpu_steps), 1, TERN_SESSION_MAX_STEPS,
     "Tokens that the GPU samples before it reports back (default 8)"},
    {0},
};

const tern_flag tern_flags_cpu[] = {
    {"threads", 't', TERN_FLAG_TEXT, "N", FIELD(threads), 0, 0, "CPU threads (default: one for each physical core)"},
    {"pin", 0, TERN_FLAG_BOOL, NULL, FIELD(pin), 0, 0, "Pin each thread to a core", .more = true},
    {"cpu-features", 0, TERN_FLAG_TEXT, "LEVEL", FIELD(cpu_features), 0, 0,
     "Highest instruction set to use (scalar, avx2, ...), or -NAME,... to leave some out", .more = true},
    {"ffn", 0, TERN_FLAG_CHOICE, "auto|dense|sparse", FIELD(ffn), 0, 0,
     "Skip weights whose activation is zero after a squared ReLU; same results", .more = true},
    {0},
};

const tern_flag tern_flags_kernel[] = {
    {"kernel", 0, TERN_FLAG_TEXT, "NAME", FIELD(kernel), 0, 0,
     "Kernel of ternary layers, or pipelines of a GPU; on the CPU dot, t160, lut, rsr or rsr:K (blocks of K rows), for "
     "few tokens; on a GPU names, separated by commas (docs/guides/tuning.md); default: the choice of tern tune"},
    {"no-tune", 0, TERN_FLAG_BOOL, NULL, FIELD(no_tune), 0, 0, "Ignore the choices of tern tune"},
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
     "Fusion passes to leave out, separated by commas, or all", .value_at = fusion_at},
    {0},
};

const tern_flag tern_flags_numbers[] = {
    {"head", 0, TERN_FLAG_TEXT, "TYPE", FIELD(head), 0, 0,
     "Type of the output table: q8_0, q6_k, q5_k, q4_k, ...; CPU and CUDA: exact skips rows that cannot be the top "
     "token"},
    {"activations", 0, TERN_FLAG_CHOICE, "auto|f32|int8|f16", FIELD(activations), 0, 0,
     "Inputs of layers. auto: int8 in ternary layers, and on the CPU in dense layers in blocks (q8_0, q4_k, ...); f16 "
     "on "
     "CUDA in dense layers of prompts and batches; else f32. f32: in all layers. int8: as auto, but an error if dense "
     "layers cannot. f16: what auto is on CUDA"},
    {"batch-invariant", 0, TERN_FLAG_BOOL, NULL, FIELD(batch_invariant), 0, 0,
     "GPU: the same bits whatever else is in the batch; slower. The CPU always does this"},
    {0},
};

const tern_flag tern_flags_session[] = {
    {"ctx", 'c', TERN_FLAG_U32, "N", FIELD(ctx), 0, 1 << 24,
     "Context length; 0: what the model was trained for (default: that, at most 2048)", .given = FIELD(ctx_given)},
    {"batch", 'b', TERN_FLAG_U32, "N", FIELD(batch), 1, 65536, "Most prompt tokens in one step (default 512)",
     .more = true},
    TERN_APP_FLAGS_KV("Type of keys and values; auto: f32 up to 64 MiB, else f16"),
    {0},
};

const tern_flag tern_flags_sampling[] = {
    {"temp", 0, TERN_FLAG_F32, "T", FIELD(temperature), 0, 100, "Temperature; 0: greedy"},
    {"top-k", 0, TERN_FLAG_U32, "K", FIELD(top_k), 0, 1 << 24, "Sample from the K likeliest tokens; 0: off"},
    {"top-p", 0, TERN_FLAG_F32, "P", FIELD(top_p), 0, 1, "Keep likeliest tokens that sum to P; 1: off"},
    {"min-p", 0, TERN_FLAG_F32, "P", FIELD(min_p), 0, 1,
     "Drop tokens below P times the best; by their probability; 0: off"},
    {"typical-p", 0, TERN_FLAG_F32, "P", FIELD(typical_p), 0, 1,
     "Sample from locally typical tokens that sum to P; 1: off", .more = true},
    {"repetition-penalty", 0, TERN_FLAG_F32, "R", FIELD(repetition_penalty), 0.01, 100,
     "Divide the logits of earlier tokens by R; 1: off", .more = true},
    {"presence-penalty", 0, TERN_FLAG_F32, "A", FIELD(presence_penalty), -100, 100,
     "Subtract A from the logits of earlier tokens", .more = true},
    {"frequency-penalty", 0, TERN_FLAG_F32, "A", FIELD(frequency_penalty), -100, 100,
     "Subtract A for each earlier occurrence", .more = true},
    {"penalty-last-n", 0, TERN_FLAG_U32, "N", FIELD(penalty_last_n), 0, 1 << 24,
     "Tokens back that the penalties look at", .more = true},
    {"samplers", 0, TERN_FLAG_TEXT, "LIST", FIELD(samplers), 0, 0,
     "Steps that run, in this order, with ; between (default: penalties, dry, top_n_sigma, temperature, top_k, "
     "typical_p, top_p, min_p, xtc)",
     .more = true},
    {"top-n-sigma", 0, TERN_FLAG_F32, "N", FIELD(chain.top_n_sigma), -1, 1e6,
     "Drop tokens whose logit is N standard deviations below the best; 0 or less: off", .more = true},
    {"dynatemp-range", 0, TERN_FLAG_F32, "R", FIELD(chain.dynatemp_range), 0, 100,
     "Temperature from T-R to T+R, by the entropy of the tokens; 0: off", .more = true},
    {"dynatemp-exponent", 0, TERN_FLAG_F32, "E", FIELD(chain.dynatemp_exponent), 0.001, 1000,
     "Power of the share of the highest entropy in --dynatemp-range", .more = true},
    {"xtc-probability", 0, TERN_FLAG_F32, "P", FIELD(chain.xtc_probability), 0, 1,
     "How often XTC drops all likely tokens but the least likely of them; 0: off", .more = true},
    {"xtc-threshold", 0, TERN_FLAG_F32, "P", FIELD(chain.xtc_threshold), 0.0001, 1,
     "Tokens of at least this probability are likely to XTC", .more = true},
    {"dry-multiplier", 0, TERN_FLAG_F32, "M", FIELD(chain.dry_multiplier), 0, 1000,
     "DRY: a token that extends a repetition of N tokens loses M * B^(N - L); 0: off", .more = true},
    {"dry-base", 0, TERN_FLAG_F32, "B", FIELD(chain.dry_base), 1, 1000, "B of DRY", .more = true},
    {"dry-allowed-length", 0, TERN_FLAG_U32, "L", FIELD(chain.dry_allowed_length), 1, 1 << 24,
     "L of DRY: shorter repetitions cost nothing", .more = true},
    {"dry-last-n", 0, TERN_FLAG_U32, "N", FIELD(chain.dry_last_n), -1, 1 << 24,
     "Tokens back that DRY looks at; -1: all; 0: off", .more = true},
    {"dry-breaker", 0, TERN_FLAG_TEXTS, "TEXT", FIELD(breakers), 0, 0,
     "Text that ends a repetition, in place of newline, :, \" and *; may be repeated; none: no text does",
     .more = true},
    {"mirostat", 0, TERN_FLAG_CHOICE, "0|2", FIELD(mirostat), 0, 0,
     "2: Mirostat 2 keeps the surprise of tokens near a target; only penalties, DRY and temperature run beside it",
     .more = true},
    {"mirostat-tau", 0, TERN_FLAG_F32, "T", FIELD(chain.mirostat_tau), 0.001, 1000, "Its target, in bits",
     .more = true},
    {"mirostat-eta", 0, TERN_FLAG_F32, "E", FIELD(chain.mirostat_eta), 0.001, 1000, "Its learning rate", .more = true},
    {"logit-bias", 0, TERN_FLAG_TEXTS, "ID=B", FIELD(biases), 0, 0,
     "Add B to the logit of token ID; -inf bans it; may be repeated", .more = true},
    {"seed", 0, TERN_FLAG_U64, "N", FIELD(seed), -1, 18446744073709551615.0,
     "Random seed; the same seed gives the same text; -1: random (default)", .given = FIELD(seed_given)},
    {"greedy", 0, TERN_FLAG_BOOL, NULL, FIELD(greedy), 0, 0, "Always take the likeliest token"},
    {0},
};

const tern_flag tern_flags_thoughts[] = {
    {"reasoning-budget", 0, TERN_FLAG_U32, "N", FIELD(thought_budget), -1, 1 << 24,
     "Most tokens of a model's thoughts; then it answers; 0: it does not think; -1: no limit",
     .given = FIELD(thought_budget_given)},
    {"chat-template-kwargs", 0, TERN_FLAG_TEXT, "JSON", FIELD(variables), 0, 0,
     "Variables of the chat template, an object; enable_thinking: whether the model thinks", .more = true},
    {"reasoning-budget-message", 0, TERN_FLAG_TEXT, "TEXT", FIELD(thought_message), 0, 0,
     "Text at the end of thoughts that used up their budget", .more = true},
    {0},
};

const tern_flag tern_flags_generation[] = {
    {"n-tokens", 'n', TERN_FLAG_U32, "N", FIELD(n_tokens), -1, 1 << 24,
     "Most tokens to generate; -1: until the context is full; 0: evaluate the prompt only",
     .given = FIELD(n_tokens_given)},
    {"stop", 0, TERN_FLAG_TEXTS, "TEXT", FIELD(stops), 0, 0, "Stop where this text appears; may be repeated"},
    {"ignore-eos", 0, TERN_FLAG_BOOL, NULL, FIELD(ignore_eos), 0, 0, "Continue after the end-of-text token",
     .more = true},
    {"context-shift", 0, TERN_FLAG_BOOL, NULL, FIELD(context_shift), 0, 0,
     "Drop the oldest half when the context is full", .more = true},
    {"keep", 0, TERN_FLAG_U32, "N", FIELD(keep), 0, 1 << 24, "Tokens at the start that --context-shift keeps",
     .more = true},
    {"draft", 0, TERN_FLAG_CHOICE, "none|ngram|mtp", FIELD(draft), 0, 0,
     "Speculative decoding; draft tokens from earlier text, or by the model's own MTP block; same text"},
    {"draft-model", 0, TERN_FLAG_TEXT, "MODEL", FIELD(draft_model), 0, 0,
     "Draft with this small model of the same vocabulary; same text", .more = true},
    {"draft-tokens", 0, TERN_FLAG_U32, "N", FIELD(draft_tokens), 1, 63, "Most tokens in one draft", .more = true},
    {"state-checkpoints", 0, TERN_FLAG_U32, "N", FIELD(state_checkpoints), 1, TERN_MAX_STATE_CHECKPOINTS,
     "Recurrent states kept for tokens that are taken back, in hybrid models (default 2)", .more = true},
    {0},
};

const tern_flag tern_flags_grammar[] = {
    {"grammar", 0, TERN_FLAG_TEXT, "GBNF", FIELD(grammar), 0, 0, "Write only what this grammar allows", .more = true},
    {"grammar-file", 0, TERN_FLAG_TEXT, "FILE", FIELD(grammar_file), 0, 0, "Read it from a file", .more = true},
    {"json-schema", 'j', TERN_FLAG_TEXT, "SCHEMA", FIELD(schema), 0, 0, "Write only JSON that this schema allows"},
    {"json-schema-file", 0, TERN_FLAG_TEXT, "FILE", FIELD(schema_file), 0, 0, "Read it from a file", .more = true},
    {"json-object", 0, TERN_FLAG_BOOL, NULL, FIELD(json_object), 0, 0, "Write only a JSON object", .more = true},
    {"regex", 0, TERN_FLAG_TEXT, "REGEX", FIELD(regex), 0, 0, "Write only what this regular expression matches",
     .more = true},
    {0},
};
