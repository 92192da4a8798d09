/* Trainers on the CPU: any number of threads, small buffers, little memory or none, wrong parameters. */
#include <math.h>

#include "backend/cpu/cpu.h"
#include "base/alloc.h"
#include "support/places.h"
#include "train/trainer/internal.h"
#include "train/trainers.h"

static tern_error err;

static void any_number_of_threads(void **state)
{
    (void)state;
    static const uint32_t counts[] = {2, 3, 8};
    micro m = open_micro(64);
    for (size_t i = 0; i < N_WAYS; i++) {
        tern_backend *one, *many;
        double x[8], y[8];
        tern_trainer_params p = way_params(&ways[i]);
        assert_ok(tern_cpu_open(&one, &(tern_cpu_options){.n_threads = 1}, &err), err);
        tern_trainer *a = test_trainer(one, m.model, &p);
        steps(a, 0, 8, x);
        for (size_t k = 0; k < 3; k++) {
            assert_ok(tern_cpu_open(&many, &(tern_cpu_options){.n_threads = counts[k]}, &err), err);
            tern_trainer *b = test_trainer(many, m.model, &p);
            steps(b, 0, 8, y);
            assert_memory_equal(x, y, sizeof x);
            assert_same(a, b);
            tern_trainer_close(b);
            many->close(many);
        }
        tern_trainer_close(a);
        one->close(one);
    }
    close_micro(&m);
}

/* A device that makes only small buffers has the activations in several: the same losses. */
static void small_buffers(void **state)
{
    (void)state;
    micro m = open_micro(64);
    tern_trainer_params p = small_params();
    tern_backend *whole, *small;
    double x[8], y[8];
    assert_ok(tern_cpu_open(&whole, &(tern_cpu_options){.n_threads = 1}, &err), err);
    assert_ok(tern_cpu_open(&small, &(tern_cpu_options){.n_threads = 1}, &err), err);
    tern_trainer *a = test_trainer(whole, m.model, &p);
    uint64_t most = 0;
    const tern_graph *g = &a->graphs.all[TERN_TRAINER_STEP].graph;
    for (size_t i = 0; i < g->n_values; i++)
        if (g->values[i].kind == TERN_VALUE_ACTIVATION && g->values[i].bytes > most) most = g->values[i].bytes;
    small->info.max_buffer = most + 300;
    tern_trainer *b = test_trainer(small, m.model, &p);
    assert_non_null(b->graphs.activations.buffers[2]);
    steps(a, 0, 8, x);
    steps(b, 0, 8, y);
    assert_memory_equal(x, y, sizeof x);
    assert_same(a, b);
    tern_trainer_close(b);
    small->info.max_buffer = most - 300;
    assert_int_equal(tern_trainer_open(&b, small, m.model, &p, &err), TERN_LIMIT);
    assert_non_null(strstr(err.message, "in one piece"));
    tern_trainer_close(a);
    whole->close(whole);
    small->close(small);
    close_micro(&m);
}

static void memory_limit(void **state)
{
    (void)state;
    micro m = open_micro(64);
    tern_trainer_params p = small_params();
    tern_trainer_plan plan;
    test_counting counting;
    tern_trainer *trainer = NULL;
    test_counting_open(&counting, test_backend_here());
    assert_ok(tern_trainer_make_plan(&plan, &counting.base, m.model, &p, &err), err);
    p.memory_limit = plan.total;
    trainer = test_trainer(&counting.base, m.model, &p);
    tern_trainer_close(trainer);
    counting.buffer_bytes = 0;
    p.memory_limit = plan.total - 1;
    assert_int_equal(tern_trainer_open(&trainer, &counting.base, m.model, &p, &err), TERN_OUT_OF_MEMORY);
    assert_null(trainer);
    assert_int_equal(counting.buffer_bytes, 0);
    assert_non_null(strstr(err.message, "--checkpoint"));
    p.memory_limit = 1;
    assert_int_equal(tern_trainer_open(&trainer, &counting.base, m.model, &p, &err), TERN_OUT_OF_MEMORY);
    assert_non_null(strstr(err.message, "even"));
    close_micro(&m);
}

/* The patterns of --freeze, which stay until the next call. */
static void take_patterns(tern_trainer_params *p, const char *words)
{
    static char texts[8][64];
    static const char *patterns[8];
    p->freeze = patterns;
    p->n_freeze = 0;
    for (const char *at = strstr(words, "--freeze '"); at; at = strstr(at + 1, "--freeze '")) {
        assert_int_equal(sscanf(at, "--freeze '%63[^']'", texts[p->n_freeze]), 1);
        patterns[p->n_freeze] = texts[p->n_freeze];
        p->n_freeze++;
    }
}

