import { z } from 'zod';

const TroubleKind = z.enum(['quarantined', 'blocked', 'disk full', 'too many files', 'failing', 'suspended']);
export type TroubleKind = z.infer<typeof TroubleKind>;

/** The most names listed; the counts give the totals. */
export const MAX_LISTED = 100;

const SettingsStatus = z.object({
  from: z
    .enum(['file', 'last good', 'nothing'])
    .describe(
      'What is in force: the file; the last valid version, because the file is invalid; "nothing": this daemon has read no valid version.',
    ),
  since: z.string().nullable().describe('When the daemon put it in force, ISO 8601, UTC; null if there is no file.'),
  fault: z.string().nullable().describe('Why the current file is invalid.'),
  warnings: z.array(z.string()).describe('What was ignored in it.'),
});

/** `.agentd/started.json`: what the daemon was last started with, for the next `agentctl start`. */
export const StartedWith = z.object({
  args: z
    .array(z.string())
    .describe('Flags of the daemon, with absolute paths; `--log-level` and its value are the last.'),
  variables: z.array(z.string()).describe('Names of the variables it may read that were set then; not their values.'),
});
export type StartedWith = z.infer<typeof StartedWith>;

/**
 * `.agentd/status.json`: what the daemon sees and what it cannot serve. Not authoritative: it may be deleted, and is
 * gone with the daemon.
 */
export const DaemonStatus = z.object({
  version: z.literal(2),
  at: z.string().describe('When it was written, ISO 8601, UTC.'),
  pid: z.int().min(1).describe('The daemon that wrote it; if that has exited, the file is outdated.'),
  sessions: z.object({
    known: z.int(),
    open: z.int().describe('In memory now, with their files open.'),
    max_open: z.int().describe('Most sessions that may be open at once, given the limit on open files.'),
    waiting: z.int().describe('Sessions with pending work that wait to be opened.'),
    runs: z.int().optional().describe('Most runs at work at once (`concurrency.runs`).'),
    queued: z.array(z.string()).optional().describe('Sessions whose runs wait until another one ends.'),
  }),
  watching: z.object({
    file_system: z.string(),
    watched: z.int(),
    polled: z.int().describe('Polled every second instead of watched.'),
    why: z.string().nullable().describe('Why some are polled.'),
    names: z.array(z.string()).describe(`The polled ones, the first ${MAX_LISTED}.`),
  }),
  disk: z.object({
    space: z
      .enum(['ok', 'low', 'full'])
      .describe('"low": no new messages are accepted. "full": also, no further calls are started.'),
    free_mb: z.int(),
    min_free_mb: z.number(),
    reserve: z.boolean().describe('Whether the disk reserve exists.'),
    why: z.string().nullable(),
  }),
  settings: SettingsStatus.extend({
    file: z.string().describe('The workspace\'s settings, "agentd.json" or what `--config` named.'),
    total: z.int().describe('Sessions whose settings have a fault or a warning.'),
    sessions: z
      .array(SettingsStatus.extend({ session: z.string() }))
      .describe(`These sessions, as far as they were checked; the first ${MAX_LISTED}.`),
  }).describe('State of the settings.'),
  trouble: z.object({
    total: z.int(),
    sessions: z
      .array(
        z.object({
          session: z.string(),
          is: TroubleKind,
          why: z.string(),
          since: z.string(),
        }),
      )
      .describe(`Sessions that are not served, and why; the first ${MAX_LISTED}.`),
  }),
});
export type DaemonStatus = z.infer<typeof DaemonStatus>;

/** `.agentd/crashes.json`: daemons that ended without a trace. Deleting it while no daemon runs resets the count. */
export const CrashRecord = z.object({
  unexplained: z.int().min(0).describe('Consecutive crashes of the daemon that name no session.'),
  by_session: z
    .record(z.string(), z.int().min(1))
    .describe('Consecutive crashes of the daemon that name a session, by session.'),
});
export type CrashRecord = z.infer<typeof CrashRecord>;

/** `.agentd/crash-note.json`: what the watchdog or the crash handler wrote as the daemon ended. */
export const CrashNote = z.object({
  owner_since: z.string(),
  session: z.string().optional().describe('The session in whose work it happened, if known.'),
  why: z.string(),
});
export type CrashNote = z.infer<typeof CrashNote>;

/** What the holder of a token may do, each with all before it. */
export const Role = z.enum(['read', 'send', 'approve', 'admin']);
export type Role = z.infer<typeof Role>;

/** Whether a role includes another one. */
export const includesRole = (role: Role, wanted: Role): boolean =>
  Role.options.indexOf(role) >= Role.options.indexOf(wanted);

export const UserName = z
  .string()
  .max(100)
  .regex(/^[\p{L}\p{N}][\p{L}\p{N}._@+-]*$/u, 'expected a name of letters, digits, ".", "_", "@", "+" and "-"');

export const SessionPattern = z.string().min(1).max(300).describe('The name of a session; "*" stands for any text.');

/** A token that a person gave to someone. */
export const AccessToken = z.strictObject({
  name: UserName.describe('The sender of the messages that are sent with it. Unique.'),
  role: Role.describe(
    '"read": see; "send": also send messages and edit plans; "approve": also answer calls; "admin": all.',
  ),
  sessions: z.array(SessionPattern).min(1).describe('The sessions it may see, with their child sessions.'),
  sha256: z
    .string()
    .regex(/^[0-9a-f]{64}$/, 'expected 64 hex digits')
    .describe('Hash of the token, which is not kept.'),
  created_at: z.iso.datetime(),
});
export type AccessToken = z.infer<typeof AccessToken>;

/** `.agentd/tokens.json`. */
export const TokenFile = z.strictObject({
  version: z.literal(1),
  tokens: z
    .array(AccessToken)
    .refine((tokens) => new Set(tokens.map(({ name }) => name)).size === tokens.length, 'expected unique names'),
});
export type TokenFile = z.infer<typeof TokenFile>;

/** Whether patterns match the name of a session, or of the session at the top of its family. */
export function matchesSession(patterns: readonly string[], session: string): boolean {
  const [root = session] = session.split('~', 1);
  return patterns.some((pattern) => {
    const parts = pattern.split('*').map((part) => part.replace(/[\\^$.+?()[\]{}|]/g, '\\$&'));
    return new RegExp(`^${parts.join('.*')}$`, 's').test(root);
  });
}

/** Lists of patterns: the sessions in reach match one pattern of each list. Without a list all are in reach. */
export type SessionReach = ReadonlyArray<readonly string[]>;

export const isInReach = (reach: SessionReach, session: string): boolean =>
  reach.every((patterns) => matchesSession(patterns, session));

/** What is in reach of all; a list with which every session matches is dropped. */
export function commonReach(...all: ReadonlyArray<SessionReach | undefined>): SessionReach {
  const lists = all.flatMap((reach) => reach ?? []).filter((patterns) => !patterns.includes('*'));
  return [...new Map(lists.map((patterns) => [JSON.stringify(patterns), patterns])).values()];
}
