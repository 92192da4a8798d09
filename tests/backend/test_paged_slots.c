/* Which expert makes way for another: in use and pinned ones never, and no layer loses its share to others. */
#include "support/test.h"

#include "backend/paged/predict.h"
#include "backend/paged/slots.h"
#include "base/rng.h"

enum { LAYERS = 5, EXPERTS = 6, USED = 2, STEPS = 3000 };

/* What the struct says twice agrees. */
static void check_whole(const tern_slots *s)
{
    uint32_t held[LAYERS] = {0}, n = 0;
    for (uint32_t i = 0; i < s->n_slots; i++) {
        if (s->slots[i].layer == TERN_NO_SLOT) continue;
        held[s->slots[i].layer]++;
        assert_int_equal(tern_slots_find(s, s->slots[i].layer, s->slots[i].expert), i);
    }
    for (uint32_t layer = 0; layer < LAYERS; layer++) {
        assert_int_equal(s->held[layer], held[layer]);
        for (uint32_t e = 0; e < EXPERTS; e++) n += tern_slots_find(s, layer, e) != TERN_NO_SLOT;
        n -= held[layer];
    }
    assert_int_equal(n, 0);
}

/* Two experts of a layer, as a token takes them; hits are counted. */
static uint32_t use_two(tern_slots *s, uint32_t layer, const uint32_t *experts)
{
    uint32_t hits = 0, slots[USED];
    tern_slots_release(s);
    for (uint32_t j = 0; j < USED; j++) {
        slots[j] = tern_slots_find(s, layer, experts[j]);
        if (slots[j] == TERN_NO_SLOT) continue;
        tern_slots_mark(s, slots[j]);
        hits++;
    }
    for (uint32_t j = 0; j < USED; j++) {
        if (slots[j] != TERN_NO_SLOT) continue;
        slots[j] = tern_slots_take(s, layer, experts[j]);
        assert_true(slots[j] != TERN_NO_SLOT);
        tern_slots_mark(s, slots[j]);
    }
    assert_true(slots[0] != slots[1]);
    for (uint32_t j = 0; j < USED; j++) assert_int_equal(tern_slots_find(s, layer, experts[j]), slots[j]);
    check_whole(s);
    return hits;
}

/* Any number of slots, any experts. */
static void random_use(void **state)
{
    (void)state;
    tern_error err = {0};
    for (uint32_t n = USED; n <= LAYERS * EXPERTS; n++) {
        tern_slots s;
        tern_rng rng = {n};
        uint32_t hits = 0, asked = 0;
        assert_ok(tern_slots_init(&s, n, LAYERS, EXPERTS, USED, &err), err);
        for (uint32_t i = 0; i < STEPS; i++, asked += USED) {
            const uint32_t a = tern_rng_below(&rng, EXPERTS);
            const uint32_t experts[USED] = {a, (a + 1 + tern_rng_below(&rng, EXPERTS - 1)) % EXPERTS};
            hits += use_two(&s, i % LAYERS, experts);
        }
        /* Experts that are as likely as each other: what stays is as good as any, so hits go with the room. */
        const double share = (double)hits / asked, room = (double)(n - USED) / (LAYERS * EXPERTS);
        if (!(share > room - 0.05))
            fail_msg("%u slots: %g of what was asked for was there, %g expected", n, share, room);
        tern_slots_deinit(&s);
    }
}

/* The same experts again and again: a plain order of use would find none of them with one slot too few. */
static void cycles(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_slots s;
    const uint32_t experts[USED] = {1, 4};
    assert_ok(tern_slots_init(&s, LAYERS * USED - 1, LAYERS, EXPERTS, USED, &err), err);
    for (uint32_t i = 0; i < 4 * LAYERS; i++) use_two(&s, i % LAYERS, experts);
    uint32_t hits = 0;
    for (uint32_t i = 0; i < LAYERS; i++) hits += use_two(&s, i, experts);
    assert_true(hits >= LAYERS * USED - 1 - USED);
    tern_slots_deinit(&s);
}

