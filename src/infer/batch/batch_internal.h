/* The parts of a batch; for the files of this folder.
 *
 * A request has n completions, each a sequence. Sequences wait in a queue, run in a slot (a row of the page tables),
 * and end. All but the inbox belongs to the thread of tern_batch_step. */
#ifndef TERN_INFER_BATCH_BATCH_INTERNAL_H
#define TERN_INFER_BATCH_BATCH_INTERNAL_H

#include <pthread.h>
#include <stdatomic.h>

#include "infer/batch/drafter.h"
#include "infer/batch/masker.h"
#include "infer/batch/pace.h"
#include "infer/batch/pages.h"
#include "infer/draft/draft.h"
#include "infer/draft/speculation.h"
#include "infer/sample/sampler.h"
#include "infer/sample/stop.h"
#include "infer/session/pooling.h"
#include "infer/session/runner.h"
#include "tern/batch.h"
#include "text/tokenizer/tokenizer.h"

/* Graphs, and the sequences whose rows run in them. */
typedef struct tern_batch_graphs {
    tern_runner_graphs *graphs;
    uint32_t n_groups; /* sets of adapters, each for the rows of its group */
    bool takes_all;    /* also rows without adapters */
    struct tern_batch_graphs *next;
} tern_batch_graphs;

/* The adapters of one or more started sequences; n_loras is 0 for sequences that have none but whose hidden states are
 * wanted. */
typedef struct tern_batch_adapters {
    tern_lora_use *loras; /* [n_loras] */
    uint32_t n_loras, n_users;
    tern_batch_graphs *graphs; /* shared by all sets where the backend groups_rows, else its own */
    uint32_t group;            /* of its rows in them; 0: those of no adapter */
    struct tern_batch_adapters *next;
} tern_batch_adapters;

/* The state of a sequence after so many of its tokens. */
typedef struct tern_held_state {
    uint32_t n_tokens, row;
} tern_held_state;

/* The state that a step begins with, a page's end in it, and the states of its outputs. */
enum { TERN_BATCH_MAX_STATES = 20 };

typedef struct tern_sequence {
    tern_request *request;
    uint32_t index;
    uint64_t age;               /* order of submission: less is older */
    struct tern_sequence *next; /* in the queue */
    bool awaits_prompt;         /* for the first completion, whose prompt's pages it will share */
    bool must_fork;             /* it shares them, and its first token is to be sampled */
    bool started;
    tern_request_result result;
    double submitted_ms, started_ms, first_ms;

    /* From its start on. */
    int32_t *tokens; /* [n_ctx] the prompt, and what was chosen */
    uint32_t n_tokens;
    uint64_t salt;                 /* of its adapters */
    tern_batch_adapters *adapters; /* NULL: neither adapters nor states */
    tern_pool_states pool;         /* of an embedding */
    float *embedding;              /* [n_embd] */
    tern_sampler *sampler;
    tern_mask mask;     /* of its grammar */
    bool unconstrained; /* it does not count yet */
    int32_t *forced;    /* [n_forced] tokens that come next, from forced_at on */
    uint32_t n_forced, forced_at;
    float *held_logits; /* [n_vocab] with a grammar: of the next token, while `holds` */
    tern_text_stream stream;
    tern_stop_filter filter;
    tern_draft draft;
    int32_t *draft_ids;       /* [draft_tokens] */
    uint32_t n_model_drafted; /* of them by a model, for this step */
    uint32_t match;           /* so many of the last tokens came before looked_up as well; 0: nothing is looked up */
    int32_t lookup_id;
    tern_accept_rates rates;
    uint32_t n_echoed; /* tokens of the prompt that were shown, or need not be */
    tern_text_stream echo;
    bool stopped;

    /* While it runs. */
    uint32_t slot;
    uint32_t *pages; /* [n_pages], the row of the slot */
    uint32_t n_pages;
    uint32_t n_indexed; /* of them, pages that are in the tree */
    uint32_t n_evaluated;
    tern_held_state states[TERN_BATCH_MAX_STATES]; /* of models with layers that recur, fewest tokens first */
    uint32_t n_states;

    /* In the step under way. */
    uint32_t n_rows;    /* tokens from n_evaluated on; 0: none */
    uint32_t n_drafted; /* and so many drafted ones after them */
    uint32_t first_output, n_outputs;
    uint32_t first_position, first_row; /* of its rows: the token, and the row of b->outputs.states */
    tern_batch_graphs *graphs;
    uint32_t part;  /* which of the runs with these graphs its rows go in */
    bool on_device; /* which chooses their tokens; else logits come back */
    float tail;     /* of its logits that may be left out (tern_logits_needed) */
    bool redo;      /* the last token is evaluated once more, for all its logits */
    bool holds;     /* all its tokens are evaluated, and the next waits for its mask */
} tern_sequence;

