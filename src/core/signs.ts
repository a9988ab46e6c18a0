import { isLinkOrIndex, REACH, taggedLines } from './completion/brackets.ts';
import { doneTag, isClaim } from './completion/markers.ts';
import { LIFTED } from './completion/vetoes.ts';

type Reasoned = { kind: 'failed' | 'skipped' | 'blocked'; reason: string };

/** What a model says of a step in brackets, beside the plain marker. `step` is an id, or what the model called it. */
export type Sign =
  | { kind: 'done'; step: string }
  | Reasoned
  | { kind: 'not_done' }
  | { kind: 'progress'; current: number; total: number };

const OPEN = '[【［';
const CLOSE = ']】］';
const PROGRESS = /^(?:progress|进度|進度)\s*[:：]?\s*(\d{1,6})\s*\/\s*(\d{1,6})$/iu;
const NOT_DONE =
  /^(?:step |步骤|步驟)?(?:not (?:yet )?(?:done|completed?|finished)|incomplete|unfinished|(?:未|尚未|还没|還沒|还没有|還沒有|没有|沒有|没|沒)(?:完成|结束|結束|做完))(?:\s*[:：,，][\s\S]*)?$/iu;
const REASONED = [
  ['failed', /^(?:step |步骤|步驟)?(?:failed|failure|失败|失敗)(?:\s*[:：]\s*([\s\S]*))?$/iu],
  ['skipped', /^(?:step |步骤|步驟)?(?:skip|skipped|跳过|跳過|略过|略過)(?:\s*[:：]\s*([\s\S]*))?$/iu],
  ['blocked', /^(?:step |步骤|步驟)?(?:blocked|stuck|受阻|阻塞|卡住)(?:\s*[:：]\s*([\s\S]*))?$/iu],
] as const;

/** Nothing but emphasis, or a bullet or number of a list. */
const LINE_START = /^\s*[*_]*\s*$/;
const BULLET = /^\s*(?:[-*+•]|\d{1,4}[.)、])\s+[*_]*\s*$/;
const SENTENCE_END = /[.!。！]\s*[*_]*$/;
/** How a test runner pads the state of a test: `[  FAILED  ] Suite.Upload`. */
const PADDED = /^\s+[A-Z]+\s+$/;
/** "[Blocked] until there is a key" says what is missing; "[Failed] when fetching page 3" where it happened. */
const CIRCUMSTANCE = /^[\s*_]*(?:until|unless|when)\s/i;

/**
 * The signs in an answer, in order: `[Done: step_2]`, `[Step 2 Done]`, `[Not done]`, `[Failed: why]`, `[Skip: why]`,
 * `[Blocked: why]`, `[Progress 2/5]` and their Chinese forms. Like the markers they are seen in prose alone: not in code,
 * not quoted, not denied, promised or asked. A bare `[Failed]` within a line is the state of some other thing.
 */
export function readSigns(text: string): Sign[] {
  return taggedLines(text).flatMap((line) =>
    bracketed(line).flatMap((tag): Sign[] => {
      const sign = signOf(tag.inside.trim());
      if (!sign || isOther(tag)) return [];
      if (!('reason' in sign)) return isClaim({ before: tag.before, after: tag.after.slice(0, REACH) }) ? [sign] : [];
      return reasoned(sign, tag);
    }),
  );
}

const isOther = ({ open, before, after }: Bracketed): boolean =>
  (open === '[' && isLinkOrIndex(before, after)) || LIFTED.test(before);

/** A reason often follows its tag instead of standing in it. */
function reasoned(sign: Reasoned, { inside, before, after }: Bracketed): Reasoned[] {
  if (!isClaim({ before, after: CIRCUMSTANCE.test(after) ? '' : after.slice(0, REACH) })) return [];
  if (sign.reason !== '') return [sign];
  const leads = LINE_START.test(before) || (sign.kind === 'blocked' && BULLET.test(before));
  const closes = SENTENCE_END.test(before) && /^[\s*_.!。！]{0,9}$/.test(after);
  return !PADDED.test(inside) && (leads || closes) ? [{ ...sign, reason: after.trim() }] : [];
}

function signOf(inside: string): Sign | undefined {
  const done = doneTag(inside);
  if (done) return done.number === undefined ? named(done.words) : { kind: 'done', step: `step_${done.number}` };
  if (NOT_DONE.test(inside)) return { kind: 'not_done' };
  const [, current, total] = PROGRESS.exec(inside) ?? [];
  if (current && total) return { kind: 'progress', current: Number(current), total: Number(total) };
  for (const [kind, pattern] of REASONED) {
    const found = pattern.exec(inside);
    if (found) return { kind, reason: found[1]?.trim() ?? '' };
  }
  return undefined;
}

const named = (step: string | undefined): Sign | undefined => (step === undefined ? undefined : { kind: 'done', step });

interface Bracketed {
  readonly open: string;
  readonly inside: string;
  readonly before: string;
  readonly after: string;
}

/** What stands in the outermost brackets of a line; a reason may hold brackets of its own. */
function bracketed(line: string): Bracketed[] {
  const found: Bracketed[] = [];
  let depth = 0;
  let start = 0;
  for (let place = 0; place < line.length; place++) {
    const char = line.charAt(place);
    if (OPEN.includes(char)) {
      if (depth === 0) start = place;
      depth += 1;
    } else if (CLOSE.includes(char) && depth > 0) {
      depth -= 1;
      if (depth === 0)
        found.push({
          open: line.charAt(start),
          inside: line.slice(start + 1, place),
          before: line.slice(Math.max(0, start - REACH), start),
          after: line.slice(place + 1),
        });
    }
  }
  return found;
}
