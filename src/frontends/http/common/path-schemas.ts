import { z } from 'zod';

/** The path of everything in a session. */
export const InSession = z.object({
  session: z.string().min(1).max(500).describe('Name of a session, or the key it was created with.'),
});

/** A whole number as a path or a query has it; the document says that it is an integer. */
export const wholeNumber = (minimum: number, maximum: number) =>
  z
    .string()
    .regex(/^(?:0|[1-9]\d{0,9})$/, `wanted a whole number from ${minimum} to ${maximum}`)
    .transform(Number)
    .refine((it) => it >= minimum && it <= maximum, `wanted a whole number from ${minimum} to ${maximum}`)
    .meta({ type: 'integer', minimum, maximum, pattern: undefined });

/** One plain file name: what it names lies in the folder it is looked for in, and nowhere else. */
export const FileName = z
  .string()
  .regex(/^[^./\\\x00][^/\\\x00]*$/, 'wanted one plain file name that does not begin with a dot')
  .max(255);

/** A path below `work/`, with `/` between its parts. */
export const WorkPath = z
  .string()
  .regex(/^[^/\x00]+(?:\/[^/\x00]+)*$/, 'expected a path below work/, such as reports/may.csv')
  .max(4000);

export const IdempotencyKey = z.object({
  'idempotency-key': z
    .string()
    .regex(/^[A-Za-z0-9][A-Za-z0-9._-]*$/, 'wanted letters, digits, ".", "_" and "-", a letter or digit first')
    .max(200)
    .optional()
    .describe('Id of the message: if sent again with the same content, it is the same message and runs once.'),
});
