/* Templates as Jinja2 renders them with the settings of transformers: tests/data/jinja/make.py writes the cases. */
#include "base/alloc.h"
#include "base/bytes.h"
#include "base/file.h"
#include "format/json.h"
#include "support/places.h"
#include "support/test.h"
#include "text/chat/template.h"

static tern_status render(const char *source, size_t n, const json_t *variables, tern_buf *out, tern_error *err)
{
    tern_chat_template *t;
    tern_status status;
    TERN_TRY(tern_chat_template_parse(&t, source, n, err));
    TERN_GOTO(tern_chat_template_json(t, "", "", variables, out, err));
fail:
    tern_chat_template_close(t);
    return status;
}

/* "tern" is what is expected where Tern departs from "text" or "error"; no text: a refusal. */
static const json_t *expected_text(const json_t *c)
{
    const json_t *ours = json_object_get(c, "tern");
    return ours ? ours : json_object_get(c, "text");
}

static void check_case(const json_t *c, const json_t *variables)
{
    const json_t *source = json_object_get(c, "template"), *text = expected_text(c);
    tern_buf out = {0};
    tern_error err = {0};
    const int64_t live = tern_alloc_live();
    const tern_status status = render(json_string_value(source), json_string_length(source), variables, &out, &err);
    if (json_is_string(text) != (status == TERN_OK))
        fail_msg("%s: %s", json_string_value(source), status == TERN_OK ? "is not refused" : err.message);
    if (status == TERN_OK &&
        (out.size != json_string_length(text) || memcmp(out.data, json_string_value(text), out.size)))
        fail_msg("%s: \"%.*s\", expected \"%s\"", json_string_value(source), (int)out.size, out.data,
                 json_string_value(text));
    if (status != TERN_OK) assert_non_null(strstr(err.message, "chat template line "));
    tern_buf_deinit(&out);
    assert_int_equal(tern_alloc_live(), live);
}

static json_t *read_line(const char *line, size_t n)
{
    json_t *json = NULL;
    tern_error err = {0};
    assert_ok(tern_json_parse(&json, line, n, "case", &err), err);
    return json;
}

static void jinja2_cases(void **state)
{
    (void)state;
    tern_buf file = {0};
    tern_error err = {0};
    size_t n = 0;
    assert_ok(tern_file_read(&file, TERN_SOURCE_DIR "/tests/data/jinja/cases.jsonl", 1 << 22, &err), err);
    const char *line = file.data, *end = strchr(line, '\n');
    json_t *first = read_line(line, (size_t)(end - line));
    for (line = end + 1; (end = strchr(line, '\n')) != NULL; line = end + 1, n++) {
        json_t *c = read_line(line, (size_t)(end - line));
        check_case(c, json_object_get(first, "variables"));
        tern_json_free(c);
    }
    assert_true(n > 900);
    tern_json_free(first);
    tern_buf_deinit(&file);
}

static const char *const bombs_of_text[] = {
    "{{ 'x'.ljust(1000000000) }}",
    "{{ 'x'.center(9223372036854775807) }}",
    "{{ 'x'.zfill(1000000000) }}",
    "{{ 'x'.rjust(1000000000, '\xe2\x86\x92') }}",
    "{{ 'x' | center(1000000000) }}",
    "{{ '%1000000000d' % 1 }}",
    "{{ '%*d' % (1000000000, 1) }}",
    "{{ '%.1000000000f' % 1.5 }}",
    "{{ '%.1000000000d' % 1 }}",
    "{{ '%99999999999999999999d' % 1 }}",
    "{{ '{:1000000000}'.format(1) }}",
    "{{ '{:.1000000000f}'.format(1.5) }}",
    "{{ 'x\ny' | indent(1000000000) }}",
    "{{ {'a': 1} | tojson(indent=1000000000) }}",
    "{{ [1] * 1000000000 }}",
    "{{ [1, 2] * 9223372036854775807 }}",
    "{{ ('x' * 1000000).replace('', 'y' * 1000000) }}",
    "{{ ('x,' * 3000000).split(',') | length }}",
    "{{ ('ab' * 2000000).rsplit('ab') | length }}",
    "{{ ('a' * 4000000).rfind('b' + 'a' * 2000000) }}",
    "{{ range(*range(1001)) }}",
    "{{ dict(**dict(range(100000) | map('string') | batch(2))) }}",
    "{% macro f() %}{{ caller() }}{% endmacro %}{% macro g() %}{% call f() %}{{ g() }}{% endcall %}{% endmacro %}"
    "{{ g() }}",
    "{% for x in [[1]] recursive %}{{ loop([x]) }}{% endfor %}",
    "{% set ns = namespace(x=[1]) %}{% for i in range(600) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x < ns.x }}"
    "{{ ns.x | string }}",
    "{{ range(100000) | sort(reverse=true) | first }}",
    "{{ range(100000) | map('string') | unique | list | length }}",
    "{{ range(100000) | slice(100000) | map('list') | list | length }}{{ range(99999) | batch(1) | list }}"
    "{{ range(99999) | batch(1) | list }}",
};

/* None takes more than the budget of steps, memory and text. */
static void bombs_end(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof bombs_of_text / sizeof *bombs_of_text; i++) {
        tern_buf out = {0};
        tern_error err = {0};
        json_t *none = read_line("{}", 2);
        const tern_status status = render(bombs_of_text[i], strlen(bombs_of_text[i]), none, &out, &err);
        if (status != TERN_LIMIT) fail_msg("%s: status %d: %s", bombs_of_text[i], status, err.message);
        tern_json_free(none);
        tern_buf_deinit(&out);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(jinja2_cases),
    cmocka_unit_test(bombs_end),
};

TEST_GROUP(jinja, "", tests);
