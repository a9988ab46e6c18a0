import { z } from 'zod';
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

/**
 * A tool of the daemon's own, as the model is told of it. Its JSON Schema is made when it is first asked for: making the three of
 * them took 10 ms of every program that loads the meaning of a record, and only a daemon that calls a model needs them.
 */
export function ownTool(name: string, description: string, args: z.ZodType) {
  let made: Record<string, unknown> | undefined;
  return {
    name,
    description,
    get parameters(): Record<string, unknown> {
      made ??= z.toJSONSchema(args, { io: 'input' }) as Record<string, unknown>;
      return made;
    },
  };
}
