import * as fs from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { createMutex } from '../../base/async.ts';
import { propertyOf } from '../../base/collections.ts';
import { parseJson } from '../../base/json.ts';
import { sha256 } from '../../base/sha256.ts';
import { errorText, isFileLimit } from '../../base/user-error.ts';
import type { PlanFile, PlanFileState } from '../../engine/ports/store-ports.ts';
import { linkIfFree, replaceFile, syncFile, syncFolder } from '../fs/durable-write.ts';
import { ifExists, wrapDiskErrors } from '../fs/store-errors.ts';
import type { SessionPaths } from '../layout/layout.ts';
import { assertReplyName } from '../layout/layout.ts';
import {
  contentAfterWrite,
  type HistoryClaim,
  type HistoryFile,
  openPlanHistory,
  type PlanContent,
  readPlanContent,
  repairReplacement,
} from './plan-content.ts';

/** How often moved files are checked for a late save, besides before a write and at the end of a run. */
const HISTORY_CHECK_MS = 500;

type PlanHistory = ReturnType<typeof openPlanHistory>;
/** An earlier `plan.json` that may still change, and its last known text. */
type MovedPlan = { file: HistoryFile; last: PlanContent | undefined; seen: string | undefined };

/**
 * `plan.json`, which people and the daemon both write, without a lock and without losing a save. The old file is moved
 * away and read under its new name, where no editor that saves by rename can reach it; the new one is linked in, which
 * fails if somebody saved meanwhile. Editors that write in place may still have a moved file open, so the last few are
 * watched.
 *
 * `alone`: no daemon may have the session open, so an unfinished replacement of an earlier one is completed.
 */
export function openPlanFile(paths: SessionPaths, elapsed: () => number, { alone = true } = {}): PlanFile {
  if (alone) repairReplacement(paths.planHistory, paths.plan);
  const history = openPlanHistory(paths.planHistory);
  const inOrder = createMutex();
  const moved = openMovedPlans(history, elapsed);
  const here = openCurrentPlan(paths.plan, elapsed);

  const checkFile = (thorough = true): PlanFileState => {
    const why = here.read();
    const text = here.text();
    const inPlace = text !== undefined && text !== here.seen();
    // A save in a moved file is older than the one in place, so it is merged first and cannot undo the newer one.
    const saves = thorough || inPlace || moved.isDue() ? moved.lateSaves() : [];
    if (inPlace) saves.push(text);
    if (saves.length > 0) return { is: 'edited', saves, inPlace };
    if (why !== undefined) return { is: 'blocked', why };
    return { is: text === undefined ? 'missing' : 'ours' };
  };

  const write = async (content: string): Promise<PlanFileState> => {
    const before = checkFile();
    if (before.is === 'edited' || before.is === 'blocked') return before;
    const claim = await history.claim(content);
    // No await from here on, because `plan.json` is missing for readers meanwhile.
    const isPlaced = wrapDiskErrors('replace', paths.plan, () => {
      try {
        return replaceCurrent(paths.plan, claim, here, moved);
      } finally {
        fs.rmSync(claim.staged, { force: true });
      }
    });
    if (!isPlaced) {
      const after = checkFile();
      return after.is === 'edited' || after.is === 'blocked' ? after : write(content);
    }
    here.written(contentAfterWrite(claim.stat, content, elapsed()), content);
    moved.prune();
    return { is: 'ours' };
  };

  const archive = async (id: string, content: string, shown: 'keep' | 'remove'): Promise<boolean> => {
    assertReplyName(id);
    const target = join(paths.plans, `${id}.json`);
    const isThere = ifExists(() => fs.readFileSync(target, 'utf8')) === content;
    if (!isThere) await replaceFile(target, content);
    // A file that is not a plan is not moved; one with another plan was written after this one was removed.
    if (shown === 'keep' || here.read() !== undefined) return false;
    const text = here.text();
    if (text === undefined || (isThere && planIdIn(text) !== id)) return text === undefined;
    const claim = await history.claim('');
    try {
      const old = wrapDiskErrors('move away', paths.plan, () => here.moveAway(claim));
      // A save that came too late to be merged is kept and reported at the next read.
      if (old && old.last?.text === here.seen()) moved.add(old);
      else if (old) moved.addSave(old);
    } finally {
      fs.rmSync(claim.staged, { force: true });
    }
    here.forget();
    moved.prune();
    return true;
  };

  return {
    detectEdits: (thorough) => inOrder(async () => checkFile(thorough)),
    sync: () =>
      inOrder(async () => {
        for (const path of [paths.plan, ...moved.savePaths()]) await syncFile(path);
        for (const folder of [dirname(paths.plan), paths.planHistory]) await syncFolder(folder);
      }),
    markSeen(bytes) {
      if (!moved.accept(bytes) || here.text() === bytes) here.markSeen(bytes);
    },
    sha256,
    write: (content) => inOrder(() => write(content)),
    setAside: () => inOrder(() => setAside(paths, history, here, moved)),
    archive: (id, content, shown = 'remove') => inOrder(() => archive(id, content, shown)),
  };
}

