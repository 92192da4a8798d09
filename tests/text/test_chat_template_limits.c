/* Templates that are refused, stop by themselves, or would take too much. */
#include "text/template_cases.h"

static const tern_chat_message dialogue[] = {
    {"user", "  Hi <b>\n", 9},
    {"assistant", "yes", 3},
    {"user", "more", 4},
};

static void expect_error(const char *source, tern_status status, const char *message)
{
    tern_error err = {0};
    tern_buf out = {0};
    int64_t live = tern_alloc_live();
    tern_status got = template_render(source, dialogue, 3, true, &out, &err);
    if (got != status) fail_msg("%s: status %d (%s), expected %d", source, got, err.message, status);
    if (!strstr(err.message, message)) fail_msg("%s: \"%s\", expected \"%s\" in it", source, err.message, message);
    assert_int_equal(err.code, status);
    assert_int_equal(out.size, 0);
    assert_int_equal(tern_alloc_live(), live);
}

static void exceptions_carry_their_message(void **state)
{
    (void)state;
    tern_error err = {0};
    tern_buf out = {0};
    const tern_chat_message system[] = {{"system", "x", 1}, {"assistant", "y", 1}};
    assert_int_equal(template_render(template_turn_style, system, 1, false, &out, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "no system role here"));
    assert_int_equal(template_render(template_inst_style, system, 2, false, &out, &err), TERN_INVALID_ARGUMENT);
    assert_non_null(strstr(err.message, "line 4: after the system message, roles alternate"));
}

static void bad_templates_are_refused(void **state)
{
    (void)state;
    expect_error("a\n{{ 'x' | nosuch }}", TERN_UNSUPPORTED, "line 2: filter \"nosuch\"");
    expect_error("{{ 1 is nosuch }}", TERN_UNSUPPORTED, "test \"nosuch\"");
    expect_error("\n\n{% include 'x' %}", TERN_UNSUPPORTED, "line 3: tag {% include %}");
    expect_error("{{ messages.append(1) }}", TERN_UNSUPPORTED, "method \"append\" of list");
    expect_error("{{ lipsum(1) }}", TERN_UNSUPPORTED, "function \"lipsum\"");
    expect_error("{{ cycler(1) }}", TERN_UNSUPPORTED, "printing a cycler");
    expect_error("{{ '%d' % 'a' }}", TERN_INVALID_ARGUMENT, "%d of string, expected a number");
    expect_error("{{ 'x'.translate({}) }}", TERN_UNSUPPORTED, "method \"translate\" of string");
    expect_error("{% if true %}\n{{ 1 | nosuch }}{% endif %}", TERN_UNSUPPORTED, "line 2: filter \"nosuch\"");
    expect_error("{% autoescape true %}", TERN_UNSUPPORTED, "tag {% autoescape %}");
    expect_error("{{ messages[0].items }}", TERN_UNSUPPORTED, "printing a method");
    expect_error("{% for m in messages %}{{ messages | map('nosuch') | list }}{% endfor %}", TERN_UNSUPPORTED,
                 "filter \"nosuch\"");
    expect_error("{% if true %}", TERN_MALFORMED, "endif");
    expect_error("{% for x in y %}{% endif %}", TERN_MALFORMED, "expected endfor, found endif");
    expect_error("{{ 'abc }}", TERN_MALFORMED, "string ' is never closed");
    expect_error("a\n{{ 1", TERN_MALFORMED, "line 2: tag {{ is never closed");
    expect_error("{# x", TERN_MALFORMED, "comment");
    expect_error("{% raw %}x", TERN_MALFORMED, "raw block");
    expect_error("{% break %}", TERN_MALFORMED, "outside a loop");
    expect_error("{{ 1 $ 2 }}", TERN_MALFORMED, "0x24");
    expect_error("{{ foo.bar }}", TERN_INVALID_ARGUMENT, "\"foo\" is undefined");
    expect_error("{{ 1 + 'a' }}", TERN_INVALID_ARGUMENT, "cannot apply + to integer and string");
    expect_error("{{ 1 // 0 }}", TERN_INVALID_ARGUMENT, "division by zero");
}

