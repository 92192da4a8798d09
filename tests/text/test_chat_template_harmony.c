/* Chats of GPT-OSS: a template of our own in the published format (OpenAI's harmony: roles, channels, calls of tools),
 * with what such templates need of Jinja: macros that call themselves, namespaces, slices, dates. Expected by Python's
 * Jinja2 with transformers' settings. */
#include "text/template_cases.h"

static const char source[] =
    "{#- Messages of GPT-OSS: a system and a developer message, then turns with channels. -#}\n"
    "{%- macro kind_of(schema) -%}\n"
    "    {%- if schema.enum is defined -%}\n"
    "        {%- for value in schema.enum -%}{{ value|tojson }}{{ \" | \" if not loop.last }}{%- endfor -%}\n"
    "    {%- elif schema.type == \"array\" -%}\n"
    "        {{- kind_of(schema[\"items\"]) + \"[]\" if schema[\"items\"] is defined else \"any[]\" -}}\n"
    "    {%- elif schema.type in [\"integer\", \"number\"] -%}\n"
    "        number\n"
    "    {%- elif schema.type is string -%}\n"
    "        {{- schema.type -}}\n"
    "    {%- else -%}\n"
    "        any\n"
    "    {%- endif -%}\n"
    "{%- endmacro -%}\n"
    "{%- macro declare(tools) -%}\n"
    "    {{- \"## functions\\n\\nnamespace functions {\\n\\n\" }}\n"
    "    {%- for tool in tools %}\n"
    "        {%- set f = tool.function %}\n"
    "        {{- \"// \" + f.description + \"\\ntype \" + f.name + \" = \" }}\n"
    "        {%- if f.parameters and f.parameters.properties %}\n"
    "            {{- \"(_: {\\n\" }}\n"
    "            {%- for name, schema in f.parameters.properties.items() %}\n"
    "                {%- if schema.description %}{{- \"// \" + schema.description + \"\\n\" }}{%- endif %}\n"
    "                {{- name + (\"\" if name in (f.parameters.required or []) else \"?\") + \": \" + "
    "kind_of(schema) }}\n"
    "                {%- if schema.default is defined %}{{- \", // default: \" + schema.default|string }}\n"
    "                {%- else %}{{- \",\" }}{%- endif %}\n"
    "                {{- \"\\n\" }}\n"
    "            {%- endfor %}\n"
    "            {{- \"}) => any;\\n\\n\" }}\n"
    "        {%- else %}\n"
    "            {{- \"() => any;\\n\\n\" }}\n"
    "        {%- endif %}\n"
    "    {%- endfor %}\n"
    "    {{- \"} // namespace functions\" }}\n"
    "{%- endmacro -%}\n"
    "{%- set effort = reasoning_effort if reasoning_effort is defined else \"medium\" %}\n"
    "{{- \"<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\\n\" }}\n"
    "{{- \"Knowledge cutoff: 2024-06\\nCurrent date: \" + strftime_now(\"%Y-%m-%d\") + \"\\n\\nReasoning: \" + "
    "effort + \"\\n\\n\" }}\n"
    "{{- \"# Valid channels: analysis, commentary, final. Channel must be included for every message.\" }}\n"
    "{%- if tools %}{{- \"\\nCalls to these tools must go to the commentary channel: 'functions'.\" }}{% endif %}\n"
    "{{- \"<|end|>\" }}\n"
    "{%- if messages[0].role in [\"system\", \"developer\"] %}\n"
    "    {%- set instructions = messages[0].content %}\n"
    "    {%- set rest = messages[1:] %}\n"
    "{%- else %}\n"
    "    {%- set instructions = \"\" %}\n"
    "    {%- set rest = messages %}\n"
    "{%- endif %}\n"
    "{%- if instructions or tools %}\n"
    "    {{- \"<|start|>developer<|message|>\" }}\n"
    "    {%- if instructions %}{{- \"# Instructions\\n\\n\" + instructions + \"\\n\\n\" }}{%- endif %}\n"
    "    {%- if tools %}{{- \"# Tools\\n\\n\" + declare(tools) }}{%- endif %}\n"
    "    {{- \"<|end|>\" }}\n"
    "{%- endif %}\n"
    "{%- set last = namespace(name=none) %}\n"
    "{%- for message in rest %}\n"
    "    {%- if message.role == \"assistant\" %}\n"
    "        {%- if \"<|channel|>\" in (message.content or \"\") %}\n"
    "            {{- raise_exception(\"channels go into 'thinking' and 'content', without their tags\") }}\n"
    "        {%- endif %}\n"
    "        {%- set later = namespace(final=false) %}\n"
    "        {%- for next in rest[loop.index:] %}\n"
    "            {%- if next.role == \"assistant\" and not next.tool_calls %}{%- set later.final = true %}{%- endif "
    "%}\n"
    "        {%- endfor %}\n"
    "        {%- if message.tool_calls %}\n"
    "            {%- set call = message.tool_calls[0].function %}\n"
    "            {%- if message.thinking and not later.final %}\n"
    "                {{- \"<|start|>assistant<|channel|>analysis<|message|>\" + message.thinking + \"<|end|>\" }}\n"
    "            {%- endif %}\n"
    "            {{- \"<|start|>assistant to=functions.\" + call.name + \"<|channel|>commentary json<|message|>\" "
    "}}\n"
    "            {{- call.arguments|tojson + \"<|call|>\" }}\n"
    "            {%- set last.name = call.name %}\n"
    "        {%- else %}\n"
    "            {%- if loop.last and not add_generation_prompt and message.thinking %}\n"
    "                {{- \"<|start|>assistant<|channel|>analysis<|message|>\" + message.thinking + \"<|end|>\" }}\n"
    "            {%- endif %}\n"
    "            {{- \"<|start|>assistant<|channel|>final<|message|>\" + message.content }}\n"
    "            {{- \"<|return|>\" if loop.last and not add_generation_prompt else \"<|end|>\" }}\n"
    "            {%- set last.name = none %}\n"
    "        {%- endif %}\n"
    "    {%- elif message.role == \"tool\" %}\n"
    "        {%- if last.name is none %}{{- raise_exception(\"a tool's message without a call before it\") }}{%- "
    "endif %}\n"
    "        {{- \"<|start|>functions.\" + last.name + \" to=assistant<|channel|>commentary<|message|>\" }}\n"
    "        {{- message.content|tojson + \"<|end|>\" }}\n"
    "    {%- else %}\n"
    "        {{- \"<|start|>\" + message.role + \"<|message|>\" + message.content + \"<|end|>\" }}\n"
    "    {%- endif %}\n"
    "{%- endfor %}\n"
    "{%- if add_generation_prompt %}\n"
    "    {{- \"<|start|>assistant\" }}\n"
    "{%- endif %}\n";

