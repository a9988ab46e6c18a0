import type { Recorded } from './event.ts';

/** Longest text kept in a line of the record, in code points; longer ones are a blob with a head. */
export const INLINE_LIMIT = 16_000;

/** The part of a recorded text that the model and the core see. */
export function shownText(recorded: Recorded): string {
  return 'text' in recorded ? recorded.text : recorded.head;
}

/** The beginning of a text, at most `max` code points, with an ellipsis where something was left out. */
export function clip(text: string, max: number): string {
  if (text.length <= max) return text;
  const points = [...text];
  return points.length <= max ? text : `${points.slice(0, max - 1).join('')}…`;
}

/** Beginning and end of a long text around a note that says what was left out and where the whole is. */
export function headAndTail(text: string, max: number, whole: string): string {
  const points = [...text];
  if (points.length <= max) return text;
  const half = Math.floor(max / 2);
  const left = points.length - 2 * half;
  const note = `\n[… ${left} characters left out; the whole: ${whole} …]\n`;
  return points.slice(0, half).join('') + note + points.slice(-half).join('');
}
