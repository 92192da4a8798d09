/* Tern's C API: load a model, turn text into tokens and back, generate, fine-tune. This is the one header to include.
 *
 *     tern_engine     one opened model on one backend; immutable, shared by threads
 *     tern_session    one sequence on an engine; one thread at a time
 *     tern_batch      many sequences on an engine, evaluated together
 *     tern_lora       an adapter on an engine, which its sessions may use
 *     tern_tokenizer  how text becomes tokens: an engine's, or one without weights
 *
 * Functions that may run something on a device, or read from it, take an engine or a session that is not const.
 *
 * Structs of options and parameters, and most results, begin with their size, so that they can grow: tern/sized.h says
 * how. "Sized" in a struct's comment means that.
 *
 * Every function that can fail returns a tern_status and takes, last, a tern_error (or NULL) for the message, which
 * names the thing, the value found and the value expected. A pointer that must not be NULL and is NULL gives
 * INVALID_ARGUMENT; functions without a status need a valid session, except where they say that NULL is fine. The
 * library never prints or exits (but see tern_report_cut_files), and reads the environment only where a function says
 * so. Text is UTF-8 with its length in bytes; names and paths are NUL-terminated. */
#ifndef TERN_H
#define TERN_H

#include "tern/batch.h"
#include "tern/choices.h"
#include "tern/infer.h"
#include "tern/ranks.h"
#include "tern/sized.h"
#include "tern/status.h"
#include "tern/text.h"
#include "tern/train.h"

