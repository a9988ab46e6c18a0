import { z } from 'zod';

/** Why a checkpoint of `work/` was taken. `rescue`: before files are restored over what was there. */
export const CheckpointReason = z.enum(['run_started', 'step_ended', 'run_ended', 'rescue']);
export type CheckpointReason = z.infer<typeof CheckpointReason>;

const Sha256 = z.string().regex(/^[0-9a-f]{64}$/);
const Nanoseconds = z.string().regex(/^-?\d+$/);
const Mode = z.int().min(0).max(0o7777).describe('Permission bits.');

/** A path below `work/`, with `/` between its parts. */
const EntryPath = {
  path: z
    .string()
    .refine(
      (path) => path.split('/').every((part) => part !== '' && part !== '.' && part !== '..' && !part.includes('\0')),
      'expected a path below work/, without empty parts, "." and "..".',
    ),
  path_bytes: z.base64().optional().describe('The bytes of a path that is not UTF-8, in base64.'),
};

/** What was in `work/`. */
export const CheckpointEntry = z.discriminatedUnion('kind', [
  z.object({
    ...EntryPath,
    kind: z.literal('file'),
    mode: Mode,
    size: z.int().min(0),
    mtime_ns: Nanoseconds,
    ctime_ns: Nanoseconds,
    ino: z.string().describe('Files of one manifest with the same inode are hard links.'),
    sha256: Sha256.describe('Its content is `checkpoints/contents/<sha256>`.'),
  }),
  z.object({ ...EntryPath, kind: z.literal('folder'), mode: Mode }),
  z.object({
    ...EntryPath,
    kind: z.literal('link'),
    target: z.string(),
    target_bytes: z.base64().optional().describe('The bytes of a target that is not UTF-8, in base64.'),
  }),
]);
export type CheckpointEntry = z.infer<typeof CheckpointEntry>;

/** Why something is not in a checkpoint. `special`: a socket, a pipe or a device. */
const LeftOutReason = z.enum(['excluded', 'too_large', 'too_many', 'unreadable', 'special', 'changing']);
export type LeftOutReason = z.infer<typeof LeftOutReason>;

export const LeftOut = z.object({
  ...EntryPath,
  path: z.string().describe('Nothing is known of what is here or below and not in `entries`; "" is `work/` itself.'),
  why: LeftOutReason,
});
export type LeftOut = z.infer<typeof LeftOut>;

/** `checkpoints/<n>.json`: what `work/` held at one moment. */
export const Manifest = z.object({
  version: z.literal(1),
  checkpoint: z.int().min(1),
  at: z.iso.datetime().describe('When the scan of `work/` began.'),
  why: CheckpointReason,
  steps: z.array(z.string()).describe('The steps that had ended since the checkpoint before.'),
  plan: z.string().nullable().describe('The plan that was open.'),
  concurrent: z.boolean().describe('Jobs or child sessions may have changed `work/` meanwhile.'),
  bytes: z.int().min(0).describe('Size of all files.'),
  left_out: z.array(LeftOut),
  entries: z.array(CheckpointEntry).describe('In the order of their bytes; a folder comes before what is in it.'),
  sha256: Sha256.describe('Of `entries`, one per line: shows that a person changed the file.'),
});
export type Manifest = z.infer<typeof Manifest>;

/** How many files and links differ between two checkpoints. */
const ChangeCounts = z.object({ added: z.int(), changed: z.int(), removed: z.int() });
export type ChangeCounts = z.infer<typeof ChangeCounts>;

export const FileChange = z.object({ path: z.string(), is: z.enum(['added', 'changed', 'removed']) });
export type FileChange = z.infer<typeof FileChange>;

/** The event `work.saved`. */
export const WorkSaved = z.object({
  checkpoint: z
    .int()
    .min(0)
    .nullable()
    .describe('The manifest that shows `work/` as it is now; 0: it is empty; null: none could be written.'),
  why: CheckpointReason,
  steps: z.array(z.string()).describe('The steps that had ended since the checkpoint before.'),
  message: z.string().optional().describe('The message that asked to restore files.'),
  counts: ChangeCounts.describe('What differs from the checkpoint before.'),
  files: z.array(FileChange).describe('The first of them.'),
  left_out: z.int().optional().describe('How many files and folders the checkpoint leaves out; if missing, none.'),
  concurrent: z.literal(true).optional(),
  fault: z.string().optional().describe('Why none could be written.'),
});
export type WorkSaved = z.infer<typeof WorkSaved>;

/** The event `work.restored`. */
export const WorkRestored = z.object({
  message: z.string(),
  checkpoint: z.int().min(0),
  rescue: z.int().min(0).nullable().describe('The checkpoint of what was there before.'),
  paths: z.array(z.string()).describe('What was asked for; empty: all of `work/`.'),
  counts: ChangeCounts.describe('What was changed.'),
  fault: z.string().optional().describe('Why it was refused, or stopped.'),
});
export type WorkRestored = z.infer<typeof WorkRestored>;

/** The event `session.forked`: what comes before it happened in another session, under the same numbers. */
export const SessionForked = z.object({
  from: z.string().describe('The session it is a copy of.'),
  how: z.enum(['fork', 'import']),
  checkpoint: z.int().min(0).nullable().describe('The checkpoint that `work/` was made from; null: a copy of `work/`.'),
});
