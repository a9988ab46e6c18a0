import { z } from 'zod';

/** A place in a session's record: the end of event `seq`. The record fits it only where that very line ends there. */
export const Mark = z.object({
  seq: z.int().min(0).describe('The last event before it; 0: the beginning.'),
  segment: z.int().min(1).describe('The file of the record it is in, counted from 1.'),
  offset: z.int().min(0).describe('Bytes of that file before it.'),
  crc: z.string().describe('The checksum of the line that ends there.'),
});
export type Mark = z.infer<typeof Mark>;

export const BEGINNING: Mark = { seq: 0, segment: 1, offset: 0, crc: '00000000' };
