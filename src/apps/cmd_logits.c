/* tern logits: the raw numbers that a model computes for given tokens. */
#include <string.h>

#include "apps/lora.h"
#include "base/alloc.h"
#include "base/bytes.h"

enum { PIECE_TOKENS = 64 }; /* rows of logits held at a time: a vocabulary has 128,256 columns */

static const tern_flag flags[] = {
    {"ids", 0, TERN_FLAG_TEXT, "IDS", offsetof(tern_options, ids), 0, 0,
     "Token ids: 1,2,3; - reads them from standard input"},
    {"hidden", 0, TERN_FLAG_BOOL, NULL, offsetof(tern_options, hidden), 0, 0,
     "Hidden states [layers + 1][n][hidden] instead of logits"},
    {0},
};

static const tern_flag_group groups[] = {{"Flags", flags},
                                         {"Model", tern_flags_model},
                                         {"Adapters", tern_flags_lora},
                                         {"Context", tern_flags_session},
                                         {"Numbers", tern_flags_numbers, true},
                                         {"Device", tern_flags_device},
                                         {"Several processes (mpirun)", tern_flags_ranks, true},
                                         {"CPU", tern_flags_cpu},
                                         {"Kernels", tern_flags_kernel, true},
                                         {"Fusion", tern_flags_fusion, true},
                                         {0}};

static void defaults(tern_options *o)
{
    o->kv = "f32";
}

static tern_status read_ids(const tern_options *o, tern_tokens *ids, tern_error *err)
{
    tern_buf text = {0};
    if (!o->ids) return tern_fail(err, TERN_INVALID_ARGUMENT, "no token ids: give them with --ids 1,2,3");
    if (strcmp(o->ids, "-") != 0) return tern_app_parse_ids(o->ids, ids, err);
    tern_status status;
    TERN_GOTO(tern_app_read_text("-", &text, err));
    TERN_GOTO(tern_app_parse_ids(text.data, ids, err));
fail:
    tern_buf_deinit(&text);
    return status;
}

static tern_status write_floats(const float *x, size_t n, tern_error *err)
{
    uint8_t bytes[4096];
    for (size_t at = 0; at < n;) {
        size_t piece = n - at < sizeof bytes / 4 ? n - at : sizeof bytes / 4;
        for (size_t i = 0; i < piece; i++) tern_store_f32(bytes + 4 * i, x[at + i]);
        if (!tern_app_write(bytes, 4 * piece)) return tern_app_flush(err);
        at += piece;
    }
    return TERN_OK;
}

/* The hidden states of every layer for a piece of the tokens, into their places in all[layers + 1][n][n_embd]. */
static tern_status keep_hidden(tern_session *s, const tern_engine_info *model, uint32_t first, uint32_t piece,
                               uint32_t n, float *all, tern_error *err)
{
    for (uint32_t i = 0; i <= model->n_layers; i++)
        TERN_TRY(tern_session_hidden(s, i, piece, all + ((size_t)i * n + first) * model->n_embd, err));
    return TERN_OK;
}

static tern_status evaluate(tern_session *s, const tern_engine_info *model, const tern_tokens *ids, float *hidden,
                            tern_error *err)
{
    const uint32_t n = (uint32_t)ids->n, most = tern_session_max_outputs(s); /* fewer where --batch says so */
    float *logits = NULL;
    for (uint32_t at = 0; at < n;) {
        uint32_t piece = n - at < most ? n - at : most;
        TERN_TRY(tern_session_append_all(s, ids->ids + at, piece, err));
        if (hidden) TERN_TRY(keep_hidden(s, model, at, piece, n, hidden, err));
        else TERN_TRY(tern_session_logits(s, 0, &logits, err));
        if (!hidden) TERN_TRY(write_floats(logits, (size_t)piece * model->n_vocab, err));
        if (!tern_app_flushed()) return tern_app_flush(err);
        if (tern_app_interrupted()) return tern_app_fail_interrupted(err);
        at += piece;
    }
    return TERN_OK;
}

static tern_status evaluate_hidden(tern_session *s, const tern_engine_info *model, const tern_tokens *ids,
                                   tern_error *err)
{
    size_t n = (size_t)(model->n_layers + 1) * ids->n * model->n_embd;
    float *hidden = tern_calloc(n, sizeof *hidden);
    if (!hidden) return tern_fail_alloc(err, n * sizeof *hidden);
    tern_status status;
    TERN_GOTO(evaluate(s, model, ids, hidden, err));
    TERN_GOTO(write_floats(hidden, n, err));
fail:
    tern_free(hidden);
    return status;
}

static tern_status run_engine(tern_engine *engine, const tern_app_loras *loras, const tern_options *o,
                              const tern_tokens *ids, tern_error *err)
{
    tern_session *session;
    tern_engine_info model = {.size = sizeof model};
    TERN_TRY(tern_engine_describe(engine, &model, err));
    if (ids->n > model.n_ctx_train)
        return tern_fail(err, TERN_CONTEXT_FULL,
                         "--ids: %zu tokens found, at most %u expected: the context that the model was trained for",
                         ids->n, model.n_ctx_train);
    tern_session_params params = {.size = sizeof params,
                                  .n_ctx = (uint32_t)ids->n,
                                  .n_batch = PIECE_TOKENS,
                                  .max_outputs = PIECE_TOKENS,
                                  .keep_hidden = o->hidden,
                                  .host_sampling = true,
                                  .loras = loras->uses,
                                  .n_loras = loras->n};
    TERN_TRY(tern_app_open_session(&session, engine, o, params, err));
    tern_status status =
        o->hidden ? evaluate_hidden(session, &model, ids, err) : evaluate(session, &model, ids, NULL, err);
    tern_session_close(session);
    return status;
}

static tern_status run(const tern_options *o, tern_error *err)
{
    tern_engine *engine = NULL;
    tern_tokens ids = {0};
    tern_app_loras loras = {0};
    tern_status status;
    TERN_GOTO(read_ids(o, &ids, err));
    TERN_GOTO(tern_app_open_engine(&engine, o, false, err));
    TERN_GOTO(tern_app_load_loras(&loras, o, engine, err));
    TERN_GOTO(run_engine(engine, &loras, o, &ids, err));
fail:
    tern_app_close_loras(&loras);
    tern_engine_close(engine);
    tern_tokens_deinit(&ids);
    return status;
}

const tern_command tern_command_logits = {
    .name = "logits",
    .usage = "-m MODEL --ids 1,2,3 [--hidden]",
    .summary = "Write the logits of given tokens as raw numbers",
    .detail = "Standard output gets little-endian f32 rows [n][vocabulary].",
    .groups = groups,
    .ranks = TERN_RANKED_FOLLOWED,
    .defaults = defaults,
    .run = run,
};
