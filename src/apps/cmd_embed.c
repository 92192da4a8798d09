/* tern embed: one vector for each text. */
#include <string.h>

#include "apps/lora.h"
#include "base/alloc.h"

enum { PIECE_TOKENS = 64, MOST_POSITIONS = 2048 };

static const tern_flag flags[] = {
    {"prompt", 'p', TERN_FLAG_TEXT, "TEXT", offsetof(tern_options, prompt), 0, 0, "The text"},
    {"file", 'f', TERN_FLAG_TEXT, "FILE", offsetof(tern_options, file), 0, 0, "A file that is one text"},
    {"pooling", 0, TERN_FLAG_CHOICE, "last|mean|cls", offsetof(tern_options, pooling), 0, 0,
     "The state of the last token, the mean of all, or that of the first; as the model says when not given"},
    {"normalize", 0, TERN_FLAG_BOOL, NULL, offsetof(tern_options, normalize), 0, 0, "Scale vectors to length 1"},
    {"special", 0, TERN_FLAG_BOOL, NULL, offsetof(tern_options, special), 0, 0, "Special tokens are read in the text"},
    {"json", 0, TERN_FLAG_BOOL, NULL, offsetof(tern_options, json), 0, 0, "Print JSON"},
    {0},
};

static const tern_flag_group groups[] = {{"Flags", flags},
                                         {"Model", tern_flags_model},
                                         {"Adapters", tern_flags_lora},
                                         {"Context", tern_flags_session},
                                         {"Numbers", tern_flags_numbers, true},
                                         {"Device", tern_flags_device},
                                         {"Several processes (mpirun)", tern_flags_ranks, true},
                                         {"CPU", tern_flags_cpu},
                                         {"CPU kernels", tern_flags_kernel},
                                         {"Fusion", tern_flags_fusion, true},
                                         {0}};

typedef struct embedding {
    const tern_options *options;
    tern_engine *engine;
    tern_session *session;
    float *vector; /* [n_embd] */
    uint32_t n_embd;
    tern_pooling pooling;
    json_t *list; /* NULL: text */
} embedding;

static tern_pooling pooling_of(const tern_options *o, tern_pooling own)
{
    uint32_t pooling;
    tern_choice_parse(TERN_CHOICE_POOLING, o->pooling, &pooling, NULL); /* the flag takes no other words */
    return o->pooling ? (tern_pooling)pooling : own;
}

/* BOS first and EOS last where the tokenizer has it so. */
static tern_status tokens_of(const embedding *e, const char *text, size_t n, tern_tokens *out, tern_error *err)
{
    const tern_tokenizer *t = tern_engine_tokenizer(e->engine);
    const uint32_t special = e->options->special ? TERN_TOKENIZE_SPECIAL : 0;
    TERN_TRY(tern_tokenizer_encode(t, text, n, special | TERN_TOKENIZE_BOS | TERN_TOKENIZE_END, out, err));
    if (out->n) return TERN_OK;
    return tern_fail(err, TERN_INVALID_ARGUMENT, "an empty text: at least one token expected");
}

static void print_vector(const embedding *e, size_t n_tokens)
{
    json_t *values = e->list ? json_array() : NULL;
    for (uint32_t i = 0; i < e->n_embd; i++) {
        if (values) json_array_append_new(values, json_real((double)e->vector[i]));
        else printf("%s%.9g", i ? " " : "", (double)e->vector[i]);
    }
    if (!values) putchar('\n');
    else json_array_append_new(e->list, json_pack("{s:I, s:o}", "tokens", (json_int_t)n_tokens, "embedding", values));
}

static tern_status embed(const embedding *e, const char *text, size_t n, tern_error *err)
{
    tern_tokens tokens = {0};
    tern_status status;
    TERN_GOTO(tokens_of(e, text, n, &tokens, err));
    if (tokens.n > tern_session_n_ctx(e->session))
        TERN_GOTO(tern_fail(err, TERN_CONTEXT_FULL, "%zu tokens in a context of %u: a larger --ctx expected", tokens.n,
                            tern_session_n_ctx(e->session)));
    TERN_GOTO(tern_session_embed(e->session, tokens.ids, (uint32_t)tokens.n, e->pooling, e->options->normalize,
                                 e->vector, err));
    print_vector(e, tokens.n);
    if (!tern_app_flushed()) status = tern_app_flush(err);
    if (status == TERN_OK && tern_app_interrupted()) status = tern_app_fail_interrupted(err);
fail:
    tern_tokens_deinit(&tokens);
    return status;
}

