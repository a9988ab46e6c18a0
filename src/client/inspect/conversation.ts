import type { Event, EventOf, EventType } from '../../protocol/session/event.ts';

/**
 * As what people are shown each event; `state`: not at all. A new type of event has to be named here; then every
 * frontend shows it, or none.
 */
export const EVENTS_OF_KIND = {
  message: ['message.received'],
  answer: ['model.answered'],
  call: ['tool.started', 'approval.asked'],
  'call ended': ['tool.finished', 'tool.interrupted'],
  step: [
    ...(['step.added', 'step.started', 'step.completed', 'step.failed', 'step.blocked', 'step.skipped'] as const),
    'step.reopened',
  ],
  notice: [
    ...(['run.resumed', 'model.failed', 'approval.answered', 'browser.taken', 'browser.returned'] as const),
    ...(['plan.started', 'plan.revised', 'plan.edited', 'plan.ended', 'context.compacted', 'run.ended'] as const),
    'recovery.started',
  ],
  reply: ['reply.committed'],
  state: [
    ...(['session.forked', 'message.interpreted', 'meaning.asked', 'model.set', 'work.saved'] as const),
    ...(['session.opened', 'run.started', 'mode.chosen', 'mode.set', 'reply.published', 'daemon.stopped'] as const),
    ...(['step.progressed', 'step.claimed', 'step.asked', 'child.sent', 'child.asked', 'child.replied'] as const),
    'work.restored',
  ],
} as const satisfies Record<string, readonly EventType[]>;

type EventKind = keyof typeof EVENTS_OF_KIND;
/** The events that are shown as this kind. */
export type EventOfKind<K extends EventKind> = EventOf<(typeof EVENTS_OF_KIND)[K][number]>;

const isOfKind = <K extends EventKind>(event: Event, kind: K): event is EventOfKind<K> =>
  EVENTS_OF_KIND[kind].some((type) => type === event.type);

/** `shown`: the text of an answer for people, if it differs. */
export type ShownEvent = Event & { shown?: string };
type Shown<T extends Event['type']> = EventOf<T> & { shown?: string };

/**
 * `text` has not been shown before; `begins`: it does not continue the piece before; `soFar`: the answer up to its end.
 */
type TextPiece = { text: string; begins: boolean; soFar: string };

/**
 * What people see of a session, in order. Each event makes one item, after the text that it completes; `state`: it is
 * not shown. `seq`: that of the event, or of the last one before a text.
 *
 * `answer`: `text` is all of it, '' if it is not for people. `step`: `name` is its description, or its id. `reply`:
 * `text` is the part that was in no answer since the last message.
 */
export type ConversationItem = { seq: number } & (
  | ({ kind: 'text'; event?: undefined } & TextPiece)
  | { kind: 'message'; event: EventOfKind<'message'> }
  | { kind: 'answer'; event: EventOfKind<'answer'>; text: string }
  | { kind: 'call'; event: EventOfKind<'call'> }
  | { kind: 'call ended'; event: EventOfKind<'call ended'> }
  | { kind: 'step'; event: EventOfKind<'step'>; name: string }
  | { kind: 'notice'; event: EventOfKind<'notice'> }
  | { kind: 'reply'; event: EventOfKind<'reply'>; text: string }
  | { kind: 'state'; event: EventOfKind<'state'> }
);

export type Conversation = {
  /** Text of the model call in flight; `from`: its position in that call's text. */
  live(from: number, text: string): ConversationItem[];
  event(event: ShownEvent): ConversationItem[];
};

type NamedStep = { id: string; description: string };

