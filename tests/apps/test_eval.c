/* tern eval: questions in the forms in which they are published, and what is wrong in them. */
#include <string.h>

#include "base/bytes.h"
#include "support/command.h"
#include "support/test.h"

static json_t *answers(const char *text, const char *metric, const char *n)
{
    const char *file = test_scratch("questions.jsonl");
    test_write_text(file, text);
    test_output o = TERN("eval", file, "--json", "-n", n);
    if (o.code != 0) fail_msg("%s", o.err);
    json_t *found = NULL;
    for (const char *line = o.out; *line && !found; line = strchr(line, '\n') + 1) {
        json_t *object = json_loads(line, JSON_DISABLE_EOF_CHECK, NULL);
        if (object && strcmp(json_string_value(json_object_get(object, "metric")), metric) == 0) found = object;
        else json_decref(object);
    }
    test_output_free(&o);
    assert_non_null(found);
    return found;
}

static void expect(const char *text, const char *metric, const char *n_tokens, int right, int n, double wrong_by)
{
    json_t *o = answers(text, metric, n_tokens);
    const double found = json_number_value(json_object_get(o, "stderr"));
    assert_int_equal(json_integer_value(json_object_get(o, "n")), n);
    assert_true(json_is_null(json_object_get(o, "stderr")) == (n < 2));
    assert_int_equal(json_integer_value(json_object_get(o, "right")), right);
    if (!(found > wrong_by - 1e-6 && found < wrong_by + 1e-6)) fail_msg("%g, %g expected", found, wrong_by);
    json_decref(o);
}

/* The bundled model knows stories, so that it tells its own words from others; the last answer is a wrong one. */
static void published_forms_are_read(void **state)
{
    (void)state;
    static const char text[] =
        "{\"prompt\": \"Once upon a time, by the lake, there lived a\", \"choices\": [\" nail\", \" kind\"], "
        "\"answer\": 1}\n"
        "{\"activity_label\": \"Once upon a time\", \"ctx_a\": \"there was a kind fox.\", \"ctx_b\": \"he\", "
        "\"endings\": [\"was [mark] very sad.\", \"zz nails xx.\"], \"label\": \"0\"}\n"
        "{\"goal\": \"Tom met Ben.\", \"sol1\": \"xqz 1850 k\", \"sol2\": \"They were happy.\", \"label\": 1}\n"
        "{\"question\": \"Who was sad?\", \"choices\": {\"text\": [\"qz xk pf\", \"The fox.\"], \"label\": [\"3\", "
        "\"4\"]}, \"answerKey\": \"3\"}\n";
    expect(text, "acc", "1", 3, 4, 0.25); /* sqrt(0.75 * 0.25 / 3) */
}

/* Of the same question with each letter as its answer, in both spellings, one is right. */
static void one_letter_is_right(void **state)
{
    (void)state;
#define MMLU(answer) "{\"question\": \"Which?\", \"choices\": [\"a\", \"b\", \"c\", \"d\"], \"answer\": " answer "}\n"
    expect(MMLU("0") MMLU("1") MMLU("2") MMLU("3"), "acc", "1", 1, 4, 0.25);
    expect(MMLU("\"A\"") "\n" MMLU("\"B\"") MMLU("\"C\"") MMLU("\"D\""), "acc_norm", "1", 1, 4, 0.25);
}

static double log_probability(const char *text)
{
    const char *file = test_scratch("scored.txt");
    test_write_text(file, text);
    json_t *o = test_tern_json(TERN_WORDS("perplexity", file, "--json"));
    const double nll = json_number_value(json_object_get(o, "nll")),
                 n = json_number_value(json_object_get(o, "tokens_scored"));
    json_decref(o);
    return -nll * n;
}