struct tern_request {
    tern_request_params params; /* with its own copies */
    int32_t *prompt;
    char **stops;
    tern_lora_use *loras;     /* those that do something */
    tern_sequence *sequences; /* [params.n] */
    uint32_t n_ended;
    bool admitted; /* one of its sequences has started */
    atomic_bool cancelled;
    atomic_uint n_holders; /* the caller, the batch */
};

/* The members that other threads touch: requests that were submitted, and counters as of the last step. */
typedef struct tern_batch_inbox {
    pthread_mutex_t lock;         /* of the rest */
    tern_sequence *first, **last; /* submitted since the last step */
    uint32_t n_queued;            /* requests of which no sequence has started */
    uint64_t n_submitted;
    tern_batch_counters published;
} tern_batch_inbox;

/* The pool of KV pages, and which of them each slot has. */
typedef struct tern_batch_kv {
    tern_pages pages;
    uint32_t max_pages;        /* of a sequence */
    uint32_t *tables;          /* [n_parallel][max_pages] */
    uint8_t *page_copy;        /* room for a page that is copied or saved */
    uint64_t page_bytes[2];    /* of keys and of values, in one layer */
    uint64_t total_page_bytes; /* in all caches together */
} tern_batch_kv;

/* Graphs without adapters, and those for the adapters that sequences have. */
typedef struct tern_batch_adapter_sets {
    tern_batch_graphs plain_graphs, *graphs;
    tern_batch_adapters *sets;
    uint32_t n_sets;
} tern_batch_adapter_sets;

/* The results of the forward pass of a step. */
typedef struct tern_batch_outputs {
    float *logits;           /* [max_outputs][n_vocab] */
    float *states;           /* [n_batch][n_embd] hidden states of the step's rows; NULL until they are wanted */
    uint32_t *device_tokens; /* [max_outputs] sampled by the device, for sequences that are on_device */
} tern_batch_outputs;

/* Room for sampling. */
typedef struct tern_batch_sampling {
    float *prompt_logits; /* [n_vocab] logits that several completions begin with */
    float *fork_logits;   /* [n_vocab] the same for one of them */
    float *raw_logits;    /* [n_vocab] logits as they were before a sampler changed them */
    tern_masker masker;
    double patience_ms; /* for masks that are not ready: what is left of it in this step */
} tern_batch_sampling;

typedef struct tern_batch_block tern_batch_block; /* block.c */

/* Speculative decoding; without drafter and block a sequence's own text is looked up. */
typedef struct tern_batch_drafts {
    tern_drafter *drafter;        /* a small model guesses; NULL: none does */
    tern_batch_block *block;      /* the model's own block guesses; NULL: it does not */
    tern_draft_request *requests; /* [n_parallel] */
    tern_step_costs costs;        /* of steps that only decode */
    double token_ms, step_ms;     /* of a token that the draft model evaluates; of all of them in this step */
} tern_batch_drafts;

struct tern_batch {
    tern_engine *engine;
    const tern_tokenizer *tokenizer;
    tern_runner runner;
    tern_batch_params params; /* resolved */
    uint32_t n_vocab, max_outputs;
    tern_sequence *queue; /* waiting, in order */
    uint32_t n_waiting;
    tern_sequence **running; /* [n_parallel], oldest first */
    tern_sequence **slots;   /* [n_parallel]; NULL: free */
    tern_sequence **in_step; /* [n_parallel] those of the step under way */
    uint32_t n_running;
    tern_batch_kv kv;
    tern_batch_adapter_sets adapters;
    tern_batch_outputs outputs;
    tern_batch_sampling sampling;
    tern_batch_drafts drafts;
    tern_pace pace; /* tokens of prompts in steps that decode */
    tern_batch_counters counters;
    tern_batch_inbox inbox;
};

