import type { Event, EventOf } from '../protocol/event.ts';
import { withoutKey } from '../protocol/own.ts';
import { shownText } from '../protocol/recorded.ts';
import { dropKey, takenDrop } from './drops.ts';
import { foldApproval, withSeen } from './fold-approval.ts';
import { foldCall, foldTurn } from './fold-call.ts';
import { foldChild } from './fold-child.ts';
import { foldPlan } from './fold-plan.ts';
import { foldMode, foldRest, foldResumed, foldStarted } from './fold-run.ts';
import { foldStep } from './fold-step.ts';
import { growing, listed } from './grow.ts';
import { entryOf, withValue } from './keyed.ts';
import { silence, timed } from './lasted.ts';
import { inBlock } from './prompt/spoken.ts';
import { keptForLater } from './senders.ts';
import { FRESH_PLAN, type Message, type Session } from './session.ts';
import { foldSetbacks } from './setbacks.ts';
import { letGo, settled } from './settled.ts';
import { titleOf } from './title.ts';

/** What an event means for a session. Pure and total: the same events give the same session, always. */
export function fold(session: Session, event: Event): Session {
  const next = { ...session, seq: event.seq, at: event.at, setbacks: foldSetbacks(session, event) };
  return timed(meaning(next, event), event);
}

function meaning(session: Session, event: Event): Session {
  switch (event.type) {
    case 'session.opened':
    case 'recovery.started':
      return session;
    case 'daemon.stopped':
      return { ...session, stopped: event.seq };
    case 'message.received':
      return received(session, event);
    case 'run.started':
      return foldStarted(session, event);
    case 'run.resumed':
      return foldResumed(session, event);
    case 'run.rested':
      return foldRest(session, event);
    case 'mode.chosen':
    case 'mode.set':
      return foldMode(session, event);
    case 'model.answered':
      return foldTurn(session, event);
    case 'model.failed':
      return failed(session, event);
    case 'tool.started':
    case 'tool.finished':
    case 'tool.interrupted':
      return foldCall(session, event);
    case 'approval.asked':
    case 'approval.answered':
      return foldApproval(session, event);
    case 'child.sent':
    case 'child.replied':
      return foldChild(session, event);
    case 'context.compacted':
      return event.kept === undefined ? afresh(session) : folded(session, event.summary, event.kept);
    case 'reply.committed':
      return committed(session, event);
    case 'reply.published':
      return withSeen({ ...session, unpublished: withoutKey(session.unpublished, event.message) }, event.message);
    case 'plan.started':
    case 'plan.edited':
    case 'plan.revised':
    case 'plan.ended':
      return foldPlan(session, event);
    case 'step.added':
    case 'step.started':
    case 'step.progressed':
    case 'step.claimed':
    case 'step.asked':
    case 'step.completed':
    case 'step.failed':
    case 'step.blocked':
    case 'step.skipped':
    case 'step.reopened':
      return foldStep(session, event);
    default:
      return event satisfies never;
  }
}

/** What a message is about, in a line or so. */
const spokenGoal = ({ text, template }: Message): string => (template && 'goal' in template ? template.goal : text);

/** The conversation begins anew, without a plan. */
function afresh(session: Session): Session {
  return {
    ...session,
    messages: letGo(session.messages, session.uncarried),
    conversation: growing(),
    plan: null,
    turn: null,
    rest: null,
    question: null,
    uncarried: [],
    notices: [],
    ...FRESH_PLAN,
    jobsEnd: session.seq,
  };
}

/** What was said in the oldest turns takes their place; the last messages stay as they are. */
function folded(session: Session, summary: string, kept: number): Session {
  const last = listed(session.conversation).slice(-kept);
  return { ...session, conversation: growing([inBlock(summary, session.seal), ...last]) };
}

function failed(session: Session, event: EventOf<'model.failed'>): Session {
  const { run, windows } = session;
  if (!run) return session;
  const shown = event.window === undefined ? windows : { ...windows, [run.model ?? '']: event.window };
  return {
    ...session,
    windows: shown,
    run: { ...run, failure: { silent_ms: silence(run.failure, event), last: event } },
  };
}

function received(session: Session, event: EventOf<'message.received'>): Session {
  const message: Message = {
    id: event.id,
    name: event.name,
    at: event.at,
    text: shownText(event.body),
    sha256: event.file.sha256,
    during: session.run !== null,
    replied: false,
    ...(event.from !== undefined && { from: event.from }),
    ...(event.command !== undefined && { command: event.command }),
    ...(event.options && { options: event.options }),
    ...(event.attachments && { attachments: event.attachments }),
    ...(event.files && { files: event.files }),
    ...(event.as && { as: event.as }),
    ...(event.template && { template: event.template }),
  };
  return {
    ...session,
    title: session.title ?? titleOf(spokenGoal(message)),
    messages: withValue(session.messages, message.id, message),
    names: withValue(session.names, message.name, true),
    drops: withValue(session.drops, dropKey(event.file), takenDrop(event.seq, event.id, event.file)),
    unanswered: [...session.unanswered, message.id],
    queue: [...session.queue, message.id],
  };
}

function committed(session: Session, event: EventOf<'reply.committed'>): Session {
  const message = entryOf(session.messages, event.message);
  const isKept = message?.as === 'data' && event.reply.status === 'joined' && session.queue.includes(message.id);
  const { uncarried, messages } = isKept ? keptForLater(session, message) : session;
  return {
    ...session,
    uncarried,
    messages: message ? withValue(messages, message.id, answered(uncarried, message)) : messages,
    names: withValue(session.names, event.reply.id, true),
    drops: event.file
      ? withValue(session.drops, dropKey(event.file), takenDrop(event.seq, event.message, event.file))
      : session.drops,
    unanswered: session.unanswered.filter((id) => id !== event.message),
    queue: session.queue.filter((id) => id !== event.message),
    unpublished: { ...session.unpublished, [event.message]: event.reply },
    // The reply has said it.
    planProblem: event.reply.status === 'rejected' ? session.planProblem : null,
  };
}

/** A message that a model call has still to carry keeps its text, whatever it was told already. */
function answered(uncarried: readonly string[], message: Message): Message {
  return uncarried.includes(message.id) ? { ...message, replied: true } : settled(message);
}
