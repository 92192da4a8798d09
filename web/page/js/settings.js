/** What the person has chosen, kept in localStorage (where there is none, until the page is closed). */

const KEY = 'tern';
let values = read();

function read() {
  try {
    const found = JSON.parse(localStorage.getItem(KEY) ?? '{}');
    return found && typeof found === 'object' && !Array.isArray(found) ? found : {};
  } catch {
    return {};
  }
}

/** @template T @param {string} name @param {T} initial @returns {T} of the type of `initial` */
export function get(name, initial) {
  const value = values[name];
  return typeof value === typeof initial && value !== null ? value : initial;
}

/** undefined forgets it. */
export function set(name, value) {
  values = {...read(), ...values, [name]: value};
  try {
    localStorage.setItem(KEY, JSON.stringify(values));
  } catch {
    /* no storage: kept in this page alone */
  }
}