/* The options of a suggestion, as the command reads them. */
static void take_words(tern_trainer_params *p, const char *words)
{
    const char *rows = strstr(words, "--batch 1 --accumulate ");
    if (strstr(words, "--checkpoint")) p->checkpoint = true;
    if (strstr(words, "--optimizer-in-backward")) p->optimizer_in_backward = true;
    if (strstr(words, "--states 8bit")) p->m = TERN_DTYPE_M8, p->v = TERN_DTYPE_V8;
    if (strstr(words, "--master bf16")) p->master = TERN_DTYPE_BF16;
    if (strstr(words, "--lora 16")) p->lora.rank = 16, p->lora.alpha = 32;
    if (strstr(words, "--optimizer sgd --momentum 0")) p->optimizer = TERN_OPTIMIZER_SGD, p->momentum = 0;
    if (strstr(words, "--freeze")) take_patterns(p, words);
    if (rows) p->batch = 1, p->accumulate = (uint32_t)atoi(rows + strlen("--batch 1 --accumulate "));
}

/* Whatever the limit, what is suggested fits, and what says that nothing fits takes the least. */
static void suggestions(void **state)
{
    (void)state;
    enum { PARTS = 40 };
    static const char *const all[] = {"--checkpoint",  "--batch 1", "--optimizer-in-backward", "--states 8bit",
                                      "--master bf16", "--lora 16", "--optimizer sgd"};
    micro m = open_micro(128);
    tern_trainer_params p = small_params();
    tern_trainer_plan whole, plan;
    unsigned seen = 0;
    p.batch = 4;
    assert_ok(tern_trainer_make_plan(&whole, test_backend_here(), m.model, &p, &err), err);
    for (uint64_t part = 0; part < PARTS; part++) {
        tern_trainer *trainer = NULL;
        p.memory_limit = whole.total * part / PARTS + 1;
        assert_int_equal(tern_trainer_open(&trainer, test_backend_here(), m.model, &p, &err), TERN_OUT_OF_MEMORY);
        char *words = strstr(err.message, "expected;");
        assert_non_null(words);
        const bool fits = !strstr(words, " even ");
        for (char *word = strtok(words, ","); word; word = strtok(NULL, ",")) {
            tern_trainer_params with = p;
            take_words(&with, word);
            assert_ok(tern_trainer_make_plan(&plan, test_backend_here(), m.model, &with, &err), err);
            assert_int_equal(plan.total <= p.memory_limit, fits);
            for (unsigned i = 0; i < sizeof all / sizeof *all; i++) seen |= strstr(word, all[i]) ? 1u << i : 0;
            if (!fits) continue;
            trainer = test_trainer(test_backend_here(), m.model, &with);
            tern_trainer_close(trainer);
        }
    }
    assert_int_equal(seen, 127);
    p.memory_limit = whole.total / 8;
    p.from_nothing = true;
    tern_trainer *trainer = NULL;
    assert_int_equal(tern_trainer_open(&trainer, test_backend_here(), m.model, &p, &err), TERN_OUT_OF_MEMORY);
    assert_null(strstr(err.message, "--lora"));
    assert_null(strstr(err.message, "--freeze"));
    close_micro(&m);
}

/* Where the other options are given already: SGD, a table and layers that stay. Each takes a step. */
static void suggestions_of_what_stays(void **state)
{
    (void)state;
    enum { PARTS = 48 };
    static const char *const all[] = {"--optimizer sgd --momentum 0", "--freeze 'model.embed_tokens.*'",
                                      "--freeze 'model.embed_tokens.*' --freeze 'model.layers.[0-3].*'"};
    tern_trainer_params p = small_params();
    tern_trainer_plan whole, plan;
    tern_model *model;
    unsigned seen = 0;
    p.batch = 1;
    p.checkpoint = p.optimizer_in_backward = true;
    p.m = TERN_DTYPE_M8, p.v = TERN_DTYPE_V8, p.master = TERN_DTYPE_BF16;
    assert_ok(tern_model_open(&model, TERN_SOURCE_DIR "/models/stories.gguf", NULL, &err), err);
    assert_ok(tern_trainer_make_plan(&whole, test_backend_here(), model, &p, &err), err);
    for (uint64_t part = PARTS / 4; part < PARTS; part++) {
        tern_trainer *trainer = NULL;
        double loss;
        p.memory_limit = whole.total * part / PARTS;
        assert_int_equal(tern_trainer_open(&trainer, test_backend_here(), model, &p, &err), TERN_OUT_OF_MEMORY);
        char *word = strtok(strstr(err.message, "expected;"), ",");
        if (strstr(word, " even ")) continue;
        tern_trainer_params with = p;
        take_words(&with, word);
        assert_ok(tern_trainer_make_plan(&plan, test_backend_here(), model, &with, &err), err);
        assert_true(plan.total <= p.memory_limit);
        trainer = test_trainer(test_backend_here(), model, &with);
        steps(trainer, 0, 1, &loss);
        assert_true(isfinite(loss));
        tern_trainer_close(trainer);
        for (unsigned i = 0; i < sizeof all / sizeof *all; i++) seen |= strstr(word, all[i]) ? 1u << i : 0;
    }
    assert_int_equal(seen, 7);
    tern_model_close(model);
}

