import * as fs from 'node:fs';
import { z } from 'zod';
import { Holder, lives, readHolder } from './holder.ts';
import type { WorkspacePaths } from './layout.ts';

/** More starts than a workspace sees in its life. A number beyond it is damage, and is not counted on from. */
export const LARGEST_EPOCH = 1_000_000_000;

/**
 * `.agentd/owner.json`: who owns the workspace, or owned it last. The file stays when its owner goes, with `ended_at`: the next
 * epoch counts on from it, and one file is more easily kept true than two (docs/decisions/0003-epochs.md).
 */
const Owner = Holder.extend({
  /** How many owners there were, this one included. Every event it writes carries it. */
  epoch: z.int().min(1).max(LARGEST_EPOCH),
  /** What keeps a second owner out: the kernel, asked through one of two programs, or a folder with a heartbeat. */
  lock: z.enum(['flock', 'perl', 'folder']),
  /** The folder it owns. A copy of that folder, such as a backup put back elsewhere, brings this file along and has no owner. */
  folder: z.object({ dev: z.string(), ino: z.string() }).optional(),
  /** When it gave the workspace back in good order. */
  ended_at: z.string().optional(),
});
export type Owner = z.infer<typeof Owner>;

/** What tells the folder of a workspace from a copy of it. */
export function folderOwned({ root }: WorkspacePaths): NonNullable<Owner['folder']> {
  const { dev, ino } = fs.statSync(root, { bigint: true });
  return { dev: String(dev), ino: String(ino) };
}

/** The owner on file, alive or not; undefined where there is none or the file makes no sense. */
export function readOwner(paths: WorkspacePaths): Owner | undefined {
  return readHolder(paths.owner, Owner);
}

/** The owner on file if its process lives, has not given the workspace back, and owns this folder, not the one this is a copy of. */
export function liveOwner(paths: WorkspacePaths): Owner | undefined {
  const owner = readOwner(paths);
  return owner && owner.ended_at === undefined && lives(owner) && owns(owner, paths) ? owner : undefined;
}

/** Daemons of earlier versions did not say which folder they own. */
function owns({ folder }: Owner, paths: WorkspacePaths): boolean {
  if (folder === undefined) return true;
  const { dev, ino } = folderOwned(paths);
  return dev === folder.dev && ino === folder.ino;
}

/** What keeps a second daemon out, for a person. */
export function lockInWords(lock: Owner['lock']): string {
  if (lock === 'flock') return "the kernel's, by flock";
  if (lock === 'perl') return "the kernel's, by perl, since there is no flock";
  return 'a folder with a heartbeat, since there is neither flock nor perl; a daemon that stalls can lose it. Install util-linux';
}
