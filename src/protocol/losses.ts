import { z } from 'zod';

/** A session that is proven to have cost daemons. */
export const Culprit = z.object({
  session: z.string(),
  times: z.int().min(1).describe('Daemons lost in a row over it.'),
  how: z
    .enum(['alone', 'stood still'])
    .describe('Nothing else was at work; or the daemon stood still in a step of it.'),
  what: z.string().optional().describe('The step it stood still in.'),
  until: z.string().optional().describe('It is not opened before this time, ISO 8601, UTC.'),
});
export type Culprit = z.infer<typeof Culprit>;

/** `.agentd/losses.json`: daemons that ended without a word, and what that says of the sessions. Deleting it forgives all. */
export const Losses = z.object({
  version: z.literal(1),
  in_a_row: z.int().min(0).describe('Daemons lost one after the other while sessions were at work.'),
  at: z.string().optional().describe('When the last of them was found, ISO 8601, UTC.'),
  ran_ms: z.number().min(0).describe('How long the youngest work had gone on when it was lost.'),
  suspects: z
    .array(z.string())
    .describe('Sessions that were at work then; after two losses they are tried one at a time.'),
  trying: z.string().optional().describe('The one that was being tried, alone.'),
  culprits: z.array(Culprit),
});
export type Losses = z.infer<typeof Losses>;

/** A line of `.agentd/at-work`: a session that has something going on, since so many ms after the daemon began. */
export const AtWork = z.object({ session: z.string(), since_ms: z.number() });
export type AtWork = z.infer<typeof AtWork>;

/** The first line of `.agentd/at-work`: whose it is, and when that was last alive, in ms after it began. */
export const AtWorkOf = z.object({ owner_since: z.string(), alive_ms: z.number() });

/** `.agentd/stood-still.json`: what the watchdog left of a daemon that it ended. */
export const StoodStill = z.object({
  version: z.literal(1),
  owner_since: z.string(),
  seconds: z.number(),
  session: z.string().optional().describe('Whose step it stood still in; without it nobody knows.'),
  what: z.string().optional(),
});
export type StoodStill = z.infer<typeof StoodStill>;
