import { z } from 'zod';
import { sha256 } from '../../base/sha256.ts';

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
const PermissionPattern = z
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

/** A person's decision on a call that needs approval; `always` also adds a rule to `session.json`. */
export const ApprovalDecision = z.enum(['allow', 'deny', 'always']);
export type ApprovalDecision = z.infer<typeof ApprovalDecision>;

export const ApprovalCall = z.object({
  tool: z.string(),
  args: z.string().describe('The arguments as the model wrote them.'),
  folder: z.string().optional().describe('The folder under `work/` that the tool sees as its own.'),
});
export type ApprovalCall = z.infer<typeof ApprovalCall>;

/** Who or what decided on a call. */
export const ApprovedBy = z.enum(['person', 'agent', 'chat', 'file', 'nobody', 'rule', 'withdrawn']);
export type ApprovedBy = z.infer<typeof ApprovedBy>;

/** `approvals/<id>.json`: a call that waits for a person. Only `decision`, and `always` with it, are read back. */
export const ApprovalFile = z.object({
  $schema: z.string().optional(),
  id: z.int().min(1),
  decision: ApprovalDecision.nullable().describe('Set it to "allow", "deny" or "always".'),
  always: PermissionPattern.nullable().describe(
    'The rule that "always" adds to `permissions` in session.json; may be edited.',
  ),
  call: ApprovalCall,
  display: z.string().describe('The call in readable form: the command, the address, the changes to a file.'),
  why: z.string().describe('Why approval is needed.'),
  asked_at: z.iso.datetime(),
  expires_at: z.iso.datetime().describe('Denied if nobody answers by then.'),
  hash: z.string().describe('Hash of the call; an answer applies to this call only.'),
  answered: z
    .object({ decision: z.enum(['allow', 'deny']), by: ApprovedBy, at: z.iso.datetime(), why: z.string() })
    .optional()
    .describe('The decision; in approvals/answered/.'),
});
export type ApprovalFile = z.infer<typeof ApprovalFile>;

/** A call of a child session, or of one of its own, that waits for a person. */
export const ChildCall = z.object({
  session: z.string().describe('The session whose call it is.'),
  id: z.int().min(1).describe('Its number in the `approvals/` of that session.'),
  tool: z.string(),
  display: z.string(),
  why: z.string(),
  always: z.string().nullable(),
  hash: z.string(),
  expires_at: z.iso.datetime(),
});
export type ChildCall = z.infer<typeof ChildCall>;

/** Identifies a call by a hash: the tool, its exact arguments, and the folder it works in. */
export const hashCall = ({ tool, args, folder }: ApprovalCall): string =>
  sha256(JSON.stringify([tool, args, folder ?? '']));
