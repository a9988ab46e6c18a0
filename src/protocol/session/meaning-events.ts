import { z } from 'zod';
import { CallUsage } from './reply.ts';

/**
 * What a message of a person means. `correction`, `addition`: about the work that is on; `task`: other work; `unclear`:
 * it could not be told.
 */
export const MessageMeaning = z.enum([
  ...(['stop', 'pause', 'continue', 'undo', 'correction', 'addition', 'question', 'task', 'unclear'] as const),
]);
export type MessageMeaning = z.infer<typeof MessageMeaning>;

/** Somebody said what a message means whose own words left it in doubt. */
export const MessageInterpreted = z.object({
  message: z.string(),
  meaning: MessageMeaning,
  by: z.enum(['model', 'person']),
  answer: z
    .string()
    .optional()
    .describe('The message in which the person said so: the words of `message` are its words from here on.'),
  usage: CallUsage.optional().describe('What asking the model took.'),
  model: z.string().optional(),
  ms: z.number().optional(),
  error: z.string().optional().describe('Why the model did not say.'),
});

export const MeaningAsked = z.object({
  message: z.string().describe('A person was asked what this message means; nothing was done about it.'),
});
