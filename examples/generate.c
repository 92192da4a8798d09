/* Loads a model and lets it write on. Usage: generate MODEL [PROMPT] */
#include <stdio.h>
#include <string.h>

#include <tern.h>

static bool print(void *context, const tern_piece *piece)
{
    (void)context;
    fwrite(piece->text, 1, piece->n_text, stdout);
    return fflush(stdout) == 0; /* false stops */
}

int main(int argc, char **argv)
{
    const char *prompt = argc > 2 ? argv[2] : "Once upon a time";
    tern_engine *engine = NULL;
    tern_session *session = NULL;
    tern_tokens tokens = {0};
    tern_generate_params params = {
        .size = sizeof params, .sampler = TERN_SAMPLER_DEFAULTS, .max_tokens = 100, .on_piece = print};
    tern_generate_result result = {.size = sizeof result};
    tern_error err = {0};

    tern_status status = argc < 2 ? TERN_INVALID_ARGUMENT : tern_engine_load(&engine, argv[1], NULL, &err);
    if (!status) status = tern_session_open(&session, engine, NULL, &err);
    if (!status) status = tern_engine_tokenize(engine, prompt, strlen(prompt), TERN_TOKENIZE_BOS, &tokens, &err);
    if (!status) printf("%s", prompt);
    if (!status) status = tern_generate(session, tokens.ids, (uint32_t)tokens.n, &params, &result, &err);
    if (!status) printf("\n");
    else fprintf(stderr, "generate: %s\n", argc < 2 ? "usage: generate MODEL [PROMPT]" : err.message);

    tern_tokens_deinit(&tokens);
    tern_session_close(session);
    tern_engine_close(engine);
    return status != TERN_OK;
}
