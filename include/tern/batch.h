/* Many sequences on one engine, evaluated together: a queue of requests, one pool of KV pages, one step at a time.
 *
 *     tern_batch_open(&batch, engine, &params, &err)
 *     any thread:  tern_batch_submit(batch, &request_params, &request, &err)
 *     one thread:  do tern_batch_step(batch, &busy, &err); while (busy);     pieces and results reach the callbacks
 *     tern_request_free(request), tern_batch_close(batch)
 *
 * On the CPU, a request gives the same bits whatever else is in the batch, however prompts are cut into steps, and with
 * or without reuse of prefixes. They equal those of tern_generate on an empty session with this kind of cache. A GPU
 * does the same on one device and driver if its engine is batch_invariant (tern_engine_options). */
#ifndef TERN_BATCH_H
#define TERN_BATCH_H

#include "tern/infer.h"
#include "tern/text.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Continuous batching (Yu et al., "Orca", OSDI 2022; Kwon et al., "PagedAttention", SOSP 2023) on one engine. */
typedef struct tern_batch tern_batch;
/* One prompt and its completions. The caller's until tern_request_free. */
typedef struct tern_request tern_request;

/* Sized (tern/sized.h); all other members zero means sensible defaults. */
typedef struct tern_batch_params {
    size_t size;          /* sizeof(tern_batch_params) */
    uint32_t n_parallel;  /* sequences that are evaluated in one step; 0: 8; at most TERN_BATCH_MAX_PARALLEL */
    uint32_t n_ctx;       /* positions of one sequence; 0: the model's, at most 4096 */
    uint32_t n_batch;     /* tokens of a step; 0: 512; at least n_parallel are taken */
    uint32_t max_outputs; /* rows of logits of a step; 0: n_parallel + 16; at least n_parallel are taken */
    /* Tokens of prompts in a step in which other sequences decode, at least 1; 0: chosen from step to step, so that
     * such a step takes no more than about twice the time of one that only decodes, or than max_step_ms. */
    uint32_t n_chunk;
    uint32_t max_step_ms; /* milliseconds between two tokens of a sequence that prompts of others may make it take, with
                           * at least one token of theirs in each step; 0: twice what it takes without */
    uint64_t cache_bytes; /* of the pool of pages, at least one sequence of n_ctx; 0: n_parallel of them */
    tern_kv_types kv;     /* AUTO: as a session of n_ctx positions has it */
    uint32_t max_queue;   /* requests that may wait; 0: no limit */
    bool no_prefix_reuse; /* pages are forgotten with their sequence */
    /* A small model of the same vocabulary, which guesses the draft_tokens of requests instead of their own text; it
     * must outlive the batch, and has keys and values for n_parallel sequences besides. NULL: none. */
    tern_engine *draft;
    /* [max_outputs] what a step of 1, 2, ... tokens takes, in any unit, instead of what it is measured to take, for
     * choosing how many are guessed; guesses of a model are free then. Must outlive the batch. NULL: measured. */
    const double *draft_costs;
    /* States that models with recurrent layers (Qwen 3.5) keep beside two for each sequence, for prompts that begin
     * like an earlier one and for drafted tokens; 0: 8. At most TERN_MAX_STATE_CHECKPOINTS. */
    uint32_t n_state_checkpoints;
    /* The model's own block (multi-token prediction), which tern_engine_options.mtp has loaded, guesses the
     * draft_tokens of requests instead of their own text. Takes keys and values of one more layer beside cache_bytes,
     * and the hidden states of a step's tokens. Not beside `draft`. */
    bool mtp;
} tern_batch_params;

enum { TERN_PAGE_TOKENS = 32 }; /* positions of a page of keys and values */
enum { TERN_BATCH_MAX_PARALLEL = 256, TERN_BATCH_MAX_TOP_LOGPROBS = 20 };

/* Takes all memory of the pool and of steps. The engine must outlive the batch; sessions may use it meanwhile. `params`
 * NULL: the defaults. On failure *batch is NULL. Errors: INVALID_ARGUMENT (n_ctx above the model's limit, n_parallel
 * above TERN_BATCH_MAX_PARALLEL; a pool that has no room for one sequence, a draft of another vocabulary, a draft and
 * mtp), UNSUPPORTED (a device that cannot be waited for, mtp where no such block was loaded), OUT_OF_MEMORY. */
TERN_API tern_status tern_batch_open(tern_batch **batch, tern_engine *engine, const tern_batch_params *params,
                                     tern_error *err);
