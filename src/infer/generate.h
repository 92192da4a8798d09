/* Generating text: the loop of sampling and decoding, with stop conditions, streaming and speculation. */
#ifndef TERN_INFER_GENERATE_H
#define TERN_INFER_GENERATE_H

#include "infer/sampler.h"
#include "infer/session.h"

typedef enum tern_stop_reason {
    TERN_STOP_END_TOKEN, /* EOS, EOT, ... */
    TERN_STOP_STRING,
    TERN_STOP_LENGTH,    /* max_tokens */
    TERN_STOP_CONTEXT,   /* the context is full and shifting was not asked for */
    TERN_STOP_CALLER     /* the callback said so */
} tern_stop_reason;

/* What the callback gets for each token: text that can be shown now (whole UTF-8; empty while a sequence or a possible stop string is
 * incomplete). When text was held back until the end, one more piece with id -1 brings it. */
typedef struct tern_piece {
    int32_t id;
    const char *text;
    size_t n_text;
} tern_piece;

typedef struct tern_generate_params {
    tern_sampler_params sampler;
    uint32_t max_tokens;      /* 0: until the context is full */
    const char *const *stops; /* stop strings; they are not shown */
    uint32_t n_stops;
    bool ignore_eos;
    bool show_special;     /* special tokens appear in the text */
    bool context_shift;    /* make room instead of stopping; keeps the first n_keep tokens */
    uint32_t n_keep;
    uint32_t draft_tokens; /* prompt-lookup speculation: at most so many drafted tokens a step; 0: off. Needs a session with
                            * max_outputs > draft_tokens. Lossless: the text is the same as without. */
    bool (*on_piece)(void *context, const tern_piece *piece); /* false stops; may be NULL */
    void *context;
} tern_generate_params;

typedef struct tern_generate_result {
    tern_stop_reason reason;
    uint32_t n_prompt, n_generated;
    uint32_t n_drafted, n_accepted;
    double prefill_ms, decode_ms; /* decode: from the first token on */
} tern_generate_result;

/* Evaluates the prompt and generates. n_prompt may be 0 when the session holds tokens: it goes on after them. The session keeps the prompt and
 * all generated tokens, evaluated (not an end token, which is not counted either), also when generation was stopped.
 * Works without a tokenizer (pieces then have no text; end tokens are unknown). No allocation for each token after the first.
 * Errors: those of append and the sampler; INVALID_ARGUMENT (no tokens at all, n_keep or draft_tokens too large for the session);
 * CONTEXT_FULL when the prompt itself does not fit. */
tern_status tern_generate(tern_session *session, const int32_t *prompt, uint32_t n_prompt, const tern_generate_params *params,
                          tern_generate_result *result, tern_error *err);

const char *tern_stop_reason_name(tern_stop_reason reason);

#endif
