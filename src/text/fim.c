/* Fill in the middle: the tokens of a text with a gap. */
#include "text/fim.h"

#include <string.h>

#include "base/bytes.h"

/* Its texts as tokens, each apart from the others. */
typedef struct parts {
    tern_tokens before, prefix, start, suffix; /* before: names and files */
} parts;

static void deinit(parts *p)
{
    tern_tokens_deinit(&p->before);
    tern_tokens_deinit(&p->prefix);
    tern_tokens_deinit(&p->start);
    tern_tokens_deinit(&p->suffix);
}

static tern_status need_tokens(const tern_tokenizer *t, tern_error *err)
{
    static const struct {
        tern_fim_token which;
        const char *name;
    } needed[] = {{TERN_FIM_PREFIX, "prefix"}, {TERN_FIM_SUFFIX, "suffix"}, {TERN_FIM_MIDDLE, "middle"}};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (tern_tokenizer_fim(t, needed[i].which) < 0)
            return tern_fail(err, TERN_UNSUPPORTED,
                             "the model cannot fill in the middle: its vocabulary has no %s token (as <|fim_%s|>)",
                             needed[i].name, needed[i].name);
    return TERN_OK;
}

/* "[MARK]name\n"; nothing where the model has no such token. */
static tern_status add_name(const tern_tokenizer *t, tern_fim_token mark, const char *name, tern_tokens *out,
                            tern_error *err)
{
    const int32_t id = tern_tokenizer_fim(t, mark);
    if (!name || id < 0) return TERN_OK;
    TERN_TRY(tern_tokens_add(out, id, err));
    tern_buf line = {0};
    tern_status status = tern_buf_add(&line, name, strlen(name), err);
    if (status == TERN_OK) status = tern_buf_add(&line, "\n", 1, err);
    if (status == TERN_OK) status = tern_tokenize(t, line.data, line.size, false, out, err);
    tern_buf_deinit(&line);
    return status;
}

static tern_status add_file(const tern_tokenizer *t, const tern_fim_file *file, tern_tokens *out, tern_error *err)
{
    static const char separator[] = "\n\n--- snippet ---\n\n";
    if (tern_tokenizer_fim(t, TERN_FIM_FILE) < 0)
        TERN_TRY(tern_tokenize(t, separator, sizeof separator - 1, false, out, err));
    else TERN_TRY(add_name(t, TERN_FIM_FILE, file->name ? file->name : "tmp", out, err));
    return tern_tokenize(t, file->text ? file->text : "", file->n_text, false, out, err);
}

static tern_status tokenize_parts(const tern_tokenizer *t, const tern_fim *fim, parts *p, tern_error *err)
{
    TERN_TRY(add_name(t, TERN_FIM_REPOSITORY, fim->repository, &p->before, err));
    for (size_t i = 0; i < fim->n_files; i++) TERN_TRY(add_file(t, &fim->files[i], &p->before, err));
    TERN_TRY(add_name(t, TERN_FIM_FILE, fim->name, &p->before, err));
    TERN_TRY(tern_tokenize(t, fim->prefix ? fim->prefix : "", fim->n_prefix, false, &p->prefix, err));
    TERN_TRY(tern_tokenize(t, fim->start ? fim->start : "", fim->n_start, false, &p->start, err));
    return tern_tokenize(t, fim->suffix ? fim->suffix : "", fim->n_suffix, false, &p->suffix, err);
}

static void drop_first(tern_tokens *tokens, size_t n_left)
{
    if (tokens->n <= n_left) return;
    memmove(tokens->ids, tokens->ids + (tokens->n - n_left), n_left * sizeof *tokens->ids);
    tokens->n = n_left;
}

static size_t smaller(size_t a, size_t b)
{
    return a < b ? a : b;
}

/* Prefix and suffix within `room` tokens: a quarter is the suffix's, and more where the prefix is short. */
static void cut_code(parts *p, size_t room)
{
    const size_t n_suffix = smaller(p->suffix.n, room / 4);
    const size_t n_prefix = smaller(p->prefix.n, room - n_suffix);
    drop_first(&p->prefix, n_prefix);
    p->suffix.n = smaller(p->suffix.n, room - n_prefix);
}

/* `fixed`: tokens beside its texts. */
static tern_status fit(parts *p, size_t fixed, size_t most, bool *cut, tern_error *err)
{
    const size_t needed = fixed + p->start.n, code = p->prefix.n + p->suffix.n;
    if (!most || needed + code + p->before.n <= most) return TERN_OK;
    if (needed > most)
        return tern_fail(err, TERN_CONTEXT_FULL,
                         "the text that the gap begins with has %zu tokens with the marks, at most %zu expected",
                         needed, most);
    if (cut) *cut = true;
    if (code > most - needed) cut_code(p, most - needed);
    drop_first(&p->before, most - needed - p->prefix.n - p->suffix.n);
    return TERN_OK;
}

static tern_status add_all(tern_tokens *to, const tern_tokens *from, tern_error *err)
{
    for (size_t i = 0; i < from->n; i++) TERN_TRY(tern_tokens_add(to, from->ids[i], err));
    return TERN_OK;
}

static tern_status add_prefix(const tern_tokenizer *t, const parts *p, tern_tokens *out, tern_error *err)
{
    TERN_TRY(tern_tokens_add(out, tern_tokenizer_fim(t, TERN_FIM_PREFIX), err));
    TERN_TRY(add_all(out, &p->prefix, err));
    return add_all(out, &p->start, err);
}

static tern_status add_suffix(const tern_tokenizer *t, const parts *p, tern_tokens *out, tern_error *err)
{
    TERN_TRY(tern_tokens_add(out, tern_tokenizer_fim(t, TERN_FIM_SUFFIX), err));
    return add_all(out, &p->suffix, err);
}

static tern_status join(const tern_tokenizer *t, const parts *p, bool bos, bool suffix_first, tern_tokens *out,
                        tern_error *err)
{
    if (bos) TERN_TRY(tern_tokens_add(out, tern_tokenizer_bos(t), err));
    TERN_TRY(add_all(out, &p->before, err));
    if (suffix_first) TERN_TRY(add_suffix(t, p, out, err));
    TERN_TRY(add_prefix(t, p, out, err));
    if (!suffix_first) TERN_TRY(add_suffix(t, p, out, err));
    return tern_tokens_add(out, tern_tokenizer_fim(t, TERN_FIM_MIDDLE), err);
}

tern_status tern_fim_tokenize(const tern_tokenizer *t, const tern_fim *fim, tern_tokens *tokens, bool *cut,
                              tern_error *err)
{
    const bool bos = tern_tokenizer_adds_bos(t) && tern_tokenizer_bos(t) >= 0;
    parts p = {0};
    tern_status status;
    if (cut) *cut = false;
    TERN_TRY(need_tokens(t, err));
    TERN_GOTO(tokenize_parts(t, fim, &p, err));
    TERN_GOTO(fit(&p, 3u + bos, fim->max_tokens, cut, err));
    TERN_GOTO(join(t, &p, bos, fim->suffix_first, tokens, err));
fail:
    deinit(&p);
    return status;
}
