import type { Session } from './session.ts';

/**
 * The id of a plan that begins with the event after `seq`: the moment of the last event in ms, which the record has, so that
 * the same record gives the same id. Never one that is known already.
 */
export function newPlanId(session: Session): string {
  let at = Date.parse(session.at) || session.seq;
  const known = new Set([session.plan?.id, ...Object.keys(session.setAside)]);
  while (known.has(`plan_${at}`)) at += 1;
  return `plan_${at}`;
}

/** Longest name in bytes that a file system takes, and the longest that gets a number. */
const MAX_NAME_BYTES = 255;
const NUMBERED_NAME_BYTES = 230;

/**
 * A name no other message's reply has: `1.md`, then `1-2.md`, `1-3.md`. The name itself where it is free, however long: a frontend
 * waits for the reply under the name of its message.
 */
export function freeName(wanted: string, taken: (name: string) => boolean): string {
  if (byteLength(wanted) <= MAX_NAME_BYTES && !taken(wanted)) return wanted;
  const name = fitting(wanted);
  if (!taken(name)) return name;
  const dot = name.search(/(?:\.msg)?\.[^.]*$/);
  const [stem, ending] = dot > 0 ? [name.slice(0, dot), name.slice(dot)] : [name, ''];
  const numbered = (n: number) => `${stem}-${n}${ending}`;
  // Doubling, then halving: a name that was used a hundred thousand times costs 34 questions.
  let [low, high] = [1, 2];
  for (; taken(numbered(high)); high *= 2) low = high;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (taken(numbered(middle))) low = middle;
    else high = middle;
  }
  return numbered(high);
}

/** The name cut in its middle where it leaves no room for a number, its ending kept. */
function fitting(name: string): string {
  if (byteLength(name) <= NUMBERED_NAME_BYTES) return name;
  const points = [...name];
  const ending = points.slice(-20).join('');
  let stem = '';
  for (const point of points.slice(0, -20)) {
    if (byteLength(stem + point + ending) > NUMBERED_NAME_BYTES) break;
    stem += point;
  }
  return stem + ending;
}

const byteLength = (text: string): number => new TextEncoder().encode(text).length;
