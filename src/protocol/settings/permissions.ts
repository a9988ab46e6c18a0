import { z } from 'zod';

/** When approval is needed for a call that no rule matches. */
export const ApprovalsMode = z.enum(['safe', 'ask', 'auto']);
export type ApprovalsMode = z.infer<typeof ApprovalsMode>;

/**
 * What a call affects. `work`: it changes files in `work/`; `outside`: effects beyond the sandbox. None of these: it
 * only reads.
 */
export type CallEffect = 'work' | 'network' | 'outside';

const PERMISSION_PATTERN = /^[A-Za-z0-9_.*-]+(?:\([\s\S]*\))?$/;

/** `tool`, or `tool(text)`: in both, `*` stands for any text, and in the text `\*` and `\\` for themselves. */
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

/** Rules that decide without asking anybody, in the order they are checked. */
export type Permissions = {
  mode: ApprovalsMode;
  /** Rules of the session, or of its root; the first that matches decides. */
  session: readonly PermissionRule[];
  /** Rules of the workspace, checked after those; what it denies stays denied. */
  workspace: readonly PermissionRule[];
};

/** A rule split into its verb and pattern. `text` is null if the pattern names only a tool. */
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

/** A pattern that matches exactly this text. */
export const escapePattern = (text: string): string => text.replace(/[\\*]/g, '\\$&');

/** The pattern of a rule as a person wrote it. */
export const patternOfRule = (rule: PermissionRule): string => rule.deny ?? rule.ask ?? rule.allow ?? '';
