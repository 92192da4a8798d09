// Dawn on SwiftShader, which Chromium brings: the same numbers on every machine.
import fs from 'node:fs';

import {Core} from '../../lib/core.js';
import {Gpu} from '../../lib/gpu.js';

const DRIVERS = ['/usr/lib/chromium', '/opt/google/chrome'].map((folder) => `${folder}/vk_swiftshader_icd.json`);
const driver = DRIVERS.find((file) => fs.existsSync(file));
if (driver) process.env.VK_DRIVER_FILES = process.env.VK_ICD_FILENAMES = driver;

/** Why tests with a GPU cannot run here, or false. Under CI=true it is a failure. */
export const noDawn = driver || process.env.CI === 'true' ? false : `no SwiftShader (${DRIVERS.join(', ')})`;

export const MODEL = new URL('../../../models/stories.gguf', import.meta.url);

/** An engine of a file on a GPU (or `gpu` null: the CPU). */
export async function openEngine(gpu, file = MODEL, options = {}) {
  const bytes = fs.readFileSync(file), core = await Core.create({gpu});
  const reader = {size: bytes.length, read: async (offset, length) => bytes.subarray(offset, offset + length)};
  return core.load(reader, {backend: gpu ? 'webgpu' : 'cpu', contextLength: 96, ...options});
}

/** The ids of a greedy continuation. */
export async function greedy(engine, prompt, maxTokens) {
  const ids = [];
  for await (const piece of engine.generate(prompt, {maxTokens, temperature: 0})) ids.push(piece.id);
  return ids.filter((id) => id >= 0);
}

export {Gpu};