/* Ends all requests first (TERN_STOP_CALLER), with their callbacks. No other thread may use the batch any more; its
 * requests may be freed afterwards. NULL is fine. */
TERN_API void tern_batch_close(tern_batch *batch);
/* Positions of one sequence, and sequences of one step. */
TERN_API uint32_t tern_batch_n_ctx(const tern_batch *batch);
TERN_API uint32_t tern_batch_n_parallel(const tern_batch *batch);

typedef struct tern_token_logprob {
    int32_t id;
    float logprob;
} tern_token_logprob;

/* The argument of on_piece for each token. */
typedef struct tern_request_piece {
    uint32_t index; /* which of the n completions */
    int32_t id;     /* -1: text that was held back until the end; no token */
    /* n_text bytes of whole UTF-8 that can be shown now, not NUL-terminated, borrowed until the callback returns; may
     * be NULL when n_text is 0. */
    const char *text;
    size_t n_text;
    /* With logprobs: log softmax of the model's logits, before biases, penalties and temperature. NaN: of the prompt's
     * first token, and without logprobs. */
    float logprob;
    const tern_token_logprob *top; /* [n_top], highest first, ties by the lower id; borrowed as text */
    uint32_t n_top;
    bool prompt; /* a token of the prompt (echo) */
} tern_request_piece;

/* How one completion ended. */
typedef struct tern_request_result {
    uint32_t index;
    tern_stop_reason reason;
    const char *stop;            /* the stop string that was met, else NULL; borrowed until the callback returns */
    uint32_t n_prompt, n_cached; /* tokens of the prompt; of them found in the pool when it was first evaluated */
    uint32_t n_generated;
    uint32_t n_drafted, n_accepted;
    double queued_ms, prefill_ms, decode_ms; /* until it began, to its first token, from there to the end */
    double logprob;                          /* sum over generated tokens, with logprobs (best_of) */
    const float *embedding;  /* [n_embd] borrowed until the callback returns; NULL: it was not asked for, or not made */
    const tern_error *error; /* NULL: none; else why it ended, and reason says nothing */
} tern_request_result;

/* Sized; zero-initialised except prompt and sampler. The prompt, the stop strings and the list of adapters are copied;
 * what else is pointed to is borrowed until the last on_end. */
typedef struct tern_request_params {
    size_t size;           /* sizeof(tern_request_params) */
    const int32_t *prompt; /* [n_prompt], at least 1 */
    uint32_t n_prompt;
    uint32_t n;                  /* completions; 0: 1; they share the pages of the prompt */
    tern_sampler_params sampler; /* completion i draws with seed + i */
    uint32_t max_tokens;         /* 0: until the context is full */
    bool no_tokens;              /* evaluates the prompt, and shows it with `echo`; completions are empty and end by
                                  * TERN_STOP_LENGTH; max_tokens is not read */
    const char *const *stops;    /* [n_stops] not shown */
    uint32_t n_stops;
    bool ignore_eos;
    bool show_special;       /* special tokens appear in the text */
    bool echo;               /* the tokens of the prompt are pieces too, before the first one of each completion */
    uint32_t echo_from;      /* leaves out so many of its first tokens, at most n_prompt */
    bool logprobs;           /* of the pieces' tokens; with echo also of the prompt's, which are evaluated anew then */
    uint32_t n_top_logprobs; /* and of the highest, at most TERN_BATCH_MAX_TOP_LOGPROBS */
    const tern_lora_use *loras; /* [n_loras] */
    uint32_t n_loras;
    tern_grammar *grammar; /* what completions must look like; NULL: any text. An end token ends them then */
    uint32_t draft_tokens; /* at most so many tokens guessed, for each step; lossless. As many are as pay, by what was
                            * right lately and what steps took */
    /* The prompt's vector instead of a completion, evaluated in the same steps: as tern_session_embed gives it. Only
     * prompt and loras of the above are read then; n is 0 or 1; the prompt may have n_ctx tokens. */
    bool embed, normalize;
    tern_pooling pooling;
    /* In the thread of tern_batch_step; false ends the completion; may be NULL. Callbacks may submit and cancel. */
    bool (*on_piece)(void *context, const tern_request_piece *piece);
    void (*on_end)(void *context, const tern_request_result *result); /* once for each completion, last of all */
    void *context;
    /* [n_top_logprobs] the tokens of `top`, in this order, in place of the highest; NULL: the highest. */
    const int32_t *top_ids;
    bool grammar_waits; /* any text, until tern_request_constrain */
} tern_request_params;

