/** Numbers as people read them. */

const UNITS = ['B', 'kB', 'MB', 'GB', 'TB'];

/** 3 significant digits: 2.74 MB. @param {number} value */
export function bytes(value) {
  let unit = 0;
  while (value >= 999.5 && unit < UNITS.length - 1) {
    value /= 1000;
    unit++;
  }
  return `${unit === 0 ? Math.round(value) : Number(value.toPrecision(3))} ${UNITS[unit]}`;
}

/** 6.83 million. @param {number} value */
export function count(value) {
  if (value >= 1e9) return `${Number((value / 1e9).toPrecision(3))} billion`;
  if (value >= 1e6) return `${Number((value / 1e6).toPrecision(3))} million`;
  return value.toLocaleString('en');
}

/** 42 s, 3 min 5 s, 2 h 10 min; nothing for what is not known. @param {number} seconds */
export function duration(seconds) {
  if (!Number.isFinite(seconds)) return '';
  const whole = Math.max(0, Math.round(seconds));
  if (whole < 60) return `${whole} s`;
  if (whole < 3600) return `${Math.floor(whole / 60)} min ${whole % 60} s`;
  return `${Math.floor(whole / 3600)} h ${Math.floor((whole % 3600) / 60)} min`;
}

/** 84 %. @param {number} share */
export const percent = (share) => `${Number((share * 100).toPrecision(2))} %`;

/** Digits that matter: 4106, 12.3, 0.82. @param {number} value */
export const short = (value) => (value >= 100 ? String(Math.round(value)) : String(Number(value.toPrecision(3))));

/**
 * What one load has done: "12 MB of 50 MB · 3 MB/s · 12 s left · 4 MB from this browser".
 * @param {import('../lib/index.js').Progress} p
 */
export function progressText(p) {
  const parts = [`${bytes(p.loaded)} of ${bytes(p.total)}`];
  if (p.rate > 0) parts.push(`${bytes(p.rate)}/s`);
  if (p.rate > 0 && duration(p.secondsLeft)) parts.push(`${duration(p.secondsLeft)} left`);
  if (p.stored > 0) parts.push(`${bytes(p.stored)} from this browser`);
  return parts.join(' · ');
}

/** What one generation has done, as `tern run` says it. @param {import('../lib/index.js').Result} r */
export function resultText(r) {
  const parts = [`${short(r.tokensPerSecond)} tokens/s`, `${r.tokens} tokens, stopped by ${r.reason}`];
  parts.push(`prompt of ${r.promptTokens} tokens in ${Math.round(r.prefillMs)} ms`);
  if (r.bandwidthShare !== null && r.bandwidthShare !== undefined)
    parts.push(`${percent(r.bandwidthShare)} of the measured bandwidth`);
  return parts.join(' · ');
}