/* The choice that makes the whole text likelier, as tern perplexity measures it; context and BOS are the same. */
static void the_likelier_text_is_chosen(void **state)
{
    (void)state;
    static const char *const ends[][2] = {{" the lake to play.", " a market and ate."},
                                          {" Ben was sad.", " There she met Tom."},
                                          {" home.", " the old mill to look for a red ball."}};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        char texts[2][200], line[400];
        for (int k = 0; k < 2; k++) snprintf(texts[k], sizeof texts[k], "Once upon a time Anna went to%s", ends[i][k]);
        const bool second = log_probability(texts[1]) > log_probability(texts[0]);
        snprintf(line, sizeof line,
                 "{\"prompt\": \"Once upon a time Anna went to\", \"choices\": [\"%s\", \"%s\"], \"answer\": %d}",
                 ends[i][0], ends[i][1], second);
        expect(line, "acc", "1", 1, 1, 0);
    }
}

static json_int_t count_right(const char *text, const char *parallel)
{
    const char *file = test_scratch("choices.jsonl");
    test_write_text(file, text);
    test_output o = TERN("eval", file, "--json", "--parallel", parallel);
    if (o.code != 0) fail_msg("%s", o.err);
    json_t *first = json_loads(o.out, JSON_DISABLE_EOF_CHECK, NULL); /* acc */
    const json_int_t right = json_integer_value(json_object_get(first, "right"));
    json_decref(first);
    test_output_free(&o);
    return right;
}

/* Of many choices the likeliest do not depend on what is scored beside them; half of the contexts are alike, and two
 * are longer than a page of the pool. */
static void choices_in_one_step_are_the_same(void **state)
{
    (void)state;
    static const char *const who[] = {"fox", "girl", "boy", "dog", "cat", "bird", "queen", "mouse", "frog"};
    static const char *const parallel[] = {"1", "3", "8", "16"};
    static const char more[] =
        " Anna met Ben by the lake. They were happy, and they played with a red ball until it was "
        "late, and then they went home to the old mill, where";
    enum { N = sizeof who / sizeof *who };
    tern_buf lines = {0};
    tern_error err = {0};
    json_int_t expected = 0;
    for (int i = 0; i < N; i++) {
        char line[500];
        snprintf(line, sizeof line,
                 "{\"prompt\": \"Once upon a time there was a %s.%s\", \"choices\": [\" The %s was happy.\", "
                 "\" The %s was happy.\"], \"answer\": 0}\n",
                 who[i % 2 ? 0 : i], i % 4 == 3 ? more : "", who[i], who[(i + 1) % N]);
        expected += count_right(line, "1");
        assert_ok(tern_buf_add(&lines, line, strlen(line), &err), err);
    }
    assert_in_range(expected, 1, N - 1);
    for (size_t i = 0; i < sizeof parallel / sizeof *parallel; i++)
        assert_int_equal(count_right(lines.data, parallel[i]), expected);
    tern_buf_deinit(&lines);
}

static void written_answers_are_compared(void **state)
{
    (void)state;
    char line[600];
    test_output o = TERN("run", "-p", "Once upon a time", "-n", "9", "--greedy", "-q");
    assert_int_equal(o.code, 0);
    o.out[strcspn(o.out, "\n")] = 0;
    snprintf(line, sizeof line,
             "{\"prompt\": \"Once upon a time\", \"answer\": \"%s\"}\n"
             "{\"prompt\": \"Once upon a time\", \"answer\": \"a nail\"}\n",
             o.out);
    expect(line, "exact_match", "9", 1, 2, 0.5);
    test_output_free(&o);
}

