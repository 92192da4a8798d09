/* The flags of tern serve. */
#include "apps/serve/flags.h"

#define FIELD(name) offsetof(tern_options, serve.name)

const tern_flag tern_flags_serve_models[] = {
    {"model", 'm', TERN_FLAG_TEXTS, "[NAME=]PATH", FIELD(models), 0, 0,
     "GGUF file or Hugging Face folder; may be repeated: others are opened when somebody asks for them"},
    {"lora", 0, TERN_FLAG_TEXTS, "NAME=PATH", FIELD(loras), 0, 0,
     "An adapter of the first model, which clients name as a model; may be repeated"},
    {"lora-dir", 0, TERN_FLAG_TEXT, "DIR", FIELD(lora_folder), 0, 0,
     "Clients may load adapters that lie below it, and unload adapters, while the server runs", .more = true},
    {"template", 0, TERN_FLAG_TEXT, "NAME", offsetof(tern_options, template), 0, 0,
     "Chat template in the place of the models' own: " TERN_CHAT_TEMPLATES ", or a Jinja file"},
    {"max-models", 0, TERN_FLAG_U32, "N", FIELD(max_models), 1, TERN_SERVE_MAX_NAMED,
     "Models open at once; as many as memory has room for when not given", .more = true},
    {0},
};

const tern_flag tern_flags_serve_listening[] = {
    {"host", 0, TERN_FLAG_TEXT, "ADDRESS", FIELD(host), 0, 0, "Where it listens; 127.0.0.1 when not given"},
    {"port", 0, TERN_FLAG_U32, "N", FIELD(port), 0, 65535, "0: one that is free"},
    {"unix", 0, TERN_FLAG_TEXT, "PATH", FIELD(unix_path), 0, 0, "A unix socket in place of an address", .more = true},
    {"api-key", 0, TERN_FLAG_TEXT, "FILE", FIELD(key_file), 0, 0, "Keys, one on a line, of which a client sends one"},
    {"no-auth", 0, TERN_FLAG_BOOL, NULL, FIELD(no_auth), 0, 0,
     "No key is needed, on other addresses than this "
     "machine's own too"},
    {"cors", 0, TERN_FLAG_TEXT, "ORIGIN", FIELD(cors), 0, 0, "Web pages of this origin may ask; * is any",
     .more = true},
    {"tls-cert", 0, TERN_FLAG_TEXT, "FILE", FIELD(tls_cert), 0, 0, "Certificates in PEM: HTTPS", .more = true},
    {"tls-key", 0, TERN_FLAG_TEXT, "FILE", FIELD(tls_key), 0, 0, "Their key in PEM", .more = true},
    {"log", 0, TERN_FLAG_TEXT, "FILE", FIELD(log_path), 0, 0,
     "A line of JSON for each request; standard error when "
     "not given",
     .more = true},
    {"no-log", 0, TERN_FLAG_BOOL, NULL, FIELD(no_log), 0, 0, "No such lines", .more = true},
    {"log-prompts", 0, TERN_FLAG_BOOL, NULL, FIELD(log_prompts), 0, 0, "With what was asked", .more = true},
    {0},
};

const tern_flag tern_flags_serve_batching[] = {
    {"parallel", 0, TERN_FLAG_U32, "N", FIELD(parallel), 1, TERN_BATCH_MAX_PARALLEL,
     "Sequences that are generated at once; 8 when not given"},
    {"ctx", 'c', TERN_FLAG_U32, "N", offsetof(tern_options, ctx), 1, 1 << 24,
     "Positions of one sequence; the model's, at most 4096, when not given"},
    {"batch", 'b', TERN_FLAG_U32, "N", offsetof(tern_options, batch), 1, 65536, "Tokens of a step; 512 when not given"},
    {"chunk", 0, TERN_FLAG_U32, "N", FIELD(chunk), 1, 65536,
     "Tokens of prompts in a step in which other sequences decode; chosen when not given", .more = true},
    {"max-step-ms", 0, TERN_FLAG_U32, "MS", FIELD(max_step_ms), 1, 60000,
     "Milliseconds between two tokens while prompts of others come in; twice those without when not given",
     .more = true},
    {"draft", 0, TERN_FLAG_CHOICE, "none|ngram", offsetof(tern_options, draft), 0, 0,
     "Speculation: guess from a request's own text; the same answers, sooner where they repeat and few run"},
    {"draft-model", 0, TERN_FLAG_TEXT, "MODEL", offsetof(tern_options, draft_model), 0, 0,
     "Let this small model of the first one's vocabulary guess instead; the same answers", .more = true},
    {"draft-tokens", 0, TERN_FLAG_U32, "N", offsetof(tern_options, draft_tokens), 1, 63,
     "Tokens that one guess has at most", .more = true},
    {"cache", 0, TERN_FLAG_TEXT, "SIZE", FIELD(cache), 0, 0,
     "Bytes (2G) of keys and values; room for --parallel sequences of --ctx when not given", .more = true},
    TERN_APP_FLAGS_KV("Numbers in them"),
    {"cache-file", 0, TERN_FLAG_TEXT, "FILE", FIELD(cache_file), 0, 0,
     "Keeps the first model's share of them for the next start: read at the start, written at the end", .more = true},
    {"no-prefix-reuse", 0, TERN_FLAG_BOOL, NULL, FIELD(no_reuse), 0, 0, "Prompts are always evaluated anew",
     .more = true},
    {0},
};

const tern_flag tern_flags_serve_limits[] = {
    {"max-body", 0, TERN_FLAG_U32, "BYTES", FIELD(max_body), 1, 1 << 30, "Of a request; 16 MiB when not given"},
    {"max-tokens", 0, TERN_FLAG_U32, "N", FIELD(max_tokens), 1, 1 << 24, "Generated for one completion"},
    {"max-connections", 0, TERN_FLAG_U32, "N", FIELD(max_connections), 1, 65536, "At once; 1024 when not given"},
    {"max-queue", 0, TERN_FLAG_U32, "N", FIELD(max_queue), 1, 65536, "Requests that wait; 256 when not given"},
    {"timeout", 0, TERN_FLAG_U32, "SECONDS", FIELD(timeout), 1, 1 << 20, "Of an answer; 600 when not given"},
    {"idle-timeout", 0, TERN_FLAG_U32, "SECONDS", FIELD(idle), 1, 1 << 20,
     "Of a client that neither sends nor reads; 30 when not given"},
    {"drain", 0, TERN_FLAG_U32, "SECONDS", FIELD(drain), 1, 1 << 20,
     "After SIGTERM, for requests that run; 30 when not given"},
    {0},
};
