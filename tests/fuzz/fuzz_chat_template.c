/* Any bytes as a chat template: parsing and rendering end with text or a clean error, and leave nothing behind. */
#include "fuzz/fuzz.h"

#include <string.h>

#include "base/alloc.h"
#include "text/chat/template.h"

static void render(const tern_chat_template *t)
{
    static const tern_chat_message messages[] = {{"system", " Be <|eot_id|> brief. ", 22},
                                                 {"user", "a\xff\xc3\xa9\n{{ 1 }}", 12},
                                                 {"assistant", "", 0},
                                                 {"user", "x", 1}};
    tern_buf out = {0};
    tern_error err = {0};
    tern_status status = tern_chat_template_text(t, "<s>", "</s>", messages, 4, true, &out, &err);
    FUZZ_CHECK(status == err.code);
    FUZZ_CHECK(status != TERN_INTERNAL);
    tern_buf_deinit(&out);
}

/* With what the JSON of a caller can hold. */
static void render_json(const tern_chat_template *t)
{
    static const char TEXT[] =
        "{\"messages\": [{\"role\": \"user\", \"content\": [{\"type\": \"text\", \"text\": \"a\"}]}, {\"role\": "
        "\"assistant\", \"content\": null, \"tool_calls\": [{\"function\": {\"name\": \"f\", \"arguments\": {\"x\": "
        "[1, "
        "0.5, true, null, {}]}}}]}], \"tools\": [{\"name\": \"f\"}], \"n\": -3, \"\": \"empty\"}";
    tern_buf out = {0};
    tern_error err = {0};
    json_t *variables = NULL;
    FUZZ_CHECK(tern_json_parse(&variables, TEXT, sizeof TEXT - 1, "variables", &err) == TERN_OK);
    tern_status status = tern_chat_template_json(t, "<s>", NULL, variables, &out, &err);
    FUZZ_CHECK(status == err.code);
    FUZZ_CHECK(status != TERN_INTERNAL);
    tern_json_free(variables);
    tern_buf_deinit(&out);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    int64_t live = tern_alloc_live();
    tern_chat_template *t;
    tern_error err = {0};
    tern_status status = tern_chat_template_parse(&t, (const char *)data, size, &err);
    FUZZ_CHECK((status == TERN_OK) == (t != NULL));
    FUZZ_CHECK(status == TERN_OK || err.message[0]);
    if (t) {
        tern_chat_template_set_now(t, 1750000000);
        render(t);
        render_json(t);
    }
    tern_chat_template_close(t);
    FUZZ_CHECK(tern_alloc_live() == live);
    return 0;
}