/* Each line of standard input is a text. */
static tern_status embed_lines(const embedding *e, const char *text, size_t n, tern_error *err)
{
    for (size_t at = 0, end; at < n; at = end + 1) {
        const char *next = memchr(text + at, '\n', n - at);
        end = next ? (size_t)(next - text) : n;
        const size_t cr = end > at && text[end - 1] == '\r';
        TERN_TRY(embed(e, text + at, end - at - cr, err));
    }
    return TERN_OK;
}

static tern_status embed_all(const embedding *e, tern_error *err)
{
    const tern_options *o = e->options;
    tern_buf text = {0};
    tern_status status;
    const char *given = o->prompt ? o->prompt : o->args.n ? o->args.items[0] : NULL;
    if ((o->prompt != NULL) + (o->file != NULL) + (o->args.n > 0) > 1)
        return tern_fail(err, TERN_INVALID_ARGUMENT,
                         "the text is given twice: one of TEXT, --prompt and --file expected");
    if (given) return embed(e, given, strlen(given), err);
    TERN_GOTO(tern_app_read_text(o->file ? o->file : "-", &text, err));
    status = o->file ? embed(e, text.data, text.size, err) : embed_lines(e, text.data, text.size, err);
fail:
    tern_buf_deinit(&text);
    return status;
}

static tern_status open_all(embedding *e, const tern_app_loras *loras, tern_error *err)
{
    tern_engine_info model = {.size = sizeof model};
    TERN_TRY(tern_engine_describe(e->engine, &model, err));
    e->n_embd = model.n_embd;
    e->pooling = pooling_of(e->options, model.pooling);
    e->vector = tern_calloc(model.n_embd, sizeof *e->vector);
    if (!e->vector) return tern_fail_alloc(err, model.n_embd * sizeof *e->vector);
    tern_session_params params = {.size = sizeof params,
                                  .n_ctx = model.n_ctx_train < MOST_POSITIONS ? model.n_ctx_train : MOST_POSITIONS,
                                  .max_outputs = PIECE_TOKENS,
                                  .keep_hidden = true,
                                  .host_sampling = true,
                                  .loras = loras->uses,
                                  .n_loras = loras->n};
    if (e->options->ctx) params.n_ctx = e->options->ctx;
    return tern_app_open_session(&e->session, e->engine, e->options, params, err);
}

static tern_status run(const tern_options *o, tern_error *err)
{
    embedding e = {.options = o, .list = o->json ? json_array() : NULL};
    tern_app_loras loras = {0};
    tern_status status;
    TERN_GOTO(tern_app_open_reader(&e.engine, o, err));
    TERN_GOTO(tern_app_load_loras(&loras, o, e.engine, err));
    TERN_GOTO(open_all(&e, &loras, err));
    TERN_GOTO(embed_all(&e, err));
    if (o->json) {
        json_t *document = json_pack("{s:s, s:b, s:O}", "pooling", tern_choice_word(TERN_CHOICE_POOLING, e.pooling),
                                     "normalized", (int)o->normalize, "embeddings", e.list);
        status = tern_app_print_json(document, err);
    }
fail:
    json_decref(e.list);
    tern_session_close(e.session);
    tern_free(e.vector);
    tern_app_close_loras(&loras);
    tern_engine_close(e.engine);
    return status;
}

const tern_command tern_command_embed = {
    .name = "embed",
    .usage = "-m MODEL [TEXT | -p TEXT | -f FILE] [--pooling last|mean|cls] [--normalize]",
    .summary = "Turn texts into vectors",
    .detail = "Without a text every line of standard input is a text. Each text gives a line of numbers: the hidden "
              "states after the last norm, pooled.",
    .groups = groups,
    .ranks = TERN_RANKED_FOLLOWED,
    .max_args = 1,
    .run = run,
};
