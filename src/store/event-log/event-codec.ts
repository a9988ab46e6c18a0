import type { ZodType } from 'zod';
import { propertyOf } from '../../base/collections.ts';
import { errorText, firstIssue } from '../../base/user-error.ts';
import { type Event, EventBody } from '../../protocol/session/event.ts';
import { EventStamp, type LogOffset } from '../../protocol/session/log-entry.ts';
import { checksummedPart, crc32Hex, crcOfLine, encodeLineWithCrc } from './log-lines.ts';

const EVENT_TYPES: ReadonlySet<string> = new Set(EventBody.options.map((option) => option.shape.type.value));

/** Encodes one line of the event log, with its crc32 (of the bytes before `,"crc"`) and line feed. */
export function encodeEventLine(stamp: EventStamp, body: EventBody): string {
  const { v, seq, epoch, synced, at, fence } = stamp;
  return encodeLineWithCrc(
    Object.assign({ v, seq, epoch, ...(synced !== undefined && { synced }), at, ...(fence && { fence }) }, body),
  );
}

/**
 * The content of a line. `torn`: its checksum is missing or wrong, as after a power cut. Not `torn`: it was written
 * completely, but not in this version of the format.
 */
export type DecodedLine = { ok: true; event: Event } | { ok: false; torn: boolean; why: string };

/** The number and the epoch of an event's line, read from its beginning alone; 0 if it has none. */
export function stampOfLine(bytes: Buffer): { seq: number; epoch: number } {
  const [, seq, epoch] = /^\{"v":2,"seq":(\d+),"epoch":(\d+),/.exec(bytes.toString('latin1', 0, 64)) ?? [];
  return { seq: Number(seq ?? 0), epoch: Number(epoch ?? 0) };
}

export const epochOfLine = (bytes: Buffer): number => stampOfLine(bytes).epoch;

/** Decodes one line, given without its line feed. Never throws. */
export function decodeEventLine(bytes: Buffer): DecodedLine {
  const end = crcOfLine(bytes);
  const head = checksummedPart(bytes);
  if (end === undefined) return { ok: false, torn: true, why: 'it does not end with a checksum' };
  if (end !== crc32Hex(head)) return { ok: false, torn: true, why: 'its checksum does not match its content' };
  try {
    return parseEvent(JSON.parse(`${head.toString()}}`));
  } catch (error) {
    return { ok: false, torn: false, why: `it is not JSON (${errorText(error)})` };
  }
}

/** Decodes lines of another writer. An incomplete one is not torn here: it may still be written. */
export function decodeEventLines(bytes: Buffer): DecodedLine[] {
  const texts = bytes.toString('latin1').split('\n');
  return texts
    .filter((text, place) => place < texts.length - 1 || text !== '')
    .map((text) => decodeEventLine(Buffer.from(text, 'latin1')));
}

function parseEvent(value: unknown): DecodedLine {
  // A later format is upgraded to this one here, before it is checked.
  const [v, type] = [propertyOf(value, 'v'), propertyOf(value, 'type')];
  if (v !== 2 || (typeof type === 'string' && !EVENT_TYPES.has(type))) {
    const what = v !== 2 ? `format ${JSON.stringify(v)}` : `an event of type "${type}"`;
    return { ok: false, torn: false, why: `it has ${what}, written by another version of agentd` };
  }
  // The two halves have no key in common; zod's own intersection would compare and merge them key by key.
  const [stamp, body] = [EventStamp.safeParse(value), EventBody.safeParse(value)];
  if (stamp.success && body.success) return { ok: true, event: Object.assign(stamp.data, body.data) };
  return { ok: false, torn: false, why: `its content is invalid: ${firstIssue(stamp.error ?? body.error)}` };
}

/**
 * The lines of events that follow event `seq`, the first with the fence, and the events as they will be read back.
 * Throws before anything is written if a line could not be read back: such an event is a bug, and in the log it would
 * stop the session for good.
 */
export function stampEvents(
  bodies: EventBody[],
  { seq, epoch, synced, at, fence }: Omit<EventStamp, 'v' | 'fence'> & { fence?: LogOffset | undefined },
): { text: string; events: Event[] } {
  const known = synced !== undefined && { synced };
  const first: EventStamp = { v: 2, seq: seq + 1, epoch, ...known, at, ...(fence && { fence }) };
  const lines = bodies.map((raw, index) => {
    const stamp = index === 0 ? first : { v: first.v, seq: first.seq + index, epoch, ...known, at };
    const body = roundTrip(EventBody, raw);
    return { text: encodeEventLine(stamp, body), event: Object.assign({ ...stamp }, body) };
  });
  return { text: lines.map((line) => line.text).join(''), events: lines.map((line) => line.event) };
}

/** Encodes and parses as JSON and by the schema, as reading the line will. */
function roundTrip<T>(schema: ZodType<T>, value: unknown): T {
  const text = JSON.stringify(value);
  const read = schema.safeParse(JSON.parse(text));
  if (read.success) return read.data;
  const why = `its content is invalid: ${firstIssue(read.error)}`;
  throw new Error(`Not recorded, because it could not be read back: ${why}: ${text.slice(0, 500)}`);
}
