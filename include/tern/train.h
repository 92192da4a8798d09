/* Fine-tuning a model on text, and training one from scratch: files in, files out. */
#ifndef TERN_TRAIN_H
#define TERN_TRAIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tern/choices.h"
#include "tern/ranks.h"
#include "tern/sized.h"
#include "tern/status.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The memory of a run on the device, in bytes, known before anything is allocated there. */
typedef struct tern_finetune_plan {
    uint64_t weights; /* what the forward reads and is not its own master */
    uint64_t masters; /* with the dense weights that learn */
    uint64_t gradients, moments;
    uint64_t activations;             /* with the logits of a few rows at a time */
    uint64_t other;                   /* parameters, losses, tables */
    uint64_t total, limit;            /* limit 0: not known */
    uint64_t n_trained, n_parameters; /* numbers that learn, of all */
    const char *backend, *device;     /* "cpu", "vulkan"; the device's name, NULL for the CPU */
    uint64_t n_steps;                 /* 0: not known without data (dry_run) */
    uint64_t n_rows, n_validation_rows;
    uint32_t batch, seq, accumulate;
    double lr;
    bool bf16; /* products of training are in bf16 (options.precision) */
} tern_finetune_plan;

typedef enum tern_finetune_event_kind {
    TERN_FINETUNE_PROGRESS,  /* text: what takes long before the first step or at the end; done: 0 .. 1 */
    TERN_FINETUNE_PLANNED,   /* plan; what follows allocates it */
    TERN_FINETUNE_STEP,      /* one step was taken */
    TERN_FINETUNE_EVALUATED, /* loss and ppl are the validation's, best_loss and best_step the lowest so far */
    TERN_FINETUNE_SAMPLE,    /* text: the prompt and what the model makes of it */
    TERN_FINETUNE_SAVED,     /* text: the checkpoint's path */
    TERN_FINETUNE_NOTE,      /* text: something worth knowing */
    TERN_FINETUNE_WRITTEN,   /* text: the result's path */
    TERN_FINETUNE_ESTIMATED, /* dry_run: steps were measured: step_ms, tokens_per_second, examples_per_second, and in
                              * eta all steps with their validations; NAN: nobody said how many */
    TERN_FINETUNE_PROFILED   /* with `profile`, after the last step: profile and n_profile */
} tern_finetune_event_kind;

/* The time of one kind of dispatch (CPU: of op) in all steps of this call. */
typedef struct tern_finetune_profile_row {
    const char *name;   /* the value that it makes, without the layer; or the kind of op */
    const char *kernel; /* static storage */
    uint64_t n, ns;
} tern_finetune_profile_row;

/* Pointers are borrowed for the call. Members of other kinds are 0. */
typedef struct tern_finetune_event {
    tern_finetune_event_kind kind;
    uint64_t step, n_steps; /* of every kind: steps taken, of all */
    double epoch;
    double loss, ppl; /* mean negative log likelihood of a label, natural logarithm; e^loss */
    double norm, lr;  /* of all gradients before clipping; of this step */
    double step_ms, tokens_per_second, examples_per_second; /* of the last steps; work alone, without rests */
    double eta;                                             /* seconds that are left */
    double best_loss;
    uint64_t best_step;
    double duty;                /* share of the time that is worked */
    double celsius, mhz, watts; /* NAN: not known */
    uint64_t resident;          /* bytes of the process, at its largest so far */
    double done;
    const char *text;
    const tern_finetune_plan *plan;
    /* STEP, of models with experts: how many rows each had in the step, [n_layers][n_experts], borrowed for the call;
     * NULL: none. The largest over their mean, of the layer where that is largest: 1 is even; 0: no experts. */
    const uint64_t *expert_rows;
    uint32_t n_layers, n_experts;
    double expert_imbalance;
    const tern_finetune_profile_row *profile; /* [n_profile] the most expensive first */
    size_t n_profile;
    uint64_t n_profiled; /* steps */
} tern_finetune_event;

