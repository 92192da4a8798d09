/* Chat templates by name, for models that bring none: the turns of a conversation as each family was trained on them.
 */
#include <string.h>

#include "text/chat/template.h"

/* clang-format off */
#define EACH       "{% for m in messages %}"
#define END        "{% endfor %}"
#define PROMPT(s)  "{% if add_generation_prompt %}{{ '" s "' }}{% endif %}"
/* A system message in front goes into a user's turn: `first` is its text and two line ends, `turns` the others. */
#define TAKE_SYSTEM                                                                                                    \
    "{% set first = '' %}{% set turns = messages %}"                                                                   \
    "{% if messages and messages[0]['role'] == 'system' %}"                                                            \
    "{% set first = messages[0]['content'] + '\\n\\n' %}{% set turns = messages[1:] %}{% endif %}"
/* clang-format on */

/* Sources: the templates that the models named behind each were published with, where no tools, documents or dates are
 * given. */
static const struct {
    const char *name, *source;
} builtin[] = {
    {"chatml", EACH "{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>\\n' }}" END /* SmolLM, Yi */
                   PROMPT("<|im_start|>assistant\\n")},
    {"qwen",
     EACH "{% set text = m['content'] %}" /* Qwen 3: thoughts of earlier turns are left out */
          "{% if m['role'] == 'assistant' and '</think>' in text and not loop.last %}"
          "{% set text = text.split('</think>')[-1].lstrip('\\n') %}{% endif %}"
          "{{ '<|im_start|>' + m['role'] + '\\n' + text + '<|im_end|>\\n' }}" END PROMPT("<|im_start|>assistant\\n")},
    {"llama3", EACH "{% if loop.first %}{{ bos_token }}{% endif %}" /* LLaMA 3 8B Instruct */
                    "{{ '<|start_header_id|>' + m['role'] + '<|end_header_id|>\\n\\n' + m['content'] | trim + "
                    "'<|eot_id|>' }}" END PROMPT("<|start_header_id|>assistant<|end_header_id|>\\n\\n")},
    {"bitnet",
     EACH "{% if loop.first %}{{ bos_token }}{% endif %}" /* BitNet b1.58 2B4T */
          "{{ m['role'] | capitalize + ': ' + m['content'] | trim + '<|eot_id|>' }}" END PROMPT("Assistant: ")},
    {"gemma", "{{ bos_token }}" TAKE_SYSTEM "{% for m in turns %}" /* Gemma 2 and 3 */
              "{{ '<start_of_turn>' + ('model' if m['role'] == 'assistant' else m['role']) + '\\n' + "
              "(first if loop.first else '') + m['content'] | trim + '<end_of_turn>\\n' }}" END PROMPT(
                  "<start_of_turn>model\\n")},
    {"phi3", EACH "{{ '<|' + m['role'] + '|>\\n' + m['content'] + '<|end|>\\n' }}" END /* Phi-3, Phi-3.5 */
                 PROMPT("<|assistant|>\\n")},
    {"phi4", EACH "{{ '<|im_start|>' + m['role'] + '<|im_sep|>' + m['content'] + '<|im_end|>' }}" END /* Phi-4 */
                 PROMPT("<|im_start|>assistant<|im_sep|>")},
    {"phi4-mini", EACH "{{ '<|' + m['role'] + '|>' + m['content'] + '<|end|>' }}" END /* Phi-4-mini */
                      PROMPT("<|assistant|>")},
    {"llama2", TAKE_SYSTEM "{% for m in turns %}" /* LLaMA 2 Chat */
                           "{% set text = ('<<SYS>>\\n' + messages[0]['content'] + '\\n<</SYS>>\\n\\n' if loop.first "
                           "and first else '') + m['content'] %}"
                           "{{ bos_token + '[INST] ' + text | trim + ' [/INST]' if m['role'] == 'user' else "
                           "' ' + text | trim + ' ' + eos_token }}" END},
    {"mistral", "{{ bos_token }}" TAKE_SYSTEM "{% for m in turns %}" /* Mistral 7B v0.3 */
                "{{ '[INST] ' + (first if loop.last else '') + m['content'] + '[/INST]' if m['role'] == 'user' else "
                "' ' + m['content'] | trim + eos_token }}" END},
    {"mistral-tekken", "{{ bos_token }}" TAKE_SYSTEM "{% for m in turns %}" /* Mistral Nemo */
                       "{{ '[INST]' + (first if loop.last else '') + m['content'] + '[/INST]' if m['role'] == 'user' "
                       "else m['content'] + eos_token }}" END},
    {"granite",
     EACH "{{ '<|start_of_role|>' + m['role'] + '<|end_of_role|>' + m['content'] + '<|end_of_text|>\\n' }}" END PROMPT(
         "<|start_of_role|>assistant<|end_of_role|>")}, /* Granite 3 */
    {"falcon3",
     EACH "{{ '<|' + m['role'] + '|>\\n' + m['content'] }}" /* Falcon3, Tulu, OLMo 2 */
          "{% if m['role'] == 'assistant' %}{{ eos_token }}{% endif %}"
          "{% if m['role'] != 'assistant' or not loop.last %}{{ '\\n' }}{% endif %}" END PROMPT("<|assistant|>\\n")},
    {"deepseek", "{{ bos_token }}" EACH "{{ m['content'] if m['role'] == 'system' else " /* DeepSeek V3, R1 */
                 "'<｜User｜>' + m['content'] if m['role'] == 'user' else "
                 "'<｜Assistant｜>' + m['content'] + '<｜end▁of▁sentence｜>' }}" END PROMPT("<｜Assistant｜>")},
    {"command-r",
     "{{ bos_token }}" EACH /* Command R+ */
     "{% set who = {'system': 'SYSTEM', 'user': 'USER', 'assistant': 'CHATBOT'}[m['role']] %}"
     "{{ '<|START_OF_TURN_TOKEN|><|' + who + '_TOKEN|>' + "
     "(m['content'] if m['role'] == 'system' else m['content'].strip()) + '<|END_OF_TURN_TOKEN|>' }}" END PROMPT(
         "<|START_OF_TURN_TOKEN|><|CHATBOT_TOKEN|>")},
};

const char *tern_chat_template_builtin(const char *name)
{
    for (size_t i = 0; i < sizeof builtin / sizeof *builtin; i++)
        if (strcmp(builtin[i].name, name) == 0) return builtin[i].source;
    return NULL;
}
