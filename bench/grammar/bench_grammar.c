/* What masks of grammars cost over a vocabulary: for each token of an answer the first time, and once they are kept.
 * Prints the table of docs/guides/structured-output.md. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/file.h"
#include "base/rng.h"
#include "text/grammar/internal.h"
#include "text/tokenizer/tokenizer.h"

enum { AGAIN = 20, WALK = 64 };

static const char usage[] = "usage: bench_grammar VOCABULARY.tiktoken [GRAMMAR.gbnf ...]\n\n"
                            "Grammars of files are walked through at random (64 tokens), the built-in ones by an "
                            "answer.\n";

/* A grammar, and an answer that it allows; NULL: a walk. */
typedef struct job {
    const char *name;
    tern_grammar_kind kind;
    const char *source, *answer;
} job;

static const char answer[] =
    "{\"name\": \"The quick brown fox\", \"age\": 42, \"tags\": [\"animal\", \"clever\", \"red fur\"], \"home\": "
    "{\"city\": \"a den below the old oak\", \"zip\": \"10115\"}, \"friends\": [{\"name\": \"Reineke\", \"age\": 7}], "
    "\"is_tame\": false, \"weight\": 6.25}";

static const job jobs[] = {
    {"any JSON object", TERN_GRAMMAR_JSON, "", answer},
    {"a schema of seven members", TERN_GRAMMAR_SCHEMA,
     "{\"properties\": {\"name\": {\"type\": \"string\"}, \"age\": {\"type\": \"integer\"}, \"tags\": {\"items\": "
     "{\"type\": \"string\"}}, \"home\": {\"properties\": {\"city\": {\"type\": \"string\"}, \"zip\": {\"type\": "
     "\"string\"}}, \"required\": [\"city\", \"zip\"]}, \"friends\": {\"items\": {\"properties\": {\"name\": "
     "{\"type\": "
     "\"string\"}, \"age\": {\"type\": \"integer\"}}}}, \"is_tame\": {\"type\": \"boolean\"}, \"weight\": {\"type\": "
     "\"number\"}}, \"required\": [\"name\", \"age\"]}",
     answer},
    {"a string of at most 40 characters", TERN_GRAMMAR_SCHEMA, "{\"type\": \"string\", \"maxLength\": 40}",
     "\"The quick brown fox, in a den\""},
    {"an object with strings of 8 to 1,000 and of at most 5 characters", TERN_GRAMMAR_SCHEMA,
     "{\"properties\": {\"text\": {\"type\": \"string\", \"minLength\": 8, \"maxLength\": 1000}, \"code\": {\"type\": "
     "\"string\", \"maxLength\": 5}}, \"required\": [\"text\", \"code\"]}",
     "{\"text\": \"In caf\u00e9s and under bridges, said \\\"Reineke\\\",\\nI am at home: 1,000 nights, no \u72d0 and "
     "no owl "
     "were ever seen.\", \"code\": \"x-1\"}"},
    {"a regular expression (a date and a name)", TERN_GRAMMAR_REGEX, "\\d{4}-\\d{2}-\\d{2} [A-Z][a-z]+( [A-Z][a-z]+)*",
     "2024-11-24 Reineke The Clever Fox"},
};

static tern_error err;

static void need(tern_status status)
{
    if (status == TERN_OK) return;
    fprintf(stderr, "bench_grammar: %s\n", err.message);
    exit(1);
}

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* What masks took, and the longest of them; of all passes but the first together. */
typedef struct cost {
    double first, longest, again;
    size_t slow;    /* above 100 us */
    uint32_t steps; /* of the longest */
    size_t n;
} cost;

static int32_t draw(const uint32_t *words, uint32_t n_vocab, tern_rng *rng)
{
    const uint32_t from = (uint32_t)(tern_rng_u64(rng) % n_vocab);
    for (uint32_t i = 0; i < n_vocab; i++) {
        const uint32_t id = (from + i) % n_vocab;
        if (words[id / 32] >> id % 32 & 1) return (int32_t)id;
    }
    return -1;
}

