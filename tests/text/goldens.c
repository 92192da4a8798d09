/* Golden texts with their ids, and checks of a tokenizer against them. */
#include "text/goldens.h"

goldens goldens_of_json(const char *name)
{
    tern_error err = {0};
    goldens g = {0};
    char path[256];
    snprintf(path, sizeof path, "tokenizers/%s", name);
    assert_ok(tern_json_read(&g.root, test_fixture(path), 1 << 26, &err), err);
    g.n = json_array_size(g.root);
    assert_true(g.n > 100);
    g.items = calloc(g.n, sizeof *g.items);
    for (size_t i = 0; i < g.n; i++) {
        const json_t *item = json_array_get(g.root, i), *ids = json_object_get(item, "ids");
        assert_ok(tern_json_get_string(item, "text", &g.items[i].text, &err), err);
        g.items[i].n = json_array_size(ids);
        g.items[i].ids = calloc(g.items[i].n + 1, sizeof(int32_t));
        for (size_t k = 0; k < g.items[i].n; k++)
            g.items[i].ids[k] = (int32_t)json_number_value(json_array_get(ids, k));
    }
    return g;
}

/* One line of ids. */
static const char *read_ids(golden *item, const char *line)
{
    while (*line == ' ') line++;
    while (*line && *line != '\n') {
        char *end;
        long id = strtol(line, &end, 10);
        if (end == line) break;
        item->ids = realloc(item->ids, (item->n + 1) * sizeof(int32_t));
        item->ids[item->n++] = (int32_t)id;
        line = end;
        while (*line == ' ') line++;
    }
    return *line ? line + 1 : line;
}

goldens goldens_of_inp(const char *name)
{
    static const char SEPARATOR[] = "\n__ggml_vocab_test__\n";
    tern_error err = {0};
    goldens g = {0};
    for (int i = 0; i < 2; i++) {
        char path[256];
        snprintf(path, sizeof path, "tokenizers/%s.%s", name, i ? "out" : "inp");
        assert_ok(tern_file_read(&g.storage[i], test_fixture(path), 1 << 20, &err), err);
    }
    const char *line = g.storage[1].data, *at = g.storage[0].data, *stop = at + g.storage[0].size;
    for (const char *end; (end = memmem(at, (size_t)(stop - at), SEPARATOR, strlen(SEPARATOR))) != NULL;
         at = end + strlen(SEPARATOR)) {
        g.items = realloc(g.items, (g.n + 1) * sizeof *g.items);
        g.items[g.n] = (golden){.text = {(const uint8_t *)at, (size_t)(end - at)}};
        line = read_ids(&g.items[g.n++], line);
    }
    assert_true(g.n > 40);
    return g;
}

void goldens_free(goldens *g)
{
    for (size_t i = 0; i < g->n; i++) free(g->items[i].ids);
    free(g->items);
    for (int i = 0; i < 2; i++) tern_buf_deinit(&g->storage[i]);
    tern_json_free(g->root);
}

void check_golden(const tern_tokenizer *t, const golden *item, size_t index, bool allow_special)
{
    tern_error err = {0};
    tern_tokens tokens = {0};
    assert_ok(tern_tokenize(t, item->text.data, item->text.size, allow_special, &tokens, &err), err);
    size_t same = 0;
    while (same < tokens.n && same < item->n && tokens.ids[same] == item->ids[same]) same++;
    if (same != tokens.n || same != item->n)
        fail_msg("text %zu \"%.*s\": %zu ids, %zu expected; number %zu is %d, %d expected", index, (int)item->text.size,
                 (const char *)item->text.data, tokens.n, item->n, same, same < tokens.n ? tokens.ids[same] : -1,
                 same < item->n ? item->ids[same] : -1);
    tern_tokens_deinit(&tokens);
}

void check_goldens(const tern_tokenizer *t, const goldens *g, bool allow_special)
{
    for (size_t i = 0; i < g->n; i++) check_golden(t, &g->items[i], i, allow_special);
}

tern_buf read_whole(const char *path)
{
    tern_error err = {0};
    tern_buf buf = {0};
    assert_ok(tern_file_read(&buf, path, (size_t)1 << 28, &err), err);
    return buf;
}

tern_tokenizer *open_llama3(void)
{
    tern_error err = {0};
    tern_tokenizer *t = NULL;
    tern_buf file = read_whole(test_fixture("tokenizers/llama3.tiktoken"));
    assert_ok(tern_tokenizer_parse_tiktoken(&t, file.data, file.size, NULL, &err), err);
    tern_buf_deinit(&file);
    return t;
}

int32_t llama3_ranks(void)
{
    return test_on_shared() ? 128000 : 1500;
}

tern_tokenizer *open_spm1024(void)
{
    tern_error err = {0};
    tern_tokenizer *t = NULL;
    tern_buf file = read_whole(test_fixture("tokenizers/spm1024.model"));
    assert_ok(tern_tokenizer_parse_sentencepiece(&t, file.data, file.size, &err), err);
    tern_buf_deinit(&file);
    return t;
}

tern_tokenizer *open_demo(void)
{
    tern_error err = {0};
    tern_tokenizer *t = NULL;
    tern_buf file = read_whole(test_model("tiny-stories-bitnet/tokenizer.json"));
    assert_ok(tern_tokenizer_parse_json(&t, file.data, file.size, &err), err);
    tern_buf_deinit(&file);
    return t;
}
