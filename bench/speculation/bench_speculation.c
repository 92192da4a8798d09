/* What speculation by look-up gains: a model is made to write a given text after a given prompt, by a filter that
 * allows its tokens alone, so that the guesses are right as often as with a model that writes this text by itself, and
 * steps take the time of the model that is measured, whatever its weights are. Without guesses, with as many as pay,
 * and with as many as there are, in turns; medians. And what a step of 1, 2, ... tokens takes.
 *
 * usage: bench_speculation MODEL TOKENIZER-MODEL THREADS HEAD [PROMPT-FILE TEXT-FILE]...     HEAD "": the file's */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tern.h>

enum { MOST = 8, ROUNDS = 3, MAX_PROMPT = 800, MAX_TEXT = 128, CTX = 1024, WAYS = 3, REPEATS = 7 };

static const char *const ways[WAYS] = {"none", "as pay", "always 8"};

static double now_ms(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e3 + (double)t.tv_nsec * 1e-6;
}

static void check(tern_status status, const tern_error *err)
{
    if (status == TERN_OK) return;
    fprintf(stderr, "bench_speculation: %s\n", err->message);
    exit(1);
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x, uint32_t n)
{
    qsort(x, n, sizeof *x, by_size);
    return x[n / 2];
}

/* The tokens of a file. */
static tern_tokens tokens_of(tern_engine *engine, const char *path)
{
    static char text[1 << 16];
    tern_error err = {0};
    tern_tokens out = {0};
    FILE *f = fopen(path, "rb");
    const size_t n = f ? fread(text, 1, sizeof text, f) : 0;
    if (f) fclose(f);
    if (n == 0) fprintf(stderr, "bench_speculation: %s: text expected\n", path), exit(1);
    check(tern_engine_tokenize(engine, text, n, 0, &out, &err), &err);
    return out;
}

/* A text, and how far it is written. */
typedef struct script {
    const int32_t *ids;
    size_t n, at;
} script;

static tern_status allow(void *context, uint32_t *words, size_t n_words, tern_error *err)
{
    const script *s = context;
    (void)err;
    memset(words, 0, n_words * sizeof *words);
    if (s->at < s->n) words[s->ids[s->at] / 32] = 1u << s->ids[s->at] % 32;
    return TERN_OK;
}

static tern_status advance(void *context, int32_t id, tern_error *err)
{
    script *s = context;
    (void)id, (void)err;
    s->at++;
    return TERN_OK;
}

static tern_generate_result write_text(tern_session *session, const tern_tokens *prompt, const tern_tokens *text,
                                       uint32_t way)
{
    static const double equal[MOST + 1] = {1, 1, 1, 1, 1, 1, 1, 1, 1};
    tern_error err = {0};
    tern_generate_result result = {.size = sizeof result};
    script s = {.ids = text->ids, .n = text->n < MAX_TEXT ? text->n : MAX_TEXT};
    const tern_token_filter filter = {allow, advance, &s};
    const tern_generate_params params = {.size = sizeof params,
                                         .sampler = {.repetition_penalty = 1, .top_p = 1, .typical_p = 1},
                                         .max_tokens = (uint32_t)s.n,
                                         .ignore_eos = true,
                                         .draft_tokens = way ? MOST : 0,
                                         .draft_costs = way == 2 ? equal : NULL,
                                         .filter = &filter};
    const uint32_t n = prompt->n < MAX_PROMPT ? (uint32_t)prompt->n : MAX_PROMPT, held = tern_session_n_tokens(session);
    if (held >= n) tern_session_truncate(session, n); /* the prompt is there */
    check(tern_generate(session, prompt->ids, held >= n ? 0 : n, &params, &result, &err), &err);
    if (result.n_generated != s.n) fprintf(stderr, "bench_speculation: %u tokens\n", result.n_generated), exit(1);
    return result;
}

static void measure_text(tern_engine *engine, tern_session *session, tern_engine *words, char **files)
{
    tern_tokens prompt = tokens_of(words, files[0]), text = tokens_of(words, files[1]);
    double rates[WAYS][ROUNDS];
    tern_generate_result last[WAYS];
    tern_session_truncate(session, 0);
    for (uint32_t r = 0; r < ROUNDS; r++)
        for (uint32_t w = 0; w < WAYS; w++) {
            last[w] = write_text(session, &prompt, &text, w);
            rates[w][r] = last[w].n_generated * 1e3 / last[w].decode_ms;
        }
    printf("%s, then %s: %u tokens; threads read %.1f GB/s\n", files[0], files[1], last[0].n_generated,
           tern_engine_read_bandwidth(engine, 0.3) * 1e-9);
    const double plain = median(rates[0], ROUNDS);
    for (uint32_t w = 0; w < WAYS; w++)
        printf("  %-9s %7.2f tokens/s, %4.2f times; %u guessed, %u right\n", ways[w], median(rates[w], ROUNDS),
               median(rates[w], ROUNDS) / plain, last[w].n_drafted, last[w].n_accepted);
    fflush(stdout);
    tern_tokens_deinit(&prompt);
    tern_tokens_deinit(&text);
}

/* Steps of 1 to MOST + 1 tokens with the logits of each, in turns. */
static void measure_steps(tern_engine *engine, tern_session *session)
{
    enum { DEPTH = 64 };
    tern_error err = {0};
    int32_t ids[DEPTH];
    double ms[MOST + 1][REPEATS];
    for (int32_t i = 0; i < DEPTH; i++) ids[i] = 7 + i;
    check(tern_session_append(session, ids, DEPTH, &err), &err);
    for (uint32_t r = 0; r < REPEATS; r++)
        for (uint32_t n = 1; n <= MOST + 1; n++) {
            tern_session_truncate(session, DEPTH);
            const double start = now_ms();
            check(tern_session_append_all(session, ids, n, &err), &err);
            ms[n - 1][r] = now_ms() - start;
        }
    printf("steps; threads read %.1f GB/s\n", tern_engine_read_bandwidth(engine, 0.3) * 1e-9);
    const double one = median(ms[0], REPEATS);
    for (uint32_t n = 1; n <= MOST + 1; n++)
        printf("  %u tokens: %6.1f ms, %4.2f times one\n", n, median(ms[n - 1], REPEATS),
               median(ms[n - 1], REPEATS) / one);
}

int main(int argc, char **argv)
{
    tern_engine *engine, *words;
    tern_session *session;
    tern_error err = {0};
    if (argc < 5 || argc % 2 == 0)
        return fprintf(stderr, "usage: bench_speculation MODEL TOKENIZER-MODEL THREADS HEAD [PROMPT TEXT]...\n"), 2;
    const tern_engine_options options = {.size = sizeof options,
                                         .cpu.n_threads = (uint32_t)strtoul(argv[3], NULL, 10),
                                         .head = *argv[4] ? argv[4] : NULL};
    check(tern_engine_load(&engine, argv[1], &options, &err), &err);
    check(tern_engine_load(&words, argv[2], NULL, &err), &err);
    const tern_session_params params = {
        .size = sizeof params, .n_ctx = CTX, .max_outputs = MOST + 1, .host_sampling = true};
    check(tern_session_open(&session, engine, &params, &err), &err);
    measure_steps(engine, session);
    for (int i = 5; i + 1 < argc; i += 2) measure_text(engine, session, words, argv + i);
    tern_session_close(session);
    tern_engine_close(words);
    tern_engine_close(engine);
    return 0;
}
