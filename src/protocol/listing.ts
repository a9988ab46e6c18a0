import { z } from 'zod';

/** The tool that looks up the parts of a step with `each`; the model is not offered it. */
export const PARTS = 'parts';

/** Parts a step may have. More would be a plan nobody reads, and each event of it costs a look at every step. */
export const MOST_PARTS = 1000;
/** Files or lines that are put into one part where there are too many for a part each. */
export const MOST_IN_ONE = 20;

/** What is asked of it: which part of the whole comes next. */
export const PartsArgs = z.strictObject({
  folder: z.string().optional(),
  match: z.string().optional(),
  file: z.string().optional(),
  from: z.int().min(0).describe('Lines of the file that were listed before.'),
  after: z.string().optional().describe('The last path of the folder that was listed before.'),
  group: z.int().min(1).optional().describe('How many go into one part, as the first page said.'),
});
export type PartsArgs = z.infer<typeof PartsArgs>;

/** A page of parts. */
export const Listing = z.strictObject({
  /** Files or lines in all, when the first page was made. */
  total: z.int().min(0),
  /** Links, hidden files and what is neither file nor folder: no parts. */
  left_out: z.int().min(0),
  group: z.int().min(1),
  parts: z.array(z.array(z.string()).min(1)),
  more: z.boolean(),
});
export type Listing = z.infer<typeof Listing>;

/** How many go into one part, so that there are no more parts than may be; undefined where there are too many even so. */
export function groupSize(total: number): number | undefined {
  const size = Math.max(1, Math.ceil(total / MOST_PARTS));
  return size <= MOST_IN_ONE ? size : undefined;
}

export function grouped<T>(all: readonly T[], size: number): T[][] {
  const groups: T[][] = [];
  for (let at = 0; at < all.length; at += size) groups.push(all.slice(at, at + size));
  return groups;
}
