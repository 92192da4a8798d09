/* From --grammar, --json-schema, --regex and their like to the filter of a generation. */
#include <string.h>

#include "apps/generation.h"

/* A flag that gives a grammar: its text, or the file that holds it. */
typedef struct source {
    const char *flag, *text, *path;
    tern_grammar_kind kind;
} source;

static tern_status open_source(tern_app_generation *g, const source *s, tern_error *err)
{
    tern_buf file = {0};
    tern_status status = TERN_OK;
    if (s->path) TERN_GOTO(tern_app_read_text(s->path, &file, err));
    const char *text = s->path ? file.data : s->text;
    if (!text) text = "";
    status = tern_grammar_open(&g->grammar, g->vocab, s->kind, text, s->path ? file.size : strlen(text), err);
    if (status != TERN_OK) status = tern_error_prefix(err, "--%s", s->flag);
fail:
    tern_buf_deinit(&file);
    return status;
}

static tern_status constrain(tern_app_generation *g, const source *s, tern_engine *engine, tern_error *err)
{
    const tern_tokenizer *tokenizer = tern_engine_tokenizer(engine);
    if (!tokenizer)
        return tern_fail(err, TERN_UNSUPPORTED, "--%s: the model has no tokenizer, which it needs", s->flag);
    TERN_TRY(tern_grammar_vocab_open(&g->vocab, tokenizer, err));
    TERN_TRY(open_source(g, s, err));
    if (tern_app_interrupted()) return tern_app_fail_interrupted(err);
    TERN_TRY(tern_grammar_state_open(&g->state, g->grammar, err));
    g->filter = tern_grammar_state_filter(g->state);
    g->params.filter = &g->filter;
    return TERN_OK;
}

tern_status tern_app_generation_constrain(tern_app_generation *g, const tern_options *o, tern_engine *engine,
                                          tern_error *err)
{
    const source sources[] = {{"grammar", o->grammar, NULL, TERN_GRAMMAR_GBNF},
                              {"grammar-file", NULL, o->grammar_file, TERN_GRAMMAR_GBNF},
                              {"json-schema", o->schema, NULL, TERN_GRAMMAR_SCHEMA},
                              {"json-schema-file", NULL, o->schema_file, TERN_GRAMMAR_SCHEMA},
                              {"json-object", o->json_object ? "" : NULL, NULL, TERN_GRAMMAR_JSON},
                              {"regex", o->regex, NULL, TERN_GRAMMAR_REGEX}};
    const source *given = NULL;
    for (size_t i = 0; i < sizeof sources / sizeof *sources; i++) {
        if (!sources[i].text && !sources[i].path) continue;
        if (given)
            return tern_fail(err, TERN_INVALID_ARGUMENT, "--%s and --%s: both found, one of them expected", given->flag,
                             sources[i].flag);
        given = &sources[i];
    }
    return given ? constrain(g, given, engine, err) : TERN_OK;
}
