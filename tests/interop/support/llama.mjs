/** llama.cpp: the prebuilt program of node-llama-cpp, on the CPU. */
import {getLlama, LlamaLogLevel} from 'node-llama-cpp';

/** The library; `say` takes its warnings and errors. */
export const openLlama = (say = () => {}) =>
  getLlama({
    gpu: false,
    build: 'never',
    logLevel: LlamaLogLevel.warn,
    logger: (level, text) => say(`${level}: ${text}`)
  });

/** The ids of a text without what the model would put around it. */
export const llamaIds = (model, text, special) => [...model.tokenize(text, special, 'trimLeadingSpace')];