double tern_batch__now_ms(void);
/* A small model guesses, or the model's own block. */
bool tern_batch__drafts_by_model(const tern_batch *b);

/* ---- requests (request.c) */

/* A sequence that neither runs nor waits any more: calls back. The request may be gone afterwards. error: NULL, or why
 * it ended. */
void tern_sequence__finish(tern_batch *b, tern_sequence *s, const tern_error *error);
/* Takes what a sequence needs from its start on. Errors: OUT_OF_MEMORY, those of the backend. */
tern_status tern_sequence__start(tern_batch *b, tern_sequence *s, tern_error *err);

/* One of its sequences starts, or none will: the request no longer counts against max_queue. */
void tern_request__leave_queue(tern_batch *b, tern_request *request);

/* ---- text (emit.c) */

void tern_sequence__stop(tern_sequence *s, tern_stop_reason reason);
/* The prompt's tokens `first` .. end - 1 as pieces. logits: of the tokens before each, [end - first][n_vocab] from that
 * of first - 1 on; NULL: without log-probabilities. */
tern_status tern_sequence__echo(tern_batch *b, tern_sequence *s, uint32_t first, uint32_t end, const float *logits,
                                tern_error *err);
/* Takes the next token, counts it and shows it. It is chosen from logits [n_vocab], which are changed; with logits NULL
 * it is `chosen`, the device's choice. *id -1: the sequence ends before it. s->stopped: it ends, here or after the
 * token. */
tern_status tern_sequence__sample(tern_batch *b, tern_sequence *s, float *logits, uint32_t chosen, int32_t *id,
                                  tern_error *err);
/* Shows what was held back. */
tern_status tern_sequence__flush(tern_sequence *s, tern_error *err);

/* ---- the vector of a prompt in place of text (emit.c) */

tern_status tern_sequence__open_embedding(const tern_batch *b, tern_sequence *s, tern_error *err);
/* Adds the states of the step's rows, before they count as evaluated. */
void tern_sequence__pool_states(const tern_batch *b, tern_sequence *s);
/* All states are pooled: the result has its vector, and the sequence ends. Errors: NOT_FINITE. */
tern_status tern_sequence__finish_embedding(tern_sequence *s, tern_error *err);

/* ---- pages and slots (slots.c) */

/* The first of a started sequence's tokens of which its step gives something: logits, or states that are gathered. */
uint32_t tern_sequence__first_wanted(const tern_sequence *s);
/* Gives a started sequence a slot, and the pages of the pool that hold the beginning of its tokens. */
tern_status tern_batch__assign_slot(tern_batch *b, tern_sequence *s, tern_error *err);
/* As above with all pages of another one, evaluated as far as that is. */
void tern_batch__fork_slot(tern_batch *b, tern_sequence *s, const tern_sequence *other);
/* Frees its slot; full pages stay in the tree while the pool has room. */
void tern_batch__release_slot(tern_batch *b, tern_sequence *s);
/* Pages for positions n_evaluated .. end - 1 that no other sequence holds. *ok false: the pool has too few. */
tern_status tern_batch__reserve_pages(tern_batch *b, tern_sequence *s, uint32_t end, bool *ok, tern_error *err);
/* Adds pages that became full to the tree. */
void tern_batch__index_pages(tern_batch *b, tern_sequence *s);

/* ---- states of layers that recur (recurrent.c); of models without such layers nothing is done */

/* Before a step is planned: the one state that the sequence goes on from is kept, that of page ends by their pages.
 * Where it is not that of all evaluated tokens, those behind it are evaluated again. */
void tern_sequence__settle_states(tern_batch *b, tern_sequence *s);
/* A page like the sequence's page `at`: the sequence goes on from its state, if it has none yet. */
void tern_sequence__share_page_state(tern_batch *b, tern_sequence *s, uint32_t at, uint32_t page);
/* For a sequence that shares pages of the tree: it continues from the last state that they have. Pages behind it are
 * given back, as their tokens are evaluated again. */
