/* Chat templates by name, for models that bring none. */
#include <string.h>

#include "text/chat_template.h"

static const struct {
    const char *name, *source;
} builtin[] = {
    {"chatml",
     "{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>\\n' }}{% endfor %}"
     "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}"},
    {"llama3", "{% for m in messages %}{% if loop.first %}{{ bos_token }}{% endif %}"
               "{{ '<|start_header_id|>' + m['role'] + '<|end_header_id|>\\n\\n' + m['content'] | trim + '<|eot_id|>' "
               "}}{% endfor %}"
               "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}"},
    {"bitnet", "{% for m in messages %}{% if loop.first %}{{ bos_token }}{% endif %}"
               "{{ m['role'] | capitalize + ': ' + m['content'] | trim + '<|eot_id|>' }}{% endfor %}"
               "{% if add_generation_prompt %}{{ 'Assistant: ' }}{% endif %}"},
    {"gemma", "{{ bos_token }}{% for m in messages %}"
              "{{ '<start_of_turn>' + ('model' if m['role'] == 'assistant' else m['role']) + '\\n' + m['content'] | "
              "trim + '<end_of_turn>\\n' }}"
              "{% endfor %}{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}{% endif %}"},
};

const char *tern_chat_template_builtin(const char *name)
{
    for (size_t i = 0; i < sizeof builtin / sizeof *builtin; i++)
        if (strcmp(builtin[i].name, name) == 0) return builtin[i].source;
    return NULL;
}
