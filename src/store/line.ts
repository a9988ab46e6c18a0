import { errorText } from '../protocol/errors.ts';
import { type Event, EventBody, Stamp } from '../protocol/event.ts';
import { checksum, crcOf, headOf, withCrc } from './checksum.ts';
import { field } from './field.ts';

const TYPES: ReadonlySet<string> = new Set(EventBody.options.map((option) => option.shape.type.value));

/** One line of the record, with its crc32 (of the bytes before `,"crc"`) and its line feed. */
export function encodeLine(stamp: Stamp, body: EventBody): string {
  const { v, seq, epoch, at, fence } = stamp;
  return withCrc(Object.assign({ v, seq, epoch, at, ...(fence && { fence }) }, body));
}

/**
 * What a line says. `torn`: its checksum is missing or wrong, as after a power cut. Not `torn`: it was written just so, but
 * not by a program that keeps to this version of the format.
 */
export type Line = { ok: true; event: Event } | { ok: false; torn: boolean; why: string };

/** The epoch a line of an event says it has, by its beginning alone; 0 where it says none. */
export function epochOf(bytes: Buffer): number {
  return Number(/^\{"v":1,"seq":\d+,"epoch":(\d+),/.exec(bytes.toString('latin1', 0, 64))?.[1] ?? 0);
}

/** Reads one line, given without its line feed. Never throws. */
export function decodeLine(bytes: Buffer): Line {
  const end = crcOf(bytes);
  const head = headOf(bytes);
  if (end === undefined) return { ok: false, torn: true, why: 'it does not end with a checksum' };
  if (end !== checksum(head)) return { ok: false, torn: true, why: 'its checksum does not fit its content' };
  try {
    return understand(JSON.parse(`${head.toString()}}`));
  } catch (error) {
    return { ok: false, torn: false, why: `it is not JSON (${errorText(error)})` };
  }
}

function understand(value: unknown): Line {
  const [v, type] = [field(value, 'v'), field(value, 'type')];
  if (v !== 1 || (typeof type === 'string' && !TYPES.has(type))) {
    const what = v !== 1 ? `format ${JSON.stringify(v)}` : `an event of type "${type}"`;
    return { ok: false, torn: false, why: `it holds ${what}, which a newer version of agentd wrote` };
  }
  // Its two halves have no key in common; zod's own intersection would compare and merge them key by key.
  const [stamp, body] = [Stamp.safeParse(value), EventBody.safeParse(value)];
  if (stamp.success && body.success) return { ok: true, event: Object.assign(stamp.data, body.data) };
  const [issue] = [...(stamp.error?.issues ?? []), ...(body.error?.issues ?? [])];
  return { ok: false, torn: false, why: `its content does not fit: ${issue?.path.join('.')}: ${issue?.message}` };
}
