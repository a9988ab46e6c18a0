import { crc32 } from 'node:zlib';
import { errorText } from '../protocol/errors.ts';
import { type Event, EventBody, Stamp } from '../protocol/event.ts';
import { field } from './field.ts';

/** Bytes of `,"crc":"xxxxxxxx"}`, the end of every line. */
const END = 18;
const TYPES: ReadonlySet<string> = new Set(EventBody.options.map((option) => option.shape.type.value));

/** One line of the record, with its crc32 (of the bytes before `,"crc"`) and its line feed. */
export function encodeLine(stamp: Stamp, body: EventBody): string {
  const { v, seq, epoch, at, fence } = stamp;
  return withCrc(Object.assign({ v, seq, epoch, at, ...(fence && { fence }) }, body));
}

/** A value as one line of JSON that ends with the crc32 of the bytes before `,"crc"`, and a line feed. */
export function withCrc(value: object): string {
  const head = JSON.stringify(value).slice(0, -1);
  return `${head},"crc":"${checksum(head)}"}\n`;
}

/** What `withCrc` was given, without its crc; undefined where a byte of it changed. The line feed is not part of `bytes`. */
export function checked(bytes: Buffer): { value: unknown } | undefined {
  const head = bytes.subarray(0, Math.max(0, bytes.length - END));
  if (crcOf(bytes) !== checksum(head)) return undefined;
  return { value: JSON.parse(`${head.toString()}}`) };
}

/** The crc a line ends with; undefined where it does not end with one. */
export function crcOf(bytes: Buffer): string | undefined {
  return /^,"crc":"([0-9a-f]{8})"\}$/.exec(bytes.toString('latin1', Math.max(0, bytes.length - END)))?.[1];
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
  const head = bytes.subarray(0, Math.max(0, bytes.length - END));
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

/** Of a text: of its UTF-8 bytes. */
const checksum = (bytes: Buffer | string) => crc32(bytes).toString(16).padStart(8, '0');
