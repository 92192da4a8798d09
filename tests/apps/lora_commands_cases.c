/* Adapters and numbers in the output, for the tests of commands. */
#include "apps/lora_commands_cases.h"

tern_error lora_commands_err;

const char *lora_commands_written(const char *from, const char *name, uint32_t rank, uint64_t seed)
{
    static char paths[4][1024];
    static unsigned next;
    char *path = paths[next++ % 4];
    snprintf(path, sizeof *paths, "%s", test_scratch(name));
    tern_model *model = open_model(from);
    tern_adapter *adapter = test_adapter(model, rank, seed, false);
    assert_ok(strstr(name, ".gguf") ? tern_adapter_write_gguf(adapter, path, &lora_commands_err)
                                    : tern_adapter_write_peft(adapter, path, &lora_commands_err),
              lora_commands_err);
    tern_adapter_close(adapter);
    tern_model_close(model);
    return path;
}

const char *lora_commands_scaled(const char *path, const char *scale)
{
    static char texts[4][1100];
    static unsigned next;
    char *text = texts[next++ % 4];
    snprintf(text, sizeof *texts, "%s:%s", path, scale);
    return text;
}

double lora_commands_number(const json_t *row, const char *key)
{
    const json_t *v = json_object_get(row, key);
    if (!json_is_number(v)) fail_msg("%s: a number expected", key);
    return json_number_value(v);
}
