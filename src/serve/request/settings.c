/* Options of a model or a request by Ollama's names. */
#include "format/json.h"
#include "serve/request/request.h"

#define AT(member) offsetof(tern_api_request, member)

/* Tokens to generate; up to 0: until the context is full. */
static tern_status read_predict(void *into, const json_t *value, tern_error *err)
{
    tern_api_request *request = into;
    int64_t n;
    if (!tern_json_int(value, &n) || n > 1 << 24)
        return tern_fields_fail("num_predict", value, "a whole number of at most 16777216", err);
    request->max_tokens = n < 0 ? 0 : (uint32_t)n;
    return TERN_OK;
}

const tern_field tern_api_options[] = {
    {"num_predict", TERN_FIELD_READ, .read = read_predict},
    {"temperature", TERN_FIELD_F32, AT(sampler.temperature), 0, 100},
    {"top_k", TERN_FIELD_READ, .read = tern_api_request_read_top_k},
    {"top_p", TERN_FIELD_F32, AT(sampler.top_p), 0, 1},
    {"min_p", TERN_FIELD_F32, AT(sampler.min_p), 0, 1},
    {"typical_p", TERN_FIELD_F32, AT(sampler.typical_p), 0, 1},
    {"repeat_penalty", TERN_FIELD_F32, AT(sampler.repetition_penalty), 0.01, 100},
    {"repeat_last_n", TERN_FIELD_READ, .read = tern_api_request_read_last_n},
    {"presence_penalty", TERN_FIELD_F32, AT(sampler.presence_penalty), -100, 100},
    {"frequency_penalty", TERN_FIELD_F32, AT(sampler.frequency_penalty), -100, 100},
    {"seed", TERN_FIELD_READ, .read = tern_api_request_read_seed},
    {"stop", TERN_FIELD_READ, .read = tern_api_request_read_stop},
    {"ignore_eos", TERN_FIELD_BOOL, AT(ignore_eos)}, /* Tern's */
    {"num_ctx", TERN_FIELD_U32, AT(n_ctx), 1, 1 << 30},
    {"num_keep", TERN_FIELD_IGNORED},
    {"num_batch", TERN_FIELD_IGNORED}, /* how it runs is the server's: --batch and others */
    {"num_gpu", TERN_FIELD_IGNORED},
    {"main_gpu", TERN_FIELD_IGNORED},
    {"num_thread", TERN_FIELD_IGNORED},
    {"use_mmap", TERN_FIELD_IGNORED},
    {"use_mlock", TERN_FIELD_IGNORED},
    {"low_vram", TERN_FIELD_IGNORED},
    {"numa", TERN_FIELD_IGNORED},
    {0},
};

tern_status tern_api_request_apply(tern_api_request *request, const json_t *settings, tern_error *err)
{
    if (!settings) return TERN_OK;
    return tern_fields_read((const tern_field *const[]){tern_api_options, tern_api_mirostat, NULL}, settings, request,
                            err);
}
