import { z } from 'zod';
import { IMAGE_TYPES } from './file-kind.ts';

/** Largest image a model is given, in bytes: what the strictest of the large endpoints takes. */
export const MAX_IMAGE_BYTES = 5 * 1024 * 1024;

/** An image as the record knows it: where it is and what it was, never its pixels. */
export const ImageFile = z.object({
  path: z.string().describe('Under `work/`.'),
  type: z.enum(IMAGE_TYPES),
  bytes: z.int().min(1),
  sha256: z.string(),
});
export type ImageFile = z.infer<typeof ImageFile>;

/** A file that came with a message, as it was when the message was taken. */
export const Attached = z.object({
  path: z.string().describe('Under `work/`.'),
  bytes: z.int().min(0),
  kind: z.string().describe('What it is, by its first bytes.'),
  image: ImageFile.pick({ type: true, sha256: true }).optional().describe('An image that a model can be given.'),
});
export type Attached = z.infer<typeof Attached>;
