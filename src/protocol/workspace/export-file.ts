import { z } from 'zod';

/** The first entry of a tar of sessions. */
export const EXPORT_HEADER = 'agentd-export.json';

const EntryMode = z.int().min(0).max(0o777);

/** A file, folder or link of a session in the tar; its path begins with the name of the session. */
const ExportedFile = z.discriminatedUnion('kind', [
  z.object({
    path: z.string(),
    kind: z.literal('file'),
    mode: EntryMode,
    size: z.int().min(0),
    sha256: z.string().regex(/^[0-9a-f]{64}$/),
  }),
  z.object({ path: z.string(), kind: z.literal('folder'), mode: EntryMode }),
  z.object({ path: z.string(), kind: z.literal('link'), target: z.string() }),
]);
export type ExportedFile = z.infer<typeof ExportedFile>;

/** What a tar of sessions has, in its order. A newer version of agentd may raise `format`. */
export const ExportHeader = z.object({
  format: z.literal(1),
  at: z.iso.datetime(),
  sessions: z.array(z.object({ name: z.string(), seq: z.int().min(0).describe('Its last event.') })).min(1),
  files: z.array(ExportedFile),
});
export type ExportHeader = z.infer<typeof ExportHeader>;

/** What a session in a tar may have at its top. */
const EXPORTED_NAMES: ReadonlySet<string> = new Set([
  ...['work', 'blobs', 'events', 'events.jsonl', 'checkpoints', 'outbox', 'done', 'rejected'],
  ...['session.json', 'MEMORY.md'],
]);

/** Why an entry is not taken from a tar; undefined if it may be. */
export function whyUnsafe(file: ExportedFile, sessions: readonly string[]): string | undefined {
  const [session = '', top = '', ...rest] = file.path.split('/');
  const isPlain = (part: string) => part !== '' && part !== '.' && part !== '..' && !part.includes('\0');
  if (![session, top, ...rest].every(isPlain)) return 'its path is absolute, or has ".." or an empty part';
  if (!sessions.includes(session) || !EXPORTED_NAMES.has(top)) return 'it belongs to none of the sessions';
  if (file.kind !== 'link') return undefined;
  if (top !== 'work') return 'it is a link outside of work/';
  return isInsideLink(rest.join('/'), file.target) ? undefined : 'it is a link that leads out of work/';
}

/**
 * Whether a link below `work/` stays there: relative, and with ".." only at its beginning, where no other link can turn
 * it into another folder.
 */
export function isInsideLink(path: string, target: string): boolean {
  const parts = target.split('/');
  const ups = parts.findIndex((part) => part !== '..');
  const rest = ups < 0 ? [] : parts.slice(ups);
  const depth = path.split('/').length - 1;
  return target !== '' && !target.startsWith('/') && !rest.includes('..') && (ups < 0 ? parts.length : ups) <= depth;
}
