import {
  type Conversation,
  type ConversationItem,
  type EventOfKind,
  openConversation,
  type ShownEvent,
} from '../../../client/inspect/conversation.ts';
import { describeEvent } from '../../../client/inspect/describe-event.ts';
import type { StoredText } from '../../../protocol/session/log-entry.ts';
import type { Reply } from '../../../protocol/session/reply.ts';
import type { BrowserLost } from '../../../protocol/workspace/handover.ts';
import type { StreamMessage } from './api.ts';
import type { StepState } from './plan-graph.ts';

export type CallState = 'waiting' | 'running' | 'ok' | 'failed' | 'interrupted' | 'denied';

/** A tool call, from its request to its outcome. `since`: when it began to run. */
export type CallItem = {
  kind: 'call';
  call: string;
  name: string;
  args: string;
  state: CallState;
  since: string;
  output: string;
  ms: number | undefined;
  /** Pictures that it showed the model, as paths below `work/`. */
  images: readonly string[];
};

/** The heading of what is done for a step, with how that step is now. */
export type StepItem = { kind: 'step'; name: string; state: StepState; text: string };

/** A short fact between the texts. */
type NoteItem = { kind: 'note'; note: NoteName | undefined; text: string; times: number };

export type NoteName =
  | `plan.${'revised' | 'edited'}`
  | `approval.${'allow' | 'deny'}`
  | `browser.${'taken' | 'returned' | BrowserLost}`
  | ('recovery.started' | 'model.failed' | 'context.compacted');

type ItemBody =
  | { kind: 'message'; from: string | undefined; text: string; files: readonly string[] }
  | { kind: 'answer'; text: string }
  | { kind: 'reply'; status: Reply['status']; text: string; files: readonly string[] }
  | CallItem
  | StepItem
  | NoteItem;

/** One entry of the transcript. Immutable, so an unchanged object need not be rendered again. */
export type TranscriptItem = ItemBody & { seq: number; at: string };

/** The part of a session's event log that has been read, as entries, and what the model is writing. */
export type Transcript = {
  items: readonly TranscriptItem[];
  live: string;
  /** The seq of the last event; 0 if there was none. */
  last: number;
  /** Whether retention removed the beginning. */
  isCut: boolean;
  /** The seq of the first event that has been read; undefined if there are no earlier ones. */
  readonly first: number | undefined;
  take(message: StreamMessage): void;
  /** Adds earlier events in front. False if they do not fit there. */
  takeEarlier(messages: readonly StreamMessage[]): boolean;
};

/** The events are kept as well, since a later daemon may declare the last of them void. */
export function createTranscript(): Transcript {
  let events: ShownEvent[] = [];
  let entries = newEntries();
  const show = (shown: ShownEvent[]) => {
    events = shown;
    entries = newEntries();
    for (const event of events) addEvent(entries, event);
    transcript.items = entries.items;
  };

  const transcript: Transcript = {
    ...{ items: entries.items, live: '', last: 0, isCut: false },
    get first() {
      const seq = events[0]?.seq ?? 1;
      return transcript.isCut || seq === 1 ? undefined : seq;
    },
    takeEarlier(messages) {
      const earlier = messages.filter(({ id }) => id !== undefined).map(({ data }) => data as ShownEvent);
      // Events may have been declared void meanwhile, or the connection was cut.
      if (earlier.at(-1)?.seq !== (transcript.first ?? 0) - 1) return false;
      transcript.isCut = messages.some(({ event }) => event === 'removed');
      show([...earlier, ...events]);
      return true;
    },
    take({ id, event, data }) {
      if (event === 'live') {
        const { from, text } = data as { from: number; text: string };
        transcript.live = transcript.live.slice(0, from) + text;
      } else if (event === 'void') {
        const { from } = data as { from: number };
        show(events.filter(({ seq }) => seq < from));
        transcript.live = '';
        transcript.last = events.at(-1)?.seq ?? 0;
      } else if (event === 'removed') transcript.isCut = true;
      else if (id !== undefined && id > transcript.last) {
        const added = data as ShownEvent;
        events.push(added);
        transcript.last = id;
        if (added.type === 'model.answered') transcript.live = '';
        addEvent(entries, added);
      }
    },
  };
  return transcript;
}

/** The entries for a list of events. `places`: where in `items` each call, and the last heading of each step, is. */
type Entries = { items: TranscriptItem[]; places: Map<string, number>; conversation: Conversation };

const newEntries = (): Entries => ({ items: [], places: new Map(), conversation: openConversation() });

function addEvent(entries: Entries, event: ShownEvent): void {
  for (const item of entries.conversation.event(event)) addItem(entries, item, event.at);
}

