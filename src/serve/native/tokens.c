/* Answers of llama.cpp's server about tokens, and about itself. */
#include <string.h>

#include "base/bytes.h"
#include "serve/native/native.h"
#include "serve/server.h"

static json_t *with_piece(const tern_answer *a, int32_t id)
{
    tern_buf text = {0};
    (void)tern_answer_token_text(a, id, &text, NULL);
    const char *bytes = text.data ? text.data : "";
    json_t *piece = json_stringn(bytes, text.size);
    if (!piece) { /* no UTF-8: its bytes */
        piece = json_array();
        for (size_t i = 0; i < text.size; i++) json_array_append_new(piece, json_integer((unsigned char)bytes[i]));
    }
    tern_buf_deinit(&text);
    return json_pack("{s:I, s:o}", "id", (json_int_t)id, "piece", piece);
}

tern_status tern_native__tokenize(tern_answer *a, tern_host *host, tern_error *err)
{
    const unsigned how =
        (a->request.with_bos ? TERN_TOKENIZE_BOS : 0) | (a->request.special ? TERN_TOKENIZE_SPECIAL : 0);
    const tern_api_prompt *text = &a->request.prompts[0];
    tern_tokens ids = {0};
    const tern_status status = tern_engine_tokenize(host->engine, text->text, text->n, how, &ids, err);
    json_t *list = json_array();
    for (size_t i = 0; status == TERN_OK && i < ids.n; i++)
        json_array_append_new(list, a->request.with_pieces ? with_piece(a, ids.ids[i]) : json_integer(ids.ids[i]));
    if (status == TERN_OK) tern_exchange_send(a->exchange, 200, json_pack("{s:O}", "tokens", list));
    json_decref(list);
    tern_tokens_deinit(&ids);
    return status;
}

static tern_status send_text(tern_answer *a, tern_host *host, const char *name, tern_tokens *ids, tern_error *err)
{
    tern_buf text = {0};
    const tern_status status = tern_engine_detokenize(host->engine, ids->ids, ids->n, true, &text, err);
    if (status == TERN_OK)
        tern_exchange_send(a->exchange, 200, json_pack("{s:o}", name, tern_serve_string(text.data, text.size)));
    tern_buf_deinit(&text);
    return status;
}

static tern_status send_prompt(tern_answer *a, tern_host *host, const char *name, tern_error *err)
{
    tern_tokens ids = {0};
    tern_status status = TERN_OK;
    if (a->request.n_messages || a->request.n_prompts) status = tern_answer_tokens(a, host, 0, &ids, err);
    if (status == TERN_OK) status = send_text(a, host, name, &ids, err);
    tern_tokens_deinit(&ids);
    return status;
}

tern_status tern_native__detokenize(tern_answer *a, tern_host *host, tern_error *err)
{
    return send_prompt(a, host, "content", err);
}

tern_status tern_native__template(tern_answer *a, tern_host *host, tern_error *err)
{
    return send_prompt(a, host, "prompt", err);
}

tern_status tern_native__props(tern_answer *a, tern_host *host, tern_error *err)
{
    const tern_engine_info *i = &host->info;
    (void)err;
    tern_exchange_send(a->exchange, 200,
                       json_pack("{s:{s:I}, s:I, s:s, s:o, s:s, s:s, s:s, s:s, s:s}", "default_generation_settings",
                                 "n_ctx", (json_int_t)tern_batch_n_ctx(host->batch), "total_slots",
                                 (json_int_t)tern_batch_n_parallel(host->batch), "model_alias", host->name,
                                 "chat_template",
                                 tern_serve_string(host->template_source, strlen(host->template_source)), "build_info",
                                 tern_version(), "architecture", i->architecture, "encoding", i->encoding, "backend",
                                 i->backend, "activations", i->activations));
    return TERN_OK;
}

tern_status tern_native__slots(tern_answer *a, tern_host *host, tern_error *err)
{
    const uint32_t n = tern_batch_n_parallel(host->batch);
    json_t *slots = json_array();
    tern_batch_counters c = {.size = sizeof c};
    TERN_TRY(tern_batch_count(host->batch, &c, err));
    for (uint32_t i = 0; i < n; i++)
        json_array_append_new(slots,
                              json_pack("{s:I, s:I, s:b}", "id", (json_int_t)i, "n_ctx",
                                        (json_int_t)tern_batch_n_ctx(host->batch), "is_processing", i < c.running));
    tern_exchange_send(a->exchange, 200, slots);
    return TERN_OK;
}
