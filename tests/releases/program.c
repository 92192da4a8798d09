/* A program as it was written for an earlier release: compiled against its header (tests/releases), run with this
 * library. It uses what every release since 0.1.0 has. Usage: program MODEL.gguf OUT.gguf */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tern.h>

static tern_error err;
static uint32_t n_pieces, n_ends;
static size_t n_text;

/* A struct with members that later releases may have, none of them set, and bytes of the program's own after it. */
#define TRAPPED(type, name)                                                                                            \
    struct {                                                                                                           \
        type it;                                                                                                       \
        unsigned char trap[64];                                                                                        \
    } name;                                                                                                            \
    memset(&name, 0, sizeof name);                                                                                     \
    name.it.size = sizeof name.it;                                                                                     \
    memset(name.trap, 0x5a, sizeof name.trap)

static void check(bool holds, const char *what)
{
    if (holds) return;
    fprintf(stderr, "%s: %s\n", what, err.message[0] ? err.message : "not as it was");
    exit(1);
}

#define CALL(call)  check((call) == TERN_OK, #call)
#define WHOLE(name) check(name.trap[0] == 0x5a && !memcmp(name.trap, name.trap + 1, sizeof name.trap - 1), #name)

static bool on_piece(void *context, const tern_piece *piece)
{
    (void)context;
    n_text += piece->n_text;
    return true;
}

static bool on_request_piece(void *context, const tern_request_piece *piece)
{
    (void)context;
    n_pieces += piece->id >= 0;
    return true;
}

static void on_end(void *context, const tern_request_result *result)
{
    (void)context;
    check(!result->error && result->reason == TERN_STOP_LENGTH, "the request's end");
    n_ends++;
}

static void generate(tern_session *session, const int32_t *ids)
{
    TRAPPED(tern_generate_params, params);
    TRAPPED(tern_generate_result, result);
    const tern_sampler_params defaults = TERN_SAMPLER_DEFAULTS;
    params.it.sampler = defaults;
    params.it.sampler.seed = 1;
    params.it.max_tokens = 8;
    params.it.ignore_eos = true;
    params.it.on_piece = on_piece;
    CALL(tern_generate(session, ids, 4, &params.it, &result.it, &err));
    check(result.it.n_generated == 8 && result.it.n_prompt == 4 && n_text > 0, "the generation");
    check(result.it.reason == TERN_STOP_LENGTH, "the reason");
    WHOLE(result);
}

static void score(tern_session *session, const int32_t *ids)
{
    TRAPPED(tern_perplexity_params, params);
    TRAPPED(tern_perplexity_result, result);
    params.it.window = 4;
    CALL(tern_perplexity(session, ids, 4, &params.it, &result.it, &err));
    check(result.it.n_scored == 3 && result.it.ppl > 1, "the score");
    WHOLE(result);
}

static void batch(tern_engine *engine, const int32_t *ids)
{
    TRAPPED(tern_batch_params, params);
    TRAPPED(tern_request_params, asked);
    TRAPPED(tern_batch_counters, counters);
    const tern_sampler_params defaults = TERN_SAMPLER_DEFAULTS;
    tern_batch *b;
    tern_request *request;
    params.it.n_ctx = 32;
    params.it.n_parallel = 1;
    asked.it.prompt = ids;
    asked.it.n_prompt = 4;
    asked.it.sampler = defaults;
    asked.it.max_tokens = 6;
    asked.it.ignore_eos = true;
    asked.it.on_piece = on_request_piece;
    asked.it.on_end = on_end;
    CALL(tern_batch_open(&b, engine, &params.it, &err));
    CALL(tern_batch_submit(b, &asked.it, &request, &err));
    for (bool busy = true; busy;) CALL(tern_batch_step(b, &busy, &err));
    CALL(tern_batch_count(b, &counters.it, &err));
    check(n_pieces == 6 && n_ends == 1 && counters.it.generated_tokens == 6, "the batch");
    WHOLE(counters);
    tern_request_free(request);
    tern_batch_close(b);
}

static void convert(const char *from, const char *to)
{
    TRAPPED(tern_convert_options, options);
    TRAPPED(tern_convert_result, result);
    options.it.overwrite = true;
    CALL(tern_convert(from, to, &options.it, &result.it, &err));
    check(result.it.parameters > 1000, "the conversion");
    WHOLE(result);
}

static void plan_training(const char *model)
{
    TRAPPED(tern_finetune_options, options);
    TRAPPED(tern_finetune_result, result);
    CALL(tern_finetune_defaults(&options.it, &err));
    check(options.it.epochs > 0 && options.it.warmup < 0, "the defaults");
    WHOLE(options);
    options.it.model = model;
    options.it.dry_run = true;
    options.it.lora_rank = 4;
    options.it.batch = 1;
    options.it.seq = 8;
    options.it.cpu.n_threads = 1;
    options.it.optimizer = TERN_FINETUNE_OPTIMIZER_SGD;
    CALL(tern_finetune(&options.it, &result.it, &err));
    check(result.it.planned_bytes > 1000, "the plan");
    WHOLE(result);
}

int main(int argc, char **argv)
{
    TRAPPED(tern_engine_options, options);
    TRAPPED(tern_session_params, params);
    TRAPPED(tern_engine_info, info);
    TRAPPED(tern_engine_counters, counters);
    const int32_t ids[] = {1, 40, 7, 99};
    tern_engine *engine;
    tern_session *session;
    if (argc != 3) return 2;
    params.it.n_ctx = 32;
    params.it.kv.k = params.it.kv.v = TERN_KV_F32;
    options.it.backend = TERN_BACKEND_CPU;
    options.it.cpu.n_threads = 1;
    options.it.memory.session = &params.it;
    options.it.activations = TERN_ACTIVATIONS_INT8;
    CALL(tern_engine_load(&engine, argv[1], &options.it, &err));
    CALL(tern_session_open(&session, engine, &params.it, &err));
    check(tern_session_n_ctx(session) == 32, "the context");
    generate(session, ids);
    score(session, ids);
    batch(engine, ids);
    CALL(tern_engine_describe(engine, &info.it, &err));
    check(info.it.n_vocab > 99 && !strcmp(info.it.backend, "cpu") && info.it.max_steps == 1, "the description");
    WHOLE(info);
    CALL(tern_engine_count(engine, &counters.it, &err));
    check(counters.it.runs > 0 && counters.it.weight_bytes > 0, "the counters");
    WHOLE(counters);
#ifdef TERN_TEST_LATER
    options.it.later[3] = 1; /* a member of a later release, which this library does not know */
    check(tern_engine_load(&engine, argv[1], &options.it, &err) == TERN_INVALID_ARGUMENT, "a later member");
    check(strstr(err.message, "a member is set that this library does not know") != NULL, "its error");
#endif
    tern_session_close(session);
    convert(argv[1], argv[2]);
    plan_training(argv[1]);
    return 0;
}
