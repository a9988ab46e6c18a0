import { z } from 'zod';
import { ownTool } from './call-args.ts';

/** Choices a question may offer; more are no choice that a person can look over. */
const MOST_CHOICES = 10;

/** Arguments of the `ask_user` tool. */
export const AskCall = z.strictObject({
  question: z
    .string()
    .trim()
    .min(1)
    .max(4000)
    .describe('The question, whole: all the person needs to know to answer it. Nothing else of your answer is shown.'),
  choices: z
    .array(z.string().trim().min(1).max(200))
    .max(MOST_CHOICES)
    .nullish()
    .describe('Short answers to choose from, at most ten. Any other answer stays possible.'),
});
export type AskCall = z.infer<typeof AskCall>;

/** What a person is asked. */
export const Question = z.object({
  text: z.string(),
  choices: z.array(z.string()).describe('Short answers to choose from, numbered from 1; may be empty.'),
});
export type Question = z.infer<typeof Question>;

/** A question to the person as a call: the run waits, and their next message is its result. */
export const ASK_TOOL = ownTool(
  'ask_user',
  'Ask the person something that only they can say or decide, and wait for their answer, however long it takes. Ask where a wrong guess would be costly; decide small matters yourself. One question at a time; other calls of the same answer run first.',
  AskCall,
);
