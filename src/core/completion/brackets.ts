import { spokenLines } from '../text/prose.ts';

/** A bracketed tag as its author wrote it: `[Done]`, `【完成】`, `［结束］`. */
export interface Tag {
  /** Between the brackets, trimmed, lower-cased, inner space folded. */
  readonly inside: string;
  /** What the line says before and after it, as far as it can bear on the tag. */
  readonly before: string;
  readonly after: string;
  readonly raw: string;
}

const BRACKETS = /\[([^[\]【】［］]{1,60})\]|【([^[\]【】［］]{1,60})】|［([^[\]【】［］]{1,60})］/g;
/** Markdown's way to write a bracket that is no link. */
const ESCAPED = /\\([[\]])/g;
/** How far beside a tag words may still bear on it. */
export const REACH = 200;
/**
 * A line that declares a step, up to and with its tag: a bullet, a number and emphasis may stand before it. The gaps
 * are bounded so that a line of nothing but space costs no time.
 */
export const DECLARATION =
  /^\s{0,40}(?:(?:[-*+•]|\d{1,4}[.)、])\s{0,9}(?:\[[ xX]\]\s{0,9})?)?(\*\*|__)?\s?[[【［]\s{0,9}(?:step|步骤|步驟|ステップ|paso|schritt|étape)\s{0,9}#?\d{0,4}(?:\s?\/\s?\d{1,4})?\s{0,9}[\]】］]/iu;

/** The lines in which a tag may speak: no code, no quotation, nothing a program printed, no declaration of a step. */
export function taggedLines(text: string): string[] {
  if (!/[[【［]/.test(text)) return [];
  return withoutTranscript(spokenLines(text.replace(ESCAPED, '$1'))).filter((line) => !DECLARATION.test(line));
}

/** What a program printed, as one pastes it: below a prompt or a heading that says so, up to the next empty line. */
const TRANSCRIPT = /^\s{0,9}(?:\$ \S|(?:tool|command|build|console|shell|program) (?:output|log)\s?[:：]\s{0,9}$)/i;
function withoutTranscript(lines: readonly string[]): string[] {
  let isPrinted = false;
  return lines.filter((line) => {
    isPrinted = line.trim() !== '' && (isPrinted || TRANSCRIPT.test(line));
    return !isPrinted;
  });
}

/** The tags of these lines; the label of a link and the index of an array are none. */
export function tagsOf(lines: readonly string[]): Tag[] {
  return lines.flatMap((line) =>
    [...line.matchAll(BRACKETS)].flatMap((found) => {
      const end = found.index + found[0].length;
      const before = line.slice(Math.max(0, found.index - REACH), found.index);
      const after = line.slice(end, end + REACH);
      if (found[0].startsWith('[') && isLinkOrIndex(before, after)) return [];
      const inside = (found[1] ?? found[2] ?? found[3] ?? '').trim().toLowerCase().replace(/\s+/g, ' ');
      return [{ inside, before, after, raw: found[0] }];
    }),
  );
}

/** Whether brackets between these are the label of a link or the index of an array. */
export const isLinkOrIndex = (before: string, after: string): boolean =>
  /^[([]|^:\s*(?:https?:|<|\/)/.test(after) || /[A-Za-z0-9_$\]]$/.test(before);
