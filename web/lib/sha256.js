/**
 * SHA-256 sums as hexadecimal text: WebCrypto where there is one, else (pages without a secure context) in JavaScript.
 */

/** @param {Uint8Array} bytes @returns {Promise<string>} 64 hexadecimal digits */
export async function sha256(bytes) {
  const subtle = globalThis.crypto?.subtle;
  return subtle ? hex(new Uint8Array(await subtle.digest('SHA-256', bytes))) : sha256Plain(bytes);
}

/** @param {Uint8Array} bytes */
export function hex(bytes) {
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, '0')).join('');
}

/** The first 32 bits of the fractional parts of roots of the first n primes (FIPS 180-4, 4.2.2 and 5.3.3). */
function rootBits(n, root) {
  const out = [];
  for (let candidate = 2; out.length < n; candidate++) {
    let prime = true;
    for (let d = 2; d * d <= candidate; d++) if (candidate % d === 0) prime = false;
    if (prime) out.push(Math.floor((root(candidate) % 1) * 2 ** 32));
  }
  return new Int32Array(out);
}

const ROUND = rootBits(64, Math.cbrt);
const START = rootBits(8, Math.sqrt);

/** The same in JavaScript, some 150 MB a second. @param {Uint8Array} bytes */
export function sha256Plain(bytes) {
  const state = START.slice();
  const words = new Int32Array(64);
  const whole = bytes.length - (bytes.length % 64);
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length);
  for (let at = 0; at < whole; at += 64) block(state, words, view, at);
  const tail = padded(bytes, whole);
  for (let at = 0; at < tail.byteLength; at += 64) block(state, words, tail, at);
  return Array.from(state, (word) => (word >>> 0).toString(16).padStart(8, '0')).join('');
}

/** What is left of the last block, a one bit, zeros, and the number of bits: 5.1.1. */
function padded(bytes, whole) {
  const left = bytes.length - whole;
  const tail = new Uint8Array(left < 56 ? 64 : 128);
  tail.set(bytes.subarray(whole));
  tail[left] = 0x80;
  const view = new DataView(tail.buffer);
  view.setUint32(tail.length - 8, Math.floor(bytes.length / 2 ** 29));
  view.setUint32(tail.length - 4, (bytes.length << 3) >>> 0);
  return view;
}

const turn = (x, n) => (x >>> n) | (x << (32 - n));

function block(state, words, view, at) {
  for (let t = 0; t < 16; t++) words[t] = view.getInt32(at + 4 * t);
  for (let t = 16; t < 64; t++) {
    const x = words[t - 15];
    const y = words[t - 2];
    words[t] =
      words[t - 16] + (turn(x, 7) ^ turn(x, 18) ^ (x >>> 3)) + words[t - 7] + (turn(y, 17) ^ turn(y, 19) ^ (y >>> 10));
  }
  let [a, b, c, d, e, f, g, h] = state;
  for (let t = 0; t < 64; t++) {
    const one = (h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + ROUND[t] + words[t]) | 0;
    const two = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
    h = g;
    g = f;
    f = e;
    e = (d + one) | 0;
    d = c;
    c = b;
    b = a;
    a = (one + two) | 0;
  }
  [a, b, c, d, e, f, g, h].forEach((word, i) => {
    state[i] += word;
  });
}
