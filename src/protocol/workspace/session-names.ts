import { sha256 } from '../../base/sha256.ts';

/** The most bytes a file system allows in a name. */
const MAX_NAME_BYTES = 255;
/** Kept unchanged everywhere: no case, no normal form, no meaning to any shell or file system. */
const PLAIN_LETTER = /^[a-z0-9_.-]$/;
/** Of the letters outside ASCII only those with a single form: no case, nothing to compose or decompose. */
const SINGLE_FORM_LETTER = /^(?=\p{L})[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}]$/u;
/** Windows opens a device for these names, even with an extension. */
const WINDOWS_DEVICE = /^(?:con|prn|aux|nul|com\d|lpt\d)(?:\.|$)/;

/**
 * The folder of the session with this key: one harmless path segment of at most 255 bytes. Two keys never share a
 * folder, even if the file system ignores case or Unicode normal form. Simple lower-case names stay as they are;
 * everything else is escaped as `=` and two hex digits, or `=u…=` outside ASCII. `~` is escaped too: only names of
 * child sessions contain one. A key that would exceed 255 bytes keeps its beginning and gets a SHA-256 at the end, so
 * for those alone "never" means "unless SHA-256 is broken".
 */
export function sessionFolder(key: string): string {
  if (key === '') return '=empty';
  const letters = [...key];
  const pieces = letters.map((letter, at) => {
    const edge = (at === 0 && /[.-]/.test(letter)) || (at === letters.length - 1 && letter === '.');
    const device = at === 0 && WINDOWS_DEVICE.test(key);
    return (PLAIN_LETTER.test(letter) && !edge && !device) || hasSingleForm(letter) ? letter : escapeLetter(letter);
  });
  const name = pieces.join('');
  return byteLength(name) <= MAX_NAME_BYTES ? name : shortenName(pieces, `=h${sha256(name)}`);
}

/** Escapes of `sessionFolder`. */
const ESCAPED_LETTER = /=u([0-9a-f]{1,6})=|=([0-9a-f]{2})/g;
/** Invisible characters, and what would make it look like another path or a child session. */
const MISLEADING = /[\p{C}\p{Zl}\p{Zp}/\\~]/u;

/**
 * The name of a session as people read and type it: for a folder that `sessionFolder` has named, its key, and of a
 * child session that of each part. Any other name is returned unchanged.
 */
export const readableName = (folder: string): string => folder.split('~').map(readablePart).join('~');

function readablePart(part: string): string {
  if (!part.includes('=')) return part;
  const [, escaped = '', generation = ''] = /^(.*?)(\+\d+)?$/s.exec(part) ?? [];
  const key = escaped.replace(ESCAPED_LETTER, (whole, wide?: string, ascii?: string) => {
    const code = Number.parseInt(wide ?? ascii ?? '', 16);
    return code <= 0x10_ffff ? String.fromCodePoint(code) : whole;
  });
  return !MISLEADING.test(key) && sessionFolder(key) === escaped ? key + generation : part;
}

/** The session at the top of a family: `demo` of `demo~step_1~step_2`. */
export const rootSessionOf = (name: string): string => name.split('~', 1)[0] ?? name;

/** Folders that a disk, a NAS or an unpacker puts into any folder: they are no sessions. */
const FOREIGN_FOLDERS: ReadonlySet<string> = new Set([
  ...['lost+found', '$recycle.bin', 'recycler', 'system volume information', '__macosx'],
  ...['@eadir', '@tmp', '#recycle', '#snapshot', '@recycle', '@recently-snapshot', '@sharebin'],
]);

/** Whether the daemon treats this folder under `.sessions/` as a session. People may `mkdir` almost any name. */
export function isSessionFolder(name: string): boolean {
  // Checked for every session in every sweep, where counting bytes took a tenth of the time: no UTF-16 unit takes more
  // than three.
  const fits = name.length * 3 <= MAX_NAME_BYTES || byteLength(name) <= MAX_NAME_BYTES;
  return (
    name !== '' && !name.startsWith('.') && !/[/\p{Cc}]/u.test(name) && fits && !FOREIGN_FOLDERS.has(name.toLowerCase())
  );
}

/** Entries of `outbox/` that are not replies. */
const RESERVED_OUTBOX_NAMES: ReadonlySet<string> = new Set(['read', '.tmp']);

/**
 * Whether a file of this name in `outbox/` would collide with the outbox's own, even if the file system ignores case or
 * endings.
 */
export function isReservedOutboxName(name: string): boolean {
  const compared = name
    .normalize('NFKC')
    .replace(/\p{Cf}/gu, '')
    .replace(/[. ]+$/, '');
  return RESERVED_OUTBOX_NAMES.has(compared.toLowerCase());
}

const hasSingleForm = (letter: string): boolean =>
  SINGLE_FORM_LETTER.test(letter) && letter.normalize('NFKD') === letter;

function escapeLetter(letter: string): string {
  const code = (letter.codePointAt(0) ?? 0).toString(16);
  return letter <= '\x7f' ? `=${code.padStart(2, '0')}` : `=u${code}=`;
}

function shortenName(pieces: readonly string[], ending: string): string {
  let name = '';
  for (const piece of pieces) {
    if (byteLength(name) + byteLength(piece) + byteLength(ending) > MAX_NAME_BYTES) break;
    name += piece;
  }
  return name + ending;
}

const byteLength = (text: string): number => new TextEncoder().encode(text).length;

/** The name of the folder that holds the sessions of a workspace. */
const SESSIONS_FOLDER = '.sessions';

/** Whether a path is in a session's folder: its content may have been written by a model. */
export const isInSessionFolder = (path: string): boolean => sessionsFolderAbove(path) !== undefined;

/** The sessions folder in the path of a file in a session; undefined if there is none. */
export function sessionsFolderAbove(path: string): string | undefined {
  const at = `${path}/`.indexOf(`/${SESSIONS_FOLDER}/`);
  return at < 0 ? undefined : path.slice(0, at + SESSIONS_FOLDER.length + 1);
}

/**
 * The folders of a PATH in which programs that run outside the sandbox may be searched: absolute, and in no session.
 * `npx` and `npm run`, called in a `work/`, put its `node_modules/.bin` first.
 */
export const trustedPathFolders = (path: string): string[] =>
  path.split(':').filter((folder) => folder.startsWith('/') && !isInSessionFolder(folder));

/** An environment for programs that run outside the sandbox. */
export function withTrustedPath<Env extends Readonly<Record<string, string | undefined>>>(env: Env): Env {
  const path = env['PATH'];
  return path === undefined ? env : { ...env, PATH: trustedPathFolders(path).join(':') };
}

/** What a program that works for a session finds in its environment. `folder`: the session's. */
export const sessionVariables = (name: string, folder: string): Record<string, string> => ({
  AGENTD_SESSION: name,
  AGENTD_SESSION_FOLDER: folder,
});