/* The conversation as JSON, and the text. */
static const struct {
    const char *variables, *expected;
} chats[] = {
    {"{\"messages\": [{\"role\": \"user\", \"content\": \"Hello <b>\\n\"}], \"add_generation_prompt\": true}",
     "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\n"
     "Knowledge cutoff: 2024-06\n"
     "Current date: 2025-06-15\n"
     "\n"
     "Reasoning: medium\n"
     "\n"
     "# Valid channels: analysis, commentary, final. Channel must be included for every "
     "message.<|end|><|start|>user<|message|>Hello <b>\n"
     "<|end|><|start|>assistant"},
    {"{\"messages\": [{\"role\": \"system\", \"content\": \"Be short.\"}, {\"role\": \"user\", \"content\": "
     "\"2+2?\"}, {\"role\": \"assistant\", \"thinking\": \"Easy.\", \"content\": \"4\"}], \"reasoning_effort\": "
     "\"high\", \"add_generation_prompt\": false}",
     "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\n"
     "Knowledge cutoff: 2024-06\n"
     "Current date: 2025-06-15\n"
     "\n"
     "Reasoning: high\n"
     "\n"
     "# Valid channels: analysis, commentary, final. Channel must be included for every "
     "message.<|end|><|start|>developer<|message|># Instructions\n"
     "\n"
     "Be short.\n"
     "\n"
     "<|end|><|start|>user<|message|>2+2?<|end|><|start|>assistant<|channel|>analysis<|message|>Easy.<|end|><|start|"
     ">assistant<|channel|>final<|message|>4<|return|>"},
    {"{\"messages\": [{\"role\": \"user\", \"content\": \"Weather in Oslo?\"}, {\"role\": \"assistant\", "
     "\"thinking\": \"Ask.\", \"tool_calls\": [{\"type\": \"function\", \"function\": {\"name\": \"get_weather\", "
     "\"arguments\": {\"place\": \"Oslo, Norway\", \"days\": 2}}}]}, {\"role\": \"tool\", \"content\": {\"sky\": "
     "\"gr\\u00e5\", \"c\": -3.5}}], \"tools\": [{\"type\": \"function\", \"function\": {\"name\": \"get_weather\", "
     "\"description\": \"The weather of a place\", \"parameters\": {\"type\": \"object\", \"properties\": "
     "{\"place\": {\"type\": \"string\", \"description\": \"City, country\"}, \"days\": {\"type\": \"integer\", "
     "\"default\": 1}, \"units\": {\"type\": \"string\", \"enum\": [\"C\", \"F\"]}, \"at\": {\"type\": \"array\", "
     "\"items\": {\"type\": \"number\"}}}, \"required\": [\"place\"]}}}, {\"type\": \"function\", \"function\": "
     "{\"name\": \"now\", \"description\": \"The time\", \"parameters\": {\"type\": \"object\", \"properties\": "
     "{}}}}], \"add_generation_prompt\": true}",
     "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\n"
     "Knowledge cutoff: 2024-06\n"
     "Current date: 2025-06-15\n"
     "\n"
     "Reasoning: medium\n"
     "\n"
     "# Valid channels: analysis, commentary, final. Channel must be included for every message.\n"
     "Calls to these tools must go to the commentary channel: 'functions'.<|end|><|start|>developer<|message|># "
     "Tools\n"
     "\n"
     "## functions\n"
     "\n"
     "namespace functions {\n"
     "\n"
     "// The weather of a place\n"
     "type get_weather = (_: {\n"
     "// City, country\n"
     "place: string,\n"
     "days?: number, // default: 1\n"
     "units?: \"C\" | \"F\",\n"
     "at?: number[],\n"
     "}) => any;\n"
     "\n"
     "// The time\n"
     "type now = () => any;\n"
     "\n"
     "} // namespace functions<|end|><|start|>user<|message|>Weather in "
     "Oslo?<|end|><|start|>assistant<|channel|>analysis<|message|>Ask.<|end|><|start|>assistant "
     "to=functions.get_weather<|channel|>commentary json<|message|>{\"place\": \"Oslo, Norway\", \"days\": "
     "2}<|call|><|start|>functions.get_weather to=assistant<|channel|>commentary<|message|>{\"sky\": "
     "\"gr\303\245\", \"c\": -3.5}<|end|><|start|>assistant"},
    {"{\"messages\": [{\"role\": \"user\", \"content\": \"Weather?\"}, {\"role\": \"assistant\", \"thinking\": "
     "\"Ask.\", \"tool_calls\": [{\"type\": \"function\", \"function\": {\"name\": \"now\", \"arguments\": {}}}]}, "
     "{\"role\": \"tool\", \"content\": \"12:00\"}, {\"role\": \"assistant\", \"thinking\": \"Noon.\", \"content\": "
     "\"Noon.\"}, {\"role\": \"user\", \"content\": \"Thanks\"}], \"tools\": [{\"type\": \"function\", "
     "\"function\": {\"name\": \"now\", \"description\": \"The time\", \"parameters\": {\"type\": \"object\", "
     "\"properties\": {}}}}], \"add_generation_prompt\": true}",
     "<|start|>system<|message|>You are ChatGPT, a large language model trained by OpenAI.\n"
     "Knowledge cutoff: 2024-06\n"
     "Current date: 2025-06-15\n"
     "\n"
     "Reasoning: medium\n"
     "\n"
     "# Valid channels: analysis, commentary, final. Channel must be included for every message.\n"
     "Calls to these tools must go to the commentary channel: 'functions'.<|end|><|start|>developer<|message|># "
     "Tools\n"
     "\n"
     "## functions\n"
     "\n"
     "namespace functions {\n"
     "\n"
     "// The time\n"
     "type now = () => any;\n"
     "\n"
     "} // namespace functions<|end|><|start|>user<|message|>Weather?<|end|><|start|>assistant "
     "to=functions.now<|channel|>commentary json<|message|>{}<|call|><|start|>functions.now "
     "to=assistant<|channel|>commentary<|message|>\"12:00\"<|end|><|start|>assistant<|channel|>final<|message|>Noon."
     "<|end|><|start|>user<|message|>Thanks<|end|><|start|>assistant"}};

