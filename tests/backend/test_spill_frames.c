/* Whose page makes way for another: never one that is kept, and, of layers that run in turn, no more often than
 * whoever knows all that is to come would have it. */
#include "support/test.h"

#include "backend/spill/frames.h"
#include "base/rng.h"

enum { LAYERS = 6, PAGES = 9, TURNS = 40 };

/* What is said twice agrees. */
static void check_whole(const tern_frames *f, const tern_spill_layer *layers)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < LAYERS; i++) {
        uint32_t there = 0, fresh = 0;
        for (uint32_t p = 0; p < layers[i].n_pages; p++) {
            const uint32_t frame = layers[i].frame_of[p];
            if (frame == TERN_NO_FRAME) continue;
            assert_true(f->frames[frame].layer == &layers[i] && f->frames[frame].page == p);
            there++;
            fresh += layers[i].needed[p] == layers[i].turn;
        }
        assert_int_equal(there, layers[i].n_there);
        assert_int_equal(fresh, layers[i].n_fresh);
        n += there;
    }
    assert_int_equal(n + f->n_free, f->n);
}

/* A layer's turn with these pages; returns how many had to come. */
static uint32_t use(tern_frames *f, tern_spill_layer *layer, uint32_t at, const bool *pages)
{
    uint32_t n = 0;
    tern_frames_turn(layer);
    for (uint32_t p = 0; p < layer->n_pages; p++)
        if (pages[p]) assert_false(tern_frames_need(layer, p));
    tern_frames_keep(f, at, 1);
    for (uint32_t p = 0; p < layer->n_pages; p++) {
        if (!pages[p] || layer->frame_of[p] != TERN_NO_FRAME) continue;
        const uint32_t frame = tern_frames_victim(f);
        assert_true(frame != TERN_NO_FRAME);
        tern_frames_give(f, frame, layer, p);
        n++;
    }
    for (uint32_t p = 0; p < layer->n_pages; p++)
        if (pages[p]) assert_true(layer->frame_of[p] != TERN_NO_FRAME);
    return n;
}

static void open_all(tern_frames *f, uint32_t n, tern_spill_layer *layers, tern_spill_layer **order)
{
    tern_error err = {0};
    assert_ok(tern_frames_init(f, n, &err), err);
    for (uint32_t i = 0; i < LAYERS; i++) {
        assert_ok(tern_frames_add(f, &layers[i], PAGES, &err), err);
        order[i] = &layers[i];
    }
}

static void close_all(tern_frames *f, tern_spill_layer *layers)
{
    for (uint32_t i = 0; i < LAYERS; i++) tern_frames_remove(f, &layers[i]);
    assert_int_equal(f->n_free, f->n);
    tern_frames_deinit(f);
}

/* The fewest pages that must come, were all that follows known: what is needed latest makes way (Belady). */
static uint32_t fewest(uint32_t n_frames)
{
    bool there[LAYERS][PAGES] = {{0}};
    uint32_t n = 0, n_there = 0;
    for (uint32_t t = 0; t < TURNS * LAYERS * PAGES; t++) {
        const uint32_t layer = t / PAGES % LAYERS, page = t % PAGES;
        if (there[layer][page]) continue;
        n++;
        for (uint32_t back = 1; n_there == n_frames; back++) { /* the page before was used last, so it is needed last */
            const uint32_t at = (layer * PAGES + page + LAYERS * PAGES - back) % (LAYERS * PAGES);
            bool *victim = &there[at / PAGES][at % PAGES];
            if (at / PAGES == layer || !*victim) continue; /* a layer needs its pages together */
            *victim = false;
            n_there--;
        }
        there[layer][page] = true;
        n_there++;
    }
    return n;
}

static void in_turns(void **state)
{
    (void)state;
    bool all[PAGES];
    memset(all, true, sizeof all);
    for (uint32_t n = PAGES; n <= LAYERS * PAGES; n++) {
        tern_frames f;
        tern_spill_layer layers[LAYERS], *order[LAYERS];
        uint32_t came = 0;
        open_all(&f, n, layers, order);
        for (uint32_t t = 0; t < TURNS; t++) {
            tern_frames_begin(&f, order, LAYERS);
            for (uint32_t i = 0; i < LAYERS; i++) came += use(&f, order[i], i, all);
            check_whole(&f, layers);
        }
        const uint32_t least = fewest(n);
        print_message("%u frames: %u pages came, %u at least\n", n, came, least);
        assert_int_equal(came, least);
        if (n == LAYERS * PAGES) assert_int_equal(came, LAYERS * PAGES);
        close_all(&f, layers);
    }
}

/* Any pages, layers of which some are not in a step, pages written, dropped and brought ahead. */
static void any_use(void **state)
{
    (void)state;
    for (uint32_t n = PAGES; n <= LAYERS * PAGES; n += 5) {
        tern_frames f;
        tern_spill_layer layers[LAYERS], *order[LAYERS];
        tern_rng rng = {n};
        open_all(&f, n, layers, order);
        for (uint32_t t = 0; t < TURNS; t++) {
            const uint32_t n_order = 1 + tern_rng_below(&rng, LAYERS);
            tern_frames_begin(&f, order, n_order);
            for (uint32_t i = 0; i < n_order; i++) {
                bool pages[PAGES];
                for (uint32_t p = 0; p < PAGES; p++) pages[p] = tern_rng_below(&rng, 3) > 0;
                use(&f, order[i], i, pages);
                for (uint32_t p = 0; p < PAGES; p++)
                    if (pages[p]) f.frames[order[i]->frame_of[p]].dirty = tern_rng_below(&rng, 4) == 0;
                tern_frames_drop(&f, order[i], tern_rng_below(&rng, PAGES));
                check_whole(&f, layers);
            }
        }
        close_all(&f, layers);
    }
}

/* What two layers need stays while the second one's comes: those of the step that are behind make way, else nothing. */
static void kept(void **state)
{
    (void)state;
    tern_frames f;
    tern_spill_layer layers[LAYERS], *order[LAYERS];
    bool all[PAGES];
    memset(all, true, sizeof all);
    open_all(&f, 2 * PAGES, layers, order);
    tern_frames_begin(&f, order, LAYERS);
    use(&f, order[0], 0, all);
    use(&f, order[1], 1, all);
    tern_frames_turn(order[2]);
    for (uint32_t p = 0; p < PAGES; p++) assert_false(tern_frames_need(order[2], p));
    assert_true(tern_frames_need(order[2], 0));
    tern_frames_keep(&f, 1, 2);
    for (uint32_t p = 0; p < PAGES; p++) {
        const uint32_t frame = tern_frames_victim(&f);
        assert_true(frame != TERN_NO_FRAME && f.frames[frame].layer == order[0]);
        tern_frames_give(&f, frame, order[2], p);
    }
    assert_int_equal(tern_frames_victim(&f), TERN_NO_FRAME);
    assert_int_equal(layers[1].n_there, PAGES);
    assert_int_equal(f.evictions, PAGES);
    close_all(&f, layers);
}

static const struct CMUnitTest tests[] = {cmocka_unit_test(in_turns), cmocka_unit_test(any_use),
                                          cmocka_unit_test(kept)};

TEST_GROUP(spill_frames, "", tests);
