/* A request, whatever API the client speaks: the one form into which every protocol's requests are read. */
#ifndef TERN_SERVE_REQUEST_REQUEST_H
#define TERN_SERVE_REQUEST_REQUEST_H

#include "serve/request/fields.h"
#include "tern.h"

enum {
    TERN_API_MAX_COMPLETIONS = 128,
    TERN_API_MAX_STOPS = 32,
    TERN_API_MAX_PROMPTS = 2048,
    TERN_SERVE_MAX_LORAS = 64
};

/* A text, or token ids in its place. */
typedef struct tern_api_prompt {
    const char *text; /* n bytes; borrowed from the document */
    size_t n;
    const json_t *ids; /* an array of whole numbers; NULL: the text counts */
} tern_api_prompt;

/* A text with a gap: what stands before it are the prompts. */
typedef struct tern_api_gap {
    const json_t *suffix; /* a string; NULL: none */
    const json_t *start;  /* a string that the gap's text begins with; NULL: none */
    const json_t *files;  /* [{"filename", "text"}] beside it; NULL: none */
    bool wanted;
    bool named; /* with names of the repository and of files, and shortened to the context: llama.cpp's /infill */
} tern_api_gap;

/* Which calls of tools the model may make. */
typedef enum tern_tool_calls_mode { TERN_CALLS_AUTO, TERN_CALLS_NONE, TERN_CALLS_REQUIRED } tern_tool_calls_mode;

/* Whether the model is to think before it answers; AUTO: as its template does without being told. */
typedef enum tern_thinking { TERN_THINKING_AUTO, TERN_THINKING_OFF, TERN_THINKING_ON } tern_thinking;

/* An adapter's number and how strongly it is to count. */
typedef struct tern_lora_scale {
    uint32_t id;
    float scale;
} tern_lora_scale;

/* Everything points into the document, which lives longer, or is the request's own. */
typedef struct tern_api_request {
    const char *model;      /* NULL: the first */
    const json_t *settings; /* options of the model, where the request sets none; NULL: none */
    bool keeps;             /* keep_seconds was given: how long the model stays open after it; below 0: for ever */
    double keep_seconds;
    bool loads, unloads;   /* nothing is to be generated: the model is to be opened, or to be closed */
    const json_t *context; /* ids of an earlier answer, which stand before the prompt; NULL: none */
    bool with_context;     /* the answer has the ids of prompt and answer */
    tern_lora_scale
        *lora_scales; /* [n_lora_scales] owned; NULL: as the server has them; not beside an adapter's name */
    uint32_t n_lora_scales;
    const char *lora_name, *lora_path; /* of an adapter that is to come or to go */
    bool lora_replaces;
    const char *file_name; /* of a saved pool */
    tern_chat_message *messages;
    size_t n_messages, cap_messages;
    json_t *more;  /* [n_messages] what each has beside role and content (tool_calls, ...); owned; NULL: nothing */
    json_t *tools; /* as OpenAI's chat has them; owned; NULL: none */
    json_t *tool_choice; /* its name in it; owned; NULL: any tool */
    tern_tool_calls_mode calls;
    bool serial;           /* one call at most */
    bool old_calls;        /* "functions" and "function_call" in their place */
    json_t *allowed_tools; /* names of those that count; owned; NULL: all */
    json_t *namespaces;    /* {"NAMESPACE__NAME": {"namespace", "name", "description"}}; owned; NULL: none */
    json_t *variables;     /* of the template, beside messages and tools; owned; NULL: none */
    tern_thinking thinking;
    bool needs_thoughts;   /* an error where the model has none that are known */
    bool thoughts_in_text; /* they stay in the answer's text */
    bool budget_given;
    int32_t thought_budget;      /* tokens; below 0: no limit */
    bool no_generation_prompt;   /* the prompt ends with the last message's turn */
    bool continues, starts_turn; /* the last message is continued; even an assistant's is not */
    json_t *history;             /* messages of earlier turns; owned; NULL: none */
    const char *previous;        /* id of the response before this one; NULL: none */
    size_t n_front;              /* first messages that later responses do not go on with: instructions, the model's */
    const json_t *metadata;      /* of the response, which has it again; NULL: none */
    bool unstored;               /* the response is not kept */
    tern_api_prompt *prompts;
    size_t n_prompts, cap_prompts;
    tern_api_gap gap;
    char **owned; /* texts that were joined from parts */
    size_t n_owned, cap_owned;

    tern_sampler_params sampler;
    tern_logit_bias *biases;
    size_t n_biases, cap_biases;
    json_t *text_biases; /* [[text, number]] of the tokens of texts; owned; NULL: none */
    tern_sampler_chain chain;
    tern_sampler_step order[TERN_SAMPLER_STEPS];
    const char *breakers[TERN_SAMPLER_MAX_BREAKERS];
    bool mirostat;   /* version 2 */
    bool no_steps;   /* an order without any */
    json_t *ignored; /* names of options that are not known, where an API ignores them; owned; NULL: none */
    bool seed_given;
    uint32_t n, best_of; /* 0: 1 */
    uint32_t max_tokens; /* 0: until the context is full */
    uint32_t n_ctx;      /* positions of prompt and answer together; 0: all that the server has */
    bool no_tokens;      /* none are to be generated: 0 was asked for, where that means so */
    bool constrained;    /* the text is what a grammar allows: */
    tern_grammar_kind grammar_kind;
    const char *grammar;  /* its source, of GBNF */
    const json_t *schema; /* of JSON Schema */
    const char *system;   /* the instruction before the messages, where it is not a message */
    const char *stops[TERN_API_MAX_STOPS];
    uint32_t n_stops;
    struct {
        uint32_t indent; /* a line behind the first ends the text where fewer spaces and tabs begin it; 0: none does */
        uint32_t ms; /* the text ends with the first line that ends later than so long after its first token; 0: none */
    } lines;
    const json_t *wanted_fields; /* paths in the answer's document that are wanted alone; NULL: all of it */
    bool ignore_eos, echo, show_special;
    bool logprobs;
    uint32_t n_top_logprobs;
    bool stream, stream_usage;
    bool stop_in_text; /* a stream keeps its text too */
    bool raw;          /* a prompt is text as it stands, without the chat's template */

    bool embeds, own_pooling; /* own_pooling: as the model says */
    tern_pooling pooling;
    bool normalize, base64;
    uint32_t dimensions; /* of a vector, the first so many; 0: all */

    const json_t *query; /* a string by which the prompts are rated; NULL: they are not */
    uint32_t top_n;      /* of them the best so many; 0: all */
    bool with_documents; /* their texts come back */

    bool special, with_bos, with_pieces; /* of tokens */
} tern_api_request;

