/* DRY at its edges: texts that break repetitions, and long ones. */
#include "infer/sampler_cases.h"

#include "text/tokenizer/tokenizer.h"

/* Text in place of tokens: a letter each. */
static tern_tokenizer *letters(void)
{
    static const char json[] =
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"c\":2,\":\":3,\"<\":4,\"|\":5,"
        "\"|>\":6,\"x\":7},\"merges\":[]}}";
    tern_error err = {0};
    tern_tokenizer *t;
    assert_ok(tern_tokenizer_parse_json(&t, json, strlen(json), &err), err);
    return t;
}

/* Which tokens lose how much after a text, by hand. */
static void breakers(void **state)
{
    (void)state;
    static const char *const end[] = {"<|>"}, *const none[] = {"zz"};
    static const struct {
        const char *const *breakers;
        int32_t history[12];
        uint32_t n;
        float lost[8];
    } cases[] = {
        {NULL, {0, 1, 2, 7, 0, 1}, 6, {[2] = 1}},                /* abcxab: c after ab */
        {NULL, {0, 1, 2, 0, 1, 2, 0, 1}, 8, {[2] = 8}},          /* abcabcab: 5 tokens, 1 * 2^3 */
        {NULL, {0, 1, 2, 3, 0, 1, 2, 3, 0, 1}, 10, {[2] = 1}},   /* ":" breaks abc:abc:ab */
        {NULL, {0, 1, 3, 7, 0, 1}, 6, {0}},                      /* ":" itself loses nothing */
        {none, {0, 1, 2, 3, 0, 1, 2, 3, 0, 1}, 10, {[2] = 16}},  /* no breaker there: 6 tokens */
        {end, {7, 4, 6, 0, 1, 2, 7, 4, 6, 0, 1}, 11, {[2] = 1}}, /* x<|>abcx<|>ab: across two tokens */
        {end, {7, 5, 6, 0, 1, 2, 7, 5, 6, 0, 1}, 11, {[2] = 8}}, /* x||>...: none */
    };
    tern_tokenizer *t = letters();
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const tern_sampler_chain chain = {.size = sizeof chain,
                                          .dry_multiplier = 1,
                                          .dry_base = 2,
                                          .dry_breakers = cases[i].breakers,
                                          .n_dry_breakers = cases[i].breakers ? 1 : 0};
        tern_sampler_params params = {
            .temperature = 0, .top_p = 1, .typical_p = 1, .repetition_penalty = 1, .chain = &chain};
        tern_error err = {0};
        tern_sampler *s;
        const tern_sampler_model model = {8, 64, t};
        assert_ok(tern_sampler_open(&s, &model, &params, &err), err);
        for (int32_t id = 0; id < 8; id++) { /* what lies between wins, or loses */
            for (int above = 0; above < 2; above++) {
                float logits[8];
                for (int k = 0; k < 8; k++) logits[k] = -100;
                logits[id] = cases[i].lost[id] + (above ? 0.25f : -0.25f);
                logits[(id + 5) % 8] = cases[i].lost[(id + 5) % 8];
                const int32_t got = tern_sampler_next(s, logits, cases[i].history, cases[i].n);
                if (got != (above ? id : (id + 5) % 8)) fail_msg("case %zu, id %d: %d", i, id, got);
            }
        }
        tern_sampler_close(s);
    }
    tern_tokenizer_close(t);
}

/* A text of one token again and again has n^2 pairs of places: linear time, and a penalty that stays finite. */
static void long_repetition(void **state)
{
    (void)state;
    enum { LONG = 200000 };
    int32_t *h = calloc(LONG, sizeof *h);
    float logits[4] = {50, 1, 0, 0};
    const tern_sampler_chain chain = {.size = sizeof chain, .dry_multiplier = 0.8f};
    const tern_sampler_params params = {
        .temperature = 0, .top_p = 1, .typical_p = 1, .repetition_penalty = 1, .chain = &chain};
    tern_error err = {0};
    tern_sampler *s;
    assert_ok(tern_sampler_open(&s, &(tern_sampler_model){4, LONG, NULL}, &params, &err), err);
    assert_int_equal(tern_sampler_next(s, logits, h, LONG), 1);
    tern_sampler_close(s);
    free(h);
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(breakers), cmocka_unit_test(long_repetition)};

TEST_GROUP(sampler_dry, "web", tests);