/** What each kind of the conversation becomes. */
function addItem(entries: Entries, item: ConversationItem, at: string): void {
  const add = (body: ItemBody) => entries.items.push({ ...body, seq: item.seq, at });
  switch (item.kind) {
    case 'message': {
      const { from, command, attachments: files = [], body } = item.event;
      const text = [command && `/${command}`, storedText(body)].filter(Boolean).join(' ');
      add({ kind: 'message', from, text, files });
      return;
    }
    case 'answer':
      if (item.text.trim() !== '') add({ kind: 'answer', text: item.text });
      return;
    case 'call': {
      const { type, call, name, args } = item.event;
      const state = type === 'approval.asked' || name === 'ask_user' ? 'waiting' : 'running';
      if (changeCall(entries, call, { state, since: at })) return;
      entries.places.set(call, entries.items.length);
      add({ kind: 'call', call, name, args, state, since: at, output: '', ms: undefined, images: [] });
      return;
    }
    case 'call ended':
      changeCall(entries, item.event.call, outcomeOf(item.event));
      return;
    case 'step':
      addStep(entries, item, at);
      return;
    case 'reply': {
      const { status, reason, attachments: files } = item.event.reply;
      // It is shown where it is answered, and then as a call.
      const isAsked = status === 'waiting' && (reason === 'question' || reason === 'approval');
      if (status === 'joined' || isAsked) return;
      // The reply of a run that was stopped begins with the one to the order.
      const last = entries.items.at(-1);
      const isRepeated = last?.kind === 'reply' && last.status === 'done' && status !== 'done';
      const said = isRepeated && item.event.reply.text.startsWith(last.text) ? entries.items.pop() : undefined;
      add({ kind: 'reply', status, text: item.text || (said?.kind === 'reply' ? said.text : ''), files });
      return;
    }
    case 'notice': {
      const { event } = item;
      if (event.type === 'approval.answered' && event.decision === 'deny')
        changeCall(entries, event.call, { state: 'denied', output: event.why });
      if (event.type === 'plan.ended') cancelSteps(entries);
      const found = noteOf(event);
      const last = entries.items.at(-1);
      if (found && last?.kind === 'note' && last.note === found.note && last.text === found.text)
        entries.items[entries.items.length - 1] = { ...last, times: last.times + 1 };
      else if (found) add(found);
      return;
    }
    // The answer has the text, and the page reads the state by itself.
    case 'text':
    case 'state':
      return;
    default:
      item satisfies never;
  }
}

/** The end of a step changes its heading; without one, as the beginning of the log was not read, it gets one. */
function addStep(
  { items, places }: Entries,
  { seq, event, name }: ConversationItem & { kind: 'step' },
  at: string,
): void {
  // The plan shows it.
  if (event.type === 'step.added') return;
  const [state, text] = stepStateOf(event);
  const place = places.get(event.step);
  const item = place === undefined ? undefined : items[place];
  if (place !== undefined && item?.kind === 'step' && event.type !== 'step.started') {
    items[place] = { ...item, state, text };
    return;
  }
  places.set(event.step, items.length);
  items.push({ kind: 'step', seq, at, name, state, text });
}

/** When a plan has ended, nothing of it goes on. */
function cancelSteps({ items, places }: Entries): void {
  for (const place of places.values()) {
    const item = items[place];
    if (item?.kind === 'step' && item.state === 'running') items[place] = { ...item, state: 'cancelled' };
  }
}

function stepStateOf(event: Exclude<EventOfKind<'step'>, { type: 'step.added' }>): [StepState, string] {
  switch (event.type) {
    case 'step.started':
      return ['running', ''];
    case 'step.reopened':
      return ['pending', ''];
    case 'step.completed':
      // The words that closed it stand below.
      return ['completed', ''];
    case 'step.skipped':
      return ['skipped', event.reason];
    case 'step.failed':
      return ['failed', event.error];
    case 'step.blocked':
      return ['blocked', event.error];
    default:
      return event satisfies never;
  }
}

/** Changes the entry of a call; false if it has none. */
function changeCall({ items, places }: Entries, call: string, changes: Partial<CallItem>): boolean {
  const place = places.get(call);
  const item = place === undefined ? undefined : items[place];
  if (place === undefined || item?.kind !== 'call') return false;
  // A denied call did not run, so it stays denied whatever its end says.
  items[place] = { ...item, ...changes, ...(item.state === 'denied' && { state: 'denied' }) };
  return true;
}

function outcomeOf(event: EventOfKind<'call ended'>): Partial<CallItem> {
  if (event.type === 'tool.finished') {
    const images = (event.images ?? []).map(({ path }) => path);
    return { state: event.ok ? 'ok' : 'failed', output: storedText(event.output), ms: event.ms, images };
  }
  const output = [event.why, event.output && storedText(event.output)].filter(Boolean).join('\n');
  return { state: 'interrupted', output };
}

const note = (name: NoteName | undefined, text = ''): NoteItem => ({ kind: 'note', note: name, text, times: 1 });

/** The note for an event that is one short fact; undefined for what another entry says. */
function noteOf(event: EventOfKind<'notice'>): NoteItem | undefined {
  switch (event.type) {
    case 'approval.answered':
      return note(`approval.${event.decision}`, event.why);
    case 'plan.revised':
      return note(event.type, event.reason);
    case 'plan.edited':
      return note(event.type, event.ignored.join('\n'));
    case 'model.failed':
      return note(event.type, event.error);
    case 'browser.taken':
      return note(event.type, event.from);
    case 'browser.returned':
      return note(event.reason === 'given_back' ? event.type : `browser.${event.reason}`, event.from);
    case 'recovery.started':
      return note(event.type, [...event.open, ...(event.cut ?? [])].join('\n'));
    case 'context.compacted':
      return note(event.type, event.summary);
    // The plan and the reply say it.
    case 'plan.started':
    case 'plan.ended':
    case 'run.resumed':
    case 'run.ended':
      return undefined;
    default:
      return note(undefined, describeEvent(event).words);
  }
}

/** A long text is stored in a file of the session; the event has only its beginning. */
const storedText = (stored: StoredText): string =>
  'text' in stored ? stored.text : `${stored.head}\n… (${stored.chars})`;