/* Sized (tern/sized.h). Start from tern_finetune_defaults; all strings and lists are borrowed for the call. */
typedef struct tern_finetune_options {
    size_t size; /* sizeof(tern_finetune_options) */

    /* Files. */
    const char *model;       /* GGUF file or Hugging Face folder to start from; or */
    const char *config;      /* a config.json (docs/guides/fine-tuning.md): a model from scratch */
    const char *tokenizer;   /* with config: a model whose tokenizer is taken; NULL: one is learned from the data */
    const char *const *data; /* [n_data] text, JSON, JSONL, CSV, or one file that `tern data` has written */
    size_t n_data;
    const char *validation_data; /* the same kinds; NULL: a part of the data */
    /* That part; 0: no validation; below 0: a tenth, at most about 64 rows, where there are 20 rows or more. */
    double validation_split;
    tern_finetune_split split; /* of text: where documents end */
    const char *mark;          /* of text: documents end at each mark instead; NULL: by `split` */
    const char *column;        /* of CSV: the one with the text; NULL: "text", or "prompt" and "completion" */
    bool skip_bad;             /* lines of data that cannot be used are left out and counted */
    const char *chat_template; /* for messages: Jinja text; NULL: the model's */
    /* NAME.gguf: the model, or the adapter, in one file, beside a folder NAME.train for the rest; else a folder. */
    const char *output;
    const char *type; /* of the matrices of a GGUF model: "i2_s" (NULL), "tq1_0", "tq2_0", "t160", ... */
    bool resume;      /* goes on from the checkpoint in the folder, to the same losses bit for bit */
    /* Begins anew where a checkpoint is, and replaces an output that is there. Without it, and without `resume`, both
     * are errors; an output that is read (the model, data, a folder that holds them) always is. */
    bool overwrite;
    /* The plan, and where it fits a step or two, measured in the memory that the run would take (with data on its rows,
     * else on made-up tokens); nothing is written but to a folder in temp_dir, which is removed. data and output need
     * not be given. */
    bool dry_run;
    const char *temp_dir; /* NULL or "": /tmp */

    /* Trains all weights, or with lora_rank an adapter beside them. */
    uint32_t lora_rank;
    float lora_alpha, lora_dropout;
    const char *const *lora_targets; /* [n_lora_targets] "q_proj", ...; none: all linear layers, but not experts */
    size_t n_lora_targets;
    const char *lora_start; /* an adapter (PEFT folder or GGUF file) to go on from; its rank counts */
    /* [n_add_tokens] special tokens that the model gets: rows of the embedding and of the output table, which begin as
     * the mean of the others and learn. Not with an adapter, which has no such rows, and not with `config`. */
    const char *const *add_tokens;
    size_t n_add_tokens;
    const char *const *freeze; /* [n_freeze] shell patterns of tensor names, "model.layers.[0-3].*" */
    size_t n_freeze;

    /* How long, and in which order. */
    uint64_t steps; /* 0: as many as `epochs` take */
    double epochs;
    uint32_t batch, seq, accumulate; /* rows of one pass, their length, passes to a step; batch 0 and seq 0: chosen */
    bool sequential;                 /* rows in the data's order instead of shuffled anew in each epoch */
    uint64_t seed;

    /* The optimiser. */
    tern_finetune_optimizer optimizer;
    double lr; /* 0: chosen by what is trained and how wide the model is */
    double beta1, beta2, eps, weight_decay, momentum;
    double clip; /* largest norm of all gradients; 0: no clipping */
    tern_finetune_schedule schedule;
    double warmup; /* steps; below 0: a twentieth of all, at most 100 */
    tern_finetune_master master;
    tern_finetune_states states;
    uint32_t sync_every;    /* ternary weights are made anew every so many steps */
    float threshold, clamp; /* 0: absmean */
    uint64_t blend_steps;   /* the quantisers come in over so many steps; makes ternary models of dense ones */
    bool checkpoint;        /* activations are computed again in the backward: less memory, a third more work */
    /* Each weight is updated in the backward, as soon as its gradient is there: gradients of a layer in memory instead
     * of all, and the same result bit for bit. accumulate is 1; with clip above 0 the backward runs twice. */
    bool optimizer_in_backward;
    bool f32_activations;  /* no int8 inputs of linear layers */
    uint64_t memory_limit; /* bytes on the device; 0: what it has */

    /* Quality in the loop. */
    uint64_t evaluate_every;   /* steps; 0: a tenth of all */
    uint32_t patience;         /* evaluations without a lower loss after which it stops; 0: never */
    uint64_t save_every;       /* steps between checkpoints; 0: one every ten minutes, and at the end */
    uint64_t sample_every;     /* steps between samples of text; 0: none */
    const char *sample_prompt; /* NULL: the beginning of a text */
    uint32_t sample_tokens;
    bool plot; /* loss.svg beside loss.csv */

    /* The device. */
    tern_backend_kind backend;
    struct { /* as in tern_engine_options */
        uint32_t n_threads;
        bool pin;
        const char *features;
        uint64_t reserved[4]; /* 0: room for later members */
    } cpu;
    struct { /* as in tern_engine_options */
        const char *device;
        bool validation;
        uint64_t reserved[4];
    } gpu;
    bool profile; /* time every dispatch of the steps, which makes them slower on a GPU */
    tern_finetune_power power;
    double max_temp;           /* degrees Celsius above which it works less; 0: any */
    const char *thermal_trace; /* CSV of seconds,celsius instead of the machine's sensors */

    void (*on_event)(void *context, const tern_finetune_event *event); /* may be NULL */
    bool (*go_on)(void *context); /* asked often; false: saves a checkpoint and stops. May be NULL */
    void *context;

    /* Processes that train one model together on the CPU (tern/ranks.h), each by this call with the same options and
     * files, callbacks aside: they share the `accumulate` passes of each step, at least one each. The result is that of
     * one process, bit for bit. Rank 0 writes the files and asks go_on. NULL: alone. */
    tern_ranks *ranks;

    /* BF16 rounds the factors of the gradients' products and of attention to bf16, the sums stay f32; dense layers
     * multiply 16 bits in the forward too. A run that goes on has the precision it began with. */
    tern_finetune_precision precision;
} tern_finetune_options;

