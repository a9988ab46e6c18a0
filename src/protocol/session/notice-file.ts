import { z } from 'zod';
import { NoticeKind } from '../settings/notify.ts';
import { LogPosition } from './log-entry.ts';

/** One notice: what happened, and what is wanted. It is the body of a webhook. */
export const NoticeBody = z.strictObject({
  version: z.literal(1),
  id: z.string().describe('The same whenever the same notice is sent again.'),
  at: z.iso.datetime(),
  kind: NoticeKind,
  session: z.string().nullable(),
  text: z.string().describe('In words, at most 2,000 characters.'),
  call: z
    .strictObject({
      id: z.int().min(1).describe('Its number in the session.'),
      tool: z.string(),
      display: z.string().describe('The call to the letter, shortened.'),
      hash: z.string().describe('An answer applies only to the call with this hash.'),
      expires_at: z.iso.datetime(),
    })
    .optional()
    .describe('The call that waits for a person.'),
  link: z.string().optional().describe('Shows that call, and takes the answer, until it expires.'),
});
export type NoticeBody = z.infer<typeof NoticeBody>;

/** A notice in `.agentd/notices/` that somebody has still to get. A target is named by the hash of its address. */
export const NoticeFile = z.strictObject({
  version: z.literal(1),
  notice: NoticeBody,
  to: z.array(
    z.strictObject({
      ...{ target: z.string(), tries: z.int().min(0), next_at: z.iso.datetime() },
      sent: z.int().min(1).optional().describe('How often it was accepted, where it is sent again until answered.'),
    }),
  ),
  fault: z.string().optional().describe('Why it was not delivered the last time.'),
});
export type NoticeFile = z.infer<typeof NoticeFile>;

/** `.agentd/notices/read.json`: up to where event logs were read for notices, and what was owed then. */
export const NoticesRead = z.strictObject({
  version: z.literal(1),
  since: z.iso.datetime().describe('Nothing before this is reported.'),
  sessions: z.record(z.string(), z.strictObject({ mark: LogPosition, at: z.iso.datetime() })),
  owed: z.array(z.string()),
});
export type NoticesRead = z.infer<typeof NoticesRead>;

/** A browser that takes notices, as its page names it (RFC 8030, RFC 8291). */
export const PushSubscription = z.object({
  endpoint: z
    .url({ protocol: /^https?$/ })
    .max(2000)
    .describe('Where its push service takes messages.'),
  keys: z.object({
    p256dh: z
      .string()
      .regex(/^[\w-]{87}=?$/)
      .describe('Its public key.'),
    auth: z.string().regex(/^[\w-]{22}(?:==)?$/),
  }),
});
export type PushSubscription = z.infer<typeof PushSubscription>;

/** `.agentd/push/<hash>.json`: a browser that was asked to take notices. */
export const PushFile = z.object({
  ...{ version: z.literal(1), at: z.iso.datetime(), subscription: PushSubscription },
  gone_at: z.iso.datetime().optional().describe('When its push service said that it takes nothing any more.'),
});
export type PushFile = z.infer<typeof PushFile>;

/** `.agentd/push/keys.json`: by which push services know this workspace. */
export const PushKeyFile = z.object({
  ...{ version: z.literal(1), publicKey: z.string() },
  privateKey: z.object({ kty: z.string(), crv: z.string(), x: z.string(), y: z.string(), d: z.string() }),
});
export type PushKeyFile = z.infer<typeof PushKeyFile>;

/** What a link is for: one call of one session, until it expires. */
export const LinkedCall = z.strictObject({
  session: z.string(),
  id: z.int().min(1),
  hash: z.string(),
  until: z.iso.datetime(),
});
export type LinkedCall = z.infer<typeof LinkedCall>;
