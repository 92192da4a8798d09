/** Small helpers over the document: elements, messages for screen readers, files, the clipboard. */

/** The element with this id. @param {string} id @returns {any} */
export const $ = (id) => document.getElementById(id);

const NAMESPACE = 'http://www.w3.org/2000/svg';

function fill(element, props, children) {
  for (const [key, value] of Object.entries(props)) {
    if (value === undefined || value === null || value === false) continue;
    if (key.startsWith('on')) element.addEventListener(key.slice(2), value);
    else if (key === 'class' || key.includes('-') || !(key in element) || element.namespaceURI === NAMESPACE)
      element.setAttribute(key, value === true ? '' : value);
    else element[key] = value;
  }
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
}

/** A new element: h('button', {onclick}, 'Text'). Text is never taken as markup. */
export const h = (tag, props = {}, ...children) => fill(document.createElement(tag), props, children);

/** The same for SVG. */
export const svg = (tag, props = {}, ...children) => fill(document.createElementNS(NAMESPACE, tag), props, children);

/** Replaces the content of a <dl> by these pairs; pairs without a value are left out. */
export function facts(list, pairs) {
  const shown = pairs.filter(([, value]) => value !== undefined && value !== null && value !== '');
  list.replaceChildren(...shown.flatMap(([name, value]) => [h('dt', {}, name), h('dd', {}, value)]));
}

/** Says something to screen readers once, politely. */
export function announce(text) {
  const live = $('live');
  live.textContent = '';
  requestAnimationFrame(() => {
    live.textContent = text;
  });
}

/** Hands the person a file. */
export function saveFile(name, parts, type) {
  const address = URL.createObjectURL(new Blob(parts, {type}));
  const link = h('a', {href: address, download: name});
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(address), 60000);
}

function copySelected(text) {
  const area = h('textarea', {value: text, class: 'unseen', readOnly: true});
  const focused = document.activeElement;
  document.body.append(area);
  area.select();
  const done = document.execCommand('copy');
  area.remove();
  focused?.focus();
  return done;
}

/** Copies text; pages that are not secure have the old way alone. Says what happened. */
export async function copyText(text) {
  let done = true;
  try {
    await navigator.clipboard.writeText(text);
  } catch {
    done = copySelected(text);
  }
  announce(done ? 'Copied' : 'The browser did not allow copying');
  return done;
}
