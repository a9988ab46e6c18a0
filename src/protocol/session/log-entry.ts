import { z } from 'zod';

/** A place in a session's record: the end of event `seq`. The record fits it only where that very line ends there. */
export const LogPosition = z.object({
  seq: z.int().min(0).describe('The last event before it; 0: the beginning.'),
  segment: z.int().min(1).describe('The file of the record it is in, counted from 1.'),
  offset: z.int().min(0).describe('Bytes of that file before it.'),
  crc: z.string().describe('The checksum of the line that ends there.'),
});
export type LogPosition = z.infer<typeof LogPosition>;

export const LOG_START: LogPosition = { seq: 0, segment: 1, offset: 0, crc: '00000000' };

/** A byte of the record. */
export const LogOffset = z.object({ segment: z.int().min(1), offset: z.int().min(0) });
export type LogOffset = z.infer<typeof LogOffset>;

export const EventStamp = z.object({
  v: z.literal(1),
  seq: z.int().min(1).describe('Without gaps from 1.'),
  epoch: z.int().min(1).describe('Which owner of the workspace wrote it.'),
  at: z.iso.datetime().describe('Wall time, for people; order is `seq` alone.'),
  fence: LogOffset.optional().describe(
    'First line of an epoch: how far its writer had read. Lines between there and this one are void.',
  ),
});
export type EventStamp = z.infer<typeof EventStamp>;

/** A text in the record: inline, or the content hash of a file in `blobs/` where it is long. */
export const StoredText = z.union([
  z.object({ text: z.string() }),
  z.object({ blob: z.string(), head: z.string(), chars: z.int() }),
]);
export type StoredText = z.infer<typeof StoredText>;

/** Longest text kept in a line of the record, in code points; longer ones are a blob with a head. */
export const MAX_INLINE_CHARS = 16_000;

/** The part of a recorded text that the model and the core see. */
export function inlineText(recorded: StoredText): string {
  return 'text' in recorded ? recorded.text : recorded.head;
}
