import { errorText } from '../protocol/errors.ts';
import { placeOf } from '../protocol/json-position.ts';
import { EditedPlan } from '../protocol/plan.ts';
import { parseJson } from '../store/complaints.ts';
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
  const parsed = parseJson(text);
  if (!parsed.ok) return `plan.json does not parse: ${parsed.why}`;
  const [issue] = EditedPlan.safeParse(parsed.value).error?.issues ?? [];
  if (!issue) return null;
  const place = placeOf(text, issue.path) ?? placeOf(text, issue.path.slice(0, -1));
  const where = place ? `line ${place.line}, column ${place.column}, ` : '';
  return `plan.json is not a plan: ${where}at ${issue.path.join('.') || 'the top'}: ${issue.message}`;
}
