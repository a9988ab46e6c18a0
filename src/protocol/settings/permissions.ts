import { z } from 'zod';

/** When a call is asked about where no rule speaks of it. */
export const ApprovalsMode = z.enum(['safe', 'ask', 'auto']);
export type ApprovalsMode = z.infer<typeof ApprovalsMode>;

/**
 * What a call reaches. `work`: it changes files in `work/`; `outside`: what no fence holds. Nothing of these: it only
 * reads.
 */
export type CallEffect = 'work' | 'network' | 'outside';

const PERMISSION_PATTERN = /^[A-Za-z0-9_.*-]+(?:\([\s\S]*\))?$/;

/** `tool`, or `tool(text)`: in both a `*` stands for any text, and in the text `\*` and `\\` for themselves. */
export const PermissionPattern = z
  .string()
  .regex(PERMISSION_PATTERN, 'expected a tool, such as write_file, or a tool and a text, such as shell(git *)');

export const PermissionRule = z
  .strictObject({
    allow: PermissionPattern.optional(),
    ask: PermissionPattern.optional(),
    deny: PermissionPattern.optional(),
  })
  .refine(
    (rule) => Object.values(rule).filter((pattern) => pattern !== undefined).length === 1,
    'expected one of "allow", "ask" and "deny", as in { "allow": "shell(git *)" }',
  );
export type PermissionRule = z.infer<typeof PermissionRule>;

/** What was decided without asking anybody about it, in the order it is looked at. */
export type Permissions = {
  mode: ApprovalsMode;
  /** Rules of the session, or of the root of its family; the first that matches decides. */
  session: readonly PermissionRule[];
  /** Rules of the workspace, looked at after those; what it denies stays denied. */
  workspace: readonly PermissionRule[];
};

/** A rule's one word and pattern, taken apart. `text` is null where the pattern names a tool alone. */
export function parsePermissionRule(rule: PermissionRule): {
  word: 'allow' | 'ask' | 'deny';
  tool: string;
  text: string | null;
} {
  const word = rule.deny !== undefined ? 'deny' : rule.ask !== undefined ? 'ask' : 'allow';
  const pattern = rule[word] ?? '';
  const open = pattern.indexOf('(');
  return open < 0
    ? { word, tool: pattern, text: null }
    : { word, tool: pattern.slice(0, open), text: pattern.slice(open + 1, -1) };
}

/** A text as a pattern that matches nothing but it. */
export const escapePattern = (text: string): string => text.replace(/[\\*]/g, '\\$&');

/** The pattern as a person wrote it, of a rule taken apart. */
export const patternOfRule = (rule: PermissionRule): string => rule.deny ?? rule.ask ?? rule.allow ?? '';
