import type { Event as LogEvent } from '../../../protocol/session/event.ts';
import type { StoredText } from '../../../protocol/session/log-entry.ts';
import type { Reply } from '../../../protocol/session/reply.ts';
import type { StreamMessage } from './api.ts';

export type CallState = 'running' | 'ok' | 'failed' | 'interrupted' | 'denied';

/** A tool call, from its request to its outcome. */
export type CallItem = {
  kind: 'call';
  call: string;
  name: string;
  args: string;
  state: CallState;
  output: string;
  ms: number | undefined;
};

/** Short facts between the texts; `step` is the id of the step they are about. */
type NoteItem = { kind: 'note'; note: NoteName; text: string; step: string | undefined };

export type NoteName =
  | `step.${'started' | 'completed' | 'failed' | 'blocked' | 'skipped' | 'reopened' | 'added'}`
  | `plan.${'started' | 'revised' | 'edited' | 'ended'}`
  | `approval.${'allow' | 'deny'}`
  | ('recovery.started' | 'model.failed' | 'context.compacted');

type ItemBody =
  | { kind: 'message'; from: string | undefined; text: string; files: readonly string[] }
  | { kind: 'answer'; text: string }
  | { kind: 'reply'; status: Reply['status']; text: string; files: readonly string[] }
  | CallItem
  | NoteItem;

/** One entry of the transcript. It is replaced, never changed: the same object looks the same. */
export type TranscriptItem = ItemBody & { seq: number; at: string };

/** What has been read of a session's event log, as entries, and what the model is writing. */
export type Transcript = {
  readonly events: readonly LogEvent[];
  items: readonly TranscriptItem[];
  live: string;
  /** The seq of the last event; 0 if there was none. */
  last: number;
  /** Whether retention removed the beginning. */
  isCut: boolean;
  take(message: StreamMessage): void;
};

/** The events are kept as well, since a later daemon may declare the last of them void. */
export function createTranscript(): Transcript {
  let events: LogEvent[] = [];
  let items: TranscriptItem[] = [];
  let places = new Map<string, number>();
  let lastAnswer = '';

  const add = (event: LogEvent, body: ItemBody) => {
    if (body.kind === 'call') places.set(body.call, items.length);
    items.push({ ...body, seq: event.seq, at: event.at });
  };
  const change = (call: string, changes: Partial<CallItem>) => {
    const place = places.get(call);
    const item = place === undefined ? undefined : items[place];
    if (place !== undefined && item?.kind === 'call') items[place] = { ...item, ...changes };
    return item !== undefined;
  };

  const read = (event: LogEvent): void => {
    switch (event.type) {
      case 'message.received': {
        const { from, command, attachments: files = [] } = event;
        const text = [command && `/${command}`, storedText(event.body)].filter(Boolean).join(' ');
        add(event, { kind: 'message', from, text, files });
        return;
      }
      case 'model.answered':
        transcript.live = '';
        if (event.consult !== undefined || event.text.trim() === '') return;
        lastAnswer = event.text.trim();
        add(event, { kind: 'answer', text: event.text });
        return;
      case 'tool.started':
      case 'approval.asked': {
        const { call, name, args } = event;
        if (!change(call, { state: 'running' }))
          add(event, { kind: 'call', call, name, args, state: 'running', output: '', ms: undefined });
        return;
      }
      case 'tool.finished':
        change(event.call, { state: event.ok ? 'ok' : 'failed', output: storedText(event.output), ms: event.ms });
        return;
      case 'tool.interrupted':
        change(event.call, {
          state: 'interrupted',
          output: [event.why, event.output && storedText(event.output)].filter(Boolean).join('\n'),
        });
        return;
      case 'approval.answered':
        if (event.decision === 'deny') change(event.call, { state: 'denied', output: event.why });
        add(event, note(`approval.${event.decision}`, event.why));
        return;
      case 'reply.committed': {
        const { status, text, attachments: files } = event.reply;
        if (status === 'joined') return;
        add(event, { kind: 'reply', status, text: text.trim() === lastAnswer ? '' : text, files });
        return;
      }
      default: {
        const told = noteOf(event);
        if (told) add(event, told);
      }
    }
  };

  const refold = (kept: LogEvent[]) => {
    [events, items, places, lastAnswer] = [kept, [], new Map(), ''];
    for (const event of kept) read(event);
    transcript.items = items;
    transcript.last = kept.at(-1)?.seq ?? 0;
  };

  const transcript: Transcript = {
    ...{ items, live: '', last: 0, isCut: false },
    get events() {
      return events;
    },
    take({ id, event, data }) {
      if (event === 'live') {
        const { from, text } = data as { from: number; text: string };
        transcript.live = transcript.live.slice(0, from) + text;
      } else if (event === 'void') {
        const { from } = data as { from: number };
        refold(events.filter(({ seq }) => seq < from));
      } else if (event === 'removed') transcript.isCut = true;
      else if (id !== undefined && id > transcript.last) {
        events.push(data as LogEvent);
        transcript.last = id;
        read(data as LogEvent);
      }
    },
  };
  return transcript;
}

const note = (name: NoteName, text = '', step?: string): NoteItem => ({ kind: 'note', note: name, text, step });

/** An event that is one short fact; undefined for those that a reader need not see. */
function noteOf(event: LogEvent): NoteItem | undefined {
  switch (event.type) {
    case 'step.started':
    case 'step.reopened':
      return note(event.type, '', event.step);
    case 'step.added':
      return note(event.type, '', event.step.id);
    case 'step.completed':
      return note(event.type, event.evidence, event.step);
    case 'step.failed':
    case 'step.blocked':
      return note(event.type, event.error, event.step);
    case 'step.skipped':
      return note(event.type, event.reason, event.step);
    case 'plan.started':
      return note(event.type, event.title);
    case 'plan.revised':
    case 'plan.ended':
      return note(event.type, event.reason);
    case 'plan.edited':
      return note(event.type, event.ignored.join('\n'));
    case 'model.failed':
      return note(event.type, event.error);
    case 'recovery.started':
      return note(event.type, event.open.join('\n'));
    case 'context.compacted':
      return note(event.type, event.summary);
    default:
      return undefined;
  }
}

/** A long text is a file of the session; its beginning is in the event. */
const storedText = (stored: StoredText): string =>
  'text' in stored ? stored.text : `${stored.head}\n… (${stored.chars})`;
