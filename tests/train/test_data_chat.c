/* Training data of conversations: which tokens the loss counts. */
#include "train/data_cases.h"

/* What spells a special token in text is text. */
static void special_tokens_are_not_read_in_text(void **state)
{
    (void)state;
    const tern_train_maker m = data_maker();
    tern_train_document d = {0};
    tern_error err = {0};
    assert_ok(tern_train_document_text(&m, "a<|eot_id|>", 11, &d, &err), err);
    for (size_t i = 1; i + 1 < d.ids.n; i++) assert_false(tern_token_is_special(data_tokenizer, d.ids.ids[i]));
    assert_int_equal(d.ids.ids[0], tern_tokenizer_bos(data_tokenizer));
    assert_int_equal(d.ids.ids[d.ids.n - 1], tern_tokenizer_eos(data_tokenizer));
    tern_train_document_deinit(&d);
}

static void only_the_assistant_counts(void **state)
{
    (void)state;
    data_expect_document(
        "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}, {\"role\": \"assistant\", \"content\": "
        "\"Hello there.\"}]}",
        "[" BOS "User: Hi<|eot_id|>Assistant:] Hello there.<|eot_id|>");
    data_expect_document(
        "{\"messages\": [{\"role\": \"system\", \"content\": \"Be kind.\"}, {\"role\": \"user\", \"content\": "
        "\"Assistant: no\"}, {\"role\": \"assistant\", \"content\": \"Yes.\"}, {\"role\": \"user\", "
        "\"content\": \"Bye\"}, {\"role\": \"assistant\", \"content\": \"Bye bye.\"}, {\"role\": \"user\", "
        "\"content\": \"unheard\"}]}",
        "[" BOS "System: Be kind.<|eot_id|>User: Assistant: no<|eot_id|>Assistant: ]Yes.<|eot_id|>"
        "[User: Bye<|eot_id|>Assistant: ]Bye bye.<|eot_id|>");
}

/* ShareGPT's and Alpaca's lines are the same conversations. */
static void foreign_forms_are_conversations(void **state)
{
    (void)state;
    data_expect_document(
        "{\"id\": \"7\", \"system\": \"Be kind.\", \"conversations\": [{\"from\": \"human\", \"value\": "
        "\"Hi\"}, {\"from\": \"gpt\", \"value\": \"Yes.\"}]}",
        "[" BOS "System: Be kind.<|eot_id|>User: Hi<|eot_id|>Assistant: ]Yes.<|eot_id|>");
    data_expect_document("{\"conversations\": [{\"from\": \"gpt\", \"value\": \"first\"}, {\"role\": \"user\", "
                         "\"content\": \"Hi\"}, {\"role\": \"assistant\", \"content\": \"Yes.\"}]}",
                         "[" BOS "User: Hi<|eot_id|>Assistant: ]Yes.<|eot_id|>");
    data_expect_document("{\"instruction\": \"Say yes.\", \"input\": \"\", \"output\": \"Yes.\", \"text\": \"all\"}",
                         "[" BOS "User: Say yes.<|eot_id|>Assistant: ]Yes.<|eot_id|>");
    data_expect_document(
        "{\"instruction\": \"Say it.\", \"input\": \"Yes.\", \"output\": \"Yes.\", \"system\": \"Be kind.\", "
        "\"history\": [[\"a\", \"b\"]]}",
        "[" BOS "System: Be kind.<|eot_id|>User: a<|eot_id|>Assistant:] b<|eot_id|>"
        "[User: Say it.\n\nYes.<|eot_id|>Assistant: ]Yes.<|eot_id|>");
    data_expect_document("{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", "
                         "\"content\": \"b\", \"weight\": 0}, {\"role\": \"user\", \"content\": \"c\"}, {\"role\": "
                         "\"assistant\", \"content\": \"d\", \"weight\": 1}]}",
                         "[" BOS "User: a<|eot_id|>Assistant: b<|eot_id|>User: c<|eot_id|>Assistant:] d<|eot_id|>");
}