/* Puts a request at the end of the queue. Thread-safe. On failure *request is NULL. Errors: BUSY (the queue is full);
 * INVALID_ARGUMENT (no prompt, an id outside the vocabulary, a sampler parameter with its range, an adapter of another
 * engine); CONTEXT_FULL (the prompt is longer than n_ctx - 1); OUT_OF_MEMORY. */
TERN_API tern_status tern_batch_submit(tern_batch *batch, const tern_request_params *params, tern_request **request,
                                       tern_error *err);
/* Ends its completions at the next step (TERN_STOP_CALLER). Thread-safe. */
TERN_API void tern_request_cancel(tern_request *request);
/* After the last on_end, or before: then it is cancelled, and goes on its own. Thread-safe. NULL is fine. */
TERN_API void tern_request_free(tern_request *request);

/* From on_piece of the completion `index`: its next tokens are these n, whatever the model says and whatever was to
 * come next before. They count as generated; the grammar does not see them. Errors: OUT_OF_MEMORY. */
TERN_API tern_status tern_request_force(tern_request *request, uint32_t index, const int32_t *ids, uint32_t n,
                                        tern_error *err);
/* From on_piece of the completion `index`, with grammar_waits: the grammar begins behind this piece. */
TERN_API void tern_request_constrain(tern_request *request, uint32_t index);

/* One step: ends what was cancelled, admits what fits, evaluates tokens of all running sequences, chooses their next
 * tokens, calls back. *busy: something runs or waits. One thread at a time. An error of one request ends that one
 * (tern_request_result.error); an error here is the device's, and the same step can be tried again. When pages run out,
 * the youngest sequence is put back to the head of the queue, and its tokens are evaluated again later. */
TERN_API tern_status tern_batch_step(tern_batch *batch, bool *busy, tern_error *err);

/* Saves the pages that are kept for reuse to a file: tokens, keys and values, states of layers that recur, and the full
 * pages of running sequences. Pages of a block that drafts tokens are not saved: guesses are worse at first. The file
 * replaces an existing one completely or not at all; only its owner can read a new one. *n_pages: how many. For the
 * thread of tern_batch_step. Errors: INVALID_ARGUMENT (no_prefix_reuse; what is there is no file of saved pages, and
 * stays), UNSUPPORTED (layers that recur, in several processes), IO, NOT_FOUND (no such folder), OUT_OF_MEMORY. */
TERN_API tern_status tern_batch_save(tern_batch *batch, const char *path, uint32_t *n_pages, tern_error *err);
/* Takes the pages that a batch of the same model, device, numbers and type of cache has saved, beside those that are
 * there; those used last where the pool has no room for all. Requests find them as they find those of earlier requests,
 * with the same bits on the CPU. *n_pages: how many. For the thread of tern_batch_step. Errors: MALFORMED (what does
 * not match, a damaged file), UNSUPPORTED (the file's version), NOT_FOUND, IO, INVALID_ARGUMENT (no_prefix_reuse),
 * those of the device. Unless the device failed, no page has come then. */
TERN_API tern_status tern_batch_restore(tern_batch *batch, const char *path, uint32_t *n_pages, tern_error *err);

/* Forgets the pages that are kept for reuse and that no running sequence has. *n_pages: how many. For the thread of
 * tern_batch_step. */
TERN_API tern_status tern_batch_forget(tern_batch *batch, uint32_t *n_pages, tern_error *err);

/* Sized. */
typedef struct tern_batch_counters {
    size_t size;                              /* sizeof(tern_batch_counters) */
    uint32_t running, waiting;                /* completions */
    uint64_t pages, pages_used, pages_cached; /* in the pool; of running sequences; kept for reuse */
    uint64_t prompt_tokens, cached_tokens;    /* of prompts that began; of them found in the pool */
    uint64_t generated_tokens;
    uint64_t drafted_tokens, accepted_tokens; /* guessed; of them rightly */
    uint64_t steps, step_tokens, preemptions;
    double step_ms;         /* of all steps */
    uint64_t device_tokens; /* that a GPU chose itself: of the others logits came back to the host */
} tern_batch_counters;

/* Since opening, as of the last step; at most counters->size bytes are written. Thread-safe. */
TERN_API tern_status tern_batch_count(const tern_batch *batch, tern_batch_counters *counters, tern_error *err);

#ifdef __cplusplus
}
#endif

#endif
