import { ASK_TOOL } from '../protocol/ask-call.ts';
import type { EventBody, EventOf } from '../protocol/event.ts';
import type { DoneWhen, Step } from '../protocol/plan.ts';
import { PLAN_TOOL } from '../protocol/plan-call.ts';
import { clip, shownText } from '../protocol/recorded.ts';
import type { Call, Claim, Session, Turn } from './session.ts';

/** The tool that tries a check; the model is not offered it. */
export const CHECK = 'check';

/** Keys of checks: `<seq of the claim>.check<n>`. */
export const checkKey = ({ seq }: Claim, place: number): string => `${seq}.check${place}`;

export const isCheck = (key: string): boolean => /\.check\d+$/.test(key);

/** A check that begins or ends changes the claim it belongs to, and nothing of the conversation. */
export function foldCheck(
  session: Session,
  event: EventOf<'tool.started'> | EventOf<'tool.finished'> | EventOf<'tool.interrupted'>,
): Session {
  const { claim } = session;
  if (!claim) return session;
  const place = Number(/\d+$/.exec(event.call)?.[0]);
  // A check that was cut short said nothing: it is tried again.
  const check =
    event.type === 'tool.interrupted'
      ? undefined
      : event.type === 'tool.started'
        ? { state: 'started' as const, ok: false, text: '' }
        : {
            state: 'ended' as const,
            ok: event.ok,
            text: clip(shownText(event.output), 600),
          };
  const checks = [...claim.checks];
  checks[place] = check;
  const seq = event.type === 'tool.interrupted' ? event.seq : claim.seq;
  return { ...session, claim: { ...claim, seq, checks } };
}

export type ClaimStep =
  | { need: 'try'; call: Call }
  | { need: 'record'; events: EventBody[] }
  /** a person has to say whether it is done */
  | { need: 'ask'; question: string };

/** What a standing claim needs next: another check, a verdict, or a person. Checks a person must answer come last. */
export function nextOfClaim(session: Session, claim: Claim): ClaimStep {
  const step = session.plan?.steps.find((one) => one.id === claim.step);
  const checks = step?.done_when ?? [];
  const failed = claim.checks.findIndex((check) => check?.state === 'ended' && !check.ok);
  if (failed >= 0) return { need: 'record', events: [refusal(claim, claim.checks[failed]?.text ?? '')] };
  const open = checks.findIndex((check, place) => !('person' in check) && claim.checks[place]?.state !== 'ended');
  const check = checks[open];
  if (check) return { need: 'try', call: callOf(claim, check, open) };
  const place = openQuestion(session, claim);
  const question = place === undefined ? undefined : checks[place];
  if (question && 'person' in question) return { need: 'ask', question: question.person };
  if (claim.tier !== 'child' && lastToolFailed(session.turn))
    return { need: 'record', events: [{ ...refusal(claim, claim.evidence), veto: 'tool_failed' }] };
  return {
    need: 'record',
    events: [
      completion(
        claim,
        checks.some((one) => 'person' in one),
      ),
    ],
  };
}

/** The place of the first check that a person has not answered yet. */
export function openQuestion({ plan }: Session, claim: Claim): number | undefined {
  const checks = plan?.steps.find((one) => one.id === claim.step)?.done_when ?? [];
  const place = checks.findIndex((check, n) => 'person' in check && claim.checks[n]?.state !== 'ended');
  return place < 0 ? undefined : place;
}

/** The last tool of a turn failed, so that nothing said beside it can be believed. What touches nothing (the plan's own tool, a question) is no evidence. */
export function lastToolFailed(turn: Turn | null): boolean {
  const last = turn?.calls.findLast((call) => call.name !== PLAN_TOOL.name && call.name !== ASK_TOOL.name);
  return last !== undefined && !last.ok;
}

function callOf(claim: Claim, check: DoneWhen, place: number): Call {
  const args = JSON.stringify(check);
  const state = claim.checks[place]?.state === 'started' ? 'started' : 'asked';
  return {
    key: checkKey(claim, place),
    id: '',
    name: CHECK,
    args,
    main: args,
    state,
    // To look at a file or an address twice is the same as once.
    replay: 'command' in check ? 'never' : 'safe',
    ok: false,
    head: '',
  };
}

function refusal({ step, tier }: Claim, text: string): Extract<EventBody, { type: 'step.claimed' }> {
  return { type: 'step.claimed', step, tier, evidence: text, veto: 'check_failed' };
}

function completion({ step, tier, evidence, result, to, attachments }: Claim, byPerson: boolean): EventBody {
  return {
    type: 'step.completed',
    step,
    by: byPerson ? 'person' : tier,
    evidence,
    result,
    ...(attachments.length > 0 && { attachments: [...attachments] }),
    ...(to !== undefined && { to }),
  };
}

type Said = {
  tier: 'marker' | 'tool' | 'transition' | 'timeout' | 'child';
  evidence: string;
  result: string;
  markers?: number;
  attachments?: string[];
  to?: string;
};

/**
 * A step with checks is claimed, and closed when they pass; one without is closed at once. What the `plan` tool claims waits for the
 * other calls of its answer.
 */
export function claimOf(step: Step, { tier, evidence, result, markers = 0, attachments = [], to }: Said): EventBody {
  const next = to !== undefined && { to };
  const files = attachments.length > 0 && { attachments };
  if ((step.done_when && step.done_when.length > 0) || tier === 'tool') {
    return { type: 'step.claimed', step: step.id, tier, evidence, result, ...files, ...next };
  }
  return {
    type: 'step.completed',
    step: step.id,
    by: tier,
    evidence,
    result,
    ...(markers > 1 && { markers }),
    ...files,
    ...next,
  };
}
