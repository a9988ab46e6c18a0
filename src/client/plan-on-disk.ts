import { readEdit } from '../core/edit/read.ts';
import { errorText } from '../protocol/errors.ts';
import { glimpse } from '../store/glimpse.ts';

/** Why the `plan.json` that is there now cannot be read, with line and column; null where it can, or is not there. */
export function planFileProblem(path: string): string | null {
  let text: string | undefined;
  try {
    text = glimpse(path, undefined, 0)?.text;
  } catch (error) {
    return errorText(error);
  }
  if (text === undefined) return null;
  const read = readEdit(text);
  return 'fault' in read ? read.fault : null;
}
