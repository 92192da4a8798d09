/* Templates rendered over messages. */
#include "text/template_cases.h"

/* Our own templates, built like those that models come with. */
const char template_header_style[] = "{{- bos_token }}\n"
                                     "{%- if not date_string is defined %}\n"
                                     "    {%- set date_string = strftime_now(\"%d %b %Y\") %}\n"
                                     "{%- endif %}\n"
                                     "{%- if messages[0]['role'] == 'system' %}\n"
                                     "    {%- set system = messages[0]['content']|trim %}\n"
                                     "    {%- set messages = messages[1:] %}\n"
                                     "{%- else %}\n"
                                     "    {%- set system = \"\" %}\n"
                                     "{%- endif %}\n"
                                     "{{- \"<|start_header_id|>system<|end_header_id|>\\n\\n\" }}\n"
                                     "{{- \"Date: \" + date_string + \"\\n\" + system + \"<|eot_id|>\" }}\n"
                                     "{%- for message in messages %}\n"
                                     "    {{- '<|start_header_id|>' + message['role'] + '<|end_header_id|>\\n\\n' + "
                                     "message['content'] | trim + '<|eot_id|>' }}\n"
                                     "{%- endfor %}\n"
                                     "{%- if add_generation_prompt %}\n"
                                     "    {{- '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}\n"
                                     "{%- endif %}\n";

const char template_turn_style[] =
    "{{ bos_token }}{% if messages[0]['role'] == 'system' %}{{ raise_exception('no system role here') }}{% endif %}"
    "{% for message in messages %}"
    "{% if (message['role'] == 'user') != (loop.index0 % 2 == 0) %}{{ raise_exception('roles must alternate') }}{% "
    "endif %}"
    "{% set role = 'model' if message['role'] == 'assistant' else message['role'] %}"
    "{{ '<start_of_turn>' + role + '\n' + message['content'] | trim + '<end_of_turn>\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<start_of_turn>model\n' }}{% endif %}";

const char template_inst_style[] = "{%- set ns = namespace(index=0) %}\n"
                                   "{%- for m in messages if m.role != 'system' %}\n"
                                   "    {%- if (m.role == 'user') != (ns.index % 2 == 0) %}\n"
                                   "        {{- raise_exception('after the system message, roles alternate') }}\n"
                                   "    {%- endif %}\n"
                                   "    {%- set ns.index = ns.index + 1 %}\n"
                                   "{%- endfor %}\n"
                                   "{{- bos_token }}\n"
                                   "{%- for m in messages %}\n"
                                   "    {%- if m.role == 'user' %}\n"
                                   "        {{- '[INST] ' + m.content.strip() + ' [/INST]' }}\n"
                                   "    {%- elif m.role == 'assistant' %}\n"
                                   "        {{- ' ' + m.content|trim + eos_token }}\n"
                                   "    {%- endif %}\n"
                                   "{%- endfor %}\n";

const char template_plain_style[] =
    "{% for message in messages %}{% set line = message['role'] | capitalize + ': ' + message['content'] | trim + "
    "'<|eot_id|>' %}"
    "{% if loop.first %}{% set line = bos_token + line %}{% endif %}{{ line }}{% endfor %}"
    "{% if add_generation_prompt %}{{ 'Assistant: ' }}{% endif %}";

tern_status template_render(const char *source, const tern_chat_message *messages, size_t n, bool prompt, tern_buf *out,
                            tern_error *err)
{
    tern_chat_template *t;
    tern_status status = tern_chat_template_parse(&t, source, strlen(source), err);
    if (status != TERN_OK) return status;
    tern_chat_template_set_now(t, 1750000000); /* Sunday 15 June 2025, 15:06:40 UTC */
    status = tern_chat_template_text(t, "<s>", "</s>", messages, n, prompt, out, err);
    tern_chat_template_close(t);
    return status;
}

void template_expect_text(const char *source, const tern_chat_message *messages, size_t n, bool prompt,
                          const char *expected)
{
    tern_error err = {0};
    tern_buf out = {0};
    if (template_render(source, messages, n, prompt, &out, &err) != TERN_OK) fail_msg("%s: %s", source, err.message);
    if (strcmp(out.data, expected) != 0) fail_msg("%s:\ngot      \"%s\"\nexpected \"%s\"", source, out.data, expected);
    tern_buf_deinit(&out);
}
