import type { z } from 'zod';
import { clip } from './recorded.ts';

/** The arguments of a call of the daemon's own tools, by their schema, or what is wrong with them in words for the model. */
export function readCallArgs<T>(schema: z.ZodType<T>, args: string): T | string {
  try {
    const parsed = schema.safeParse(JSON.parse(args));
    if (parsed.success) return parsed.data;
    const issue = parsed.error.issues[0];
    return `The arguments do not fit: ${issue?.path.join('.') || 'the object'}: ${issue?.message}`;
  } catch {
    return `The arguments are not JSON: ${clip(args, 80)}`;
  }
}
