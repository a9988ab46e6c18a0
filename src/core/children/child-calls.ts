import { escapeInvisible } from '../../base/strings.ts';
import type { EventBody } from '../../protocol/session/event.ts';
import { RUN_END } from '../../protocol/session/reply.ts';
import type { Rules } from '../../protocol/settings/effective-settings.ts';
import type { ChildCall } from '../../protocol/settings/permissions.ts';
import { callInReply } from '../messages/approval-answers.ts';
import { standInMessage } from '../messages/replies.ts';
import { REPLY_WORDING } from '../messages/reply-wording.ts';
import { isSameCall } from '../reducers/reduce-approval.ts';
import type { Decision } from '../runs/decision.ts';
import { endRunEvents } from '../runs/end-run.ts';
import type { ChildSession } from '../session/child-session.ts';
import { sessionLanguage } from '../session/session-queries.ts';
import type { Session } from '../session/session-state.ts';

/** How long a question waits for calls of other children that are at work, so that they are asked about together. */
const TOGETHER_MS = 1000;

type OpenCall = Session['childCalls']['calls'][number];

/** Calls of child sessions that nobody has answered yet. */
export const openChildCalls = ({ childCalls }: Session): OpenCall[] =>
  childCalls.calls.filter((call) => !call.isAnswered);

/** What is logged when these calls of child sessions wait by now; nothing if that is known. */
export function childAskedEvents({ childCalls: { calls } }: Session, found: readonly ChildCall[]): EventBody[] {
  const isKnown = (call: ChildCall) => calls.some((known) => isSameCall(known, call));
  return found.length === calls.length && found.every(isKnown) ? [] : [{ type: 'child.asked', calls: [...found] }];
}

/**
 * A run that rests goes on once none of its calls is left, with a reply of its own; also for a new call, about which it
 * asks again.
 */
export function resumeForChildCalls(session: Session): EventBody[] {
  const open = openChildCalls(session);
  const goesOn = open.length === 0 || open.some((call) => !call.isShown);
  return session.childCalls.run && !session.run && goesOn ? resumeRestingEvents(session, standIn(session)) : [];
}

/** The reply of a run that goes on without a message. */
export const standIn = (session: Session): { message?: string; name?: string } =>
  standInMessage(session, 'approval-children', session.childCalls.run?.message);

/** The run that rests goes on. */
export function resumeRestingEvents(
  { childCalls }: Session,
  by: { message?: string; name?: string; joins?: true },
): EventBody[] {
  const calls = childCalls.calls.map(({ isShown: _, isAnswered: __, ...call }) => call);
  return [{ type: 'child.asked', calls, resumes: true, ...by }];
}

/** The end of the run that asks a person about calls of child sessions; null if none of these waits. */
export function askAboutChildCalls(session: Session, rules: Rules): Decision | null {
  if (openChildCalls(session).length === 0) return null;
  const text = childCallsText(session, rules);
  const events = endRunEvents(session, rules, { status: 'waiting', reason: RUN_END.approval, text, keepsCalls: true });
  const { calls, since } = session.childCalls;
  const works = ({ name, state }: ChildSession) =>
    state === 'working' && !calls.some((call) => isCallOf(call.session, name));
  if (!Object.values(session.children).some(works)) return { do: 'record', events };
  return { do: 'idle', due: { at: new Date(Date.parse(since) + TOGETHER_MS).toISOString(), events } };
}

/** Whether a session is this child, or works for it. */
export const isCallOf = (session: string, child: string): boolean =>
  session === child || session.startsWith(`${child}~`);

/** The question: each call, why approval is needed, and how to answer. */
export function childCallsText(session: Session, rules: Rules): string {
  const words = REPLY_WORDING[sessionLanguage(session, rules)];
  const open = openChildCalls(session);
  const shown = open.map(({ session: name, id, tool, why, display }) =>
    [words.asksIn(name, id, tool, why), callInReply(display, words.asksCutIn(name, id))].join('\n\n'),
  );
  const first = open.map(({ expires_at }) => expires_at).sort()[0] ?? '';
  const rulesWanted = [...new Set(open.flatMap(({ always }) => always ?? []))];
  const how = words.asksHowIn(open[0]?.session ?? '', open.length, rulesWanted.join(', '), first);
  return escapeInvisible([...shown, how].join('\n\n'));
}
