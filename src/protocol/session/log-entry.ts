import { z } from 'zod';

/** A position in a session's event log: the end of event `seq`. It matches a log only if that very line ends there. */
export const LogPosition = z.object({
  seq: z.int().min(0).describe('The last event before it; 0: the beginning.'),
  segment: z.int().min(1).describe('The segment of the event log it is in, counted from 1.'),
  offset: z.int().min(0).describe('Bytes of that segment before it.'),
  crc: z.string().describe('The checksum of the line that ends there.'),
});
export type LogPosition = z.infer<typeof LogPosition>;

export const LOG_START: LogPosition = { seq: 0, segment: 1, offset: 0, crc: '00000000' };

/** The offset of a byte in the event log. */
export const LogOffset = z.object({ segment: z.int().min(1), offset: z.int().min(0) });
export type LogOffset = z.infer<typeof LogOffset>;

export const EventStamp = z.object({
  v: z.literal(2),
  seq: z.int().min(1).describe('Without gaps from 1.'),
  epoch: z.int().min(1).describe('Which owner of the workspace wrote it.'),
  synced: z.int().min(0).optional().describe('The last event known to be on disk when this line was written.'),
  at: z.iso.datetime().describe('Wall time, for people; order is `seq` alone.'),
  fence: LogOffset.optional().describe(
    'First line of an epoch: how far its writer had read. Lines between there and this one are void.',
  ),
});
export type EventStamp = z.infer<typeof EventStamp>;

/** The identity of a dropped file in the file system. A different `ctime_ns` or name means it was touched or moved. */
export const FileIdentity = z.object({
  ino: z.string(),
  mtime_ns: z.string(),
  sha256: z.string(),
  ctime_ns: z.string(),
  name: z.string().optional().describe('Its name in `inbox/`, if its reply has another name.'),
});
export type FileIdentity = z.infer<typeof FileIdentity>;

/**
 * Who or what caused it: a person (by a message or an edited file), another agent that uses the session as a tool, the
 * session's model, or a rule of the daemon.
 */
export const Actor = z.enum(['person', 'agent', 'model', 'daemon']);
export type Actor = z.infer<typeof Actor>;

/** Whether it came from outside: neither the session's own model nor the daemon thought of it. */
export const isFromOutside = (by: Actor): boolean => by === 'person' || by === 'agent';

/** Fields of a model's answer that are not read, but kept and sent back. */
export const ProviderFields = z.record(z.string(), z.unknown());

/** A text in the event log: inline, or, if it is long, the content hash of a file in `blobs/`. */
export const StoredText = z.union([
  z.object({ text: z.string() }),
  z.object({ blob: z.string(), head: z.string(), chars: z.int() }),
]);
export type StoredText = z.infer<typeof StoredText>;

/** Longest text kept inline in a line of the log, in code points; a longer one is a blob with its head inline. */
export const MAX_INLINE_CHARS = 16_000;

/** The part of a logged text that the model and the core see. */
export function inlineText(recorded: StoredText): string {
  return 'text' in recorded ? recorded.text : recorded.head;
}

/** The model that was to answer, and why another of its `fallback` did. */
export const StandIn = z.object({ model: z.string(), why: z.enum(['down', 'limit', 'context', 'refused']) });
export type StandIn = z.infer<typeof StandIn>;
/** Why a call of the model failed. `budget`: none was made, since a budget is used up. */
export const ModelFailureKind = z.enum([
  ...(['unreachable', 'overloaded', 'rejected', 'too_long', 'malformed', 'aborted', 'unconfigured', 'budget'] as const),
]);
