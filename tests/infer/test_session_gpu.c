/* Sessions on a GPU: cached against whole, forgetting, making room, files that travel, sessions side by side. */
#include "infer/support.h"

#include <math.h>
#include <pthread.h>
#include <unistd.h>

#include "support/gpu_model.h"
#include "support/logits.h"
#include "support/op_case.h"

enum { CTX = 96, N_IDS = 70, N_MORE = 4 };
static const float clear_margin = 0.5f; /* the logits of the trained model spread by 3, and ties move each by 0.1 */

static tern_engine *gpu, *cpu;
static int32_t ids[N_IDS];
static uint32_t n_vocab;

static int setup(void **state)
{
    (void)state;
    for (int32_t i = 0; i < N_IDS; i++) ids[i] = (i * 577 + 31) % 2000;
    return 0;
}

static int teardown(void **state)
{
    tern_engine_close(gpu);
    tern_engine_close(cpu);
    return test_backends_close(state);
}

/* Opened by the first test, which is thereby skipped where there is no GPU. */
static void open_engines(void)
{
    if (gpu) return;
    gpu = test_gpu_engine(test_model("tiny-stories-bitnet"), test_all_layers, NULL);
    cpu = test_engine(test_model("tiny-stories-bitnet"), NULL);
    n_vocab = tern_engine_config(cpu)->n_vocab;
}

static tern_session *open_on(tern_engine *engine, uint32_t n_batch, tern_kv_type kv)
{
    return open_session(engine, TERN_SIZED(tern_session_params, .n_ctx = CTX, .kv = {kv, kv}, .n_batch = n_batch,
                                           .max_outputs = N_IDS));
}

static void append(tern_session *s, const int32_t *from, uint32_t n)
{
    tern_error err = {0};
    assert_ok(tern_session_append(s, from, n, &err), err);
}