/* head repeated n times, middle, tail repeated n times; the caller frees it. */
static char *nest(const char *head, const char *middle, const char *tail, size_t n)
{
    char *text = malloc(n * (strlen(head) + strlen(tail)) + strlen(middle) + 1), *at = text;
    for (size_t i = 0; i < n; i++) at = stpcpy(at, head);
    at = stpcpy(at, middle);
    for (size_t i = 0; i < n; i++) at = stpcpy(at, tail);
    return text;
}

static void nested_error(const char *head, const char *middle, const char *tail, size_t n, const char *message)
{
    char *text = nest(head, middle, tail, n);
    expect_error(text, TERN_LIMIT, message);
    free(text);
}

static void limits(void **state)
{
    (void)state;
    char *deepest = nest("{% if true %}", "{{ (1) }}", "{% endif %}", 64);
    template_expect_text(deepest, dialogue, 3, false, "1");
    free(deepest);
    nested_error("{% if true %}", "x", "{% endif %}", 65, "nesting deeper than 64");
    nested_error("{% for i in [1] %}", "x", "{% endfor %}", 10000, "nesting deeper than 64");
}

static void bombs(void **state)
{
    (void)state;
    char *parentheses = nest("(", "1", ")", 100000), *braced = malloc(300000);
    sprintf(braced, "{{ %s }}", parentheses);
    expect_error(braced, TERN_LIMIT, "nesting deeper than 64");
    free(parentheses);
    free(braced);
    expect_error("{% for i in range(9999) %}{% for j in range(9999) %}0123456789012345678901234567890123456789"
                 "0123456789012345678901234567890123456789{% endfor %}{% endfor %}",
                 TERN_LIMIT, "");
    expect_error("{% for i in range(99999) %}{% for j in range(99999) %}{% endfor %}{% endfor %}", TERN_LIMIT, "");
    expect_error("{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}", TERN_LIMIT, "recursion");
    const char *tower = "{%% set ns = namespace(x=1, y=1) %%}{%% for i in range(%d) %%}{%% set ns.x = [ns.x, ns.x] %%}"
                        "{%% set ns.y = [ns.y, ns.y] %%}{%% endfor %%}{{ ns.x == ns.y }}";
    char source[300];
    snprintf(source, sizeof source, tower, 60); /* 2^60 comparisons */
    expect_error(source, TERN_LIMIT, "steps");
    snprintf(source, sizeof source, tower, 9999);
    expect_error(source, TERN_LIMIT, "");
    expect_error(
        "{% set ns = namespace(x=1) %}{% for i in range(40) %}{% set ns.x = [ns.x, ns.x] %}{% endfor %}{{ ns.x }}",
        TERN_LIMIT, "");
    expect_error("{{ 'x' * 99999999 }}", TERN_LIMIT, "");
    expect_error("{{ range(100001) }}", TERN_LIMIT, "range of 100001");
    expect_error("{{ 9223372036854775807 + 1 }}", TERN_LIMIT, "overflow");
}

/* Every n-th allocation fails: a clean error, and nothing left over. */
static void failed_allocations(void **state)
{
    (void)state;
    int64_t live = tern_alloc_live();
    tern_status status = TERN_OUT_OF_MEMORY;
    uint64_t n = 1;
    for (; status != TERN_OK; n++) {
        tern_buf out = {0};
        tern_error err = {0};
        tern_alloc_fail_after(n, true);
        status = template_render(template_header_style, dialogue, 3, true, &out, &err);
        tern_alloc_fail_after(0, false);
        if (status != TERN_OK) assert_int_equal(status, TERN_OUT_OF_MEMORY);
        tern_buf_deinit(&out);
        assert_int_equal(tern_alloc_live(), live);
    }
    assert_true(n > 5);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(exceptions_carry_their_message),
    cmocka_unit_test(bad_templates_are_refused),
    cmocka_unit_test(limits),
    cmocka_unit_test(bombs),
    cmocka_unit_test(failed_allocations),
};

TEST_GROUP(chat_template_limits, "web", tests);
