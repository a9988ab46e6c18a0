import * as fs from 'node:fs';
import { open } from 'node:fs/promises';
import { UserError } from '../../base/user-error.ts';
import type { ChangeCounts } from '../../protocol/session/checkpoint.ts';
import { stagingName } from '../fs/durable-write.ts';
import { type FolderOnPath, type OpenFolder, statInFolder, withFolderAsync, withSubfolder } from '../fs/open-folder.ts';
import { toDiskError } from '../fs/store-errors.ts';
import type { SessionPaths } from '../layout/layout.ts';
import { copyContent } from './contents.ts';
import { partsOfKey, planRestore, type RestorePlan, shownPath } from './restore-plan.ts';
import { changesForPeople, countChanges, keyOf, targetOf, type WorkState } from './work-state.ts';

const { O_NOFOLLOW, O_RDONLY } = fs.constants;

/** A folder is opened for each thing that is done in it, so that a link in its place is an error. */
type InFolder = <T>(key: string, job: (folder: OpenFolder, name: Buffer) => Promise<T>) => Promise<T>;

/**
 * Carries out what `planRestore` says. All contents are copied and compared with their hashes first, so that whatever
 * is missing is found before anything changes. A file that somebody changed after `now` was seen stops it.
 */
export async function restoreWork(
  paths: SessionPaths,
  { top, way }: { top: string; way: readonly FolderOnPath[] },
  now: WorkState,
  target: WorkState,
  chosen: readonly string[] | WorkState,
  signal: AbortSignal,
): Promise<ChangeCounts> {
  const plan = planRestore(now, target, chosen);
  const staged = await stageAll(paths, plan, signal);
  const touched = new Set<string>();
  const inFolder: InFolder = (key, job) => {
    const { folders, name } = partsOfKey(key);
    touched.add(key.slice(0, Math.max(0, key.lastIndexOf('/'))));
    return withFolderAsync(top, way, (root) => descend(root, folders, (folder) => job(folder, name)));
  };
  try {
    await apply(plan, now, staged, inFolder);
    for (const key of plan.removeFolders) touched.delete(key);
    await syncFolders([...touched], inFolder);
  } catch (error) {
    throw toDiskError(error, 'restore files in', way.at(-1)?.path ?? top);
  } finally {
    for (const path of staged.values()) fs.rmSync(path, { force: true });
  }
  return countChanges(changesForPeople(plan.differences));
}

async function descend<T>(
  folder: OpenFolder,
  names: readonly Buffer[],
  job: (folder: OpenFolder) => Promise<T>,
): Promise<T> {
  const [first, ...rest] = names;
  return first ? withSubfolder(folder, first, (inner) => descend(inner, rest, job)) : job(folder);
}

/** Copies of all that is written, by key, next to the manifests. */
async function stageAll(paths: SessionPaths, plan: RestorePlan, signal: AbortSignal): Promise<Map<string, string>> {
  const staged = new Map<string, string>();
  try {
    for (const entry of plan.write) {
      signal.throwIfAborted();
      const path = `${paths.checkpoints}/${stagingName()}`;
      staged.set(keyOf(entry), path);
      if (entry.kind === 'link') fs.symlinkSync(targetOf(entry), path);
      else await copyContent(paths, entry.sha256, path, entry.mode);
    }
    return staged;
  } catch (error) {
    for (const path of staged.values()) fs.rmSync(path, { force: true });
    throw error;
  }
}