/* Rows of a run: as few chunks as can be, whole ones. */
static void chunks(void **state)
{
    (void)state;
    const struct {
        uint32_t n_vocab, batch, seq, n_tokens, chunk;
        uint64_t memory;
    } cases[] = {{8, 2, 16, 32, 32},
                 {32768, 4, 128, 512, 512},
                 {32768, 5, 128, 640, 320},
                 {128256, 4, 512, 2048, 128},
                 {128256, 1, 100, 100, 100},
                 {128256, 1, 200, 256, 128},
                 {1000000, 1, 65, 128, 64},
                 {32768, 1, 513, 640, 320},
                 {128256, 4, 512, 2048, 128, 24ull << 30},
                 {128256, 4, 512, 2048, 256, 80ull << 30},
                 {128256, 4, 512, 2048, 512, 1ull << 40}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        tern_trainer_plan plan = {0};
        tern_config config = {.n_vocab = cases[i].n_vocab};
        tern_trainer_params p = {.batch = cases[i].batch, .seq = cases[i].seq};
        tern_trainer__count_rows(&plan, &config, &p, cases[i].memory);
        assert_int_equal(plan.n_tokens, cases[i].n_tokens);
        assert_int_equal(plan.chunk, cases[i].chunk);
    }
}

static void wrong_params(void **state)
{
    (void)state;
    micro m = open_micro(0);
    static const char *const targets[] = {"q_proj", "lm_head"};
    tern_trainer_params wrong[16];
    const char *words[16];
    size_t n = 0;
#define WRONG(word, change)                                                                                            \
    do {                                                                                                               \
        tern_trainer_params p = small_params();                                                                        \
        change;                                                                                                        \
        wrong[n] = p;                                                                                                  \
        words[n++] = word;                                                                                             \
    } while (0)
    WRONG("batch", p.batch = 0);
    WRONG("seq", p.seq = 0);
    WRONG("accumulate", p.accumulate = 0);
    WRONG("16777216", p.batch = (1 << 20) + 1);
    WRONG("learning rate", p.lr = NAN);
    WRONG("beta2", p.beta2 = 1);
    WRONG("clamp", p.clamp = 0.5f);
    WRONG("dropout", p.lora.dropout = 1);
    WRONG("rank", p.lora.rank = 5000);
    WRONG("alpha", (p.lora.rank = 4, p.lora.alpha = 0));
    WRONG("lm_head", (p.lora.rank = 4, p.lora.targets = targets, p.lora.n_targets = 2));
    WRONG("states", p.m = TERN_DTYPE_V8);
    WRONG("master", p.master = TERN_DTYPE_F16);
    WRONG("LoRA", (p.lora.rank = 4, p.blend_steps = 3));
#undef WRONG
    for (size_t i = 0; i < n; i++) {
        tern_trainer *trainer = NULL;
        assert_int_equal(tern_trainer_open(&trainer, test_backend_here(), m.model, &wrong[i], &err),
                         TERN_INVALID_ARGUMENT);
        if (!strstr(err.message, words[i])) fail_msg("%s: %s expected", err.message, words[i]);
        assert_null(trainer);
    }
    close_micro(&m);
}

static void out_of_memory(void **state)
{
    (void)state;
    micro m = open_micro(0);
    for (size_t i = 0; i < N_WAYS; i++) {
        tern_trainer_params p = way_params(&ways[i]);
        tern_status status = TERN_OUT_OF_MEMORY;
        tern_backend *cpu = test_backend_here();
        int64_t live = tern_alloc_live();
        for (uint64_t at = 1; status != TERN_OK; at += at < 60 ? 1 : 23) {
            tern_trainer *trainer = NULL;
            tern_alloc_fail_after(at, false);
            status = tern_trainer_open(&trainer, cpu, m.model, &p, &err);
            tern_alloc_fail_after(0, false);
            if (status != TERN_OK) assert_int_equal(status, TERN_OUT_OF_MEMORY);
            assert_int_equal(!trainer, status != TERN_OK);
            tern_trainer_close(trainer);
            assert_int_equal(tern_alloc_live(), live);
        }
    }
    close_micro(&m);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(any_number_of_threads),
    cmocka_unit_test(small_buffers),
    cmocka_unit_test(memory_limit),
    cmocka_unit_test(suggestions),
    cmocka_unit_test(suggestions_of_what_stays),
    cmocka_unit_test(chunks),
    cmocka_unit_test(wrong_params),
    cmocka_unit_test(out_of_memory),
};

TEST_GROUP(trainer_limits, "", tests);