static tern_status render(const char *json, tern_buf *out, tern_error *err)
{
    tern_chat_template *t;
    json_t *variables = NULL;
    assert_ok(tern_chat_template_parse(&t, source, sizeof source - 1, err), *err);
    tern_chat_template_set_now(t, 1750000000);
    assert_ok(tern_json_parse(&variables, json, strlen(json), "variables", err), *err);
    const tern_status status = tern_chat_template_json(t, "", "<|return|>", variables, out, err);
    tern_json_free(variables);
    tern_chat_template_close(t);
    return status;
}

static void conversations(void **state)
{
    (void)state;
    for (size_t i = 0; i < sizeof chats / sizeof *chats; i++) {
        tern_error err = {0};
        tern_buf out = {0};
        assert_ok(render(chats[i].variables, &out, &err), err);
        assert_string_equal(out.data, chats[i].expected);
        tern_buf_deinit(&out);
    }
}

static void refused(void **state)
{
    (void)state;
    static const char *const wrong[][2] = {
        {"{\"messages\": [{\"role\": \"tool\", \"content\": \"x\"}]}", "a tool's message without a call before it"},
        {"{\"messages\": [{\"role\": \"assistant\", \"content\": \"<|channel|>final\"}]}",
         "channels go into 'thinking'"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        tern_error err = {0};
        tern_buf out = {0};
        assert_int_not_equal(render(wrong[i][0], &out, &err), TERN_OK);
        assert_non_null(strstr(err.message, wrong[i][1]));
        tern_buf_deinit(&out);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(conversations),
    cmocka_unit_test(refused),
};

TEST_GROUP(chat_template_harmony, "", tests);
