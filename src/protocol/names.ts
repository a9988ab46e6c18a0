import { sha256 } from './sha256.ts';

/** Most bytes a file system takes in one name. */
const MAX_BYTES = 255;
/** Kept as they are, wherever they stand: no case, no normal form, no meaning to any shell or file system. */
const PLAIN = /^[a-z0-9_.-]$/;
/** Of the letters outside ASCII only those that exist in one form: no case, nothing to compose or decompose. */
const ONE_FORM = /^(?=\p{L})[\p{Script=Han}\p{Script=Hiragana}\p{Script=Katakana}]$/u;
/** Windows opens a device for these, also with an extension. */
const DEVICE = /^(?:con|prn|aux|nul|com\d|lpt\d)(?:\.|$)/;

/**
 * The folder of the session with this key: one harmless path segment of at most 255 bytes. Two keys never share one,
 * not even where the file system ignores case or Unicode normal form. Simple lower-case names stay as they are;
 * everything else is escaped as `=` and two hex digits, or `=u…=` outside ASCII. `~` is escaped too: only child
 * sessions are named with one. A key that would grow beyond 255 bytes keeps its beginning and gets a SHA-256 at the
 * end, so for those alone "never" means "unless SHA-256 is broken".
 */
export function sessionFolder(key: string): string {
  if (key === '') return '=empty';
  const letters = [...key];
  const pieces = letters.map((letter, at) => {
    const edge = (at === 0 && /[.-]/.test(letter)) || (at === letters.length - 1 && letter === '.');
    const device = at === 0 && DEVICE.test(key);
    return (PLAIN.test(letter) && !edge && !device) || isOneForm(letter) ? letter : escaped(letter);
  });
  const name = pieces.join('');
  return bytesOf(name) <= MAX_BYTES ? name : shortened(pieces, `=h${sha256(name)}`);
}

/** Whether the daemon takes this folder under `.sessions/` for a session. People may `mkdir` almost any name. */
export function isSessionFolder(name: string): boolean {
  // Asked of every session in every sweep, where to count bytes took a tenth of the time: no UTF-16 unit becomes more than three.
  const fits = name.length * 3 <= MAX_BYTES || bytesOf(name) <= MAX_BYTES;
  return name !== '' && !name.startsWith('.') && !/[/\p{Cc}]/u.test(name) && fits;
}

/** Entries of `outbox/` that are not replies. */
const OUTBOX_OWN: ReadonlySet<string> = new Set(['read', '.tmp']);

/** Whether a file of this name in `outbox/` would meet the outbox's own, also where the file system ignores case or endings. */
export function isOutboxOwn(name: string): boolean {
  const compared = name
    .normalize('NFKC')
    .replace(/\p{Cf}/gu, '')
    .replace(/[. ]+$/, '');
  return OUTBOX_OWN.has(compared.toLowerCase());
}

const isOneForm = (letter: string): boolean => ONE_FORM.test(letter) && letter.normalize('NFKD') === letter;

function escaped(letter: string): string {
  const code = (letter.codePointAt(0) ?? 0).toString(16);
  return letter <= '\x7f' ? `=${code.padStart(2, '0')}` : `=u${code}=`;
}

function shortened(pieces: readonly string[], ending: string): string {
  let name = '';
  for (const piece of pieces) {
    if (bytesOf(name) + bytesOf(piece) + bytesOf(ending) > MAX_BYTES) break;
    name += piece;
  }
  return name + ending;
}

const bytesOf = (text: string): number => new TextEncoder().encode(text).length;
