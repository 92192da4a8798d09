/* The values of the flags of all sub-commands: one plain struct, zero meaning "not given" unless a command's defaults
 * say otherwise. */
#ifndef TERN_APPS_OPTIONS_H
#define TERN_APPS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tern/infer.h"
#include "tern/train.h"

typedef struct tern_texts {
    const char **items;
    size_t n, cap;
} tern_texts;

/* tern serve */
typedef struct tern_serve_flags {
    tern_texts models, loras;
    const char *host, *unix_path, *key_file, *cors, *tls_cert, *tls_key, *log_path, *cache, *cache_file, *lora_folder,
        *presets, *slot_folder, *max_upload;
    uint32_t port, parallel, chunk, max_step_ms, max_models, unload_after;
    uint32_t max_body, max_tokens, max_connections, max_queue, timeout, idle, drain;
    bool no_auth, no_log, log_prompts, no_reuse, strict_model, manage, rerank;
} tern_serve_flags;

typedef struct tern_options {
    tern_texts args; /* words that are not flags */
    bool help, help_all, json, verbose, quiet;

    /* the model and where it runs */
    const char *bundled; /* the model in place of -m; NULL: stories.gguf */
    const char *model, *hf, *head, *activations, *kv, *kv_keys, *kv_values, *cpu_features, *kernel, *ffn;
    const char *threads; /* one number; a list for bench */
    uint32_t ctx, batch;
    bool ctx_given; /* with ctx 0: what the model was trained for */
    bool pin;
    const char *backend, *device;
    const char *gpu_layers; /* a number, or "all" */
    const char *experts;    /* how many are on the device at once */
    const char *kv_memory, *kv_disk;
    uint32_t gpu_steps;
    bool gpu_validate, profile;
    const char *no_fusion; /* names of passes */
    bool batch_invariant;
    bool no_memory_check;

    /* text in */
    const char *prompt, *suffix, *file;
    bool no_special, no_bos, special, suffix_first;

    /* generation */
    uint32_t n_tokens;
    bool n_tokens_given;
    float temperature, top_p, min_p, typical_p;
    float repetition_penalty, presence_penalty, frequency_penalty;
    uint32_t top_k, penalty_last_n, keep, draft_tokens, state_checkpoints;
    uint64_t seed;
    bool seed_given;
    bool greedy, ignore_eos, context_shift;
    uint32_t thought_budget; /* tokens; UINT32_MAX: no limit */
    bool thought_budget_given, fold_thoughts;
    const char *thought_message;
    const char *variables; /* of the chat template, JSON */
    const char *draft, *draft_model;
    tern_texts stops, biases, breakers;
    tern_sampler_chain chain; /* without order and breakers; dry_last_n UINT32_MAX: all */
    const char *samplers, *mirostat;
    const char *grammar, *grammar_file, *schema, *schema_file, *regex;
    bool json_object;

    /* sessions and chat */
    const char *save, *restore, *system, *template, *history;

    /* adapters */
    tern_texts loras;

    /* files out */
    const char *output, *type, *preset;
    bool overwrite;
    bool rsr;
    uint32_t rsr_rows;
    const char *i2s_order;
    const char *kernel_config, *imatrix;
    bool force;
    uint32_t shard_mib;

    /* models of the hub */
    bool yes, names, known;

    /* torrents */
    bool torrent, seed_torrent, no_discovery;
    tern_texts web_seeds, trackers, peers;
    const char *listen;
    float seed_ratio;
    uint32_t seed_minutes, upload_kib, patience;

    /* looking at a model */
    const char *tp, *pp; /* "0/4": of rank 0, or stage 0, of 4 */
    uint32_t stages;     /* of layers, for several processes; 0: 1 */
    uint32_t n_tp, gpus; /* processes that share each matrix; that train together; 0: 1, or as mpirun has it */
    bool graph, memory, show_ids, decode, hidden;
    const char *ids, *against, *kl_base, *save_logits;
    const char *pooling;
    bool normalize;
    float closed_gates;
    uint32_t synth_layers, synth_experts, synth_experts_used;
    uint32_t window;
    uint32_t limit, n_parallel; /* eval: questions of a file; answered at once */

    /* comparing backends */
    const char *reference;
    float tolerance;
    bool unfused;

    /* training data */
    const char *split, *mark, *column;
    bool skip_bad;
    uint32_t show, seq;

    /* training; what is not a number or a word there */
    tern_finetune_options training;
    /* words for enums of `training` */
    const char *train_split, *optimizer, *schedule, *master, *states, *precision, *power;
    tern_texts data, freeze, add_tokens;
    const char *betas, *order, *lora_targets, *memory_limit;
    uint32_t log_every;

    /* measuring */
    uint32_t n_prompt, repeats, depth;
    const char *steps_list;
    const char *parallel; /* bench: numbers of sequences */
    bool measure;
    bool kernels;
    const char *shapes, *plot;
    uint32_t cold_mib, measure_ms;

    /* kernels chosen by measurement */
    bool no_tune, show_choices, reset;

    tern_serve_flags serve;
} tern_options;

#endif