async function apply(
  plan: RestorePlan,
  now: WorkState,
  staged: ReadonlyMap<string, string>,
  inFolder: InFolder,
): Promise<void> {
  const openAgain = await makeWritable(plan, now, inFolder);
  for (const key of plan.remove)
    await inFolder(key, async (folder, name) => {
      requireAsSeen(folder, name, key, now);
      fs.unlinkSync(folder.bytePath(name));
    });
  for (const key of plan.removeFolders)
    await inFolder(key, async (folder, name) => {
      openAgain.delete(key);
      fs.rmdirSync(folder.bytePath(name));
    });
  for (const entry of plan.makeFolders)
    await inFolder(keyOf(entry), async (folder, name) => fs.mkdirSync(folder.bytePath(name), { mode: 0o700 }));
  const gone = new Set(plan.remove.concat(plan.removeFolders));
  for (const entry of plan.write)
    await inFolder(keyOf(entry), async (folder, name) => {
      const key = keyOf(entry);
      requireAsSeen(folder, name, key, gone.has(key) ? undefined : now);
      fs.renameSync(staged.get(key) ?? '', folder.bytePath(name));
    });
  for (const group of plan.link) await linkGroup(group, [...staged.values()][0] ?? '', inFolder);
  for (const entry of plan.setModes) openAgain.set(keyOf(entry), entry.mode);
  for (const [key, mode] of [...openAgain].reverse()) await setMode(key, mode, inFolder);
}

/**
 * Gives the owner the right to change the folders in which something is done. Returns the modes to set again at the
 * end, outermost folder first.
 */
async function makeWritable(plan: RestorePlan, now: WorkState, inFolder: InFolder): Promise<Map<string, number>> {
  const keys = [...plan.remove, ...plan.removeFolders, ...plan.makeFolders.map(keyOf), ...plan.write.map(keyOf)];
  const around = new Set(keys.map((key) => key.slice(0, Math.max(0, key.lastIndexOf('/')))));
  const again = new Map<string, number>();
  for (const key of [...around].sort()) {
    const entry = now.entries.get(key);
    if (entry?.kind !== 'folder' || (entry.mode & 0o300) === 0o300) continue;
    again.set(key, entry.mode);
    await setMode(key, entry.mode | 0o700, inFolder);
  }
  return again;
}

/** Throws if somebody has changed the file since it was seen: no checkpoint has what is there now. */
function requireAsSeen(folder: OpenFolder, name: Buffer, key: string, now: WorkState | undefined): void {
  const stat = statInFolder(folder, name);
  const seen = now?.entries.get(key);
  const isFile = seen?.kind === 'file' && stat?.isFile() === true;
  const isSame = isFile
    ? seen.ino === String(stat.ino) && seen.size === Number(stat.size) && seen.mtime_ns === String(stat.mtimeNs)
    : seen?.kind === 'link'
      ? stat?.isSymbolicLink() === true
      : stat === undefined;
  if (isSame) return;
  throw new UserError(
    `work/${shownPath(key)} was changed while files were restored, so the rest was left as it is. Restore again; what was there is in the checkpoint that was taken before.`,
  );
}

/** Makes all files of a group hard links to the first. */
async function linkGroup([first = '', ...others]: string[], free: string, inFolder: InFolder): Promise<void> {
  for (const other of others)
    await inFolder(first, (folder, name) =>
      inFolder(other, async (otherFolder, otherName) => {
        fs.linkSync(folder.bytePath(name), free);
        fs.renameSync(free, otherFolder.bytePath(otherName));
      }),
    );
}

/** Of a file or a folder, never through a link. */
async function setMode(key: string, mode: number, inFolder: InFolder): Promise<void> {
  await inFolder(key, async (folder, name) => {
    const file = await open(folder.bytePath(name), O_RDONLY | O_NOFOLLOW | fs.constants.O_NONBLOCK).catch(
      () => undefined,
    );
    if (!file) return chmodUnreadable(folder, name, mode);
    await file.chmod(mode).finally(() => file.close());
  });
}

/** Without the right to read, it cannot be opened. */
function chmodUnreadable(folder: OpenFolder, name: Buffer, mode: number): void {
  const stat = statInFolder(folder, name);
  if (stat?.isFile() || stat?.isDirectory()) fs.chmodSync(folder.bytePath(name), mode);
}

async function syncFolders(keys: readonly string[], inFolder: InFolder): Promise<void> {
  for (const key of keys)
    await inFolder(`${key === '' ? '' : `${key}/`}.`, async (folder) => {
      const handle = await open(folder.path('.'), O_RDONLY);
      await handle.sync().finally(() => handle.close());
    });
}
