/** A LoRA adapter as PEFT writes it, with made-up numbers, for the attention's queries of the bundled model. */

const LAYERS = 8;
const WIDTH = 256;

/** Numbers of [-size, size], the same each time. */
function numbers(n, size) {
  const out = new Float32Array(n);
  for (let i = 0, state = 9; i < n; i++) {
    state = (Math.imul(state, 1103515245) + 12345) >>> 0;
    out[i] = (state / 2 ** 31 - 1) * size;
  }
  return out;
}

/** @returns {{name: string, bytes: Uint8Array}[]} adapter_config.json and adapter_model.safetensors */
export function peftAdapter({rank = 4, width = WIDTH, size = 0.3} = {}) {
  const header = {};
  const parts = [];
  let at = 0;
  for (let layer = 0; layer < LAYERS; layer++) {
    for (const [part, shape] of [
      ['A', [rank, width]],
      ['B', [width, rank]]
    ]) {
      const data = numbers(rank * width, size);
      const name = `base_model.model.model.layers.${layer}.self_attn.q_proj.lora_${part}.weight`;
      header[name] = {dtype: 'F32', shape, data_offsets: [at, at + data.byteLength]};
      parts.push(Buffer.from(data.buffer));
      at += data.byteLength;
    }
  }
  const json = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(json.length));
  const config = {peft_type: 'LORA', r: rank, lora_alpha: 2 * rank, target_modules: ['q_proj'], bias: 'none'};
  return [
    {name: 'adapter_config.json', bytes: Buffer.from(JSON.stringify(config))},
    {name: 'adapter_model.safetensors', bytes: Buffer.concat([length, json, ...parts])}
  ];
}
