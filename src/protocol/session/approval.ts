import { z } from 'zod';
import { sha256 } from '../../base/sha256.ts';
import { PermissionPattern } from '../settings/permissions.ts';

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
export const ApprovedBy = z.enum(['person', 'chat', 'file', 'nobody', 'rule', 'withdrawn']);
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

/** Identifies a call by a hash: the tool, its exact arguments, and the folder it works in. */
export const hashCall = ({ tool, args, folder }: ApprovalCall): string =>
  sha256(JSON.stringify([tool, args, folder ?? '']));
