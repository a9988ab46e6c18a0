import { z } from 'zod';

/** One thing that somebody waits for and that does not happen by itself, or not now. */
export const OwedItem = z.strictObject({
  kind: z
    .enum([
      ...(['daemon', 'session', 'settings', 'message', 'answer', 'paused', 'wait'] as const),
      ...(['child', 'schedule', 'server', 'budget', 'channel', 'notice'] as const),
    ])
    .describe('What it is about.'),
  needs: z
    .enum(['repair', 'person', 'time'])
    .describe('"repair": something is broken; "person": an answer or a decision; "time": it goes on by itself.'),
  session: z.string().nullable(),
  why: z.string(),
  since: z.string().nullable().describe('ISO 8601, UTC.'),
  until: z.string().nullable().describe('When it goes on by itself, ISO 8601, UTC.'),
  help: z.string().nullable().describe('The command that helps.'),
});
export type OwedItem = z.infer<typeof OwedItem>;

/** `.agentd/owed.json`: what is owed and not happening. For other programs; it is gone with the daemon. */
export const OwedFile = z.strictObject({
  version: z.literal(1),
  at: z.iso.datetime().describe('When it was written.'),
  pid: z.int().min(1).describe('The daemon that wrote it; if that has exited, the file is outdated.'),
  items: z.array(OwedItem),
});
export type OwedFile = z.infer<typeof OwedFile>;

/** What a session waits for, as lists of sessions show it. */
export const WaitShown = z.object({
  what: z.string().describe('In a word, such as "approval", "limit", "model" or "disk".'),
  needs: z.enum(['repair', 'person', 'time']).describe('"time": it goes on by itself.'),
  why: z.string(),
  until: z.string().nullable().describe('When it goes on by itself, ISO 8601, UTC.'),
  say: z.array(z.string()).describe('Messages that answer it, word for word; "…" stands for words of your own.'),
  commands: z.array(z.array(z.string())).describe('Commands that help, as words behind agentctl.'),
});
