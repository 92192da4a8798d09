/** A file of `tern perplexity --save-all-logits`, read as llama.cpp's perplexity reads one (tools/perplexity, commit
 * 050fc7f3): its lengths, and the figures that come of it, against those that `--kl-base` says. */
import assert from 'node:assert/strict';
import {mkdtempSync, readFileSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {test} from 'node:test';
import {ROOT, tern} from './support/tern.mjs';

/** Negative log-likelihood by the file alone; its bytes are llama.cpp's to the last one. */
function read(bytes) {
  assert.equal(bytes.toString('latin1', 0, 8), '_logits_');
  const window = bytes.readUInt32LE(8), vocabulary = bytes.readInt32LE(12), windows = bytes.readInt32LE(16);
  const words = 2 * Math.floor((vocabulary + 1) / 2) + 4, first = Math.floor(window / 2), rows = window - 1 - first;
  const start = 20 + 4 * window * windows;
  assert.equal(bytes.length, start + 2 * words * rows * windows);
  let sum = 0;
  for (let c = 0; c < windows; c++)
    for (let r = 0; r < rows; r++) {
      const at = start + 2 * words * (c * rows + r), step = bytes.readFloatLE(at), lowest = bytes.readFloatLE(at + 4);
      const logprob = id => step * bytes.readUInt16LE(at + 8 + 2 * id) + lowest;
      let mass = 0;
      for (let id = 0; id < vocabulary; id++) mass += Math.exp(logprob(id));
      assert.ok(Math.abs(mass - 1) < 2e-3, `row ${r} of window ${c} adds up to ${mass}`);
      sum -= logprob(bytes.readInt32LE(20 + 4 * (c * window + first + r + 1)));
    }
  return {nll: sum / (rows * windows), n: rows * windows, window};
}

test('saved log-probabilities are read as llama.cpp reads them', () => {
  const folder = mkdtempSync(join(tmpdir(), 'tern-logprobs-'));
  try {
    const file = join(folder, 'base.kld');
    tern('perplexity', join(ROOT, 'examples/finetune/logbook.txt'), '--window', '65', '--save-all-logits', file);
    const found = read(readFileSync(file));
    const said = JSON.parse(tern('perplexity', '--kl-base', file, '--json'));
    assert.equal(found.window, 65);
    assert.equal(found.n, said.tokens_scored);
    assert.ok(Math.abs(found.nll - Math.log(said.base_ppl.mean)) < 1e-5, `${found.nll}`);
  } finally {
    rmSync(folder, {recursive: true});
  }
});
