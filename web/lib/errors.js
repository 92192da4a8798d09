/** The one kind of error that this package throws, and how the core's status numbers map to its codes. */

/** Codes of include/tern/status.h by their number. */
const STATUS_CODES = [
  'OK',
  'INVALID_ARGUMENT',
  'OUT_OF_MEMORY',
  'IO',
  'NOT_FOUND',
  'MALFORMED',
  'UNSUPPORTED',
  'LIMIT',
  'CONTEXT_FULL',
  'CANCELLED',
  'INTERNAL',
  'PENDING',
  'NOT_FINITE',
  'BUSY'
];

/** tern_status values that are no failures. */
export const STATUS_OK = 0;
export const STATUS_PENDING = 11;

export class TernError extends Error {
  /**
   * @param {import('./index.js').ErrorCode} code
   * @param {string} message names the thing, the value found and the value expected
   * @param {ErrorOptions} [options] `cause`
   */
  constructor(code, message, options) {
    super(message, options);
    this.code = code;
  }

  get name() {
    return 'TernError';
  }
}

/** @param {number} status a tern_status @param {string} message of tern_error */
export function errorOfStatus(status, message) {
  const code = STATUS_CODES[status];
  if (code === undefined || status === STATUS_OK || status === STATUS_PENDING) {
    return new TernError('INTERNAL', `status ${status} of the core is no failure (${message})`);
  }
  return new TernError(/** @type {any} */ (code), message || code);
}

/** The status for an error that C is to pass on; of codes that it does not know the next of kin. @param {any} error */
export function statusOf(error) {
  const kin = {NETWORK: 'IO', NO_STORAGE: 'IO', CORRUPT: 'MALFORMED'};
  const code = error instanceof TernError ? error.code : codeOf(error);
  return Math.max(STATUS_CODES.indexOf(kin[code] ?? code), STATUS_CODES.indexOf('IO'));
}

/** JavaScript has no room: "Array buffer allocation failed", "Invalid typed array length: N" and their like. */
const isNoRoom = (error) =>
  error instanceof RangeError && /alloc|array (buffer )?length|memory|too large/i.test(error.message);

/** @param {any} error @returns {any} the code */
function codeOf(error) {
  if (isAbort(error)) return 'CANCELLED';
  return isNoRoom(error) ? 'OUT_OF_MEMORY' : 'INTERNAL';
}

/** What another thread can be sent of an error; restored by errorOfWire. */
export function errorToWire(error) {
  if (error instanceof TernError) return {code: error.code, message: error.message, stack: error.stack};
  return {code: codeOf(error), message: String(error?.message ?? error), stack: error?.stack};
}

/** So many zeros. Errors: OUT_OF_MEMORY, naming what they are for. @param {number} n @param {string} what */
export function bytesFor(n, what) {
  try {
    return new Uint8Array(n);
  } catch (cause) {
    throw new TernError('OUT_OF_MEMORY', `${what}: there is no room for ${n} bytes (${cause.message})`, {cause});
  }
}

/** @param {{code: any, message: string, stack?: string}} wire */
export function errorOfWire({code, message, stack}) {
  const error = new TernError(code, message);
  if (stack) error.stack = stack;
  return error;
}

/** @param {unknown} error */
export function isAbort(error) {
  return error instanceof TernError ? error.code === 'CANCELLED' : /** @type {any} */ (error)?.name === 'AbortError';
}

/**
 * Throws CANCELLED when the signal has been aborted.
 * @param {AbortSignal | undefined | null} signal
 * @param {string} what
 */
export function throwIfAborted(signal, what) {
  if (signal?.aborted) throw new TernError('CANCELLED', `${what} was cancelled`, {cause: signal.reason});
}
