/* The flags of tern serve. */
#include "apps/serve/flags.h"

#define FIELD(name) offsetof(tern_options, serve.name)

const tern_flag tern_flags_serve_models[] = {
    {"model", 'm', TERN_FLAG_TEXTS, "[NAME=]PATH", FIELD(models), 0, 0,
     "GGUF file, Hugging Face folder or name of `tern list`; may be repeated: the first opens now, others on request"},
    {"lora", 0, TERN_FLAG_TEXTS, "NAME=PATH", FIELD(loras), 0, 0,
     "Adapter of the first model, offered to clients as model NAME; may be repeated"},
    {"lora-dir", 0, TERN_FLAG_TEXT, "DIR", FIELD(lora_folder), 0, 0,
     "Folder whose adapters clients may load and unload while the server runs"},
    {"template", 0, TERN_FLAG_TEXT, "NAME", offsetof(tern_options, template), 0, 0,
     "Chat template instead of the models' own: " TERN_CHAT_TEMPLATES ", or a Jinja file"},
    {"strict-model", 0, TERN_FLAG_BOOL, NULL, FIELD(strict_model), 0, 0,
     "Refuse unknown model names; without it a server with one model and no adapters takes any", .more = true},
    {"rerank", 0, TERN_FLAG_BOOL, NULL, FIELD(rerank), 0, 0,
     "Rate documents (/rerank) with models whose files do not say that they are rerankers, by \"yes\" and \"no\"",
     .more = true},
    {"max-models", 0, TERN_FLAG_U32, "N", FIELD(max_models), 1, TERN_SERVE_MAX_NAMED,
     "Most models open at once; default: as many as fit in memory", .more = true},
    {0},
};

const tern_flag tern_flags_serve_listening[] = {
    {"host", 0, TERN_FLAG_TEXT, "ADDRESS", FIELD(host), 0, 0, "Address to listen on (default 127.0.0.1)"},
    {"port", 0, TERN_FLAG_U32, "N", FIELD(port), 0, 65535, "Port to listen on; 0 picks a free one"},
    {"unix", 0, TERN_FLAG_TEXT, "PATH", FIELD(unix_path), 0, 0, "Listen on a Unix socket instead", .more = true},
    {"api-key", 0, TERN_FLAG_TEXT, "FILE", FIELD(key_file), 0, 0,
     "File of API keys, one a line; clients must send one"},
    {"no-auth", 0, TERN_FLAG_BOOL, NULL, FIELD(no_auth), 0, 0,
     "Ask for no key, even when listening beyond this machine"},
    {"cors", 0, TERN_FLAG_TEXT, "ORIGIN", FIELD(cors), 0, 0, "Allow requests from web pages of this origin; * is any"},
    {"tls-cert", 0, TERN_FLAG_TEXT, "FILE", FIELD(tls_cert), 0, 0, "Serve HTTPS with this certificate chain (PEM)"},
    {"tls-key", 0, TERN_FLAG_TEXT, "FILE", FIELD(tls_key), 0, 0, "Private key of --tls-cert (PEM)"},
    {"log", 0, TERN_FLAG_TEXT, "FILE", FIELD(log_path), 0, 0,
     "File for the request log, one JSON object a line (default: standard error)", .more = true},
    {"no-log", 0, TERN_FLAG_BOOL, NULL, FIELD(no_log), 0, 0, "Write no request log", .more = true},
    {"log-prompts", 0, TERN_FLAG_BOOL, NULL, FIELD(log_prompts), 0, 0, "Include prompts in the request log",
     .more = true},
    {0},
};

const tern_flag tern_flags_serve_batching[] = {
    {"parallel", 0, TERN_FLAG_U32, "N", FIELD(parallel), 1, TERN_BATCH_MAX_PARALLEL,
     "Sequences generated at once (default 8)"},
    {"ctx", 'c', TERN_FLAG_U32, "N", offsetof(tern_options, ctx), 0, 1 << 24,
     "Context length of one sequence; 0: what the model was trained for (default: that, at most 4096)",
     .given = offsetof(tern_options, ctx_given)},
    {"batch", 'b', TERN_FLAG_U32, "N", offsetof(tern_options, batch), 1, 65536,
     "Most tokens in one step (default 512)"},
    {"chunk", 0, TERN_FLAG_U32, "N", FIELD(chunk), 1, 65536,
     "Most prompt tokens in a step in which others decode; default: measured", .more = true},
    {"max-step-ms", 0, TERN_FLAG_U32, "MS", FIELD(max_step_ms), 1, 60000,
     "Longest time between two tokens while prompts of others are read; default: twice the usual time", .more = true},
    {"draft", 0, TERN_FLAG_CHOICE, "none|ngram", offsetof(tern_options, draft), 0, 0,
     "Speculative decoding: draft tokens from the request's own text; same answers"},
    {"draft-model", 0, TERN_FLAG_TEXT, "MODEL", offsetof(tern_options, draft_model), 0, 0,
     "Draft with this small model of the same vocabulary; same answers", .more = true},
    {"draft-tokens", 0, TERN_FLAG_U32, "N", offsetof(tern_options, draft_tokens), 1, 63, "Most tokens in one draft",
     .more = true},
    {"cache", 0, TERN_FLAG_TEXT, "SIZE", FIELD(cache), 0, 0,
     "Size of the KV cache (2G); default: --parallel sequences of --ctx"},
    TERN_APP_FLAGS_KV("Type of keys and values"),
    {"cache-file", 0, TERN_FLAG_TEXT, "FILE", FIELD(cache_file), 0, 0,
     "Keep the first model's KV cache in this file over a restart", .more = true},
    {"no-prefix-reuse", 0, TERN_FLAG_BOOL, NULL, FIELD(no_reuse), 0, 0, "Evaluate every prompt anew", .more = true},
    {0},
};

const tern_flag tern_flags_serve_limits[] = {
    {"max-body", 0, TERN_FLAG_U32, "BYTES", FIELD(max_body), 1, 1 << 30, "Largest request (default 16 MiB)"},
    {"max-tokens", 0, TERN_FLAG_U32, "N", FIELD(max_tokens), 1, 1 << 24, "Most tokens in one completion"},
    {"max-connections", 0, TERN_FLAG_U32, "N", FIELD(max_connections), 1, 65536,
     "Most connections at once (default 1024)"},
    {"max-queue", 0, TERN_FLAG_U32, "N", FIELD(max_queue), 1, 65536, "Most requests that wait (default 256)"},
    {"timeout", 0, TERN_FLAG_U32, "SECONDS", FIELD(timeout), 1, 1 << 20, "Longest answer (default 600)"},
    {"idle-timeout", 0, TERN_FLAG_U32, "SECONDS", FIELD(idle), 1, 1 << 20,
     "Disconnect a client that neither sends nor reads (default 30)"},
    {"drain", 0, TERN_FLAG_U32, "SECONDS", FIELD(drain), 1, 1 << 20,
     "Time for running requests after SIGTERM (default 30)"},
    {0},
};