/* One pass: a mask before each token, which it must allow. false: the grammar came to a limit. */
static bool pass(tern_grammar *g, const tern_tokenizer *t, tern_tokens *ids, uint32_t *words, const char *name,
                 bool first, cost *c)
{
    const uint32_t n_vocab = tern_tokenizer_size(t);
    tern_rng rng = {17};
    tern_grammar_state *s;
    need(tern_grammar_state_open(&s, g, &err));
    for (size_t i = 0; i < (ids->n ? ids->n : WALK); i++) {
        const double began = now_us();
        const tern_status status = tern_grammar_state_mask(s, words, (n_vocab + 31) / 32, &err);
        const double took = now_us() - began;
        if (first && took > c->longest) {
            c->longest = took;
            c->steps = (unsigned)g->machine.work;
        }
        c->slow += first && took > 100;
        *(first ? &c->first : &c->again) += took;
        c->n += first;
        if (status != TERN_OK) {
            printf("| %s | stopped after %zu tokens and %.0f us: %s |\n", name, i, took, err.message);
            tern_grammar_state_close(s);
            return false;
        }
        const int32_t id = ids->n ? ids->ids[i] : draw(words, n_vocab, &rng);
        if (id < 0 || tern_token_is_end(t, id)) break;
        need(tern_grammar_state_accept(s, id, &err));
    }
    tern_grammar_state_close(s);
    return true;
}

static void print_cost(const job *j, const cost *c, double opened)
{
    const double n = (double)c->n;
    printf("| %s | %zu | %.0f | %.1f | %.0f (%u steps) | %zu | %.2f |\n", j->name, c->n, opened, c->first / n,
           c->longest, c->steps, c->slow, c->again / n / AGAIN);
    fflush(stdout);
}

static void measure(const job *j, const tern_tokenizer *t, const tern_grammar_vocab *vocab)
{
    cost c = {0};
    tern_tokens ids = {0};
    tern_grammar *g;
    uint32_t *words = tern_calloc((tern_tokenizer_size(t) + 31) / 32, sizeof *words);
    const double began = now_us();
    if (tern_grammar_open(&g, vocab, j->kind, j->source, strlen(j->source), &err) != TERN_OK) {
        printf("| %s | refused after %.0f us: %s |\n", j->name, now_us() - began, err.message);
        tern_free(words);
        return;
    }
    const double opened = now_us() - began;
    if (j->answer) need(tern_tokenize(t, j->answer, strlen(j->answer), 0, &ids, &err));
    bool went = pass(g, t, &ids, words, j->name, true, &c);
    for (unsigned i = 0; i < AGAIN && went; i++) went = pass(g, t, &ids, words, j->name, false, &c);
    if (went) print_cost(j, &c, opened);
    tern_grammar_close(g);
    tern_tokens_deinit(&ids);
    tern_free(words);
}

int main(int argc, char **argv)
{
    tern_buf file = {0};
    tern_tokenizer *t;
    tern_grammar_vocab *vocab;
    if (argc < 2) {
        fputs(usage, stderr);
        return 2;
    }
    need(tern_file_read(&file, argv[1], (size_t)64 << 20, &err));
    need(tern_tokenizer_parse_tiktoken(&t, file.data, file.size, NULL, &err));
    const double began = now_us();
    need(tern_grammar_vocab_open(&vocab, t, &err));
    printf("%u tokens, made ready in %.0f ms\n\n", tern_tokenizer_size(t), (now_us() - began) / 1e3);
    printf(
        "| grammar | masks | us to open it | us a mask, the first time | the longest, us | above 100 us | us a mask, "
        "again |\n|---|---|---|---|---|---|---|\n");
    for (size_t i = 0; i < sizeof jobs / sizeof *jobs; i++) measure(&jobs[i], t, vocab);
    for (int i = 2; i < argc; i++) {
        need(tern_file_read(&file, argv[i], (size_t)1 << 20, &err));
        need(tern_buf_add(&file, "", 1, &err));
        measure(&(job){argv[i], TERN_GRAMMAR_GBNF, file.data, NULL}, t, vocab);
    }
    tern_grammar_vocab_close(vocab);
    tern_tokenizer_close(t);
    tern_buf_deinit(&file);
    return 0;
}