void tern_sequence__share_state(tern_batch *b, tern_sequence *s);
/* The state that a fork continues from. */
void tern_sequence__fork_state(tern_batch *b, tern_sequence *s, const tern_sequence *other);
/* Its pages keep what it leaves, and nothing is held any more. */
void tern_sequence__release_states(tern_batch *b, tern_sequence *s);
/* How many tokens may be guessed: each has a state of its own. */
uint32_t tern_batch__most_drafted(const tern_batch *b);
/* Takes states for the planned rows, which are rows n and following of the step, and says so in the parameters. */
void tern_sequence__put_states(tern_batch *b, tern_sequence *s, const tern_bound_graph *g, uint32_t n);

/* ---- guesses of the model's own block (block.c); in batches without it nothing is done */

/* Its keys and values lie in pages of the batch's numbers, so that sequences that share pages share its work. Tokens
 * that a page lacks (its last ones, all of a restored one) make guesses worse, and change nothing else. */
tern_status tern_batch__open_block(tern_batch *b, const tern_runner_params *batch, tern_error *err);
void tern_batch__close_block(tern_batch *b);
/* Whether hidden states of a sequence's rows are wanted for guesses. */
bool tern_sequence__feeds_block(const tern_batch *b, const tern_sequence *s);
/* After a step: keeps the hidden states of the tokens that stand. No allocation. Errors: those of the backend. */
tern_status tern_batch__feed_block(tern_batch *b, tern_error *err);
/* Copies a page of the batch's caches, and of the block's. */
tern_status tern_batch__copy_page(tern_batch *b, uint32_t from, uint32_t to, tern_error *err);
/* The sequence gives up its slot. */
void tern_sequence__leave_block(tern_batch *b, const tern_sequence *s);
/* As tern_drafter_propose, for sequences that have pages for the tokens and as many guesses; those of whose last token
 * the hidden state is not known get none. *n_rows: guesses, also those that were too unlikely. */
tern_status tern_batch__propose_by_block(tern_batch *b, tern_draft_request *requests, uint32_t n, uint32_t *n_rows,
                                         tern_error *err);

/* ---- kept pages as bytes (pages_file.c): what tern_batch_save and tern_batch_restore do */

tern_status tern_batch__save_bytes(tern_batch *b, tern_buf *out, uint32_t *n_pages, tern_error *err);
tern_status tern_batch__restore_bytes(tern_batch *b, const void *bytes, size_t size, uint32_t *n_pages,
                                      tern_error *err);

/* ---- what a step does (schedule.c, evaluate.c, step.c) */

/* Starts what fits of the queue. */
void tern_batch__admit(tern_batch *b);
/* Starts those that wait for this one, whose prompt is evaluated, beside it as far as they fit; the others wait for
 * nothing any more. */
void tern_batch__fork(tern_batch *b, tern_sequence *first);
/* Decides how many rows each running sequence has in this step; preempts the youngest where pages run out. */
tern_status tern_batch__plan(tern_batch *b, tern_error *err);
/* Puts a running sequence back at the head of the queue; its tokens are evaluated again later. */
void tern_batch__preempt(tern_batch *b, tern_sequence *s);
/* Whether other completions wait for this one's prompt (step.c). */
bool tern_sequence__has_waiting_forks(const tern_sequence *s);
/* Runs the planned rows; b->outputs has what they gave. */
tern_status tern_batch__evaluate(tern_batch *b, tern_error *err);
/* Brings what tern_batch_count tells up to date. */
void tern_batch__publish(tern_batch *b);
/* Ends a running sequence. error: NULL, or why. */
void tern_batch__end(tern_batch *b, tern_sequence *s, const tern_error *error);

/* ---- adapters and graphs (adapters.c) */

/* Takes a set of adapters, with the graphs for it, made when nobody has it yet; and gives it back. *adapters is NULL
 * where the plain graphs do: no adapters and no states. */
tern_status tern_batch__acquire_adapters(tern_batch *b, const tern_lora_use *loras, uint32_t n, bool states,
                                         tern_batch_adapters **adapters, tern_error *err);
void tern_batch__release_adapters(tern_batch *b, tern_batch_adapters *adapters);
/* Room for the hidden states of a step's tokens. */
tern_status tern_batch__allocate_states(tern_batch *b, tern_error *err);
/* In which graphs each running sequence's rows run in this step: all in the same, where they can. */
void tern_batch__choose_graphs(tern_batch *b);

#endif
