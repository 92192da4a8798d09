/* Engines and adapters for the tests of adapters. */
#include "infer/lora_cases.h"

int32_t lora_ids[N_IDS];

int lora_setup(void **state)
{
    (void)state;
    for (int32_t i = 0; i < N_IDS; i++) lora_ids[i] = (i * 37 + 5) % 250;
    return 0;
}

void lora_set(tern_session *s, const tern_lora_use *uses, uint32_t n)
{
    tern_error err = {0};
    assert_ok(tern_session_set_loras(s, uses, n, &err), err);
}

size_t lora_vocabulary(const tern_session *s)
{
    return tern_engine_config(tern_session_engine(s))->n_vocab;
}

float *lora_logits_of(tern_session *s)
{
    tern_error err = {0};
    size_t bytes = N_IDS * lora_vocabulary(s) * sizeof(float);
    tern_session_truncate(s, 0);
    assert_ok(tern_session_append_all(s, lora_ids, N_IDS, &err), err);
    float *logits = malloc(bytes);
    memcpy(logits, test_logits(s, 0), bytes);
    return logits;
}

float *lora_logits_with(tern_session *s, const tern_lora_use *uses, uint32_t n)
{
    lora_set(s, uses, n);
    return lora_logits_of(s);
}

double lora_distance(const float *got, const float *want, const tern_session *s)
{
    return test_rms_error(got, want, N_IDS * lora_vocabulary(s));
}
