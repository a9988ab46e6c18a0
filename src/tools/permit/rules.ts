import { type PermissionRule, type Permissions, patternOf, readRule } from '../../protocol/permissions.ts';
import { commandsIn, isPlain } from './command.ts';
import { fits, fitsAddress, isOpen } from './pattern.ts';

/** A call as rules see it: the tool, and the text their patterns are held against. `kind`: how that text is read. */
export type Subject = { tool: string; text: string; kind: 'command' | 'address' | 'text' };

type Found = { word: 'allow' | 'ask' | 'deny'; pattern: string };

/**
 * What the rules say of a call; null where none speaks of it. What the workspace denies, no session allows; and what the root of a
 * family asks about or denies, no child session allows.
 */
export function ruleFor({ session, workspace, children = [] }: Permissions, subject: Subject): Found | null {
  const above = firstOf(workspace, subject);
  const family = above?.word === 'deny' ? above : (firstOf(session, subject) ?? above);
  const tighter = children.flatMap((rules) => firstOf(rules, subject) ?? []);
  const found = (word: Found['word']) => [family, ...tighter].find((rule) => rule?.word === word);
  return found('deny') ?? found('ask') ?? family;
}

function firstOf(rules: readonly PermissionRule[], subject: Subject): Found | null {
  const rule = rules.find((one) => matches(one, subject));
  return rule ? { word: readRule(rule).word, pattern: patternOf(rule) } : null;
}

function matches(rule: PermissionRule, subject: Subject): boolean {
  const { word, tool, text } = readRule(rule);
  if (!fits(tool, subject.tool)) return false;
  if (text === null || text === '*') return true;
  if (subject.kind === 'address') return fitsAddress(text, subject.text);
  if (subject.kind === 'text') return fits(text, subject.text);
  if (word !== 'allow') return commandsIn(subject.text).some((command) => fits(text, command));
  return fits(text, subject.text) && (!isOpen(text) || isPlain(subject.text));
}