/* Members of llama.cpp's and vLLM's servers that the APIs beside theirs take too, Mirostat's, and those of chat
 * templates and thoughts. */
extern const tern_field tern_api_samplers[], tern_api_mirostat[], tern_api_thinking[];
void tern_api_request_init_chain(tern_api_request *request);
void tern_api_request_finish_chain(tern_api_request *request);

/* With the sampler at temperature 1 and nothing else, as most APIs have it. */
void tern_api_request_init(tern_api_request *request);
void tern_api_request_deinit(tern_api_request *request);

/* Sets what the settings of a model say, by the names of Ollama's options; NULL: nothing. Errors: INVALID_ARGUMENT,
 * also for a name that is not known. */
tern_status tern_api_request_apply(tern_api_request *request, const json_t *settings, tern_error *err);
/* Ollama's options. */
extern const tern_field tern_api_options[];

/* Functions of the tables' kind READ: into a tern_api_request. */
tern_status tern_api_request_read_stop(void *request, const json_t *value, tern_error *err); /* a string, or several */
/* {"ID": number}, or llama.cpp's [[ID or text, number or false]]. */
tern_status tern_api_request_read_bias(void *request, const json_t *value, tern_error *err);
tern_status tern_api_request_add_bias(tern_api_request *request, int32_t id, double bias, tern_error *err);
/* A number; below 0: no limit. */
tern_status tern_api_request_read_top_k(void *request, const json_t *value, tern_error *err);
tern_status tern_api_request_read_last_n(void *request, const json_t *value, tern_error *err);
tern_status tern_api_request_read_max_tokens(void *request, const json_t *value, tern_error *err);
tern_status tern_api_request_read_seed(void *request, const json_t *value, tern_error *err);     /* negative: none */
tern_status tern_api_request_read_messages(void *request, const json_t *value, tern_error *err); /* [{role, content}] */
/* The answer keeps to a grammar of this kind. Errors: INVALID_ARGUMENT (it keeps to one already). */
tern_status tern_api_request_constrain(tern_api_request *request, tern_grammar_kind kind, tern_error *err);
tern_status tern_api_request_read_grammar(void *request, const json_t *value, tern_error *err); /* GBNF; "": none */
tern_status tern_api_request_read_schema(void *request, const json_t *value, tern_error *err);  /* JSON Schema */
tern_status tern_api_request_read_loras(void *request, const json_t *value, tern_error *err);   /* [{id, scale}] */
tern_status tern_api_request_read_prompts(void *request, const json_t *value,
                                          tern_error *err); /* text, ids, or lists of them */
/* The text behind a gap; "": there is no gap. */
tern_status tern_api_request_read_suffix(void *request, const json_t *value, tern_error *err);
/* Checks what goes with a gap: prompts of text, which are not shown again. */
tern_status tern_api_request_check_gap(const tern_api_request *request, tern_error *err);

