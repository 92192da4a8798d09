/** Small made-up models of each family as Hugging Face folders, with rows of 256 columns, which K-quants need. */
import {mkdirSync, writeFileSync} from 'node:fs';
import {join} from 'node:path';
import {random} from './corpus.mjs';

const N = 256;
const FFN = 512;
const LAYERS = 3;
const HEADS = 4;
const KV_HEADS = 2;
const HEAD = 64;
const MERGES = ['Ġ t', 'h e', 'Ġt he', 'Ġ a', 'i n', 'e r', 'o n', 'r e'];
const SPECIAL = ['<|begin|>', '<|end|>'];

/** The byte alphabet of GPT-2: printable bytes as they are, others from U+0100 on. */
function alphabet() {
  const printable = (b) => (b >= 33 && b <= 126) || (b >= 161 && b <= 172) || b >= 174;
  let next = 256;
  return Array.from({length: 256}, (_, b) => String.fromCodePoint(printable(b) ? b : next++));
}

function tokenizer() {
  const pieces = [...alphabet(), ...MERGES.map((merge) => merge.replace(' ', ''))];
  const first = pieces.length;
  return {
    version: '1.0',
    added_tokens: SPECIAL.map((content, i) => ({id: first + i, content, special: true, normalized: false})),
    pre_tokenizer: {type: 'ByteLevel', add_prefix_space: false, trim_offsets: true, use_regex: true},
    decoder: {type: 'ByteLevel'},
    model: {type: 'BPE', vocab: Object.fromEntries(pieces.map((piece, id) => [piece, id])), merges: MERGES}
  };
}

export const N_VOCAB = 256 + MERGES.length + SPECIAL.length;

const SHAPE = {
  hidden_size: N, intermediate_size: FFN, num_hidden_layers: LAYERS, num_attention_heads: HEADS,
  num_key_value_heads: KV_HEADS, head_dim: HEAD, vocab_size: N_VOCAB, max_position_embeddings: 128, rms_norm_eps: 1e-5,
  rope_theta: 10000, hidden_act: 'silu', tie_word_embeddings: false, torch_dtype: 'float32',
  bos_token_id: N_VOCAB - 2, eos_token_id: N_VOCAB - 1
};
const EXPERTS = 6;
const EXPERT_FFN = 256;
const GEMMA = {
  hidden_activation: 'gelu_pytorch_tanh', query_pre_attn_scalar: HEAD, tie_word_embeddings: true, sliding_window: 16
};

// Three layers of four keep a state; heads of keys and of values there, and their length.
const KEY_HEADS = 2;
const VALUE_HEADS = 4;
const STATE = 64;
const QWEN35 = {
  architectures: ['Qwen3_5ForCausalLM'], model_type: 'qwen3_5_text', num_hidden_layers: 4, tie_word_embeddings: true,
  layer_types: ['linear_attention', 'linear_attention', 'linear_attention', 'full_attention'],
  linear_conv_kernel_dim: 4, linear_key_head_dim: STATE, linear_value_head_dim: STATE,
  linear_num_key_heads: KEY_HEADS, linear_num_value_heads: VALUE_HEADS, partial_rotary_factor: 0.25,
  rope_parameters: {rope_type: 'default', rope_theta: 10000, partial_rotary_factor: 0.25}
};

/** By name: what its config has beside SHAPE, what its layers have beside the usual tensors, and the spread of a table
 * that is scaled on its way in: layers must outweigh it, or each token repeats itself. */
