import { mapGet, mapSet } from '../../base/collections.ts';
import type { EventOf } from '../../protocol/session/event.ts';
import { addUsage } from '../session/run-state.ts';
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