/* Adds a message; the text of `content` is a string, or parts of the type "text", which are joined. `name` in errors.
 */
tern_status tern_api_request_add_message(tern_api_request *request, const char *role, const json_t *content,
                                         const char *name, tern_error *err);
/* Adds a message of n bytes of text, which are borrowed. */
tern_status tern_api_request_add_text(tern_api_request *request, const char *role, const char *text, size_t n,
                                      tern_error *err);
/* As above, in front of all others. */
tern_status tern_api_request_prepend_message(tern_api_request *request, const char *role, const json_t *content,
                                             const char *name, tern_error *err);

tern_status tern_api_request_prepend_text(tern_api_request *request, const char *role, const char *text, size_t n,
                                          tern_error *err);

/* Tools, as OpenAI's chat has them: [{"type": "function", "function": {"name", "description", "parameters"}}]. */
tern_status tern_api_request_read_tools(void *request, const json_t *value, tern_error *err);
/* OpenAI's older form of them: [{"name", "description", "parameters"}], and "auto", "none" or {"name"}. */
tern_status tern_api_request_read_functions(void *request, const json_t *value, tern_error *err);
tern_status tern_api_request_read_function_call(void *request, const json_t *value, tern_error *err);
/* "auto", "none", "required", {"type": "function", "function": {"name"}}, or {"type": "allowed_tools"} with "mode" and
 * "tools", in an object of that name or beside the type. */
tern_status tern_api_request_read_tool_choice(void *request, const json_t *value, tern_error *err);
tern_status tern_api_request_read_parallel(void *request, const json_t *value, tern_error *err); /* true or false */
bool tern_api_request_has_tool(const tern_api_request *request, const json_t *name);
/* Adds one tool. `i`: its place, for errors. `parameters`: a JSON Schema; NULL: the tool takes none. */
tern_status tern_api_request_add_tool(tern_api_request *request, size_t i, const json_t *name,
                                      const json_t *description, const json_t *parameters, tern_error *err);
/* The calls that the last message made: [{"id", "function": {"name", "arguments": object or its text}}]. */
tern_status tern_api_request_add_calls(tern_api_request *request, const json_t *calls, const char *name,
                                       tern_error *err);
/* Says of the last message that it is what a call gave. `id`, `called`: of the call and its tool; either may be NULL.
 */
tern_status tern_api_request_add_result(tern_api_request *request, const json_t *id, const json_t *called,
                                        tern_error *err);
/* Adds the last message's thoughts beside its text, by the names that templates know; they show or drop them. */
tern_status tern_api_request_add_thoughts(tern_api_request *request, const json_t *message, tern_error *err);
/* Whether the answer may be calls of tools. */
bool tern_api_request_wants_calls(const tern_api_request *request);
/* Leaves the tools that are allowed. Errors: tools and calls that contradict each other, or what else was asked for. */
tern_status tern_api_request_check_tools(tern_api_request *request, tern_error *err);
/* The variables of a chat template, as JSON text: the messages with their calls, the tools, and what else was given.
 * `generic`: for a template without tools, which messages tell of instead (generic_tools.c). Freed with tern_free;
 * NULL: out of memory. */
char *tern_api_request_template_variables(const tern_api_request *request, bool generic);
/* Rewrites messages so that they tell of tools (NULL: of none), calls and results. 0, or not: out of memory. */
int tern_api_generic_tools(json_t *messages, const json_t *tools);

/* A word for how much the model thinks ("none": not at all), for its template. */
tern_status tern_api_request_read_effort(void *request, const json_t *value, tern_error *err);
/* true, false, or an effort. */
tern_status tern_api_request_read_think(void *request, const json_t *value, tern_error *err);
/* {"type": "enabled" | "adaptive" | "disabled", "budget_tokens": N}. */
tern_status tern_api_request_read_thinking(void *request, const json_t *value, tern_error *err);
tern_status tern_api_request_read_verbosity(void *request, const json_t *value, tern_error *err);
/* {NAME: value} of variables of the template; enable_thinking says whether the model thinks. */
tern_status tern_api_request_read_variables(void *request, const json_t *value, tern_error *err);
/* A variable of the template; takes the value. */
tern_status tern_api_request_set_variable(tern_api_request *request, const char *name, json_t *value, tern_error *err);

/* Inserts messages at a place among the others, from JSON text that tern_api_request_conversation gave. */
tern_status tern_api_request_insert_conversation(tern_api_request *request, size_t at, const char *text,
                                                 tern_error *err);
/* The messages from `first` on with their calls, as templates read them. */
json_t *tern_api_request_conversation(const tern_api_request *request, size_t first);

/* Seeds the sampler from the system where no seed was given, and points it to the biases. */
tern_status tern_api_request_finish(tern_api_request *request, tern_error *err);

#endif