export const FAMILIES = {
  llama: {config: {architectures: ['LlamaForCausalLM'], model_type: 'llama'}},
  mistral: {config: {architectures: ['MistralForCausalLM'], model_type: 'mistral', sliding_window: null}},
  qwen2: {config: {architectures: ['Qwen2ForCausalLM'], model_type: 'qwen2', use_sliding_window: false}, biases: true},
  qwen3: {
    config: {architectures: ['Qwen3ForCausalLM'], model_type: 'qwen3', tie_word_embeddings: true},
    headNorms: true
  },
  gemma2: {
    config: {
      architectures: ['Gemma2ForCausalLM'], model_type: 'gemma2', attn_logit_softcapping: 50,
      final_logit_softcapping: 30, ...GEMMA
    },
    sandwich: true,
    table: 0.02
  },
  gemma3: {
    config: {
      architectures: ['Gemma3ForCausalLM'], model_type: 'gemma3_text', rope_local_base_freq: 10000,
      rope_theta: 1000000, sliding_window_pattern: 6, ...GEMMA
    },
    sandwich: true,
    headNorms: true,
    table: 0.02
  },
  phi3: {
    config: {
      architectures: ['Phi3ForCausalLM'], model_type: 'phi3', sliding_window: null, partial_rotary_factor: 1,
      original_max_position_embeddings: 128, rope_scaling: null
    },
    fused: true
  },
  mixtral: {
    config: {
      architectures: ['MixtralForCausalLM'], model_type: 'mixtral', num_local_experts: EXPERTS, num_experts_per_tok: 2,
      intermediate_size: EXPERT_FFN, sliding_window: null
    },
    experts: {
      router: 'block_sparse_moe.gate', gate: 'block_sparse_moe.experts.%.w1', up: 'block_sparse_moe.experts.%.w3',
      down: 'block_sparse_moe.experts.%.w2'
    },
    routed: true
  },
  qwen3moe: {
    config: {
      architectures: ['Qwen3MoeForCausalLM'], model_type: 'qwen3_moe', num_experts: EXPERTS, num_experts_per_tok: 3,
      moe_intermediate_size: EXPERT_FFN, norm_topk_prob: true
    },
    headNorms: true,
    experts: {
      router: 'mlp.gate', gate: 'mlp.experts.%.gate_proj', up: 'mlp.experts.%.up_proj',
      down: 'mlp.experts.%.down_proj'
    },
    routed: true
  },
  // llama.cpp rounds the bounds of YaRN's ramp, which GPT-OSS itself does not
  gptoss: {
    config: {
      architectures: ['GptOssForCausalLM'], model_type: 'gpt_oss', num_local_experts: EXPERTS, num_experts_per_tok: 4,
      intermediate_size: EXPERT_FFN, sliding_window: 16, layer_types: [0, 1, 2].map(
        (i) => (i % 2 ? 'full_attention' : 'sliding_attention')), swiglu_limit: 7, attention_bias: true,
      rope_scaling: {
        rope_type: 'yarn', factor: 4, beta_fast: 32, beta_slow: 1, original_max_position_embeddings: 32, truncate: true
      }
    },
    biases: true,
    oss: true,
    routed: true
  },
  granite: {
    config: {
      architectures: ['GraniteForCausalLM'], model_type: 'granite', embedding_multiplier: 12,
      attention_multiplier: 0.125, residual_multiplier: 0.5, logits_scaling: 4, tie_word_embeddings: true
    },
    table: 0.02
  },
  qwen35: {config: QWEN35, headNorms: true, hybrid: true},
  qwen35mtp: {
    config: {...QWEN35, mtp_num_hidden_layers: 1}, headNorms: true, hybrid: true, mtp: true
  },
  smollm3: {
    config: {
      architectures: ['SmolLM3ForCausalLM'], model_type: 'smollm3', no_rope_layer_interval: 4,
      no_rope_layers: [1, 1, 1], use_sliding_window: false, sliding_window: null, tie_word_embeddings: true
    }
  }
};

/** A layer that keeps a state. */
function addDeltaRule(add) {
  const values = VALUE_HEADS * STATE;
  const mixed = 2 * KEY_HEADS * STATE + values;
  add('linear_attn.in_proj_qkv.weight', mixed, N);
  add('linear_attn.in_proj_z.weight', values, N);
  for (const part of ['a', 'b']) add(`linear_attn.in_proj_${part}.weight`, VALUE_HEADS, N);
  add('linear_attn.conv1d.weight', mixed, 1, 4);
  add('linear_attn.A_log', VALUE_HEADS);
  add('linear_attn.dt_bias', VALUE_HEADS);
  add('linear_attn.norm.weight', STATE);
  add('linear_attn.out_proj.weight', N, values);
}

/** A layer of attention whose q has the rows of its gate too, and its feed-forward. */
function addGatedLayer(add) {
  add('input_layernorm.weight', N);
  for (const [part, rows] of [['q', 2 * HEADS * HEAD], ['k', KV_HEADS * HEAD], ['v', KV_HEADS * HEAD]])
    add(`self_attn.${part}_proj.weight`, rows, N);
  for (const part of ['q', 'k']) add(`self_attn.${part}_norm.weight`, HEAD);
  add('self_attn.o_proj.weight', N, HEADS * HEAD);
  add('post_attention_layernorm.weight', N);
  for (const part of ['gate', 'up']) add(`mlp.${part}_proj.weight`, FFN, N);
  add('mlp.down_proj.weight', N, FFN);
}

function addDrafting(list) {
  const add = (name, ...shape) => list.push([`mtp.${name}`, shape]);
  add('fc.weight', N, 2 * N);
  for (const part of ['pre_fc_norm_embedding', 'pre_fc_norm_hidden', 'norm']) add(`${part}.weight`, N);
  addGatedLayer((name, ...shape) => add(`layers.0.${name}`, ...shape));
}

