/* What the tests of generation share. */
#include "infer/generate_cases.h"

int generate_setup(void **state)
{
    fixture *f = calloc(1, sizeof *f);
    f->engine = open_trained(1);
    f->session = open_session(
        f->engine, TERN_SIZED(tern_session_params, .n_ctx = 512, .kv = {TERN_KV_F32, TERN_KV_F32}, .max_outputs = 9));
    *state = f;
    return 0;
}

int generate_teardown(void **state)
{
    fixture *f = *state;
    tern_session_close(f->session);
    tern_engine_close(f->engine);
    free(f);
    return 0;
}

const char generate_story[] = "Once upon a time";

void generate_plain_text(fixture *f, seen *s, uint32_t n)
{
    *s = (seen){0};
    tern_generate_params params = greedy_params(s, n);
    generate(f->session, generate_story, &params);
}
