/* A tokenizer and a template, and what documents become with them. */
#include "train/data_cases.h"

tern_tokenizer *data_tokenizer;

tern_chat_template *data_template;

const char data_template_source[] =
    "{% for m in messages %}{% if loop.first %}{{ bos_token }}{% endif %}"
    "{{ m['role'] | capitalize + ': ' + m['content'] | trim + '<|eot_id|>' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'Assistant: ' }}{% endif %}";

int data_open_tokenizer(void **state)
{
    (void)state;
    tern_file_map map;
    tern_gguf *gguf;
    tern_error err = {0};
    assert_ok(tern_file_map_open(&map, test_small_model(), &err), err);
    assert_ok(tern_gguf_parse(&gguf, map.data, map.size, &err), err);
    assert_ok(tern_tokenizer_open_gguf(&data_tokenizer, gguf, &err), err);
    tern_gguf_close(gguf);
    tern_file_map_close(&map);
    assert_ok(tern_chat_template_parse(&data_template, data_template_source, strlen(data_template_source), &err), err);
    return 0;
}

int data_close_tokenizer(void **state)
{
    (void)state;
    tern_chat_template_close(data_template);
    tern_tokenizer_close(data_tokenizer);
    return 0;
}

tern_train_maker data_maker(void)
{
    return (tern_train_maker){.n_vocab = 4096, .tokenizer = data_tokenizer, .template = data_template};
}

char *data_shown(const tern_train_document *d)
{
    tern_buf out = {0};
    tern_error err = {0};
    for (size_t i = 0; i < d->ids.n; i++) {
        const bool counts = d->in_loss.data[i], before = i && d->in_loss.data[i - 1];
        if (!counts && (i == 0 || before)) assert_ok(tern_buf_add(&out, "[", 1, &err), err);
        if (counts && i && !before) assert_ok(tern_buf_add(&out, "]", 1, &err), err);
        tern_span s = tern_token_bytes(data_tokenizer, d->ids.ids[i], true);
        assert_ok(tern_buf_add(&out, s.data, s.size, &err), err);
    }
    assert_int_equal(d->in_loss.size, d->ids.n);
    return out.data;
}

static void expect(const tern_train_maker *m, const char *line, const char *expected)
{
    tern_train_document d = {0};
    tern_error err = {0};
    assert_ok(tern_train_document_json(m, line, strlen(line), "line", &d, &err), err);
    if (d.skip != TERN_TRAIN_KEPT) fail_msg("%s: left out (%d)", line, d.skip);
    char *found = data_shown(&d);
    if (strcmp(found, expected) != 0) fail_msg("%s\nfound    %s\nexpected %s", line, found, expected);
    tern_free(found);
    tern_train_document_deinit(&d);
}

void data_expect_document(const char *line, const char *expected)
{
    const tern_train_maker m = data_maker();
    expect(&m, line, expected);
}

void data_expect_rendered(const char *source, const char *line, const char *expected)
{
    tern_train_maker m = data_maker();
    tern_chat_template *template;
    tern_error err = {0};
    assert_ok(tern_chat_template_parse(&template, source, strlen(source), &err), err);
    m.template = template;
    expect(&m, line, expected);
    tern_chat_template_close(template);
}

void data_expect_refused(const char *source, const char *line, const char *expected)
{
    tern_train_maker m = data_maker();
    tern_chat_template *template;
    tern_train_document d = {0};
    tern_error err = {0};
    assert_ok(tern_chat_template_parse(&template, source, strlen(source), &err), err);
    m.template = template;
    const tern_status status = tern_train_document_json(&m, line, strlen(line), "line", &d, &err);
    if (status != TERN_MALFORMED && status != TERN_UNSUPPORTED) fail_msg("%s: status %d", line, status);
    if (!strstr(err.message, expected)) fail_msg("%s: \"%s\": \"%s\" expected", line, err.message, expected);
    tern_train_document_deinit(&d);
    tern_chat_template_close(template);
}
