import { mapGet, mapSet } from '../../base/collections.ts';
import type { EventOf } from '../../protocol/session/event.ts';
import { RUN_END } from '../../protocol/session/reply.ts';
import { saysWhyItHalts } from '../messages/message-meaning.ts';
import { isOpenStep } from '../plan/plan-steps.ts';
import { addUsage, isAboutPlan, type Notice } from '../session/run-state.ts';
import { discardAnsweredTexts, type Message } from '../session/session-messages.ts';
import type { Session } from '../session/session-state.ts';

/** What a message means was asked of a person, or told by one or by the model. */
export function reduceMeaning(
  session: Session,
  event: EventOf<'meaning.asked'> | EventOf<'message.interpreted'>,
): Session {
  if (event.type === 'meaning.asked') return meaningAsked(session, event);
  const { run } = session;
  // Asking took tokens and cost, but was no iteration of the work.
  const paid = run && event.usage ? { ...run, spent: addUsage(run.spent, { ...event.usage, iterations: 0 }) } : run;
  return { ...(event.answer === undefined ? told(session, event) : settled(session, event, event.answer)), run: paid };
}

function told(session: Session, { message: id, meaning }: EventOf<'message.interpreted'>): Session {
  const message = mapGet(session.messages, id);
  return message ? { ...session, messages: mapSet(session.messages, id, { ...message, meaning }) } : session;
}

/** The answer takes the place of the words in doubt, which have had their reply. */
function settled(session: Session, { meaning }: EventOf<'message.interpreted'>, id: string): Session {
  const { doubt, messages } = session;
  const answer = mapGet(messages, id);
  if (!doubt || !answer) return { ...session, doubt: null };
  const { text, options, attachments, files } = doubt;
  const words = { text, ...(options && { options }), ...(attachments && { attachments }), ...(files && { files }) };
  return { ...session, doubt: null, messages: mapSet(messages, id, { ...answer, ...words, meaning }) };
}

/** Words in doubt that follow others in doubt are added to them. */
function meaningAsked(session: Session, { message: id }: EventOf<'meaning.asked'>): Session {
  const message = mapGet(session.messages, id);
  if (!message) return session;
  const earlier = session.doubt && session.doubt.id !== id ? `${session.doubt.text}\n\n` : '';
  return { ...session, doubt: { ...message, text: earlier + message.text } };
}

/** Whether an answered message still goes to the model: data, words beside a waiting call, or why a run was stopped. */
export const isKeptForModel = (session: Session, event: EventOf<'reply.committed'>, message: Message): boolean =>
  (message.as === 'data' && event.reply.status === 'joined') ||
  isKeptForCall(event) ||
  isKeptWhileStopped(session, message);

/** Words beside a waiting call that do not answer it: the model receives them when the call is decided. */
const isKeptForCall = ({ reply }: EventOf<'reply.committed'>): boolean =>
  reply.status === 'waiting' && reply.reason === RUN_END.unclear && reply.question === undefined;

/** Why a person stopped a run: the model receives it when the run goes on. */
const isKeptWhileStopped = ({ run, runEnd }: Session, message: Message): boolean =>
  run === null && runEnd?.status === 'paused' && saysWhyItHalts(message);

/** Messages kept for the next task: the newest, and at most a few pages of text. */
const MAX_KEPT_MESSAGES = 20;
const MAX_KEPT_CHARACTERS = 20_000;

/**
 * A message that arrived while nothing was running and gives no order is kept for the next task; the oldest are dropped
 * when they no longer fit.
 */
export function keepForLater(session: Session, { id }: Message): Pick<Session, 'undelivered' | 'messages'> {
  const all = [...session.undelivered, id];
  const isData = (one: string) => mapGet(session.messages, one)?.as === 'data';
  let room = MAX_KEPT_CHARACTERS;
  const fits = all
    .filter(isData)
    .reverse()
    .filter((one, place) => {
      room -= mapGet(session.messages, one)?.text.length ?? 0;
      return place === 0 || (place < MAX_KEPT_MESSAGES && room >= 0);
    });
  const gone = all.filter((one) => isData(one) && !fits.includes(one));
  return {
    undelivered: all.filter((one) => !gone.includes(one)),
    messages: discardAnsweredTexts(session.messages, gone),
  };
}

/**
 * Whether news is told again after an answer that received it: a run beside the plan does not get news of the plan, and
 * what a person said is missing in a step holds until that step is closed again.
 */
export const isStillDue = ({ run, plan }: Session, notice: Notice): boolean =>
  (run?.besidePlan !== undefined && isAboutPlan(notice)) ||
  (notice.about === 'reopened' && notice.said !== '' && isOpenStep(plan, notice.step));
