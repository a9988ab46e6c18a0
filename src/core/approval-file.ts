import { ApprovalFile } from '../protocol/approval.ts';
import { visible } from '../protocol/visible.ts';
import type { Approval, Session } from './session.ts';

/** What a person wrote: only the decision, and the rule beside it, count; a file about another call is no answer to this one. */
export function answerIn(
  text: string,
  { id, name, args, hash }: Approval,
): Pick<ApprovalFile, 'decision' | 'always'> | { fault: string } {
  const value = parsed(text);
  if (value === undefined) return { fault: 'it does not parse as JSON' };
  const file = ApprovalFile.pick({ id: true, decision: true, always: true, call: true, hash: true }).safeParse(value);
  if (!file.success) {
    const issue = file.error.issues[0];
    return { fault: `at ${issue?.path.join('.') || 'the top'}: ${issue?.message}` };
  }
  const { call, decision, always } = file.data;
  const same = file.data.id === id && file.data.hash === hash && call.tool === name && call.args === args;
  if (!same && decision !== 'deny')
    return {
      fault: 'it is about another call than the one that waits. To have another call, deny this one and say so',
    };
  return { decision, always };
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** The file of a call that waits, or that was decided. */
export function approvalText(approval: Approval | NonNullable<Session['approvals']['last']>): string {
  const { id, always, name, args, folder, shows, why, at, expires_at, hash } = approval;
  const verdict = 'verdict' in approval ? approval.verdict : undefined;
  const file: ApprovalFile = {
    $schema: '../../../.agentd/schemas/approval.schema.json',
    ...{ id, decision: verdict?.decision ?? null, always },
    call: { tool: name, args, ...(folder !== undefined && { folder }) },
    ...{ shows: visible(shows), why: visible(why), asked_at: at, expires_at, hash },
    ...(verdict && { answered: verdict }),
  };
  // What is read back, reads back as it is.
  return `${visible(JSON.stringify(file, null, 2))}\n`;
}