/** Turns the events and the live text of a session into what people see. `steps`: those of the plan so far. */
export function openConversation(steps: readonly NamedStep[] = []): Conversation {
  const texts = openTexts();
  const names = new Map(steps.map(({ id, description }) => [id, description]));
  let seq = 0;
  const textItems = (pieces: TextPiece[]): ConversationItem[] => pieces.map((one) => ({ kind: 'text', seq, ...one }));

  function itemOf(event: ShownEvent): ConversationItem {
    if (isOfKind(event, 'answer')) return { kind: 'answer', seq, event, text: textForPeople(event) };
    if (isOfKind(event, 'message')) return { kind: 'message', seq, event };
    if (isOfKind(event, 'call')) return { kind: 'call', seq, event };
    if (isOfKind(event, 'call ended')) return { kind: 'call ended', seq, event };
    if (isOfKind(event, 'step')) {
      const id = event.type === 'step.added' ? event.step.id : event.step;
      return { kind: 'step', seq, event, name: names.get(id) ?? id };
    }
    if (isOfKind(event, 'notice')) return { kind: 'notice', seq, event };
    if (isOfKind(event, 'reply')) return { kind: 'reply', seq, event, text: texts.reply(replyForPeople(event)) };
    return { kind: 'state', seq, event };
  }

  return {
    live: (from, text) => textItems(texts.live(from, text)),
    event(event) {
      const before = event.type === 'model.answered' ? textItems(texts.answered(textForPeople(event))) : [];
      seq = event.seq;
      for (const { id, description } of namesIn(event)) names.set(id, description);
      if (event.type === 'message.received') texts.beginMessage();
      if (event.type === 'run.started' || event.type === 'run.resumed') texts.beginRun();
      return [...before, itemOf(event)];
    },
  };
}

const replyForPeople = ({ reply, shown = reply.text }: Shown<'reply.committed'>): string => shown;

/** The text of an answer for people: what a planner writes is for the daemon, except the summary. */
const textForPeople = ({ planner_query, text, shown = text }: Shown<'model.answered'>): string =>
  planner_query === undefined || planner_query === 'summary' ? shown : '';

function namesIn(event: Event): NamedStep[] {
  if (event.type === 'step.added') return [event.step];
  if (event.type === 'plan.started') return event.steps ?? [];
  if (event.type !== 'plan.revised' && event.type !== 'plan.edited') return [];
  return event.changes.flatMap((change) => {
    if (change.what === 'added') return [change.step];
    const description = change.what === 'step' ? change.set.description : undefined;
    return change.what === 'step' && description !== undefined ? [{ id: change.step, description }] : [];
  });
}

/** What the model writes, each part once: as it arrives, with what is complete, and in a reply. */
function openTexts() {
  /** The text of the current call so far. */
  let received = '';
  /** What was shown of that call, or, once it is over, of the last one. */
  let sent = '';
  let isOver = true;
  /** The last complete answer, and everything shown, since the last message. */
  let [last, whole] = ['', ''];

  /** `text`: the whole text of the call so far. */
  function show(text: string, isComplete: boolean): TextPiece[] {
    if (text.trim() === '') return [];
    // Text of a finished call may arrive late, and a retried call may repeat text that was shown before.
    if (sent.startsWith(text) && !(isComplete && isOver)) return [];
    const isContinued = !isOver && text.startsWith(sent);
    const piece = isContinued ? text.slice(sent.length) : text;
    whole += piece;
    [sent, isOver] = [text, false];
    return [{ text: piece, begins: !isContinued, soFar: text }];
  }

  return {
    live(from: number, text: string): TextPiece[] {
      // Without its beginning, the event has the text.
      if (from > received.length) return [];
      received = received.slice(0, from) + text;
      return show(received, false);
    },
    answered(text: string): TextPiece[] {
      const pieces = show(text, true);
      if (text.trim() !== '') last = text.trim();
      [received, sent, isOver] = ['', text, true];
      return pieces;
    },
    /** The part of a reply that was not shown; it counts as shown from now on. */
    reply(text: string): string {
      // A reply is often the model's text followed by the daemon's.
      const rest = (last !== '' && text.trim().startsWith(last) ? text.trim().slice(last.length) : text).trim();
      if (withoutSpaces(whole).includes(withoutSpaces(rest))) return '';
      whole += rest;
      return rest;
    },
    beginMessage(): void {
      [last, whole] = ['', ''];
    },
    beginRun(): void {
      [received, sent, isOver] = ['', '', true];
    },
  };
}

const withoutSpaces = (text: string): string => text.replace(/\s+/g, '');