static double cosine(const float *a, const float *b, size_t n)
{
    double ab = 0, aa = 0, bb = 0;
    for (size_t i = 0; i < n; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    return ab / sqrt(aa * bb);
}

/* How far logits are from the ones expected, row by row. */
typedef struct likeness {
    double least, sum; /* of the cosines */
    uint32_t n;
} likeness;

/* One row: what a few rounding ties make, and the same highest logit where that is clear. */
static void compare(likeness *l, const float *got, const float *want, const char *what)
{
    float margin;
    uint32_t top = test_top(want, n_vocab, &margin);
    double direction = cosine(got, want, n_vocab);
    if (!(direction > 0.999)) fail_msg("%s: cosine %g", what, direction);
    if (margin > clear_margin) assert_int_equal(test_top(got, n_vocab, NULL), top);
    l->least = l->n && l->least < direction ? l->least : direction;
    l->sum += direction;
    l->n++;
}

/* All rows: as a validation of caches asks for. */
static void assert_alike(const likeness *l, const char *what)
{
    print_message("%s: cosine %.6f in the mean, at least %.6f\n", what, l->sum / l->n, l->least);
    assert_true(l->sum / l->n > 0.9999);
}

/* Both hold the same tokens, and logits that are alike for the last one and for some that follow. */
static void assert_alike_sessions(tern_session *a, tern_session *b, const char *what)
{
    assert_int_equal(tern_session_n_tokens(a), tern_session_n_tokens(b));
    assert_memory_equal(tern_session_tokens(a), tern_session_tokens(b), tern_session_n_tokens(a) * sizeof *ids);
    likeness l = {0};
    for (uint32_t i = 0; i < N_MORE; i++) {
        compare(&l, test_logits(a, 0), test_logits(b, 0), what);
        append(a, &ids[i], 1);
        append(b, &ids[i], 1);
    }
    assert_alike(&l, what);
}

/* One token at a time on the cache, against all at once; on every type of cache. */
static void cached_against_whole(void **state)
{
    (void)state;
    tern_error err = {0};
    open_engines();
    for (tern_kv_type kv = TERN_KV_F16; kv <= TERN_KV_Q4_0; kv++) {
        print_message("cache type %d\n", (int)kv);
        tern_session *whole = open_on(gpu, N_IDS, kv), *single = open_on(gpu, N_IDS, kv),
                     *reference = open_on(cpu, N_IDS, kv);
        assert_ok(tern_session_append_all(whole, ids, N_IDS, &err), err);
        assert_ok(tern_session_append_all(reference, ids, N_IDS, &err), err);
        likeness to_whole = {0}, to_cpu = {0};
        for (uint32_t t = 0; t < N_IDS; t++) {
            append(single, &ids[t], 1);
            compare(&to_whole, test_logits(single, 0), test_logits(whole, t), "cached against whole");
            compare(&to_cpu, test_logits(single, 0), test_logits(reference, t), "GPU against CPU");
        }
        assert_alike(&to_whole, "cached against whole");
        assert_alike(&to_cpu, "GPU against CPU");
        tern_session_close(whole);
        tern_session_close(single);
        tern_session_close(reference);
    }
}

/* However the text is cut into steps, and whatever was there before. */
static void steps_and_truncation(void **state)
{
    (void)state;
    open_engines();
    tern_session *a = open_on(gpu, 33, TERN_KV_F16), *b = open_on(gpu, N_IDS, TERN_KV_F16);
    append(a, ids, N_IDS);
    append(b, ids, N_IDS);
    likeness l = {0};
    compare(&l, test_logits(a, 0), test_logits(b, 0), "steps of 33");
    assert_alike(&l, "steps of 33");
    tern_session_truncate(a, 34);
    append(a, ids + 50, 3);
    tern_session_truncate(b, 0);
    append(b, ids, 34);
    append(b, ids + 50, 3);
    assert_alike_sessions(a, b, "truncated");
    tern_session_close(a);
    tern_session_close(b);
}

static void shift(tern_kv_type kv)
{
    tern_error err = {0};
    tern_session *a = open_on(gpu, 0, kv), *b = open_on(cpu, 0, kv);
    append(a, ids, N_IDS);
    append(b, ids, N_IDS);
    assert_ok(tern_session_shift(a, 17, &err), err);
    assert_ok(tern_session_shift(b, 17, &err), err);
    assert_alike_sessions(a, b, "shifted");
    tern_session_close(a);
    tern_session_close(b);
}

static void shifted(void **state)
{
    (void)state;
    open_engines();
    shift(TERN_KV_F16);
    shift(TERN_KV_Q8_0);
}

/* A session saved on one goes on on the other. */
static void files(void **state)
{
    (void)state;
    open_engines();
    tern_engine *const from[] = {gpu, gpu, cpu}, *const to[] = {gpu, cpu, gpu};
    static const char *const what[] = {"GPU to GPU", "GPU to CPU", "CPU to GPU"};
    char name[48];
    snprintf(name, sizeof name, "session-%d", (int)getpid());
    const char *path = test_scratch(name);
    static const tern_kv_type types[] = {TERN_KV_F16, TERN_KV_Q8_0, TERN_KV_Q4_0};
    for (size_t i = 0; i < 9; i++) {
        tern_error err = {0};
        tern_session *a = open_on(from[i % 3], 0, types[i / 3]), *b = open_on(to[i % 3], 0, types[i / 3]);
        append(a, ids, N_IDS);
        assert_ok(tern_session_save(a, path, &err), err);
        assert_ok(tern_session_restore(b, path, &err), err);
        unlink(path);
        assert_alike_sessions(b, a, what[i % 3]);
        tern_session_close(a);
        tern_session_close(b);
    }
}

/* Nothing depends on the order in which workgroups run. */
static void same_bits_again(void **state)
{
    (void)state;
    tern_error err = {0};
    open_engines();
    tern_session *s = open_on(gpu, 0, TERN_KV_F16);
    size_t bytes = (size_t)N_IDS * n_vocab * sizeof(float);
    float *first = malloc(bytes);
    assert_ok(tern_session_append_all(s, ids, N_IDS, &err), err);
    memcpy(first, test_logits(s, 0), bytes);
    for (int i = 0; i < 3; i++) {
        tern_session_truncate(s, 0);
        assert_ok(tern_session_append_all(s, ids, N_IDS, &err), err);
        assert_memory_equal(test_logits(s, 0), first, bytes);
    }
    free(first);
    tern_session_close(s);
}

typedef struct job {
    tern_session *session;
    int32_t first;
    float *logits; /* of the last token */
    tern_error err;
} job;

static void *run_job(void *context)
{
    enum { N = 12 };
    job *j = context;
    for (int32_t i = 0; i < N && j->err.code == TERN_OK; i++)
        (void)tern_session_append(j->session, &(int32_t){(j->first + i * 97) % 2000}, 1, &j->err);
    memcpy(j->logits, test_logits(j->session, 0), n_vocab * sizeof(float));
    return NULL;
}

static job open_job(int32_t first)
{
    return (job){.session = open_on(gpu, 0, TERN_KV_F16), .first = first, .logits = malloc(n_vocab * sizeof(float))};
}

static void close_job(job *j)
{
    tern_session_close(j->session);
    free(j->logits);
}

/* Sessions of one engine on several threads compute what each computes alone. */
static void side_by_side(void **state)
{
    (void)state;
    enum { N = 3 };
    open_engines();
    job alone[N], together[N];
    pthread_t threads[N];
    for (int32_t i = 0; i < N; i++) {
        alone[i] = open_job(i);
        together[i] = open_job(i);
        run_job(&alone[i]);
    }
    for (int32_t i = 0; i < N; i++) assert_int_equal(pthread_create(&threads[i], NULL, run_job, &together[i]), 0);
    for (int32_t i = 0; i < N; i++) {
        pthread_join(threads[i], NULL);
        assert_ok(together[i].err.code, together[i].err);
        assert_memory_equal(together[i].logits, alone[i].logits, n_vocab * sizeof(float));
        close_job(&alone[i]);
        close_job(&together[i]);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(cached_against_whole),
    cmocka_unit_test(steps_and_truncation),
    cmocka_unit_test(shifted),
    cmocka_unit_test(files),
    cmocka_unit_test(same_bits_again),
    cmocka_unit_test(side_by_side),
};

TEST_GROUP(session_gpu, "devices long", tests, .setup = setup, .teardown = teardown);
