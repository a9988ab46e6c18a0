import { UserError } from '../protocol/errors.ts';
import { checkSettings } from './settings.ts';

/**
 * The text of a `session.json` with one more rule that allows: behind the last one that denies, so that it lifts none, and before
 * those that ask. All else stays. Throws UserError where the file does not hold as it is: it is a person's to mend.
 */
export function withRule(text: string | undefined, pattern: string): string {
  const { value } = checkSettings(text, 'session.json');
  const before = value.permissions ?? [];
  if (text !== undefined && before.some((rule) => rule.allow === pattern)) return text;
  const source = (text ?? '{}').replace(/^\uFEFF/, '');
  const all: unknown = JSON.parse(source);
  if (typeof all !== 'object' || all === null) throw new UserError('session.json is no object.');
  const after = before.findLastIndex((rule) => rule.deny !== undefined) + 1;
  const permissions = [...before.slice(0, after), { allow: pattern }, ...before.slice(after)];
  const indent = /^([ \t]+)"/m.exec(source)?.[1] ?? 2;
  const written = `${JSON.stringify({ ...all, permissions }, null, indent)}\n`;
  // A rule that a person wrote into the approval may be one that does not hold.
  checkSettings(written, 'session.json');
  return written;
}
