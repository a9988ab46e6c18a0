import { sessionDepth } from '../session/child-session.ts';
import type { Session } from '../session/session-state.ts';

/** The most names looked up on disk; a listing of a whole tree does not offer its files. */
const MAX_FILES_NAMED = 200;
/** Code points of a text that are searched for names. */
const MAX_SEARCHED_CHARS = 100_000;

/**
 * Files a reply may attach, as `work/x`: those its text names, then those of the steps closed in this run; for a child
 * session, those of its whole plan, since nobody saw its earlier replies. The caller checks whether they exist. Pure.
 */
export function findReplyAttachments(session: Session, text: string): string[] {
  const { run, plan, name } = session;
  if (!run) return [];
  const since = sessionDepth(name) > 0 ? '' : run.startedAt;
  const steps = (run.besidePlan ? [] : (plan?.steps ?? [])).filter((step) => (step.completed_at ?? '') >= since);
  const ofSteps = steps.flatMap((step) => step.attachments ?? []).flatMap((path) => pathsUnderWork(path));
  return [...new Set([...filesNamedIn(text, run.folder), ...ofSteps])].slice(0, MAX_FILES_NAMED);
}

const FENCED_CODE = /^(?:```|~~~)[\s\S]*?^(?:```|~~~)[^\n]*$/gm;
const BACKTICKED = /`([^`\n]{1,500})`/g;
const LINK_TARGET = /\]\(([^\n()]{1,500}(?:\([^\n()]{0,100}\)[^\n()]{0,500})?)\)/g;
const PLAIN_PATH = /(?<![A-Za-z0-9_./:~\\-])work\/[^\s`"'<>()[\]{}|*,;，。；：、！？“”‘’》）】]{1,300}/g;

/**
 * Paths under `work/` that a text names: in backticks, in Markdown links and images, or as plain words that start with
 * `work/`.
 */
export function filesNamedIn(text: string, folder?: string): string[] {
  const prose = [...text.slice(0, 2 * MAX_SEARCHED_CHARS)]
    .slice(0, MAX_SEARCHED_CHARS)
    .join('')
    .replace(FENCED_CODE, '\n');
  const quoted = [...prose.matchAll(BACKTICKED)].map((match) => match[1] ?? '');
  const linked = [...prose.matchAll(LINK_TARGET)].flatMap((match) => linkTargets(match[1] ?? ''));
  const words = prose.replace(BACKTICKED, ' ').replace(LINK_TARGET, '] ');
  const plain = [...words.matchAll(PLAIN_PATH)].flatMap((match) => withoutTrailingMarks(match[0]));
  const found = [...quoted, ...linked, ...plain].flatMap((name) => pathsUnderWork(name, folder));
  return [...new Set(found)].slice(0, MAX_FILES_NAMED);
}

/** The target of a link: without its title, and with percent escapes decoded. */
function linkTargets(inside: string): string[] {
  const target = /^\s*<([^<>]*)>/.exec(inside)?.[1] ?? inside.trim().replace(/\s+["'(].*$/, '');
  try {
    return [...new Set([target, decodeURIComponent(target)])];
  } catch {
    return [target];
  }
}

/** A plain word may be followed by a full stop, or directly by Chinese or Japanese words. */
function withoutTrailingMarks(word: string): string[] {
  const bare = word.replace(/[.:!?…]+$/u, '');
  const short = /^.*?\.[A-Za-z0-9]{1,8}(?=[^\x21-\x7e])/u.exec(bare)?.[0];
  return [...new Set([bare, ...(short === undefined ? [] : [short])])];
}

/**
 * The path under `work/` that a name means, if any: no absolute path, no URL, nothing that leads up. Names in a child's
 * own folder are relative to that folder, or to `work/`.
 */
function pathsUnderWork(name: string, folder?: string): string[] {
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
  // The file system may have normalised the name differently.
  return places.flatMap((place) => [...new Set([place, place.normalize('NFC'), place.normalize('NFD')])]);
}
