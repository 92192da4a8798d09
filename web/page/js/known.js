/** Models of the Hugging Face hub that are known to work; a test holds them to src/hub/known.def. No document here. */

/** Of models/chat.gguf, so that its size stands there before it is loaded; a test compares. */
export const BUNDLED_BYTES = 6071520;

/** name, address, what it is, bytes of its weights */
export const KNOWN = [
  ['bitnet-2b-4t', 'hf:microsoft/bitnet-b1.58-2B-4T-gguf:i2_s', 'BitNet b1.58 2B4T: ternary, chat', 1.2e9],
  ['gemma3-270m', 'hf:ggml-org/gemma-3-270m-it-GGUF:Q8_0', 'Gemma 3 270M: chat', 0.29e9],
  ['qwen3-0.6b', 'hf:Qwen/Qwen3-0.6B-GGUF:Q8_0', 'Qwen 3 0.6B: chat', 0.64e9],
  ['llama3.2-1b', 'hf:bartowski/Llama-3.2-1B-Instruct-GGUF:Q4_K_M', 'LLaMA 3.2 1B Instruct: chat', 0.8e9],
  ['gemma3-1b', 'hf:ggml-org/gemma-3-1b-it-GGUF:Q4_K_M', 'Gemma 3 1B: chat', 0.8e9],
];