/* Each is what tern run says of that prompt alone, whatever is answered beside it. */
static void many_at_once_are_the_same(void **state)
{
    (void)state;
    static const char *const who[] = {"fox", "girl", "boy", "dog", "cat", "bird", "queen", "mouse", "frog"};
    static const char *const parallel[] = {"1", "2", "4", "8"};
    enum { N = sizeof who / sizeof *who };
    tern_buf lines = {0};
    tern_error err = {0};
    const char *file = test_scratch("many.jsonl");
    for (int i = 0; i < N; i++) {
        char prompt[80];
        snprintf(prompt, sizeof prompt, "Once upon a time there was a %s", who[i]);
        test_output o = TERN("run", "-p", prompt, "-n", i % 2 ? "5" : "24", "--greedy", "-q");
        assert_int_equal(o.code, 0);
        o.out[strcspn(o.out, "\n")] = 0;
        if (i % 2) strcpy(o.out, "no such text"); /* every second one is wrong */
        assert_ok(tern_buf_addf(&lines, &err, "{\"prompt\": \"%s\", \"answer\": \"%s\"}\n", prompt, o.out), err);
        test_output_free(&o);
    }
    test_write_text(file, lines.data);
    for (size_t i = 0; i < sizeof parallel / sizeof *parallel; i++) {
        json_t *o = test_tern_json(TERN_WORDS("eval", file, "--json", "-n", "24", "--parallel", parallel[i]));
        if (json_integer_value(json_object_get(o, "right")) != (N + 1) / 2)
            fail_msg("--parallel %s: %lld right", parallel[i],
                     (long long)json_integer_value(json_object_get(o, "right")));
        assert_int_equal(json_integer_value(json_object_get(o, "n")), N);
        json_decref(o);
    }
    tern_buf_deinit(&lines);
}

static void questions_that_do_not_fit_are_named(void **state)
{
    (void)state;
    static const char text[] = "{\"prompt\": \"Once\", \"answer\": \"a\"}\n"
                               "{\"prompt\": \"Once upon a time there was a little girl who went to the old mill and "
                               "the lake\", \"answer\": \"a\"}\n";
    const char *file = test_scratch("long.jsonl");
    test_write_text(file, text);
    test_output o = TERN("eval", file, "--ctx", "8", "-n", "2");
    if (o.code != 1 || !strstr(o.err, "long.jsonl:2: ")) fail_msg("%d: %s", o.code, o.err);
    test_output_free(&o);
}

static void mistakes_name_file_and_line(void **state)
{
    (void)state;
    static const char *const cases[][2] = {
        {"\n{\"prompt\": \"a\", \"choices\": [\"x\", \"y\"], \"answer\": 2}", ":2: \"answer\": one of the 2 choices"},
        {"{\"prompt\": \"a\", \"choices\": [\"x\"], \"answer\": 0}", ":1: \"choices\": an array of at least two"},
        {"{\"prompt\": \"a\", \"choices\": [\"x\", 3], \"answer\": 0}", ":1: \"choices\": strings expected"},
        {"{\"question\": \"a\", \"choices\": {\"text\": [\"x\", \"y\"]}, \"answerKey\": \"Q\"}",
         "\"answerKey\": one of the 2"},
        {"{\"text\": \"a\"}", ":1: no question: an object of HellaSwag"},
        {"{nothing", ":1: JSON: line 1, column "},
        {"\n \n", ": no question found, at least one expected"},
        {"[1]", ":1: a JSON list found, one object per line expected"},
        {"question,answer\nsky,blue\n", ":1: question,answer found, one JSON object per line expected"},
    };
    const char *file = test_scratch("wrong.jsonl");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        test_write_text(file, cases[i][0]);
        test_output o = TERN("eval", file);
        if (o.code == 0 || !strstr(o.err, cases[i][1])) fail_msg("%s: %s", cases[i][0], o.err);
        test_output_free(&o);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(published_forms_are_read),
    cmocka_unit_test(one_letter_is_right),
    cmocka_unit_test(the_likelier_text_is_chosen),
    cmocka_unit_test(choices_in_one_step_are_the_same),
    cmocka_unit_test(written_answers_are_compared),
    cmocka_unit_test(many_at_once_are_the_same),
    cmocka_unit_test(questions_that_do_not_fit_are_named),
    cmocka_unit_test(mistakes_name_file_and_line),
};

TEST_GROUP(eval, "", tests);
