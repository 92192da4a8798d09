/* Exports: sessions, and the adapters that they use. */
#include "tern.h"
#include "web/web.h"

TERN_WEB tern_status tern_web_session_open(tern_session **session, tern_engine *engine, const char *options);
TERN_WEB void tern_web_session_close(tern_session *session);
TERN_WEB uint32_t tern_web_session_n_ctx(const tern_session *session);
TERN_WEB uint32_t tern_web_session_n_tokens(const tern_session *session);
TERN_WEB void tern_web_session_truncate(tern_session *session, uint32_t n);
TERN_WEB tern_status tern_web_session_embed(tern_session *session, const int32_t *ids, uint32_t n, int pooling,
                                            int normalize, float *out);
TERN_WEB tern_status tern_web_session_set_loras(tern_session *session, const tern_lora *const *loras,
                                                const float *scales, uint32_t n);

/* Options: contextLength, batch, steps, kv (tern_kv_type), keepHidden and maxOutputs (for embeddings). */
tern_status tern_web_session_open(tern_session **session, tern_engine *engine, const char *options)
{
    tern_error *err = tern_web__error();
    tern_session_params params = {.size = sizeof params};
    uint32_t kv = TERN_KV_AUTO;
    const tern_web_option known[] = {{"contextLength", TERN_WEB_U32, &params.n_ctx},
                                     {"batch", TERN_WEB_U32, &params.n_batch},
                                     {"steps", TERN_WEB_U32, &params.steps},
                                     {"keepHidden", TERN_WEB_BOOL, &params.keep_hidden},
                                     {"maxOutputs", TERN_WEB_U32, &params.max_outputs},
                                     {"kv", TERN_WEB_U32, &kv}};
    json_t *root;
    *session = NULL;
    TERN_TRY(tern_web__read_options(options, known, sizeof known / sizeof *known, &root, err));
    params.kv = (tern_kv_types){(tern_kv_type)kv, (tern_kv_type)kv};
    tern_status status = tern_session_open(session, engine, &params, err);
    json_decref(root);
    return status;
}

void tern_web_session_close(tern_session *session)
{
    tern_session_close(session);
}

uint32_t tern_web_session_n_ctx(const tern_session *session)
{
    return tern_session_n_ctx(session);
}

uint32_t tern_web_session_n_tokens(const tern_session *session)
{
    return tern_session_n_tokens(session);
}

void tern_web_session_truncate(tern_session *session, uint32_t n)
{
    tern_session_truncate(session, n);
}

/* One vector for a text of n ids, [n_embd] f32 into out; or PENDING: again when the device is done. pooling:
 * tern_pooling. */
tern_status tern_web_session_embed(tern_session *session, const int32_t *ids, uint32_t n, int pooling, int normalize,
                                   float *out)
{
    return tern_session_embed(session, ids, n, (tern_pooling)pooling, normalize != 0, out, tern_web__error());
}

/* loras[n] with scales[n], and no others. Values that were read with the earlier ones are dropped. */
tern_status tern_web_session_set_loras(tern_session *session, const tern_lora *const *loras, const float *scales,
                                       uint32_t n)
{
    enum { MAX_LORAS = 64 };
    tern_error *err = tern_web__error();
    tern_lora_use uses[MAX_LORAS];
    if (n > MAX_LORAS) return tern_fail(err, TERN_INVALID_ARGUMENT, "%u adapters: at most %d expected", n, MAX_LORAS);
    for (uint32_t i = 0; i < n; i++) uses[i] = (tern_lora_use){loras[i], scales[i]};
    TERN_TRY(tern_session_set_loras(session, uses, n, err));
    tern_session_truncate(session, 0);
    return TERN_OK;
}

TERN_WEB tern_status tern_web_lora_load(tern_lora **lora, tern_engine *engine, const tern_lora_file *files, uint32_t n);
TERN_WEB tern_status tern_web_lora_describe(const tern_lora *lora);
TERN_WEB void tern_web_lora_close(tern_lora *lora);

/* files[n]: addresses of a name that ends with a zero byte and of the bytes, and how many; they may go afterwards. */
tern_status tern_web_lora_load(tern_lora **lora, tern_engine *engine, const tern_lora_file *files, uint32_t n)
{
    return tern_lora_load_memory(lora, engine, files, n, tern_web__error());
}

/* {rank, alpha, layers, parameters, bytes}. */
tern_status tern_web_lora_describe(const tern_lora *lora)
{
    tern_error *err = tern_web__error();
    tern_lora_info info;
    TERN_TRY(tern_lora_describe(lora, &info, err));
    return tern_web__answer(json_pack("{s:I, s:f, s:I, s:I, s:I}", "rank", (json_int_t)info.rank, "alpha",
                                      (double)info.alpha, "layers", (json_int_t)info.n_layers, "parameters",
                                      (json_int_t)info.parameters, "bytes", (json_int_t)info.bytes),
                            err);
}

/* No session may use it any more. */
void tern_web_lora_close(tern_lora *lora)
{
    tern_lora_close(lora);
}