/** Names and shapes, [rows, columns] or [n], in the order of a checkpoint. */
function shapes({config, biases, headNorms, sandwich, fused, experts, oss, hybrid, mtp}) {
  const list = [['model.embed_tokens.weight', [N_VOCAB, N]]];
  for (let i = 0; i < (config.num_hidden_layers ?? LAYERS); i++) {
    const add = (name, ...shape) => list.push([`model.layers.${i}.${name}`, shape]);
    if (hybrid && config.layer_types[i] === 'full_attention') {
      addGatedLayer(add);
      continue;
    }
    if (hybrid) {
      add('input_layernorm.weight', N);
      addDeltaRule(add);
      add('post_attention_layernorm.weight', N);
      for (const part of ['gate', 'up']) add(`mlp.${part}_proj.weight`, FFN, N);
      add('mlp.down_proj.weight', N, FFN);
      continue;
    }
    add('input_layernorm.weight', N);
    const parts = {q: HEADS * HEAD, k: KV_HEADS * HEAD, v: KV_HEADS * HEAD};
    if (fused) add('self_attn.qkv_proj.weight', parts.q + parts.k + parts.v, N);
    for (const part of fused ? [] : ['q', 'k', 'v']) {
      add(`self_attn.${part}_proj.weight`, parts[part], N);
      if (biases) add(`self_attn.${part}_proj.bias`, parts[part]);
    }
    for (const part of headNorms ? ['q', 'k'] : []) add(`self_attn.${part}_norm.weight`, HEAD);
    add('self_attn.o_proj.weight', N, HEADS * HEAD);
    if (oss) {
      add('self_attn.o_proj.bias', N);
      add('self_attn.sinks', HEADS);
      add('mlp.router.weight', EXPERTS, N);
      add('mlp.router.bias', EXPERTS);
      add('mlp.experts.gate_up_proj', EXPERTS, N, 2 * EXPERT_FFN);
      add('mlp.experts.gate_up_proj_bias', EXPERTS, 2 * EXPERT_FFN);
      add('mlp.experts.down_proj', EXPERTS, EXPERT_FFN, N);
      add('mlp.experts.down_proj_bias', EXPERTS, N);
    }
    if (experts) add(`${experts.router}.weight`, EXPERTS, N);
    for (let e = 0; experts && e < EXPERTS; e++)
      for (const part of ['gate', 'up', 'down']) {
        const name = experts[part].replace('%', e);
        add(`${name}.weight`, ...(part === 'down' ? [N, EXPERT_FFN] : [EXPERT_FFN, N]));
      }
    add('post_attention_layernorm.weight', N);
    if (sandwich) add('pre_feedforward_layernorm.weight', N);
    if (sandwich) add('post_feedforward_layernorm.weight', N);
    if (experts || oss) continue;
    if (fused) add('mlp.gate_up_proj.weight', 2 * FFN, N);
    for (const part of fused ? [] : ['gate', 'up']) add(`mlp.${part}_proj.weight`, FFN, N);
    add('mlp.down_proj.weight', N, FFN);
  }
  list.push(['model.norm.weight', [N]]);
  if (mtp) addDrafting(list);
  if (!config.tie_word_embeddings) list.push(['lm_head.weight', [N_VOCAB, N]]);
  return list;
}

/** Values of about the size that trained weights have: norms near their neutral value, rows of about unit gain. */
function values(name, shape, {sandwich, hybrid, table: ofTable = 0.12}, next) {
  const normal = () => Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next());
  const table = name.includes('embed_tokens') || name.includes('lm_head');
  const norm = /norm(_embedding|_hidden)?\.weight$/.test(name);
  const rate = name.endsWith('A_log');
  const bias = name.endsWith('bias') || name.endsWith('sinks') || rate || name.endsWith('conv1d.weight');
  const lessOne = sandwich || (hybrid && !name.endsWith('linear_attn.norm.weight'));
  const middle = norm && !lessOne ? 1 : rate ? 0.5 : name.endsWith('dt_bias') ? -1 : 0;
  const spread = norm ? 0.2 : bias ? 0.3 : table ? ofTable : 1.6 / Math.sqrt(shape[1]);
  return Float32Array.from({length: shape.reduce((a, b) => a * b)}, () => middle + spread * normal());
}

function safetensors(tensors) {
  const header = {};
  let at = 0;
  for (const {name, shape, data} of tensors)
    header[name] = {dtype: 'F32', shape, data_offsets: [at, (at += data.byteLength)]};
  const text = Buffer.from(JSON.stringify(header));
  const padded = Buffer.concat([text, Buffer.alloc((8 - (text.length % 8)) % 8, ' ')]);
  const size = Buffer.alloc(8);
  size.writeBigUInt64LE(BigInt(padded.length));
  return Buffer.concat([size, padded, ...tensors.map(({data}) => Buffer.from(data.buffer))]);
}

/** Writes the folder of a family's model. */
export function writeModel(dir, family, seed = 1) {
  const next = random(seed);
  const what = FAMILIES[family];
  mkdirSync(dir, {recursive: true});
  const tensors = shapes(what).map(([name, shape]) => ({name, shape, data: values(name, shape, what, next)}));
  const put = (name, content) => writeFileSync(join(dir, name), content);
  put('model.safetensors', safetensors(tensors));
  put('config.json', JSON.stringify({...SHAPE, ...what.config}));
  put('tokenizer.json', JSON.stringify(tokenizer()));
  put('tokenizer_config.json', JSON.stringify({bos_token: SPECIAL[0], eos_token: SPECIAL[1], add_bos_token: true}));
}
