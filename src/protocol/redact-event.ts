import { EventBody } from './event.ts';
import type { Redactor } from './redact.ts';

/** What things are called, and words of the formats: a record in which one of them is another word would not be understood. */
const NAMES: ReadonlySet<string> = new Set([
  ...['type', 'key', 'id', 'in_reply_to', 'session', 'message', 'name', 'call', 'plan', 'step', 'child', 'carried'],
  ...[
    'needs',
    'rollback',
    'parent',
    'unset',
    'agent',
    'model',
    'folder',
    'attachments',
    'file',
    'blob',
    'sha256',
    'ino',
  ],
  ...[
    'mtime_ns',
    'ctime_ns',
    'seal',
    'status',
    'mode',
    'tier',
    'by',
    'completed_by',
    'kind',
    'outcome',
    'what',
    'replay',
    'after',
  ],
  ...['as', 'when', 'consult', 'retry_at', 'at', 'started_at', 'completed_at', 'created_at', 'updated_at'],
]);
const MARK = /\[redacted: [^\]]*\]/g;

/** An event with no secret in any text of it. One that has none comes back as it is, and costs one look at each text. */
export function redactedEvent(body: EventBody, { text }: Redactor): EventBody {
  const changed = mapped(body, text);
  if (changed === body) return body;
  const read = EventBody.safeParse(changed);
  // Where only a plain word fits, such as in an address.
  return read.success ? read.data : EventBody.parse(mapped(changed, (one) => one.replace(MARK, 'redacted')));
}

/** The same value, with every text but names given to `change`; the very same where nothing changed. */
function mapped(value: unknown, change: (text: string) => string): unknown {
  if (typeof value === 'string') return change(value);
  if (typeof value !== 'object' || value === null) return value;
  if (Array.isArray(value)) {
    const all = value.map((one) => mapped(one, change));
    return all.some((one, place) => one !== value[place]) ? all : value;
  }
  const what = 'what' in value ? value.what : undefined;
  const entries = Object.entries(value);
  const all = entries.map(([key, one]) => [key, isName(key, one, what) ? one : mapped(one, change)] as const);
  return all.some(([, one], place) => one !== entries[place]?.[1]) ? Object.fromEntries(all) : value;
}

/** `from` and `to` are texts in a change of the goal, and a `from` beside no change is a sender. */
function isName(key: string, value: unknown, what: unknown): boolean {
  if (key === 'to') return what !== 'goal';
  if (key === 'from') return what !== undefined && what !== 'goal';
  const isText = typeof value === 'string' || (Array.isArray(value) && value.every((one) => typeof one === 'string'));
  return isText && NAMES.has(key);
}
