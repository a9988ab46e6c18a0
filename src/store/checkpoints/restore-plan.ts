import { UserError } from '../../base/user-error.ts';
import type { CheckpointEntry } from '../../protocol/session/checkpoint.ts';
import {
  bytesOfKey,
  compareStates,
  type Difference,
  findLeftOut,
  keyOf,
  keyOfPath,
  linkedGroups,
  pathOfKey,
  type WorkState,
} from './work-state.ts';

type FolderEntry = CheckpointEntry & { kind: 'folder' };

/** What a restore does, in this order. Keys are as in `WorkState`; folders come before what is in them. */
export type RestorePlan = {
  /** What people are told of it. */
  differences: Difference[];
  /** Files and links that go. */
  remove: string[];
  /** Folders that go, innermost first. */
  removeFolders: string[];
  makeFolders: FolderEntry[];
  /** Files and links to put in place, over what is there. */
  write: Array<CheckpointEntry & { kind: 'file' | 'link' }>;
  /** Files and folders whose permissions alone differ, and folders that are made. */
  setModes: Array<CheckpointEntry & { kind: 'file' | 'folder' }>;
  /** Groups of files that become hard links to the first of each. */
  link: string[][];
};

/**
 * How `work/` gets from `now` to `target`, or these paths in it, or what differs between `target` and a later state.
 * Throws UserError if there is no such path, or if something would be lost that `now` leaves out.
 */
export function planRestore(now: WorkState, target: WorkState, chosen: readonly string[] | WorkState): RestorePlan {
  const isChosen = 'leftOut' in chosen ? changedKeys(target, chosen) : chosenKeys(now, target, chosen);
  refuseUnknown(now, target, isChosen);
  const relinked = relinkedFiles(now, target, isChosen);
  const differences = compareStates(now, target).filter(
    ({ key }) => isChosen(key) || isAroundChosen(target, key, isChosen),
  );
  const plan: RestorePlan = {
    ...{ differences, remove: [], removeFolders: [], makeFolders: [], write: [], setModes: [] },
    link: relinked.groups,
  };
  for (const { key, before, after } of differences) {
    if (before && before.kind !== after?.kind) {
      if (before.kind !== 'folder') plan.remove.push(key);
      else if (after || !holdsLeftOut(now, key)) plan.removeFolders.unshift(key);
    }
    if (after?.kind === 'folder') {
      if (before?.kind !== 'folder') plan.makeFolders.push(after);
      plan.setModes.push(after);
    } else if (after?.kind === 'file' && before?.kind === 'file' && before.sha256 === after.sha256) {
      if (!relinked.files.has(key)) plan.setModes.push(after);
    } else if (after && !relinked.files.has(key)) plan.write.push(after);
  }
  for (const key of relinked.files) {
    const entry = target.entries.get(key);
    if (entry?.kind === 'file') plan.write.push(entry);
  }
  return plan;
}

/** The chosen paths and what is below them. A path may begin with `work/`, as in replies. */
function chosenKeys(now: WorkState, target: WorkState, paths: readonly string[]): (key: string) => boolean {
  if (paths.length === 0) return () => true;
  const known = [...now.entries.keys(), ...target.entries.keys(), ...target.leftOut.map(keyOf)];
  const chosen = paths.map((path) => {
    const plain = path.replace(/^\.\//, '').replace(/\/+$/, '');
    const forms = [plain, plain.replace(/^work\//, '')].map(keyOfPath);
    const found = forms.find((form) => known.some((key) => key === form || key.startsWith(`${form}/`)));
    if (found !== undefined && found !== '') return found;
    throw new UserError(
      `There is no ${JSON.stringify(path)} in work/, neither now nor then. Paths are relative to work/.`,
    );
  });
  return (key) => chosen.some((one) => key === one || key.startsWith(`${one}/`));
}

/** What differs between two states: what a step has changed. */
function changedKeys(before: WorkState, after: WorkState): (key: string) => boolean {
  const changed = new Set(compareStates(before, after).map(({ key }) => key));
  return (key) => changed.has(key);
}

/** Folders that are missing around a chosen path come back with it. */
function isAroundChosen(target: WorkState, key: string, isChosen: (key: string) => boolean): boolean {
  if (target.entries.get(key)?.kind !== 'folder') return false;
  return [...target.entries.keys()].some((other) => other.startsWith(`${key}/`) && isChosen(other));
}

const holdsLeftOut = ({ leftOut }: WorkState, key: string): boolean =>
  leftOut.some((one) => keyOf(one) === key || keyOf(one).startsWith(`${key}/`));

/** A restore loses nothing: what no checkpoint has stays, or the restore is refused. */
function refuseUnknown(now: WorkState, target: WorkState, isChosen: (key: string) => boolean): void {
  const leftOutNow = findLeftOut(now);
  const lost = [...target.entries].flatMap(([key, entry]) => {
    if (!isChosen(key)) return [];
    const is = now.entries.get(key);
    if (!is) return leftOutNow(key) ?? [];
    const inside = is.kind === 'folder' && entry.kind !== 'folder';
    return inside ? now.leftOut.filter((one) => keyOf(one) === key || keyOf(one).startsWith(`${key}/`)) : [];
  });
  const named = [...new Set(lost.map(({ path, why }) => `${path || 'work/'} (${why})`))];
  if (named.length === 0) return;
  const more = named.length > 5 ? ` and ${named.length - 5} more` : '';
  throw new UserError(
    `Nothing was changed: no checkpoint can keep what is there now at ${named.slice(0, 5).join(', ')}${more}. Move it away, or name the paths to restore.`,
  );
}

/** Files whose hard links differ from those of the target: all of a group are written again. */
function relinkedFiles(now: WorkState, target: WorkState, isChosen: (key: string) => boolean) {
  const wanted = linkedGroups(target).map((group) => group.filter(isChosen));
  const have = linkedGroups(now).map((group) => group.filter(isChosen));
  const isIn = (groups: string[][], group: string[]) => groups.some((other) => other.join('\0') === group.join('\0'));
  const isIntact = (group: string[]): boolean =>
    isIn(have, group) && group.every((key) => isSameContent(now.entries.get(key), target.entries.get(key)));
  const groups = wanted.filter((group) => group.length > 1 && !isIntact(group));
  const split = have.filter((group) => group.length > 1 && !isIn(wanted, group)).flat();
  const files = [...groups.flat(), ...split].filter((key) => target.entries.get(key)?.kind === 'file');
  return { groups, files: new Set(files) };
}

const isSameContent = (one: CheckpointEntry | undefined, other: CheckpointEntry | undefined): boolean =>
  one?.kind === 'file' && other?.kind === 'file' && one.sha256 === other.sha256;

/** The names on the way to a key, and its own. */
export function partsOfKey(key: string): { folders: Buffer[]; name: Buffer } {
  const parts = key.split('/').map(bytesOfKey);
  const name = parts.pop() ?? Buffer.alloc(0);
  return { folders: parts, name };
}

/** A path for people. */
export const shownPath = (key: string): string => pathOfKey(key).path;
