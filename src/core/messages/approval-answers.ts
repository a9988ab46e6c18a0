import { parseJson } from '../../base/json.ts';
import { escapeInvisible, truncate } from '../../base/strings.ts';
import { firstIssue } from '../../base/user-error.ts';
import { ApprovalFile } from '../../protocol/settings/permissions.ts';
import { classifyIntent } from '../intent/intent.ts';
import type { PendingApproval } from '../session/run-state.ts';
import type { Session } from '../session/session-state.ts';

/**
 * Parses what a person wrote: only the decision counts, and the rule with it; a file about another call does not answer
 * this one.
 */
export function parseApprovalFile(
  text: string,
  { id, name, args, hash }: PendingApproval,
): Pick<ApprovalFile, 'decision' | 'always'> | { fault: string } {
  const value = parseJson(text.replace(/^\uFEFF/, ''));
  if (value === undefined) return { fault: 'it does not parse as JSON' };
  const file = ApprovalFile.pick({ id: true, decision: true, always: true, call: true, hash: true }).safeParse(value);
  if (!file.success) return { fault: `at ${firstIssue(file.error, 'the top')}` };
  const { call, decision, always } = file.data;
  const same = file.data.id === id && file.data.hash === hash && call.tool === name && call.args === args;
  if (!same && decision !== 'deny')
    return {
      fault: 'it is about another call than the one that waits. To have another call, deny this one and say so',
    };
  return { decision, always };
}

/** The file of a call that waits, or that was decided. */
export function formatApprovalFile(
  approval: PendingApproval | NonNullable<Session['approvals']['lastDecided']>,
): string {
  const { id, always, name, args, folder, display, why, at, expires_at, hash } = approval;
  const verdict = 'verdict' in approval ? approval.verdict : undefined;
  const file: ApprovalFile = {
    $schema: '../../../.agentd/schemas/approval.schema.json',
    ...{ id, decision: verdict?.decision ?? null, always },
    call: { tool: name, args, ...(folder !== undefined && { folder }) },
    ...{ display: escapeInvisible(display), why: escapeInvisible(why), asked_at: at, expires_at, hash },
    ...(verdict && { answered: verdict }),
  };
  // Escaped characters read back unchanged.
  return `${escapeInvisible(JSON.stringify(file, null, 2))}\n`;
}

const CONSENT =
  'yes|y|yep|yeah|ok(?:ay)?|sure|fine|go ahead|do it|approved?|lgtm|是|是的|对|對|好|好的|可以|行|允许|允許|同意|批准|没问题|沒問題|はい|sí|ja|oui|👍|✅';
/** More words that say a result is as wanted. */
const PRAISE = 'done|it is|pass(?:ed|es)?|(?:looks? |all |very )?good|correct|right|great|perfect|正确|正確|通过|通過';
const POLITELY =
  '(?:[,，\\s]+(?:please|thanks|thank you|looks good|it is|谢谢|謝謝|没问题|可以|好的))?[了的呀啊吧\\s]*[.!。！]*';
const REFUSAL =
  "no|n|nope|nah|never|deny|denied|don['’]?t|do not|stop that|不|不行|不要|不可以|不允许|不允許|不同意|别|別|否|拒绝|拒絕|いいえ|nein|non|👎|❌";
const ALWAYS = 'always|yes,? always|always allow|总是|總是|总是允许|總是允許|一直可以|以后都可以|以後都可以';

const wholeMatch = (words: string, after: string) => new RegExp(`^(?:${words})${after}$`, 'iu');
const CONFIRMATION = wholeMatch(`${CONSENT}|${PRAISE}`, POLITELY);
const YES_ONLY = wholeMatch(CONSENT, POLITELY);
const NO_ONLY = wholeMatch(REFUSAL, '(?:[,，\\s]+(?:please|thanks|thank you|谢谢|謝謝))?[了的呀啊吧\\s]*[.!。！]*');
const ALWAYS_ONLY = wholeMatch(ALWAYS, '[.!。！\\s]*');

/** Whether a person who was asked if something is right says that it is, and nothing else. */
export const isConfirmation = (answer: string): boolean => CONFIRMATION.test(answer.trim());

/** The answer of a person asked for permission; null if it is neither yes nor no, or says more. */
export function parseConsent(answer: string): 'allow' | 'deny' | 'always' | null {
  const text = answer.trim();
  if (ALWAYS_ONLY.test(text)) return 'always';
  if (YES_ONLY.test(text)) return 'allow';
  return NO_ONLY.test(text) ? 'deny' : null;
}

/** Whether words refuse what was asked and say more: "no, use the copy", "instead of that, …", "don't do that". */
export const saysOtherwise = (answer: string): boolean => {
  const { kind, certainty } = classifyIntent(answer);
  return REFUSES_FIRST.test(answer.trim()) || (kind === 'correction' && certainty === 'clear');
};
const REFUSES_FIRST = new RegExp(`^(?:${REFUSAL})(?:[,，.。:;!！—–-]|\\s+[—–-])`, 'iu');

/** Code points of a call shown in a reply. */
const MAX_CALL_SHOWN = 2000;

/** A call as a reply shows it, indented; `cut` follows if it is not the whole. */
export function callInReply(display: string, cut: string): string {
  const whole = escapeInvisible(display);
  const call = truncate(whole, MAX_CALL_SHOWN);
  return [...call.split('\n').map((line) => `    ${line}`), ...(call === whole ? [] : [cut])].join('\n');
}
