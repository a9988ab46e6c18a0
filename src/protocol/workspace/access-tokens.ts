import { z } from 'zod';

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

const SessionPattern = z.string().min(1).max(300).describe('The name of a session; "*" stands for any text.');

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
