import type { EventBody, EventOf } from '../protocol/event.ts';
import type { DoneWhen } from '../protocol/plan.ts';
import { clip, shownText } from '../protocol/recorded.ts';
import type { Call, Claim, Session } from './session.ts';

/** The tool that tries a check; the model is not offered it. */
export const CHECK = 'check';

/** Keys of checks: `<seq of the answer>.check<n>`. */
export const isCheck = (key: string): boolean => /\.check\d+$/.test(key);

/** A check that begins or ends changes the claim it belongs to, and nothing of the conversation. */
export function foldCheck(
  session: Session,
  event: EventOf<'tool.started'> | EventOf<'tool.finished'> | EventOf<'tool.interrupted'>,
): Session {
  const { claim } = session;
  if (!claim) return session;
  const place = Number(/\d+$/.exec(event.call)?.[0]);
  const check =
    event.type === 'tool.started'
      ? { state: 'started' as const, ok: false, text: '' }
      : {
          state: 'ended' as const,
          ok: event.type === 'tool.finished' && event.ok,
          text: event.type === 'tool.finished' ? clip(shownText(event.output), 600) : event.why,
        };
  const checks = [...claim.checks];
  checks[place] = check;
  return { ...session, claim: { ...claim, checks } };
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
  if (check) return { need: 'try', call: callOf(session, claim, check, open) };
  const question = checks.find((one) => 'person' in one);
  if (question && 'person' in question) return { need: 'ask', question: question.person };
  return { need: 'record', events: [completion(claim)] };
}

function callOf(session: Session, claim: Claim, check: DoneWhen, place: number): Call {
  const args = JSON.stringify(check);
  const state = claim.checks[place]?.state === 'started' ? 'started' : 'asked';
  return {
    key: `${session.turn?.seq ?? session.seq}.check${place}`,
    id: '',
    name: CHECK,
    args,
    main: args,
    state,
    replay: 'never',
    ok: false,
    head: '',
  };
}

function refusal({ step, tier }: Claim, text: string): EventBody {
  return { type: 'step.claimed', step, tier, evidence: text, veto: 'check_failed' };
}

export function completion({ step, tier, evidence, result, to }: Claim): EventBody {
  return { type: 'step.completed', step, by: tier, evidence, result, ...(to !== undefined && { to }) };
}
