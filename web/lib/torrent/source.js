/** What is a torrent, among sources: known before anything of torrents is loaded. */

export const isFile = (value) => typeof Blob !== 'undefined' && value instanceof Blob;
export const isMagnet = (source) => typeof source === 'string' && /^magnet:/i.test(source);

/** A magnet link, or a .torrent. @param {any} source */
export function isTorrent(source) {
  if (isFile(source)) return /\.torrent$/i.test(source.name ?? '');
  if (isMagnet(source)) return true;
  const text = source instanceof URL ? source.href : source;
  return typeof text === 'string' && /^[^?#]*\.torrent([?#]|$)/i.test(text);
}
