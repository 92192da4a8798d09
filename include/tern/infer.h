/* Sessions on an engine: extending a sequence token by token, sampling, generating text, scoring it. */
#ifndef TERN_INFER_H
#define TERN_INFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tern/choices.h"
#include "tern/sized.h"
#include "tern/status.h"
#include "tern/text.h"

#ifdef __cplusplus
extern "C" {
#endif

/* One opened model on one backend: immutable after opening, shared by threads. */
typedef struct tern_engine tern_engine;
/* One sequence: its tokens and their keys and values. One thread at a time; sessions of one engine may run on different
 * threads, and take turns step by step. */
typedef struct tern_session tern_session;

/* A LoRA adapter on an engine: immutable after loading, shared by its sessions and by threads. */
typedef struct tern_lora tern_lora;

/* Frees the engine; all its sessions and adapters must be closed. NULL is fine. */
TERN_API void tern_engine_close(tern_engine *engine);

/* The worker loop of ranks 1 to n - 1 (tern_engine_options.ranks): repeats what rank 0 does, and returns when rank 0
 * closes its engine. Errors: INVALID_ARGUMENT (rank 0, or an engine without ranks), IO (rank 0 is gone). */
TERN_API tern_status tern_engine_follow(tern_engine *engine, tern_error *err);

/* The memory of one rank. */
typedef struct tern_rank_usage {
    uint64_t weight_bytes; /* of its parts of the weights, which are all that it reads of the file's; rows of the
                              embedding table come beside */
    uint64_t peak_bytes;   /* of its memory since it began, pages of the file that it read included; 0: not known */
} tern_rank_usage;

/* Asks all ranks of an engine: usage [tern_ranks_count]. By rank 0. Errors: INVALID_ARGUMENT (another rank, or an
 * engine without ranks), IO (a rank that is gone). */
TERN_API tern_status tern_engine_usage(tern_engine *engine, tern_rank_usage *usage, tern_error *err);

/* Loads a PEFT folder (adapter_config.json, adapter_model.safetensors) or a GGUF adapter: a few bytes beside the
 * model's weights, which stay as they are. The files may go afterwards. On failure *lora is NULL. Errors: those of
 * reading (the tensor or key, the value found and the value expected), MALFORMED (it does not fit the model),
 * UNSUPPORTED (what is not plain LoRA of linear layers), OUT_OF_MEMORY. */
TERN_API tern_status tern_lora_load(tern_lora **lora, tern_engine *engine, const char *path, tern_error *err);
/* A file in memory. */
typedef struct tern_lora_file {
    const char *name; /* "adapter_config.json"; a path before it does not count */
    const void *data;
    size_t bytes;
} tern_lora_file;

/* Loads from files in memory, which may go afterwards: a GGUF adapter of any name, or both files of PEFT's, in any
 * order. Errors: also INVALID_ARGUMENT (other numbers or names of files). */
TERN_API tern_status tern_lora_load_memory(tern_lora **lora, tern_engine *engine, const tern_lora_file *files,
                                           uint32_t n_files, tern_error *err);
/* No session may use it any more. NULL is fine. */
TERN_API void tern_lora_close(tern_lora *lora);

typedef struct tern_lora_info {
    uint32_t rank;
    float alpha;
    uint32_t n_layers;   /* linear layers that it stands beside */
    uint64_t parameters; /* elements of all its matrices */
    uint64_t bytes;      /* of them as they lie in memory, read for every token */
} tern_lora_info;

TERN_API tern_status tern_lora_describe(const tern_lora *lora, tern_lora_info *info, tern_error *err);

/* An adapter and how strongly it counts: its layers compute W x + scale * (alpha / rank) * B A x. */
typedef struct tern_lora_use {
    const tern_lora *lora;
    float scale; /* 1: as it was trained; 0: as if it were not there */
} tern_lora_use;

typedef struct tern_kv_types {
    tern_kv_type k, v;
} tern_kv_types;

enum { TERN_SESSION_MAX_STEPS = 128, TERN_MAX_STATE_CHECKPOINTS = 4096 };

/* Sized (tern/sized.h); all other members zero means sensible defaults. */
typedef struct tern_session_params {
    size_t size;          /* sizeof(tern_session_params) */
    uint32_t n_ctx;       /* positions; 0: the model's, at most 2048 */
    uint32_t n_batch;     /* tokens of a prefill step; 0: 512 */
    uint32_t max_outputs; /* logits rows that one step can give (speculation, perplexity); 0: 1 */
    tern_kv_types kv;     /* keys and values */
    bool keep_hidden;     /* for tern_session_hidden */
    /* Tokens that a GPU chooses and evaluates on its own before the host looks again, 1 to 128; 0: 8, or in a browser
     * as many, 1 to 32, as take about 50 ms. The tokens are the same with any number. The CPU, and sessions that keep
     * hidden states, take one at a time. At most TERN_SESSION_MAX_STEPS. */
    uint32_t steps;
    bool host_sampling; /* the host chooses every token, also where the device could, which takes a little memory */
    const tern_lora_use *loras; /* [n_loras] adapters from the start: tern_session_set_loras */
    uint32_t n_loras;
    uint32_t reserved; /* 0.1.0 ends here: programs compiled with it may have anything in these bytes */
    /* Generations with draft_tokens guess by the model's own block (multi-token prediction), which tern_engine_options
     * .mtp has loaded, where the text's last three tokens did not come before. Takes keys and values of one more layer
     * and n_batch hidden states. UNSUPPORTED where the model has no such block. */
    bool mtp;
    /* States that models with recurrent layers (Qwen 3.5) keep of the ends of prompts, or of their steps of n_batch
     * tokens, beside those of the last two steps; 0: 2. Tokens that are taken back up to one of them cost nothing. At
     * most TERN_MAX_STATE_CHECKPOINTS. */
    uint32_t n_state_checkpoints;
} tern_session_params;

/* Takes all memory that the session will ever need, keys and values for n_ctx positions included. The engine must
 * outlive the session. `params` NULL: the defaults. On failure *session is NULL. Errors: INVALID_ARGUMENT (n_ctx above
 * the model's limit), UNSUPPORTED (a kv type that the heads or the device do not go with), OUT_OF_MEMORY. */
TERN_API tern_status tern_session_open(tern_session **session, tern_engine *engine, const tern_session_params *params,
                                       tern_error *err);
/* NULL is fine. */
TERN_API void tern_session_close(tern_session *session);

/* From now on the session computes with these adapters, any number of them, and no others; n = 0: with none. The list
 * is copied; the adapters must outlive their use. Tokens that are evaluated already keep the keys and values that the
 * earlier adapters made, so that what follows mixes both; to have all of it from the new ones, truncate the session to
 * 0 and append the tokens again. Logits stay those of the last append. Takes about as long as opening a session, and on
 * failure changes nothing. Errors: INVALID_ARGUMENT (an adapter of another engine, a scale that is not finite),
 * OUT_OF_MEMORY, those of the backend. */
TERN_API tern_status tern_session_set_loras(tern_session *session, const tern_lora_use *loras, uint32_t n,
                                            tern_error *err);

/* How many positions there are. */
TERN_API uint32_t tern_session_n_ctx(const tern_session *session);
/* Bytes of its keys and values. Layers with a window take only the window and one step (n_batch) of positions, where
 * that is less than n_ctx. */
TERN_API uint64_t tern_session_kv_bytes(const tern_session *session);
/* How many logits rows one append_all can give. */
TERN_API uint32_t tern_session_max_outputs(const tern_session *session);
/* Tokens evaluated so far, and how many. Borrowed until the next call that changes the session. */
TERN_API const int32_t *tern_session_tokens(const tern_session *session);
TERN_API uint32_t tern_session_n_tokens(const tern_session *session);

/* Extends the sequence by n tokens and leaves the logits of the last one in tern_session_logits. No allocation.
 * Errors: INVALID_ARGUMENT (id outside the vocabulary, with its place), CONTEXT_FULL; nothing is evaluated then.
 * NOT_FINITE: a logit is NaN or infinite; the sequence was evaluated once more to name the first op that gave such a
 * number, its layer and the token, and the session keeps the tokens of the batches before.
 * PENDING, on a device that cannot be waited for (WebGPU in a browser): the same call, made again, goes on where this
 * one stopped, and tern_session_truncate gives up what is not done; so it is with append_all, logits, hidden,
 * embed and shift. Blocking calls (tern_generate, tern_session_save, restore) are UNSUPPORTED there. */
TERN_API tern_status tern_session_append(tern_session *session, const int32_t *ids, uint32_t n, tern_error *err);
/* Appends n tokens, 1 to max_outputs of them, and keeps the logits of all. */
TERN_API tern_status tern_session_append_all(tern_session *session, const int32_t *ids, uint32_t n, tern_error *err);
/* From now on only the n highest logits are needed (0: all, as at first): with the exact head the others may be
 * -INFINITY. */
TERN_API void tern_session_set_n_top(tern_session *session, uint32_t n);
/* Row `row` of the last append into *logits: append has one row, append_all n. f32 [n_vocab], the session's, the caller
 * may change it; valid until the next append. After a generation on a GPU the last token is evaluated only here, which
 * takes the time of one token; an append takes it along. On failure *logits is NULL. Errors: INVALID_ARGUMENT (a row of
 * max_outputs or more), PENDING as append, those of the device. */
TERN_API tern_status tern_session_logits(tern_session *session, uint32_t row, float **logits, tern_error *err);
/* The hidden states of the last append_all of n tokens (keep_hidden sessions): state `index` (0: embedding, then each
 * layer; the last after the final norm), [n][n_embd] f32 into out. Errors: NOT_FOUND (no such state, or none is kept).
 */
TERN_API tern_status tern_session_hidden(tern_session *session, uint32_t index, uint32_t n, float *out,
                                         tern_error *err);

/* One vector for a text of n tokens, [n_embd] f32 into out: its hidden states after the final norm, pooled, and with
 * `normalize` divided by their length (at least 1e-12). Sums are in f64. The session must keep hidden states; what it
 * holds is forgotten first, and the text (of CLS its first token) is there afterwards. Errors: INVALID_ARGUMENT (n is
 * 0), NOT_FOUND (no hidden states are kept), OUT_OF_MEMORY, those of append. */
TERN_API tern_status tern_session_embed(tern_session *session, const int32_t *ids, uint32_t n, tern_pooling pooling,
                                        bool normalize, float *out, tern_error *err);

/* Forgets all tokens from position n on, and what a PENDING call was about. The logits stay those of the last append.
 * Free where no layer has a window, and of up to n_batch tokens of the farthest that was evaluated. Further back,
 * layers with a window no longer have the keys and values that the next token needs. The next call then begins with
 * position 0 again, which takes the time of a prompt of n tokens, with the same result. So does every shift of such a
 * session. Adapters that were exchanged since count from the start then. */
TERN_API void tern_session_truncate(tern_session *session, uint32_t n);
/* Makes room: forgets the tokens between n_keep and the newer half of the rest and evaluates the newer half again at
 * its new positions, exactly as if the text had been that from the start. Leaves the logits of the last token. No
 * allocation. Errors: INVALID_ARGUMENT (fewer than two tokens after n_keep). */
TERN_API tern_status tern_session_shift(tern_session *session, uint32_t n_keep, tern_error *err);

/* Saves tokens, keys and values to a file, which replaces an existing one completely or not at all. Restores them into
 * a session of the same model, the same type of cache and the same adapters. A restored session has
 * the logits of its last token, which is evaluated again. Errors: MALFORMED (what does not match), UNSUPPORTED (the
 * file's version), NOT_FOUND, IO. On a failed restore the session is empty. */
TERN_API tern_status tern_session_save(tern_session *session, const char *path, tern_error *err);
TERN_API tern_status tern_session_restore(tern_session *session, const char *path, tern_error *err);

typedef struct tern_logit_bias {
    int32_t id;
    float bias; /* added to the logit; -INFINITY bans the token */
} tern_logit_bias;

/* The steps from logits to a draw, in the order in which they run unless tern_sampler_chain.order says otherwise. */
typedef enum tern_sampler_step {
    TERN_SAMPLER_PENALTIES, /* repetition, presence and frequency */
    TERN_SAMPLER_DRY,
    TERN_SAMPLER_TOP_N_SIGMA,
    TERN_SAMPLER_TEMPERATURE, /* dynamic or not */
    TERN_SAMPLER_TOP_K,
    TERN_SAMPLER_TYPICAL_P,
    TERN_SAMPLER_TOP_P,
    TERN_SAMPLER_MIN_P,
    TERN_SAMPLER_XTC,
    /* For the text of a gap (llama.cpp's "infill"). Runs only where an order lists it. It ends the text where an end
     * is likely or no token is, and takes tokens that begin alike together. */
    TERN_SAMPLER_INFILL
} tern_sampler_step;

enum { TERN_SAMPLER_STEPS = 10, TERN_SAMPLER_MAX_BREAKERS = 32, TERN_SAMPLER_MAX_BREAKER_BYTES = 40 };

/* The step of a name of n bytes, as tern_choice_word has it or as llama.cpp spells it ("typ_p", "temp", "top-k").
 * Errors: INVALID_ARGUMENT (the name found, and those that there are). */
TERN_API tern_status tern_sampler_step_parse(const char *name, size_t n, tern_sampler_step *step, tern_error *err);

/* Steps beyond the usual ones, and the order of all of them. They run on the host and need all logits, so a GPU does
 * not choose the tokens, and `head` "exact" skips no rows. Sized (tern/sized.h); all other members zero: all off.
 * Pointers are borrowed as long as the sampler is used. */
typedef struct tern_sampler_chain {
    size_t size; /* sizeof(tern_sampler_chain) */
    /* [n_order] the steps that run, in this order, each at most once; NULL: all but INFILL, in the order of the enum.
     * Biases come first, the draw last. */
    const tern_sampler_step *order;
    uint32_t n_order;
    /* Above 0: keeps logits of at least the highest minus so many standard deviations of all logits (Tang et al.,
     * "Top-nsigma", arXiv:2411.07641). */
    float top_n_sigma;
    /* Above 0: the temperature is t - range + 2 range (H / log n)^exponent, from 0 on (llama.cpp's "dynatemp"): H is
     * the entropy of the n tokens that are left. Temperature 0 stays greedy. Exponent 0: 1. */
    float dynatemp_range, dynatemp_exponent;
    /* Above 0: with this probability, of the tokens with p >= threshold all but the least likely one go ("Exclude top
     * choices", text-generation-webui PR 6335). Threshold 0: 0.1; above 0.5 nothing goes. */
    float xtc_probability, xtc_threshold;
    /* Above 0: a token that would extend a repetition of n >= allowed_length tokens loses
     * multiplier * base^(n - allowed_length) ("Don't repeat yourself", text-generation-webui PR 5677). Base 0: 1.75;
     * length 0: 2. */
    float dry_multiplier, dry_base;
    uint32_t dry_allowed_length;
    uint32_t dry_last_n; /* tokens back that it looks at; 0: all */
    /* [n_dry_breakers] no repetition goes back over a token in which such a text ends, at most
     * TERN_SAMPLER_MAX_BREAKERS of 1 to TERN_SAMPLER_MAX_BREAKER_BYTES bytes. NULL: newline, ":", a quotation mark and
     * "*". Without a tokenizer there are none. */
    const char *const *dry_breakers;
    uint32_t n_dry_breakers;
    /* Tau above 0: Mirostat 2 (Basu et al., arXiv:2007.14966). Tokens with more than mu bits of surprise go; mu, 2 tau
     * at first, moves by eta times how far the drawn token's surprise is from tau. No step but penalties, DRY and
     * temperature runs then. Eta 0: 0.1. */
    float mirostat_tau, mirostat_eta;
} tern_sampler_chain;

/* How the next token is chosen. Zero-initialised is not the default: start from TERN_SAMPLER_DEFAULTS. */
typedef struct tern_sampler_params {
    float temperature; /* 0: greedy */
    uint32_t top_k;    /* 0: off */
    float top_p;       /* 1: off */
    float min_p;       /* 0: off */
    float typical_p;   /* 1: off */
    /* 1: off; divides positive logits, multiplies negative ones (Keskar et al., CTRL, 2019). */
    float repetition_penalty;
    float presence_penalty;        /* 0: off; subtracted once for each token seen */
    float frequency_penalty;       /* 0: off; subtracted for each time it was seen */
    uint32_t penalty_last_n;       /* how many of the last tokens count */
    uint64_t seed;                 /* the same seed gives the same tokens on every machine */
    const tern_logit_bias *biases; /* [n_biases], borrowed for as long as the sampler is used */
    uint32_t n_biases;
    const tern_sampler_chain *chain; /* borrowed like biases; NULL: none of its steps */
    uint64_t reserved[7];            /* 0: room for later members */
} tern_sampler_params;

/* An initialiser, in the order of the members: temperature 0.8, top-k 40, top-p 0.95, min-p 0.05, all else off;
 * penalties, once switched on, count the last 64 tokens. */
/* clang-format off */
#define TERN_SAMPLER_DEFAULTS {0.8f, 40, 0.95f, 0.05f, 1.0f, 1.0f, 0.0f, 0.0f, 64, 0, NULL, 0, NULL, {0}}
/* clang-format on */

typedef enum tern_stop_reason {
    TERN_STOP_END_TOKEN, /* EOS, EOT, ... */
    TERN_STOP_STRING,
    TERN_STOP_LENGTH,  /* max_tokens */
    TERN_STOP_CONTEXT, /* the context is full and shifting was not asked for */
    TERN_STOP_CALLER   /* the callback said so */
} tern_stop_reason;

/* "end token", "stop string", "length", "context full", "caller"; never NULL, static storage. */
TERN_API const char *tern_stop_reason_name(tern_stop_reason reason);

/* The callback's argument for each token: text that can be shown now (whole UTF-8; empty while a sequence or a possible
 * stop string is incomplete). When text was held back until the end, one more piece with id -1 brings it. */
typedef struct tern_piece {
    int32_t id;
    /* n_text bytes, not NUL-terminated, borrowed until the callback returns; may be NULL when n_text is 0. */
    const char *text;
    size_t n_text;
} tern_piece;

/* Sized; `sampler` has defaults of its own, all other members zero means sensible ones. Everything it points to is
 * borrowed for the call. */
typedef struct tern_generate_params {
    size_t size; /* sizeof(tern_generate_params) */
    tern_sampler_params sampler;
    uint32_t max_tokens;      /* 0: until the context is full */
    const char *const *stops; /* [n_stops] stop strings; they are not shown */
    uint32_t n_stops;
    bool ignore_eos;
    bool show_special;  /* special tokens appear in the text */
    bool context_shift; /* make room instead of stopping; keeps the first n_keep tokens */
    uint32_t n_keep;
    uint32_t draft_tokens; /* prompt-lookup speculation: at most so many drafted tokens a step; 0: off. Needs a session
                            * with max_outputs > draft_tokens. Lossless: the text is the same as without. A step drafts
                            * as many as pay, by what was right and what steps took so far, or none. */
    /* A session of a small model with the same vocabulary, which guesses where the text's last three tokens did not
     * come before; what it held is replaced. NULL: the model's own block guesses in sessions with `mtp`, else look-up
     * alone. Lossless as well. */
    tern_session *draft;
    /* [draft_tokens + 1] what a step of 1, 2, ... tokens takes, in any unit, instead of what it is measured to take;
     * guesses of `draft` are free then. NULL: measured. n_drafted then depends on time, the text never does. */
    const double *draft_costs;
    /* Which tokens may be taken (a grammar's, tern_grammar_state_filter); NULL: all. The host chooses then, and an end
     * token ends the text also with ignore_eos. Drafts, context shifts and sampling work as without. */
    const tern_token_filter *filter;
    bool (*on_piece)(void *context, const tern_piece *piece); /* false stops; may be NULL */
    void *context;
} tern_generate_params;

/* Sized. */
typedef struct tern_generate_result {
    size_t size; /* sizeof(tern_generate_result) */
    tern_stop_reason reason;
    uint32_t n_prompt, n_generated;
    uint32_t n_drafted, n_accepted;
    uint32_t steps;               /* tokens that the device was asked for at once; 0: the host chose them */
    double prefill_ms, decode_ms; /* prompt; tokens */
    uint64_t weight_bytes;        /* read while decoding */
} tern_generate_result;

/* Evaluates the prompt and generates. n_prompt may be 0 when the session holds tokens: it goes on after them. The
 * session keeps the prompt and all generated tokens (not an end token, which is not counted either), also when
 * generation was stopped. On a GPU the device chooses the tokens when it can: greedily or from the top 1 to 64, without
 * biases, penalties, typical-p, a chain, filters and drafts; else the host does, from logits. Works without a tokenizer
 * (pieces then have no text; end tokens are unknown). No allocation for each token after the first. Errors: those of
 * append and the filter; INVALID_ARGUMENT (a sampler parameter with its range, no tokens at all, n_keep or draft_tokens
 * too large for the session, a draft session of another vocabulary); CONTEXT_FULL when the prompt itself does not fit;
 * OUT_OF_MEMORY. */
TERN_API tern_status tern_generate(tern_session *session, const int32_t *prompt, uint32_t n_prompt,
                                   const tern_generate_params *params, tern_generate_result *result, tern_error *err);

/* Generates step by step, for programs that must not wait for the device (a browser's event loop). The session is the
 * generation's until it is closed; the prompt and *params are copied, what they point to is borrowed for as long. */
typedef struct tern_generation tern_generation;

/* Errors: as tern_generate; *generation is NULL then. */
TERN_API tern_status tern_generation_open(tern_generation **generation, tern_session *session, const int32_t *prompt,
                                          uint32_t n_prompt, const tern_generate_params *params, tern_error *err);
/* A batch of the prompt, or the next token or tokens, which reach on_piece from here. OK: there is more to do, or
 * *done. PENDING: the device works; call again when it has done so. Errors: as tern_generate; the generation is over
 * then, and the session keeps what was shown. */
TERN_API tern_status tern_generation_step(tern_generation *generation, bool *done, tern_error *err);
/* Ends as a callback that says false would, once what the device works on is done: a batch of the prompt, or tokens,
 * which are not shown. The steps up to then are to be made. */
TERN_API void tern_generation_stop(tern_generation *generation);
/* The result so far, and when *done the final one; at most result->size bytes are written. */
TERN_API tern_status tern_generation_describe(const tern_generation *generation, tern_generate_result *result,
                                              tern_error *err);
/* Gives the session back, at any time: it keeps the tokens that were shown, or what was evaluated of the prompt or of a
 * context shift under way. NULL is fine. */
TERN_API void tern_generation_close(tern_generation *generation);

/* How a text is scored. Sized; all other members zero means sensible defaults. */
typedef struct tern_perplexity_params {
    size_t size;           /* sizeof(tern_perplexity_params) */
    uint32_t window;       /* tokens; 0: 512, or the context where that is smaller */
    tern_session *against; /* another session, of the model to compare with, of the same vocabulary; may be NULL */
    bool (*progress)(void *context, double done); /* 0 .. 1, after each step; false cancels; may be NULL */
    void *context;
} tern_perplexity_params;

/* Sized. */
typedef struct tern_perplexity_result {
    size_t size; /* sizeof(tern_perplexity_result) */
    uint64_t n_scored;
    uint32_t n_windows;
    double nll;       /* mean of -log p(token), natural logarithm */
    double ppl;       /* e^nll */
    double top1;      /* share of tokens that had the highest logit */
    double kl;        /* mean of sum p log(p / q), p: against, q: the session; 0 without `against` */
    double same_top1; /* share of tokens for which both have the same highest logit; 0 without `against` */
} tern_perplexity_result;

/* How well the session's model predicts a text. Cuts the ids into windows; each starts from an empty session and its
 * first token is not scored. A last window may be shorter; of one token it is left out. Steps are of max_outputs tokens
 * of the session: more is faster. Sums in f64, log-softmax around the highest logit. `params` NULL: the defaults.
 * Errors: INVALID_ARGUMENT (fewer than 2 ids, a window that is too large, vocabularies that differ), UNSUPPORTED (a
 * device that cannot be waited for), CANCELLED, and those of append. */
TERN_API tern_status tern_perplexity(tern_session *session, const int32_t *ids, size_t n,
                                     const tern_perplexity_params *params, tern_perplexity_result *result,
                                     tern_error *err);

/* Where `tern tune` keeps this user's choices of kernels: tern/tune.json in XDG_CACHE_HOME or ~/.cache, whether it is
 * there or not, into path[bytes]. The one function that reads the environment. Errors: NOT_FOUND (neither variable is
 * an absolute path), LIMIT (more than `bytes`). */
TERN_API tern_status tern_tune_path(char *path, size_t bytes, tern_error *err);
/* Whether the choices in a file hold here, so that tern_engine_options.tune_file may name it. Errors: NOT_FOUND, IO,
 * MALFORMED, UNSUPPORTED (another CPU, build or version of Tern), all with the path. */
TERN_API tern_status tern_tune_check(const char *path, tern_error *err);

#ifdef __cplusplus
}
#endif

#endif
