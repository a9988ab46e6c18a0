import type { Step } from '../protocol/plan.ts';
import { clip } from '../protocol/recorded.ts';
import type { Session, Turn } from './session.ts';
import { unwrapped } from './text/unwrapped.ts';

const RESULT_LENGTH = 400;
const MARKER =
  /[[【［]\s*(?:step )?(?:done|completed?|finished|已?完成|步骤完成|步驟完成|结束|結束)(?:\s*[:：][^\]】］]*)?\s*[\]】］]/giu;
const TAGS = /^\s*[[【［]\s*(?:step(?: \d+)?|步骤|步驟)[^\]】］]*[\]】］].*$/gimu;

/** What came out of a step: the model's own closing words, else the first words of its last tool output. */
export function resultOf(turn: Turn, { description }: Step): string {
  const shown = (turn.calls.at(-1)?.head ?? '').replace(/\s+/g, ' ').trim();
  const said = closingWords(unwrapped(turn.text));
  // "Fetch the pages: 5 fetched" stands beside "Fetch the pages" already.
  const own = said.startsWith(`${description}:`) ? said.slice(description.length + 1).trim() : said;
  return clip(own || shown, RESULT_LENGTH);
}

/** The line of the marker, or what stands before it where it stands alone; the whole answer where there is none. */
function closingWords(text: string): string {
  const lines = text.replace(TAGS, '').split('\n');
  const place = lines.findIndex((line) => line.search(MARKER) >= 0);
  const own = place < 0 ? '' : bare(lines.slice(place, place + 1)) || bare(lines.slice(0, place));
  return own || bare(lines);
}

function bare(lines: string[]): string {
  return lines
    .join(' ')
    .replace(MARKER, '')
    .replace(/[*_`#>]+/g, '')
    .replace(/\s+/g, ' ')
    .trim()
    .replace(/^[:：.。-]+\s*/, '');
}

/** Files under `work/` that the file tools wrote in the current step, in order. */
export function filesOf({ trail }: Session): string[] {
  return [...new Set(trail.flatMap((trace) => trace.files))].slice(0, 50);
}