static void pins(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_slots s;
    assert_ok(tern_slots_init(&s, 4, LAYERS, EXPERTS, USED, &err), err);
    assert_false(tern_slots_pin(&s, 0, 3, true)); /* not there */
    use_two(&s, 0, (uint32_t[]){3, 5});
    assert_true(tern_slots_pin(&s, 0, 3, true) && tern_slots_pin(&s, 0, 5, true));
    const uint32_t slot = tern_slots_find(&s, 0, 3);
    use_two(&s, 1, (uint32_t[]){0, 1});
    assert_false(tern_slots_pin(&s, 1, 0, true)); /* a token's experts would have no room */
    for (uint32_t layer = 1; layer < LAYERS; layer++) use_two(&s, layer, (uint32_t[]){layer, 0});
    assert_int_equal(tern_slots_find(&s, 0, 3), slot);
    assert_true(tern_slots_pin(&s, 0, 3, false));
    tern_slots_release(&s);
    for (uint32_t e = 0; e < 3; e++) tern_slots_mark(&s, tern_slots_take(&s, 1, 3 + e));
    assert_int_equal(tern_slots_find(&s, 0, 3), TERN_NO_SLOT);
    assert_true(tern_slots_find(&s, 0, 5) != TERN_NO_SLOT);
    assert_int_equal(tern_slots_take(&s, 2, 2), TERN_NO_SLOT); /* all are in use or pinned */
    check_whole(&s);
    tern_slots_deinit(&s);
}

/* Tokens that take (a, a + 1) and then (a + 2, a + 3): that is likely, and nothing is after what has no order. */
/* Hits of tokens of which most take one expert of each layer, which is another one later. */
static uint32_t hits_of(uint32_t n_slots, uint32_t percent, bool noted)
{
    tern_error err = {0};
    tern_slots s;
    tern_rng rng = {n_slots};
    uint32_t hits = 0;
    assert_ok(tern_slots_init(&s, n_slots, LAYERS, EXPERTS, USED, &err), err);
    for (uint32_t i = 0; i < STEPS; i++) {
        const uint32_t layer = i % LAYERS, usual = (layer + i / 1000) % EXPERTS;
        uint32_t experts[USED] = {(uint32_t)(tern_rng_u64(&rng) >> 33) % EXPERTS};
        if ((uint32_t)(tern_rng_u64(&rng) >> 33) % 100 < percent) experts[0] = usual;
        experts[1] = (experts[0] + 1 + (uint32_t)(tern_rng_u64(&rng) >> 33) % (EXPERTS - 1)) % EXPERTS;
        hits += use_two(&s, layer, experts);
        if (noted) tern_slots_note(&s, layer, experts, USED);
    }
    tern_slots_deinit(&s);
    return hits;
}

/* What most tokens take stays, wherever layers have shares; next to nothing changes where no expert is
 * usual, nothing where there is no share.
 */
static void usual_ones(void **state)
{
    (void)state;
    uint32_t with = 0, without = 0;
    for (uint32_t n = USED; n < LAYERS * EXPERTS; n++) {
        const uint32_t noted = hits_of(n, 75, true), plain = hits_of(n, 75, false);
        print_message("%u slots: %u hits, %u without pins\n", n, noted, plain);
        if (n == USED) assert_int_equal(noted, plain);
        if (n > USED && n <= 3 * LAYERS) assert_true(noted > plain);
        assert_true(noted + STEPS * USED / 100 >= plain);
        with += noted, without += plain;
        assert_true(hits_of(n, 0, true) + STEPS * USED / 100 >= hits_of(n, 0, false));
    }
    assert_true(with > without);
}

static void predictions(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_predict p;
    tern_rng rng = {7};
    uint32_t out[USED];
    assert_ok(tern_predict_init(&p, 3, EXPERTS, &err), err);
    for (uint32_t i = 0; i < 200000; i++) {
        const uint32_t a = i % EXPERTS, experts[USED] = {a, (a + 1) % EXPERTS},
                       next[USED] = {(a + 2) % EXPERTS, (a + 3) % EXPERTS}, b = tern_rng_below(&rng, EXPERTS),
                       any[USED] = {b, (b + 1 + tern_rng_below(&rng, EXPERTS - 1)) % EXPERTS};
        if (i == 0) assert_int_equal(tern_predict_likely(&p, 0, experts, USED, out), 0);
        tern_predict_note(&p, 0, experts, next, USED);
        tern_predict_note(&p, 1, next, any, USED);
        if (i < 20 * EXPERTS) continue;
        assert_int_equal(tern_predict_likely(&p, 0, experts, USED, out), USED);
        assert_true((out[0] == next[0] && out[1] == next[1]) || (out[0] == next[1] && out[1] == next[0]));
        if (i > 1000) assert_int_equal(tern_predict_likely(&p, 1, next, USED, out), 0);
    }
    tern_predict_deinit(&p);
    assert_ok(tern_predict_init(&p, 1024, 1024, &err), err); /* too many to count */
    tern_predict_note(&p, 0, out, out, USED);
    assert_int_equal(tern_predict_likely(&p, 0, out, USED, out), 0);
    tern_predict_deinit(&p);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(random_use), cmocka_unit_test(cycles),      cmocka_unit_test(pins),
    cmocka_unit_test(usual_ones), cmocka_unit_test(predictions),
};

TEST_GROUP(paged_slots, "", tests);
