import { taggedLines } from './completion/brackets.ts';
import { isClaim } from './completion/markers.ts';

/** What a model says of a step in brackets, beside the plain marker. */
export type Sign =
  | { kind: 'done'; step: string }
  | { kind: 'failed' | 'skipped' | 'blocked'; reason: string }
  | { kind: 'progress'; current: number; total: number };

const OPEN = '[【［';
const CLOSE = ']】］';
const DONE = /^(?:step |步骤|步驟)?(?:done|completed?|finished|已?完成|结束|結束)\s*[:：]\s*(.+)$/iu;
const PROGRESS = /^(?:progress|进度|進度)\s*[:：]?\s*(\d{1,6})\s*\/\s*(\d{1,6})$/iu;
const REASONED = [
  ['failed', /^(?:step |步骤|步驟)?(?:failed|failure|失败|失敗)(?:\s*[:：]\s*([\s\S]*))?$/iu],
  ['skipped', /^(?:step |步骤|步驟)?(?:skip|skipped|跳过|跳過|略过|略過)(?:\s*[:：]\s*([\s\S]*))?$/iu],
  ['blocked', /^(?:step |步骤|步驟)?(?:blocked|stuck|受阻|阻塞|卡住)(?:\s*[:：]\s*([\s\S]*))?$/iu],
] as const;

/**
 * The signs in an answer, in order: `[Done: step_2]`, `[Failed: why]`, `[Skip: why]`, `[Blocked: why]`, `[Progress 2/5]` and their
 * Chinese forms. Like the markers they are seen in prose alone: not in code, not quoted, not denied, not promised.
 */
export function readSigns(text: string): Sign[] {
  return taggedLines(text).flatMap((line) =>
    bracketed(line).flatMap(({ inside, before, after }) => {
      const sign = signOf(inside);
      // A reason often follows its tag instead of standing in it.
      if (!sign || !isClaim({ before, after: '' })) return [];
      return [
        sign.kind !== 'done' && sign.kind !== 'progress' && sign.reason === ''
          ? { ...sign, reason: after.trim() }
          : sign,
      ];
    }),
  );
}

function signOf(inside: string): Sign | undefined {
  const done = DONE.exec(inside)?.[1];
  if (done) return { kind: 'done', step: done.trim() };
  const [, current, total] = PROGRESS.exec(inside) ?? [];
  if (current && total) return { kind: 'progress', current: Number(current), total: Number(total) };
  for (const [kind, pattern] of REASONED) {
    const found = pattern.exec(inside);
    if (found) return { kind, reason: found[1]?.trim() ?? '' };
  }
  return undefined;
}

/** What stands in the outermost brackets of a line; a reason may hold brackets of its own. */
function bracketed(line: string): Array<{ inside: string; before: string; after: string }> {
  const found: Array<{ inside: string; before: string; after: string }> = [];
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
          inside: line.slice(start + 1, place).trim(),
          before: line.slice(0, start),
          after: line.slice(place + 1),
        });
    }
  }
  return found;
}
