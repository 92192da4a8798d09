/** SHA-1 sums, which torrents have of their pieces: WebCrypto's, which secure contexts alone have. */

import {TernError} from './errors.js';
import {hex} from './sha256.js';

/** @param {Uint8Array} bytes @returns {Promise<string>} 40 hexadecimal digits; errors: INSECURE_CONTEXT */
export async function sha1(bytes) {
  const subtle = globalThis.crypto?.subtle;
  if (!subtle)
    throw new TernError('INSECURE_CONTEXT', 'torrents need a secure context (https, or localhost) to be checked');
  return hex(new Uint8Array(await subtle.digest('SHA-1', bytes)));
}