/* Sets all members but `size`, which the caller has set. Errors: INVALID_ARGUMENT (no such size). */
TERN_API tern_status tern_finetune_defaults(tern_finetune_options *options, tern_error *err);

/* The result of a run. Sized. */
typedef struct tern_finetune_result {
    size_t size;                              /* sizeof(tern_finetune_result) */
    uint64_t n_steps;                         /* taken, those before a resume included */
    double loss;                              /* mean of the last tenth of the steps of this call; NAN without any */
    double first_validation, last_validation; /* NAN: none */
    double best_validation;
    uint64_t best_step; /* whose weights were written, where there is validation */
    bool stopped_early;
    uint64_t n_tokens; /* of this call, as the next two */
    double seconds;    /* of the steps; rests and evaluations are not in it */
    double step_ms, tokens_per_second, examples_per_second;
    uint64_t planned_bytes, resident_bytes; /* on the device as planned; of the process at its largest */
    uint64_t dispatches;                    /* of a GPU, 0 on the CPU */
} tern_finetune_result;

/* Trains, and writes the result: a GGUF file; a Hugging Face folder of bf16 master weights; an adapter. Along with it
 * go loss.csv (and loss.svg) and the checkpoint. result may be NULL. Errors: INVALID_ARGUMENT (an option, the value
 * found and the value expected; a loss that is NaN or infinite), CANCELLED (by go_on: a checkpoint was saved),
 * OUT_OF_MEMORY (the plan, and what would help), those of reading models and data, MALFORMED (a checkpoint that is
 * damaged), UNSUPPORTED, IO. */
TERN_API tern_status tern_finetune(const tern_finetune_options *options, tern_finetune_result *result, tern_error *err);

#ifdef __cplusplus
}
#endif

#endif
