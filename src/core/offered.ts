import { depthOf } from './child-name.ts';
import type { Session } from './session.ts';

/** Names that are looked for on disk, at most; a listing of a whole tree is no offer of its files. */
const MOST_NAMES = 200;
/** Code points of a text that are searched for names. */
const SEARCHED = 100_000;

/**
 * Files a reply may bring along, as `work/x`: those its text names, then those of the steps that were closed in this run; a child
 * session's, of its whole plan, since nobody saw its earlier replies. Whether they are there is for who can look. Pure.
 */
export function offeredFiles(session: Session, text: string): string[] {
  const { run, plan, name } = session;
  if (!run) return [];
  const since = depthOf(name) > 0 ? '' : run.since;
  const steps = (run.beside ? [] : (plan?.steps ?? [])).filter((step) => (step.completed_at ?? '') >= since);
  const ofSteps = steps.flatMap((step) => step.attachments ?? []).flatMap((path) => underWork(path));
  return [...new Set([...namedFiles(text, run.folder), ...ofSteps])].slice(0, MOST_NAMES);
}

const FENCED = /^(?:```|~~~)[\s\S]*?^(?:```|~~~)[^\n]*$/gm;
const QUOTED = /`([^`\n]{1,500})`/g;
const LINKED = /\]\(([^\n()]{1,500}(?:\([^\n()]{0,100}\)[^\n()]{0,500})?)\)/g;
const PLAIN = /(?<![A-Za-z0-9_./:~\\-])work\/[^\s`"'<>()[\]{}|*,;，。；：、！？“”‘’》）】]{1,300}/g;

/** Paths under `work/` that a text names: in backticks, in Markdown links and images, or as plain words that begin with `work/`. */
export function namedFiles(text: string, folder?: string): string[] {
  const prose = [...text.slice(0, 2 * SEARCHED)].slice(0, SEARCHED).join('').replace(FENCED, '\n');
  const quoted = [...prose.matchAll(QUOTED)].map((match) => match[1] ?? '');
  const linked = [...prose.matchAll(LINKED)].flatMap((match) => targetsOf(match[1] ?? ''));
  const words = prose.replace(QUOTED, ' ').replace(LINKED, '] ');
  const plain = [...words.matchAll(PLAIN)].flatMap((match) => endingsOf(match[0]));
  const found = [...quoted, ...linked, ...plain].flatMap((name) => underWork(name, folder));
  return [...new Set(found)].slice(0, MOST_NAMES);
}

/** The target of a link: without its title, and as it reads where its bytes are written in percent. */
function targetsOf(inside: string): string[] {
  const target = /^\s*<([^<>]*)>/.exec(inside)?.[1] ?? inside.trim().replace(/\s+["'(].*$/, '');
  try {
    return [...new Set([target, decodeURIComponent(target)])];
  } catch {
    return [target];
  }
}

/** A plain word may have a full stop behind it, or, without a space between, Chinese or Japanese words. */
function endingsOf(word: string): string[] {
  const bare = word.replace(/[.:!?…]+$/u, '');
  const short = /^.*?\.[A-Za-z0-9]{1,8}(?=[^\x21-\x7e])/u.exec(bare)?.[0];
  return [...new Set([bare, ...(short === undefined ? [] : [short])])];
}

/**
 * The path under `work/` that a name means, or none: nothing absolute, no address, nothing that leads up. Within a folder of its
 * own a child's names are relative to that folder, or to the whole.
 */
function underWork(name: string, folder?: string): string[] {
  const plain = name.trim().replace(/^(?:\.\/+)+/, '');
  if (/^[/~\\]|:\/\//.test(plain) || /\p{Cc}|\ufffd/u.test(plain)) return [];
  const isWhole = /^work\/+/.test(plain);
  const parts = plain
    .replace(/^work\/+/, '')
    .split('/')
    .filter((part) => part !== '' && part !== '.');
  if (parts.length === 0 || parts.includes('..')) return [];
  const path = parts.join('/');
  const places = [
    ...(folder === undefined ? [] : [`work/${folder}/${path}`]),
    ...(folder === undefined || isWhole ? [`work/${path}`] : []),
  ];
  // A disk may have written its name in the other form of the same letters.
  return places.flatMap((place) => [...new Set([place, place.normalize('NFC'), place.normalize('NFD')])]);
}