#ifdef __cplusplus
extern "C" {
#endif

/* The library's version, "MAJOR.MINOR.PATCH"; static storage. */
TERN_API const char *tern_version(void);

/* Model and data files are mapped into memory, and must not change while they are in use. A program that reads a byte
 * which such a file no longer has is ended by SIGBUS without a word. This installs a handler of SIGBUS for the whole
 * process, which then writes one line with the file's name to standard error and ends the process with status 1; any
 * other SIGBUS goes to the handler that was there before. Nothing of the library calls this: the program decides, best
 * at its start. No effect in WebAssembly. Errors: IO. */
TERN_API tern_status tern_report_cut_files(tern_error *err);

/* Called with 0 .. 1 while something takes long, from its first step to its last; false cancels it (CANCELLED). */
typedef bool (*tern_progress_fn)(void *context, float done);

/* How a model is loaded. Sized (tern/sized.h); all other members zero means sensible defaults. All pointers are
 * borrowed for the call. Choices are enums (tern/choices.h, which has their words); names from tables that grow, and
 * lists of them, are strings. */
typedef struct tern_engine_options {
    size_t size;               /* sizeof(tern_engine_options) */
    tern_backend_kind backend; /* default: the CPU */

    /* The CPU: on its own, or beside a GPU for the layers and ops that stay on it. */
    struct {
        uint32_t n_threads;   /* 0: one for each physical core */
        bool pin;             /* tie threads to cores */
        tern_ffn_mode ffn;    /* rows and columns that a squared ReLU makes irrelevant */
        const char *features; /* a level ("scalar", "avx2", "avx512-vnni", "neon", ...: it and all below), or
                               * "-name,..." to take features away; NULL: all that the machine has */
        uint64_t reserved[4]; /* 0: room for later members */
    } cpu;

    /* GPUs: Vulkan, CUDA. `device` and `validation` are INVALID_ARGUMENT with the CPU. */
    struct {
        const char *device; /* its number in `tern devices`, or a part of its name; NULL: the one that should be
                             * fastest */
        bool split;         /* only the last n_layers layers run on the GPU, the others on the CPU; otherwise, and with
                             * more layers than the model has, everything runs on the GPU */
        uint32_t n_layers;
        bool validation; /* the validation layers of Vulkan watch, and what they report is an error */
        bool profile;    /* for tern_engine_profile: every dispatch is timed, which takes time of its own */
        uint64_t reserved[4];
    } gpu;

    /* The device's memory. Before weights are loaded, and when a session is opened, what they take is compared with
     * what the device, or the machine, has free: the error is OUT_OF_MEMORY and says both, and what would fit. */
    struct {
        /* The experts in the memory of a GPU at once, for models with experts. Others are copied there when a
         * token needs them, which takes time and never changes an answer. A number for each layer ("5"), bytes for all
         * of them ("800M", "3.5G"; powers of 1024), or "all"; NULL: as many as fit, all where they do. At least those
         * of one token (INVALID_ARGUMENT). Goes without gpu.split (UNSUPPORTED). */
        const char *experts;
        /* Bytes of the device for keys and values of a context ("800M", "3.5G"; powers of 1024), "all", or "auto"
         * (NULL): all where they fit beside the rest, else as much as is free. Those that a layer needs are copied
         * there before it runs, which takes time and never changes an answer; where those of a layer do not fit, its
         * heads are read one after the other, and one's must (OUT_OF_MEMORY). All of them lie in memory of the host, or
         * in files without a name in the folder kv_disk, whose room is taken when a session opens (IO). On a device
         * whose memory is the host's, the CPU among them, kv_disk must be given (INVALID_ARGUMENT), else nothing is
         * spilled. Goes without gpu.split (UNSUPPORTED). */
        const char *kv;
        const char *kv_disk;
        /* The parameters of later sessions, which are counted before weights are loaded; NULL: the defaults. */
        const tern_session_params *session;
        bool no_check; /* nothing is compared: what does not fit fails where it is allocated, or is slow */
        uint64_t reserved[4];
    } memory;

    /* How the output table is read. NULL: as the file has it. An encoding ("q8_0", "q6_k", "q4_k", ...): converted to
     * it in memory. "exact" (on the CPU): the file's table, of which only rows that can be among the highest logits
     * wanted are read; the same tokens (docs/decisions/0011-exact-head.md). */
    const char *head;
    /* The activations that layers multiply. AUTO: int8 where the backend is the CPU and layers are ternary or in
     * blocks, 16 bits in prompts and batches of dense layers on CUDA, f32 elsewhere; tern_engine_info.activations says
     * which. A comparison of backends takes F32 on both where layers are dense. INT8 is UNSUPPORTED for dense layers on
     * devices other than the CPU. F32 goes without tune_file and with no kernel but "dot", since those choose among
     * int8 products (INVALID_ARGUMENT). */
    tern_activation_mode activations;
    /* CPU: how ternary layers are multiplied with up to 8 tokens: "dot" products of the packed weights (NULL); "t160",
     * the same once they are packed to 1.6 bits; "lut", tables of sums that strips of rows look up ("lut:2", "lut:3",
     * "lut:5": of so many columns; UNSUPPORTED where the CPU has kernels for other widths alone), for up to 4 tokens;
     * or "rsr", sorted column patterns in blocks of rows ("rsr:6": of 6), which are read from the file where
     * `tern convert --rsr` has put them and else made when the engine opens. The results are the same.
     *
     * Vulkan: names of pipelines with commas between ("q4_k_vec1_8x4_s8", docs/guides/tuning.md), each taken in the
     * place of those that compute the same, where it fits; NULL: by tune_file, else by a table. With gpu.split, a name
     * of the CPU or names of the GPU. Errors: INVALID_ARGUMENT (no such name), UNSUPPORTED (the device lacks what it
     * needs). */
    const char *kernel;
    /* The path of the measurements of `tern tune` (tern_tune_path; docs/guides/tuning.md). They choose the kernel of
     * each layer by its shape and the number of threads, or of tokens on a GPU of that name and driver.
     * NULL: none is read. A file that is missing, damaged or of another CPU or build of Tern is an error (NOT_FOUND,
     * MALFORMED, UNSUPPORTED), and the program's to decide: load again without it, or say that `tern tune` should run.
     * Goes without `kernel` and cpu.features (INVALID_ARGUMENT). */
    const char *tune_file;
    /* Passes of fusion that are left out, by their names with commas between (tern_fusion_at), or "all": the same text,
     * slower, to see what each is worth. NULL: none. */
    const char *no_fusion;
    /* A sequence gets the same bits whatever else a step of a batch evaluates, and however its prompt is cut into
     * steps: kernels are chosen as for one number of rows, which costs speed (docs/internals/batch-invariance.md). The
     * CPU does so without it. Errors: UNSUPPORTED (a backend without such kernels: cuda). */
    bool batch_invariant;
    bool no_tokenizer;         /* it is not read: for programs that have ids */
    tern_progress_fn progress; /* may be NULL */
    void *progress_context;
    /* The processes that run this model together, each with its own rows of every matrix (tensor parallel). All load
     * the same file with the same options. Rank 0 uses the engine as ever, and the others
     * call tern_engine_follow. On the CPU the text is the same with any number of them. One engine at a time has ranks.
     * NULL: none. Errors: INVALID_ARGUMENT (another file, more ranks than heads), UNSUPPORTED (rows that do not begin
     * at whole blocks), IO (a rank that is gone). */
    tern_ranks *ranks;
    /* With ranks: the layers are cut into so many runs, as even by bytes as may be, each for as many ranks that follow
     * each other, which share its layers as above (pipeline parallel). 0: 1. Errors: INVALID_ARGUMENT (ranks that do
     * not go into so many, more stages than layers). */
    uint32_t n_stages;
    uint32_t reserved; /* 0.1.0 ends here: programs compiled with it may have anything in these bytes */
    /* The block behind the last layer that drafts tokens is loaded too, where a GGUF file or a folder has one as
     * Qwen 3.5's and Qwen3-Next's, for sessions and batches with `mtp`. Goes without ranks (UNSUPPORTED). */
    bool mtp;
} tern_engine_options;

/* Opens a GGUF file, a Hugging Face folder or a package (docs/reference/formats/package.md). Weights of a GGUF file are
 * used in place in the mapped file: it must not change while the engine lives. `options` NULL: the defaults. On failure
 * *engine is NULL; otherwise it is the caller's to close. Errors: NOT_FOUND, IO, MALFORMED and UNSUPPORTED (the tensor,
 * key or file, the value found and the value expected), INVALID_ARGUMENT (an option), OUT_OF_MEMORY, CANCELLED. */
TERN_API tern_status tern_engine_load(tern_engine **engine, const char *path, const tern_engine_options *options,
                                      tern_error *err);

/* A pass that makes one op of several; static storage. */
typedef struct tern_fusion_info {
    const char *name; /* for tern_engine_options.no_fusion */
    const char *what; /* the ops in a few words */
} tern_fusion_info;

/* The i-th pass, in the order in which they run, from 0; false, and *info as it was, behind the last. */
TERN_API bool tern_fusion_at(uint32_t i, tern_fusion_info *info);

/* The description of a model and its backend. Sized. Strings are the engine's. */
typedef struct tern_engine_info {
    size_t size;              /* sizeof(tern_engine_info) */
    const char *architecture; /* GGUF's word: "bitnet-b1.58", "llama", ... */
    const char *name;         /* what the file calls the model; may be "" */
    const char *encoding;     /* that most elements of the layers' matrices have, experts too: "i2_s", ... */
    const char *head;         /* of the output table: its encoding, or "exact" */
    const char *activations;  /* what layers multiply: "int8", if any of them does, "f16" or "f32" */
    uint32_t n_vocab;         /* token ids are 0 .. n_vocab - 1 */
    uint32_t n_ctx_train;     /* positions that the model was trained for */
    uint32_t n_embd, n_layers;
    uint64_t parameters;         /* elements of all weights */
    uint64_t ternary_parameters; /* of them in ternary layers: so many integer multiply-adds a token takes */
    uint64_t bytes;              /* of all weights as they lie in memory */
    uint64_t n_unused_tensors;   /* of the file, which the model has no use for: */
    const char *unused_tensors;  /* the first of them, "a, b, c, ..."; "" when there are none */
    int32_t bos, eos;            /* -1 when there is none */
    bool adds_bos;               /* a text begins with BOS */
    bool has_tokenizer;
    tern_pooling pooling;      /* of tern_session_embed, as the files say it; LAST where they do not */
    const char *chat_template; /* Jinja; NULL: it has none */
    const char *backend;       /* "cpu", "vulkan" */
    const char *device;        /* its name; NULL: the CPU */
    const char *driver;        /* of it, with its version; NULL: none, or not known */
    uint32_t max_steps;        /* tokens that the device can choose on its own at once; 1: the host chooses them */
    /* Where not all experts of the model are on the device at once (0 where they are): those of all layers, those that
     * are there at once, and the bytes of both. */
    uint32_t experts, experts_held;
    uint64_t experts_bytes, experts_held_bytes;
    /* Where keys and values are not all on the device (0 where they are): the bytes there that they may take, those of
     * all sessions together; and the folder where all of them lie, NULL: memory of the host. */
    uint64_t kv_memory;
    const char *kv_disk;
    /* The experts that each layer has and that it uses for a token (0: the model has none), and the bytes of those
     * that a token uses in all layers. */
    uint32_t layer_experts, token_experts;
    uint64_t token_expert_bytes;
    const char *exchange; /* of several processes, by what those of a stage exchange: "NCCL 2.28.9", or "memory of the
                           * host" with the reason; NULL: of one */
    bool has_mtp;         /* the model's own block that drafts tokens was loaded (tern_engine_options.mtp) */
} tern_engine_info;

/* Writes at most info->size bytes. */
TERN_API tern_status tern_engine_describe(const tern_engine *engine, tern_engine_info *info, tern_error *err);

/* How text becomes tokens; combined with |. */
enum {
    TERN_TOKENIZE_BOS = 1,     /* begin with one BOS, when the model's texts do, also where the text spells it */
    TERN_TOKENIZE_SPECIAL = 2, /* text that spells a special token becomes it; without this it stays the user's words */
    TERN_TOKENIZE_END = 4 /* end with what the model's texts end with where they are embedded (EOS; often nothing) */
};

/* Adds the ids of n bytes of text (any bytes) to *tokens. Thread-safe. Errors: UNSUPPORTED (the model has no
 * tokenizer), INVALID_ARGUMENT, OUT_OF_MEMORY. */
TERN_API tern_status tern_engine_tokenize(const tern_engine *engine, const char *text, size_t n, unsigned how,
                                          tern_tokens *tokens, tern_error *err);
/* Adds the text of n ids to *text; special tokens only when `special`. Thread-safe. Errors: UNSUPPORTED,
 * INVALID_ARGUMENT (an id outside the vocabulary, with its place), OUT_OF_MEMORY. */
TERN_API tern_status tern_engine_detokenize(const tern_engine *engine, const int32_t *ids, size_t n, bool special,
                                            tern_buf *text, tern_error *err);
/* Whether generation stops at this token: EOS, EOT, <end_of_turn>, ... False without a tokenizer. */
TERN_API bool tern_engine_is_end(const tern_engine *engine, int32_t id);
/* Adds the tokens of a conversation to *tokens, by a chat template (NULL: the model's own, which is parsed anew in each
 * call). Nothing in a message can become a special token. `add_generation_prompt`: ends with what makes the model
 * answer. Thread-safe. Errors: NOT_FOUND (the model has no chat template), INVALID_ARGUMENT (what the template refuses,
 * in its words), UNSUPPORTED (the construct and its line; no tokenizer), LIMIT (output above 16 MiB, or work without
 * end), OUT_OF_MEMORY. */
TERN_API tern_status tern_engine_chat_prompt(const tern_engine *engine, const tern_chat_template *chat_template,
                                             const tern_chat_message *messages, size_t n, bool add_generation_prompt,
                                             tern_tokens *tokens, tern_error *err);

/* The prompt of a conversation in n bytes of JSON, as transformers' apply_chat_template takes it: an object of the
 * template's variables, "messages" (with "tool_calls", "tool_call_id", ...), "tools", "add_generation_prompt", ... With
 * "continue_final_message" true it ends where the text of the last message does, so that the model continues that. The
 * template must be given. Nothing in the JSON can become a special token. Errors: also MALFORMED (the JSON). */
TERN_API tern_status tern_engine_chat_prompt_json(const tern_engine *engine, const tern_chat_template *chat_template,
                                                  const char *variables, size_t n, tern_tokens *tokens,
                                                  tern_error *err);
/* Whether the model has tokens for the parts of a text with a gap: prefix, suffix and middle. */
TERN_API bool tern_engine_fills(const tern_engine *engine);
/* Adds the tokens of a text with a gap to *tokens: files, prefix, suffix, and the mark behind which the model writes
 * the gap's text. *cut (may be NULL): texts were shortened to max_tokens. Thread-safe. Errors: UNSUPPORTED (the model
 * has no tokenizer or not the tokens for it), CONTEXT_FULL (`start` alone is longer than max_tokens), INVALID_ARGUMENT,
 * OUT_OF_MEMORY. */
TERN_API tern_status tern_engine_fim_prompt(const tern_engine *engine, const tern_fim *fim, tern_tokens *tokens,
                                            bool *cut, tern_error *err);
/* How a model rates a document by a query. Sized. */
typedef struct tern_reranker {
    size_t size; /* sizeof(tern_reranker) */
    /* By a head of its own: tern_engine_rerank_score of the prompt's vector (pooling LAST, not normalised). Else by the
     * share of `yes` in the probabilities of these two tokens behind the prompt. */
    bool classifier;
    int32_t yes, no; /* -1 with a classifier */
} tern_reranker;

/* Finds how the model rates documents. `any`: also a model whose file does not say that it is a reranker, by the tokens
 * "yes" and "no" and the prompt of Qwen3-Reranker. Errors: UNSUPPORTED (what is missing). */
TERN_API tern_status tern_engine_reranker(const tern_engine *engine, bool any, tern_reranker *reranker,
                                          tern_error *err);
/* Adds the tokens of a query and a document (any bytes) to *tokens, as the model was trained on them. Nothing in them
 * can become a special token. Thread-safe. Errors: UNSUPPORTED (no tokenizer), OUT_OF_MEMORY. */
TERN_API tern_status tern_engine_rerank_prompt(const tern_engine *engine, const char *query, size_t n_query,
                                               const char *document, size_t n_document, tern_tokens *tokens,
                                               tern_error *err);
/* The score of the prompt's vector [n_embd]: the classifier's number, or the first label's probability of two. Errors:
 * UNSUPPORTED (no such classifier). */
TERN_API tern_status tern_engine_rerank_score(const tern_engine *engine, const float *vector, float *score,
                                              tern_error *err);
/* The name of the well-known template (TERN_CHAT_TEMPLATES) that published chat models of this engine's architecture
 * have, where its vocabulary has that template's marks as special tokens: for models that bring none. Static storage;
 * NULL: none is known, or there is no tokenizer. */
TERN_API const char *tern_engine_chat_template_family(const tern_engine *engine);

/* The engine's tokenizer, which lives as long as it does; NULL: the model has none. */
TERN_API const tern_tokenizer *tern_engine_tokenizer(const tern_engine *engine);
/* The tokenizer alone of a GGUF file, a Hugging Face folder or a package: no weights are read, and none need be there.
 * On failure *tokenizer is NULL. Errors: NOT_FOUND, IO, MALFORMED, UNSUPPORTED, OUT_OF_MEMORY. */
TERN_API tern_status tern_tokenizer_load(tern_tokenizer **tokenizer, const char *path, tern_error *err);
/* As tern_engine_tokenize and tern_engine_detokenize. */
TERN_API tern_status tern_tokenizer_encode(const tern_tokenizer *tokenizer, const char *text, size_t n, unsigned how,
                                           tern_tokens *tokens, tern_error *err);
TERN_API tern_status tern_tokenizer_decode(const tern_tokenizer *tokenizer, const int32_t *ids, size_t n, bool special,
                                           tern_buf *text, tern_error *err);
/* A token as it stands in the vocabulary ("Ġthe", "<0x0A>"): *n bytes, the tokenizer's, not NUL-terminated; none for an
 * id outside the vocabulary. */
TERN_API const char *tern_tokenizer_piece(const tern_tokenizer *tokenizer, int32_t id, size_t *n);

/* The work of an engine since it was opened; a backend counts what applies to it. Sized. */
typedef struct tern_engine_counters {
    size_t size; /* sizeof(tern_engine_counters) */
    uint64_t runs, ops;
    uint64_t weight_bytes; /* of weights, read by the runs */
    /* For devices that are not the host. */
    uint64_t dispatches, barriers, submits;
    uint64_t layer_dispatches, layer_barriers; /* of them for layers */
    uint64_t uploaded_bytes, downloaded_bytes;
    uint64_t buffers, reused_buffers; /* made so far; of them in memory of the device that was held already */
    uint64_t allocations; /* of device memory and of objects made while running; 0 for each token is the aim */
    uint64_t pipelines, pipeline_hits; /* made so far; of them found in the cache of an earlier start */
    /* Kernels in use that could not be compared with the CPU before, for lack of memory. Their results are
     * trusted. */
    uint64_t untried_kernels;
    uint64_t crossed_bytes; /* carried over between CPU and GPU, with gpu.split */
    /* For a device that does not have all experts at once: needed experts that were there, or had to be copied; those
     * that were evicted for them; the bytes copied. */
    uint64_t expert_hits, expert_misses, expert_evictions, expert_bytes;
    uint64_t expert_prefetched; /* copied before a layer needed them, and then there */
    /* For a device that does not have all keys and values, in pages of 32 positions: needed pages that were there,
     * had to be copied while the layer waited, or were copied in advance; evicted pages; bytes copied
     * to the device and back; and the time that layers waited. */
    uint64_t kv_hits, kv_misses, kv_prefetched, kv_evictions, kv_in_bytes, kv_out_bytes, kv_wait_ns;
    /* CPU, in steps of one token: rows of `up` and columns of `down` that a squared ReLU may make irrelevant,
     * and those of them that were read (tern_engine_options.cpu.ffn). */
    uint64_t ffn_rows, ffn_rows_read, ffn_columns, ffn_columns_read;
} tern_engine_counters;

/* Writes at most counters->size bytes. */
TERN_API tern_status tern_engine_count(const tern_engine *engine, tern_engine_counters *counters, tern_error *err);

/* The time of one kind of dispatch since the engine was opened. */
typedef struct tern_engine_profile_row {
    char name[48];      /* "ffn_down": the value that it makes, without the layer; or the kind of op */
    const char *kernel; /* static storage */
    uint64_t n, ns;
    uint64_t weight_bytes; /* read */
} tern_engine_profile_row;

/* Up to cap rows, in the order in which they first ran; *n: how many there are. GPUs have times only with the option
 * gpu.profile. Errors: OUT_OF_MEMORY. */
TERN_API tern_status tern_engine_profile(const tern_engine *engine, tern_engine_profile_row *rows, size_t cap,
                                         size_t *n, tern_error *err);

/* The limits of the device or the threads of the engine, measured for about so many seconds: bytes a second of the
 * weights that a token reads, and int8 multiply-adds a second. 0 when it cannot be measured. No session of the engine
 * should run meanwhile. */
TERN_API double tern_engine_read_bandwidth(tern_engine *engine, double seconds);
TERN_API double tern_engine_dot_rate(tern_engine *engine, double seconds);

/* How a model is converted. Sized; all other members zero keeps every encoding. */
typedef struct tern_convert_options {
    size_t size;       /* sizeof(tern_convert_options) */
    const char *type;  /* of the layers' matrices: "i2_s", "tq2_0", "tq1_0", "t160", "f16", "q8_0", "q6_k", "q4_k", ...;
                          or a mix of llama.cpp's, "Q4_K_M", "Q4_K_S", "Q5_K_M", "Q5_K_S"; NULL: as they are */
    const char *head;  /* of the embedding and output tables; NULL: as the mix has them, else as they are */
    bool force;        /* ternarise a model that was not trained for it */
    bool rsr;          /* store ternary layers sorted as well, for the kernel "rsr" (docs/internals/rsr.md) */
    uint32_t rsr_rows; /* rows of its blocks, 1 to 16; 0: by the columns of each layer */
    /* The order of the codes in I2_S tensors of `in_path`, which other programs write in several: "x86", "arm", "rows",
     * "lsb", "msb", "x86-lsb", "arm-lsb" (docs/reference/formats/encodings.md), or "auto", which finds it by the
     * weights. The output has "x86". NULL: a file in which another is found is refused. */
    const char *i2s_order;
    /* bitnet.cpp's kernel_config.ini, for files in its tl1 and tl2 of shapes that its presets do not have; or NULL. */
    const char *kernel_config;
    /* An importance matrix (tern imatrix, llama.cpp's imatrix in its GGUF form): what the columns of the layers'
     * matrices count for when they are encoded in a type that searches its scales; or NULL. */
    const char *imatrix;
    bool overwrite;            /* a file that is there and not empty is replaced; else it is an error */
    tern_progress_fn progress; /* may be NULL */
    void *progress_context;
} tern_convert_options;

/* The result of a conversion. Sized. */
typedef struct tern_convert_result {
    size_t size;         /* sizeof(tern_convert_result) */
    uint64_t parameters; /* elements of all weights */
    /* The parts of the file that other engines cannot read, and their alternatives: clauses ("its layers are t160,
     * ..."), which live for ever. */
    const char *own[4];
    uint32_t n_own;
    /* Which tensors have another type than the one asked for, whose blocks do not fit their columns: clauses ("4
     * tensors are q8_0 instead of q6_k: 1152 columns, no multiple of 256"). */
    char fallbacks[8][128];
    uint32_t n_fallbacks;
    uint32_t n_weighted, n_unweighted; /* with `imatrix`: tensors encoded anew that it has an entry for, and others */
} tern_convert_result;

/* Reads a GGUF file or a Hugging Face folder and writes one GGUF file, which appears whole or not at all. Master
 * weights of BitNet models are ternarised, packed ones unpacked; ternary weights keep their values exactly in every
 * ternary encoding. Layers in iq1_bn, iq2_bn, iq2_bn_r4 (ik_llama.cpp) or tl1, tl2 (bitnet.cpp), which Tern does not
 * run, become i2_s where `type` is NULL. `options` NULL: the defaults; `result` may be NULL. Errors: those of
 * tern_engine_load; INVALID_ARGUMENT (an encoding that there is not; an output that is the input, one of its files, or
 * there already); UNSUPPORTED (a ternary type for a model that was not trained for it). */
TERN_API tern_status tern_convert(const char *in_path, const char *out_path, const tern_convert_options *options,
                                  tern_convert_result *result, tern_error *err);

#ifdef __cplusplus
}
#endif

#endif