/* A template that ends lines after each turn: the line end is nobody's, the end token is the assistant's. */
static void what_follows_an_answer_does_not_count(void **state)
{
    (void)state;
    static const char source[] = "{% for m in messages %}{{ '<|begin_of_text|>' + m['role'] + '\\n' + m['content'] + "
                                 "'<|eot_id|>\\n' }}{% endfor %}{% if add_generation_prompt %}"
                                 "{{ '<|begin_of_text|>assistant\\n' }}{% endif %}";
    static const char line[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"Hi\"}, {\"role\": \"assistant\", "
                               "\"content\": \"Yes.\"}, {\"role\": \"user\", \"content\": \"Bye\"}, {\"role\": "
                               "\"assistant\", \"content\": \"\"}]}";
    tern_train_maker m = data_maker();
    tern_chat_template *lines;
    tern_train_document d = {0};
    tern_error err = {0};
    assert_ok(tern_chat_template_parse(&lines, source, strlen(source), &err), err);
    m.template = lines;
    assert_ok(tern_train_document_json(&m, line, strlen(line), "line", &d, &err), err);
    char *found = data_shown(&d);
    assert_string_equal(found, "[" BOS "user\nHi<|eot_id|>\n" BOS "assistant\n]Yes.<|eot_id|>[\n");
    assert_int_equal(d.n_empty, 1);
    tern_free(found);
    tern_train_document_deinit(&d);
    tern_chat_template_close(lines);
}

/* The tokens are those that the chat sees. */
static void messages_are_the_templates_tokens(void **state)
{
    (void)state;
    static const char line[] =
        "{\"messages\": [{\"role\": \"user\", \"content\": \" What? \"}, {\"role\": \"assistant\", "
        "\"content\": \"That.\"}]}";
    const tern_chat_message messages[] = {{"user", " What? ", 7}, {"assistant", "That.", 5}};
    const tern_train_maker m = data_maker();
    tern_train_document d = {0};
    tern_tokens want = {0};
    tern_error err = {0};
    assert_ok(tern_train_document_json(&m, line, strlen(line), "line", &d, &err), err);
    assert_ok(tern_chat_template_tokens(data_template, data_tokenizer, messages, 2, false, &want, &err), err);
    assert_int_equal(d.ids.n, want.n);
    assert_memory_equal(d.ids.ids, want.ids, want.n * sizeof *want.ids);
    tern_tokens_deinit(&want);
    tern_train_document_deinit(&d);
}

/* A template that drops what earlier answers said: nobody could say which tokens are the assistant's. */
static void templates_that_rewrite_are_refused(void **state)
{
    (void)state;
    static const char source[] = "{% for m in messages %}{{ m['role'] + (m['content'] if loop.last else '') + '\\n' }}"
                                 "{% endfor %}{% if add_generation_prompt %}assistant{% endif %}",
                      line[] = "{\"messages\": [{\"role\": \"user\", \"content\": \"a\"}, {\"role\": \"assistant\", "
                               "\"content\": \"b\"}]}";
    tern_train_maker m = data_maker();
    tern_chat_template *rewriting;
    tern_train_document d = {0};
    tern_error err = {0};
    assert_ok(tern_chat_template_parse(&rewriting, source, strlen(source), &err), err);
    m.template = rewriting;
    assert_int_equal(tern_train_document_json(&m, line, strlen(line), "line", &d, &err), TERN_MALFORMED);
    assert_non_null(
        strstr(err.message, "renders the first 1 and the opening of an answer differently when more follow"));
    m.template = NULL;
    assert_int_equal(tern_train_document_json(&m, line, strlen(line), "line", &d, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "no chat template"));
    tern_train_document_deinit(&d);
    tern_chat_template_close(rewriting);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(special_tokens_are_not_read_in_text),   cmocka_unit_test(only_the_assistant_counts),
    cmocka_unit_test(messages_are_the_templates_tokens),     cmocka_unit_test(templates_that_rewrite_are_refused),
    cmocka_unit_test(what_follows_an_answer_does_not_count), cmocka_unit_test(foreign_forms_are_conversations),
};

TEST_GROUP(data_chat, "", tests, .setup = data_open_tokenizer, .teardown = data_close_tokenizer);
