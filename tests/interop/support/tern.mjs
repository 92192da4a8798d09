/** Tern as these tests see it: the program interop_peer, and the command. */
import {execFileSync, spawn, spawnSync} from 'node:child_process';
import {existsSync, mkdtempSync, rmSync} from 'node:fs';
import {tmpdir} from 'node:os';
import {join} from 'node:path';
import {createInterface} from 'node:readline';
import {fileURLToPath} from 'node:url';

export const ROOT = fileURLToPath(new URL('../../..', import.meta.url));
export const BUILD = process.env.TERN_BUILD ?? join(ROOT, 'build/release');
const PEER = join(BUILD, 'interop_peer');
export const COMMAND = join(BUILD, 'tern');
const PACKAGES = join(ROOT, 'tests/interop/node_modules');

/** Why the tests cannot run here, or false. In CI they must. */
export function absent(...more) {
  const missing = [PEER, COMMAND, PACKAGES, ...more].filter((path) => !existsSync(path));
  if (!missing.length) return false;
  const why = `${missing[0]} is missing: build the targets tern and interop_peer, and npm ci --ignore-scripts`;
  if (process.env.CI === 'true') throw new Error(why);
  return why;
}

/** The folder of a package, from its name. */
export const packageDir = (name) => join(PACKAGES, name);

/** What `tern WORDS` prints. */
export const tern = (...words) => execFileSync(COMMAND, words, {encoding: 'utf8', maxBuffer: 1 << 28, stdio: 'pipe'});

/** A program that answers each line of JSON with one. */
class Lines {
  #child;
  #waiting = [];

  constructor(command, ...words) {
    this.#child = spawn(command, words, {stdio: ['pipe', 'pipe', 'inherit']});
    createInterface({input: this.#child.stdout}).on('line', (line) => this.#waiting.shift().resolve(JSON.parse(line)));
    this.#child.on('exit', (code) => {
      for (const {reject} of this.#waiting) reject(new Error(`${command} ended with ${code}`));
    });
  }

  /** The answer, or an Error with the message. */
  async ask(request) {
    const answer = await new Promise((resolve, reject) => {
      this.#waiting.push({resolve, reject});
      this.#child.stdin.write(JSON.stringify(request) + '\n');
    });
    if (answer.error !== undefined) throw new Error(answer.error);
    return answer;
  }

  close() {
    this.#child.stdin.end();
  }
}

/** One interop_peer; tests/interop/peer.c has what it can be asked. */
export class Peer extends Lines {
  constructor() {
    super(PEER);
  }

  async bytes(request) {
    return Buffer.from((await this.ask(request)).hex, 'hex');
  }

  async text(request) {
    return (await this.bytes(request)).toString('utf8');
  }
}

const hasJinja = (python) => spawnSync(python, ['-c', 'import jinja2']).status === 0;

/** render.py, or null where Python has no jinja2 (Debian: python3-jinja2). In CI it must. */
export function openJinja() {
  const python = ['python3', '/usr/bin/python3'].find(hasJinja);
  if (!python && process.env.CI === 'true') throw new Error('python3 has no jinja2: install python3-jinja2');
  return python ? new Lines(python, join(ROOT, 'tests/interop/render.py')) : null;
}

/** A folder for the length of a test file. */
export function scratch() {
  const path = mkdtempSync(join(tmpdir(), 'tern-interop-'));
  process.on('exit', () => rmSync(path, {recursive: true, force: true}));
  return path;
}