/** `plan.json` itself: its text at the last read, and the last text that was written or accepted by us. */
function openCurrentPlan(path: string, elapsed: () => number) {
  let current: PlanContent | undefined;
  let seen: string | undefined;
  /** False if there is no file. */
  const renameTo = (target: string): boolean =>
    ifExists(() => {
      fs.renameSync(path, target);
      return true;
    }) ?? false;
  return {
    renameTo,
    /** The text at the last read; undefined if there was no file. */
    text: () => current?.text,
    /** The text that we wrote or accepted last. */
    seen: () => seen,
    markSeen(text: string): void {
      seen = text;
    },
    /** Reads the file; returns why it cannot be read, if so. Throws if no file can be opened at the moment. */
    read(): string | undefined {
      try {
        current = readPlanContent(path, current, elapsed());
        return undefined;
      } catch (error) {
        if (isFileLimit(error)) throw error;
        current = undefined;
        return errorText(error);
      }
    },
    written(content: PlanContent, text: string): void {
      current = content;
      seen = text;
    },
    forget(): void {
      current = undefined;
      seen = undefined;
    },
    /** Moves the file to the history, where nobody replaces it any more, and reads it there. */
    moveAway({ file }: HistoryClaim): MovedPlan | undefined {
      if (!renameTo(file.path)) return undefined;
      try {
        return { file, last: readPlanContent(file.path, undefined, elapsed()), seen };
      } catch (error) {
        // It is not a regular file, so it goes back, unless somebody has taken the name at this very moment.
        if (!ifExists(() => fs.lstatSync(path))) fs.renameSync(file.path, path);
        throw error;
      }
    },
  };
}

type CurrentPlan = ReturnType<typeof openCurrentPlan>;
type MovedPlans = ReturnType<typeof openMovedPlans>;

/** Puts the claimed file in place of `plan.json`; false if somebody saved meanwhile. */
function replaceCurrent(path: string, claim: HistoryClaim, here: CurrentPlan, moved: MovedPlans): boolean {
  // It may have become a link or a folder since it was read.
  if (here.read() !== undefined) return false;
  const old = here.moveAway(claim);
  if (old && old.last?.text !== here.seen()) {
    // The save goes back to its place, or stays in the history as a save if there is an even newer one.
    if (linkIfFree(old.file.path, path)) fs.rmSync(old.file.path, { force: true });
    else moved.addSave(old);
    return false;
  }
  if (old) moved.add(old);
  return linkIfFree(claim.staged, path);
}

/** Moves `plan.json` and the saves not accepted to names that nothing reads. */
async function setAside(
  paths: SessionPaths,
  history: PlanHistory,
  here: CurrentPlan,
  moved: MovedPlans,
): Promise<string[]> {
  const files = moved.takeUnaccepted().map(history.asUnread);
  const claim = await history.claim('');
  try {
    const isMoved = wrapDiskErrors('move away', paths.plan, () => here.renameTo(claim.file.path));
    if (isMoved) files.push(history.asUnread(claim.file));
  } finally {
    fs.rmSync(claim.staged, { force: true });
  }
  here.forget();
  for (const folder of [paths.planHistory, dirname(paths.plan)]) await syncFolder(folder);
  return files.map((file) => basename(file.path));
}

/** Earlier versions of `plan.json` in the history, which an editor may still write to. */
function openMovedPlans(history: PlanHistory, elapsed: () => number) {
  let checkedAt = Number.NEGATIVE_INFINITY;
  let plans: MovedPlan[] = [
    ...history.saves.map((file) => ({ file, last: undefined, seen: undefined })),
    ...history.recent().flatMap((file) => {
      const last = readHistoryFile(file.path, undefined, elapsed());
      return last ? [{ file, last, seen: last.text }] : [];
    }),
  ];
  return {
    isDue: () => elapsed() - checkedAt >= HISTORY_CHECK_MS,
    /** The texts saved after the files were moved away. */
    lateSaves(): string[] {
      checkedAt = elapsed();
      return plans.flatMap((old) => {
        old.last = readHistoryFile(old.file.path, old.last, elapsed());
        if (!old.last || old.last.text === old.seen) return [];
        old.file = history.asSave(old.file);
        return [old.last.text];
      });
    },
    /** Marks the saves with this text as accepted; returns whether there was one. */
    accept(text: string): boolean {
      const understood = plans.filter((old) => old.last?.text === text && old.seen !== text);
      for (const old of understood) {
        old.seen = text;
        old.file = history.asUnderstood(old.file);
      }
      return understood.length > 0;
    },
    add: (old: MovedPlan) => void plans.push(old),
    /** Adds a file with a save that has not been accepted. */
    addSave: (old: MovedPlan) => void plans.push({ ...old, file: history.asSave(old.file), seen: undefined }),
    /** The files with saves not accepted when they were last read; they are no longer watched. */
    takeUnaccepted(): HistoryFile[] {
      const unaccepted = plans.filter((old) => old.seen === undefined || old.last?.text !== old.seen);
      plans = plans.filter((old) => !unaccepted.includes(old));
      return unaccepted.map(({ file }) => file);
    },
    savePaths: () => plans.flatMap((old) => (old.last?.text === old.seen ? [] : [old.file.path])),
    prune(): void {
      const understood = plans.filter((old) => old.last?.text === old.seen).slice(0, -history.watched);
      plans = plans.filter((old) => !understood.includes(old));
      history.prune();
    },
  };
}

/** A file of the history; one that is no longer a regular file, such as a link, holds no save. */
function readHistoryFile(path: string, last: PlanContent | undefined, now: number): PlanContent | undefined {
  try {
    return readPlanContent(path, last, now);
  } catch (error) {
    if (isFileLimit(error)) throw error;
    return undefined;
  }
}

function planIdIn(text: string): unknown {
  return propertyOf(parseJson(text), 'id');
}
