/* Writes texts that grammars of schemas allow, at random: for each line of standard input, an object with a `schema`,
 * a line with an array of texts, or with the message of the error. For check.py beside it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/alloc.h"
#include "base/bytes.h"
#include "base/rng.h"
#include "format/json.h"
#include "tern/text.h"

enum { SAMPLES = 12, MOST_BYTES = 4000, CALM = 150 };

/* The bytes that may follow. */
static size_t find_next(const tern_grammar_state *s, char bytes[256])
{
    size_t n = 0;
    for (int b = 1; b < 256; b++) {
        tern_grammar_state *copy;
        const char byte = (char)b;
        if (tern_grammar_state_clone(&copy, s, NULL) != TERN_OK) exit(1);
        if (tern_grammar_state_accept_text(copy, &byte, 1, NULL) == TERN_OK) bytes[n++] = byte;
        tern_grammar_state_close(copy);
    }
    return n;
}

/* One of them; now and then, and after a while always, one that ends something. White space is rare. */
static char choose(const char *bytes, size_t n, size_t written, tern_rng *rng)
{
    char byte = bytes[tern_rng_u64(rng) % n];
    if (written > CALM || tern_rng_u64(rng) % 3 == 0)
        for (const char *end = written > CALM ? "\"}]0123456789.,:" : "\"}],:"; *end; end++)
            if (memchr(bytes, *end, n)) return *end;
    if (strchr(" \n\t", byte)) byte = bytes[tern_rng_u64(rng) % n];
    return byte;
}

/* A text into `out`; false: it became too long. */
static bool sample(tern_grammar *g, tern_buf *out, tern_rng *rng)
{
    tern_grammar_state *s;
    bool ended = false;
    out->size = 0;
    if (tern_grammar_state_open(&s, g, NULL) != TERN_OK) exit(1);
    while (!ended && out->size < MOST_BYTES) {
        char bytes[256];
        const size_t n = find_next(s, bytes);
        ended = tern_grammar_state_may_end(s) && (n == 0 || out->size > CALM || tern_rng_u64(rng) % 8 == 0);
        if (ended) break;
        if (n == 0) exit(1); /* a grammar always goes on or ends */
        const char byte = choose(bytes, n, out->size, rng);
        if (tern_grammar_state_accept_text(s, &byte, 1, NULL) != TERN_OK) exit(1);
        if (tern_buf_add(out, &byte, 1, NULL) != TERN_OK) exit(1);
    }
    tern_grammar_state_close(s);
    return ended;
}

static json_t *samples(const json_t *schema, tern_rng *rng)
{
    char *source = json_dumps(schema, JSON_COMPACT | JSON_ENCODE_ANY);
    tern_error err = {0};
    tern_grammar *g;
    tern_buf text = {0};
    if (!source) exit(1);
    const tern_status status = tern_grammar_open(&g, NULL, TERN_GRAMMAR_SCHEMA, source, strlen(source), &err);
    tern_free(source);
    if (status != TERN_OK) return json_string(err.message);
    json_t *all = json_array();
    for (int i = 0; i < SAMPLES; i++)
        if (sample(g, &text, rng)) json_array_append_new(all, json_stringn(text.data, text.size));
    tern_buf_deinit(&text);
    tern_grammar_close(g);
    return all;
}

int main(int argc, char **argv)
{
    tern_rng rng = {argc > 1 ? strtoull(argv[1], NULL, 10) : 17};
    char *line = NULL;
    size_t cap = 0;
    for (ssize_t n; (n = getline(&line, &cap, stdin)) > 0;) {
        json_t *row;
        tern_error err = {0};
        if (tern_json_parse(&row, line, (size_t)n, "line", &err) != TERN_OK) {
            fprintf(stderr, "schema_samples: %s\n", err.message);
            return 1;
        }
        json_t *out = samples(json_object_get(row, "schema"), &rng);
        json_dumpf(out, stdout, JSON_COMPACT | JSON_ENCODE_ANY);
        putchar('\n');
        json_decref(out);
        json_decref(row);
    }
    free(line);
    return 0;
}
