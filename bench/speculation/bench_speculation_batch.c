/* What speculation by look-up gains where several sequences decode together: each is made to write a part of a given
 * text after a given prompt, by a grammar that allows its tokens alone. Without guesses, with as many as pay, and with
 * as many as there are, in turns; medians, of time that passed and of the processor's.
 *
 * usage: bench_speculation_batch MODEL TOKENIZER-MODEL THREADS HEAD SEQUENCES,... PROMPT-FILE TEXT-FILE */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <tern.h>

enum { MOST = 8, ROUNDS = 3, MAX_PROMPT = 600, WRITTEN = 48, APART = 7, CTX = 1024, WAYS = 3, MAX_SEQUENCES = 32 };

static const char *const ways[WAYS] = {"none", "as pay", "always 8"};
static tern_error err;

static void check(tern_status status)
{
    if (status == TERN_OK) return;
    fprintf(stderr, "bench_speculation_batch: %s\n", err.message);
    exit(1);
}

static double seconds(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static int by_size(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double median(double *x)
{
    qsort(x, ROUNDS, sizeof *x, by_size);
    return x[ROUNDS / 2];
}

static tern_tokens tokens_of(const tern_tokenizer *tokenizer, const char *path)
{
    static char text[1 << 16];
    tern_tokens out = {0};
    FILE *f = fopen(path, "rb");
    const size_t n = f ? fread(text, 1, sizeof text, f) : 0;
    if (f) fclose(f);
    if (n == 0) fprintf(stderr, "bench_speculation_batch: %s: text expected\n", path), exit(1);
    check(tern_tokenizer_encode(tokenizer, text, n, 0, &out, &err));
    return out;
}

/* A grammar of these tokens alone. */
static tern_grammar *only(const tern_grammar_vocab *vocab, const int32_t *ids, size_t n)
{
    static char source[1 << 14];
    tern_grammar *g;
    size_t at = (size_t)snprintf(source, sizeof source, "root ::=");
    for (size_t i = 0; i < n; i++) at += (size_t)snprintf(source + at, sizeof source - at, " <[%d]>", ids[i]);
    check(tern_grammar_open(&g, vocab, TERN_GRAMMAR_GBNF, source, at, &err));
    return g;
}

/* One sequence: what it has written, drafted and kept. */
typedef struct writer {
    tern_grammar *grammar;
    tern_request *request;
    int32_t prompt[CTX];
    uint32_t n_prompt, n, n_drafted, n_accepted;
    bool ended;
} writer;

static bool hear(void *context, const tern_request_piece *piece)
{
    writer *w = context;
    if (piece->id >= 0) w->n++;
    return true;
}

static void end(void *context, const tern_request_result *result)
{
    writer *w = context;
    if (result->error) fprintf(stderr, "bench_speculation_batch: %s\n", result->error->message), exit(1);
    w->n_drafted = result->n_drafted;
    w->n_accepted = result->n_accepted;
    w->ended = true;
}

/* The i-th has the text up to i * APART tokens behind the prompt, and writes what follows. */
static void make(writer *w, const tern_grammar_vocab *vocab, const tern_tokens *prompt, const tern_tokens *text,
                 uint32_t i)
{
    const uint32_t n = prompt->n < MAX_PROMPT ? (uint32_t)prompt->n : MAX_PROMPT, skipped = i * APART;
    if (text->n < skipped + WRITTEN) fprintf(stderr, "bench_speculation_batch: a longer text expected\n"), exit(1);
    memcpy(w->prompt, prompt->ids, n * sizeof *w->prompt);
    memcpy(w->prompt + n, text->ids, skipped * sizeof *w->prompt);
    w->n_prompt = n + skipped;
    w->grammar = only(vocab, text->ids + skipped, WRITTEN);
}

static void submit(tern_batch *batch, writer *w, uint32_t way)
{
    w->n = 0;
    w->ended = false;
    const tern_request_params params = {.size = sizeof params,
                                        .prompt = w->prompt,
                                        .n_prompt = w->n_prompt,
                                        .sampler = {.repetition_penalty = 1, .top_p = 1, .typical_p = 1},
                                        .max_tokens = WRITTEN,
                                        .ignore_eos = true,
                                        .grammar = w->grammar,
                                        .draft_tokens = way ? MOST : 0,
                                        .on_piece = hear,
                                        .on_end = end,
                                        .context = w};
    check(tern_batch_submit(batch, &params, &w->request, &err));
}

static void step_until(tern_batch *batch, const writer *w, uint32_t n, bool all_began)
{
    for (bool busy = true, wanting = true; busy && wanting;) {
        check(tern_batch_step(batch, &busy, &err));
        wanting = all_began ? false : true;
        for (uint32_t i = 0; i < n; i++) {
            if (all_began && w[i].n == 0) wanting = true;
            if (!all_began && w[i].ended) wanting = false;
        }
    }
}

/* Tokens per second of all together, from where all have begun to where the first has ended: [0] by the clock, [1] by
 * the processor's time of all threads. */
static void write_all(tern_batch *batch, writer *w, uint32_t n, uint32_t way, double rates[2])
{
    static const clockid_t clocks[] = {CLOCK_MONOTONIC, CLOCK_PROCESS_CPUTIME_ID};
    double began[2];
    uint32_t written = 0;
    for (uint32_t i = 0; i < n; i++) submit(batch, &w[i], way);
    step_until(batch, w, n, true);
    for (uint32_t i = 0; i < n; i++) written -= w[i].n;
    for (int k = 0; k < 2; k++) began[k] = seconds(clocks[k]);
    step_until(batch, w, n, false);
    for (uint32_t i = 0; i < n; i++) written += w[i].n;
    for (int k = 0; k < 2; k++) rates[k] = written / (seconds(clocks[k]) - began[k]);
    for (bool busy = true; busy;) check(tern_batch_step(batch, &busy, &err));
    for (uint32_t i = 0; i < n; i++) tern_request_free(w[i].request);
}

static tern_batch *open_batch(tern_engine *engine, uint32_t n, uint32_t way)
{
    static double equal[MAX_SEQUENCES * (MOST + 1)];
    tern_batch *batch;
    for (size_t i = 0; i < sizeof equal / sizeof *equal; i++) equal[i] = 1;
    const tern_batch_params params = {.size = sizeof params,
                                      .n_parallel = n,
                                      .n_ctx = CTX,
                                      .max_outputs = n * (MOST + 1),
                                      .draft_costs = way == 2 ? equal : NULL};
    check(tern_batch_open(&batch, engine, &params, &err));
    return batch;
}

static void measure(tern_engine *engine, writer *w, uint32_t n)
{
    double rates[WAYS][2][ROUNDS];
    uint32_t drafted[WAYS] = {0}, accepted[WAYS] = {0};
    tern_batch *batch[WAYS];
    for (uint32_t way = 0; way < WAYS; way++) batch[way] = open_batch(engine, n, way);
    for (uint32_t r = 0; r < ROUNDS; r++)
        for (uint32_t way = 0; way < WAYS; way++) {
            double both[2];
            write_all(batch[way], w, n, way, both);
            for (int k = 0; k < 2; k++) rates[way][k][r] = both[k];
            for (uint32_t i = 0; i < n && r == 0; i++) drafted[way] += w[i].n_drafted, accepted[way] += w[i].n_accepted;
        }
    double plain[2];
    for (uint32_t way = 0; way < WAYS; way++) {
        const double clock = median(rates[way][0]), processor = median(rates[way][1]);
        if (way == 0) plain[0] = clock, plain[1] = processor;
        printf("%2u sequences, %-8s %7.2f tokens/s, %4.2f times; by processor time %7.2f, %4.2f times; %u guessed, %u "
               "right\n",
               n, ways[way], clock, clock / plain[0], processor, processor / plain[1], drafted[way], accepted[way]);
        tern_batch_close(batch[way]);
    }
    fflush(stdout);
}

int main(int argc, char **argv)
{
    tern_engine *engine;
    tern_tokenizer *tokenizer;
    tern_grammar_vocab *vocab;
    static writer writers[MAX_SEQUENCES];
    if (argc != 8)
        return fprintf(stderr, "usage: bench_speculation_batch MODEL TOKENIZER-MODEL THREADS HEAD SEQUENCES,... "
                               "PROMPT-FILE TEXT-FILE\n"),
               2;
    const tern_engine_options options = {.size = sizeof options,
                                         .cpu.n_threads = (uint32_t)strtoul(argv[3], NULL, 10),
                                         .head = *argv[4] ? argv[4] : NULL};
    check(tern_engine_load(&engine, argv[1], &options, &err));
    check(tern_tokenizer_load(&tokenizer, argv[2], &err));
    if (!tern_engine_tokenizer(engine)) fprintf(stderr, "bench_speculation_batch: a vocabulary expected\n"), exit(1);
    check(tern_grammar_vocab_open(&vocab, tern_engine_tokenizer(engine), &err));
    tern_tokens prompt = tokens_of(tokenizer, argv[6]), text = tokens_of(tokenizer, argv[7]);
    for (uint32_t i = 0; i < MAX_SEQUENCES; i++) make(&writers[i], vocab, &prompt, &text, i);
    for (char *at = argv[5], *next; *at; at = *next == ',' ? next + 1 : next) {
        const unsigned long n = strtoul(at, &next, 10);
        if (next == at || n < 1 || n > MAX_SEQUENCES)
            fprintf(stderr, "%s: 1 to %d expected\n", at, MAX_SEQUENCES), exit(2);
        measure(engine, writers, (uint32_t)n);
    }
    for (uint32_t i = 0; i < MAX_SEQUENCES; i++) tern_grammar_close(writers[i].grammar);
    tern_tokens_deinit(&prompt);
    tern_tokens_deinit(&text);
    tern_grammar_vocab_close(vocab);
    tern_tokenizer_close(tokenizer);
    tern_engine_close(engine);
    return 0;
}
